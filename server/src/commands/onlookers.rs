//! What clients are told of a command that they neither ran nor follow.

use stockade_protocol::{CapturedOutput, Execution, Outcome, RawText};

/// The outcome with the size of the output in place of the output. Nothing paces these clients, and the output of many
/// commands that end at once would be more than a connection may have waiting.
pub(super) fn without_output(mut outcome: Outcome) -> Outcome {
    match &mut outcome {
        Outcome::Exited { execution, .. }
        | Outcome::Denied { execution, .. }
        | Outcome::TimedOut { execution }
        | Outcome::Cancelled { execution, .. }
        | Outcome::Signaled { execution, .. } => omit(execution),
        Outcome::Refused(_) => {}
    }
    outcome
}

fn omit(execution: &mut Execution) {
    for output in [&mut execution.stdout, &mut execution.stderr] {
        let length = |text: &RawText| text.as_bytes().len() as u64;
        let omitted_bytes = length(&output.head) + output.omitted_bytes + length(&output.tail);
        *output = CapturedOutput { omitted_bytes, ..CapturedOutput::default() };
    }
    if let Some(first) = &mut execution.first_attempt {
        omit(first);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_is_counted_and_left_out_of_both_attempts() {
        let run = |stdout: serde_json::Value| {
            json!({"stdout": stdout, "stderr": {"head": "e"}, "duration_ms": 1,
            "enforcement": {"engine": "none", "layers": []}})
        };
        let mut execution = run(json!({"head": "abc", "omitted_bytes": 10, "tail": "de"}));
        execution["first_attempt"] = run(json!({"head": "x"}));
        let outcome = serde_json::from_value(json!({"exited": {"exit_code": 3, "execution": execution}})).unwrap();
        let told = serde_json::to_value(without_output(outcome)).unwrap();
        let told = &told["exited"];
        assert_eq!(told["exit_code"], 3);
        assert_eq!(told["execution"]["stdout"], json!({"head": "", "omitted_bytes": 15}));
        assert_eq!(told["execution"]["stderr"], json!({"head": "", "omitted_bytes": 1}));
        assert_eq!(told["execution"]["first_attempt"]["stdout"], json!({"head": "", "omitted_bytes": 1}));
    }
}
