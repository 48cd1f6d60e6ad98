//! Notifications about a command for clients that neither ran nor follow it.

use stockade_protocol::{CapturedOutput, Execution, Outcome};

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

/// The size of the output in an outcome.
pub(super) fn output_bytes(outcome: &Outcome) -> u64 {
    let mut next = match outcome {
        Outcome::Exited { execution, .. }
        | Outcome::Denied { execution, .. }
        | Outcome::TimedOut { execution }
        | Outcome::Cancelled { execution, .. }
        | Outcome::Signaled { execution, .. } => Some(execution),
        Outcome::Refused(_) => None,
    };
    let mut bytes = 0;
    while let Some(execution) = next {
        bytes += [&execution.stdout, &execution.stderr].map(captured_bytes).iter().sum::<u64>();
        next = execution.first_attempt.as_deref();
    }
    bytes
}

fn captured_bytes(output: &CapturedOutput) -> u64 {
    [&output.head, &output.tail].map(|text| text.as_bytes().len() as u64).iter().sum()
}

fn omit(execution: &mut Execution) {
    for output in [&mut execution.stdout, &mut execution.stderr] {
        let omitted_bytes = captured_bytes(output) + output.omitted_bytes;
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
