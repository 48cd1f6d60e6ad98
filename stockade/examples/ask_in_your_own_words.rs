//! Asks in this program's own user interface, which is one line of text and one line of answer:
//!
//! ```console
//! cargo run --example ask_in_your_own_words -- touch ../made
//! ```

use stockade::protocol::{ApprovalSubject, EscalationExecution};
use stockade::{ApprovalRequest, Error, ReviewDecision, Stockade};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let stockade = Stockade::builder()
        // The closure may take long: the command's clock is paused meanwhile.
        .on_question(|question| async move {
            println!("{}", in_own_words(&question));
            let mut answer = String::new();
            // A real program would show a dialog, or send the question to a chat.
            let read = std::io::stdin().read_line(&mut answer);
            // An answer that a question does not offer counts as a no: many can only be approved once.
            let can_last = question.available_decisions.contains(&ReviewDecision::ApprovedForSession);
            match (read, answer.trim()) {
                (Ok(_), "always") if can_last => ReviewDecision::ApprovedForSession,
                (Ok(_), "yes" | "always") => ReviewDecision::Approved,
                _ => ReviewDecision::Denied { reason: Some(String::from("the user said no")) },
            }
        })
        .build()?;
    let outcome = stockade.run(std::env::args_os().skip(1)).await?;
    println!("{}", if outcome.is_success() { "Done." } else { "That did not work." });
    Ok(())
}

fn in_own_words(question: &ApprovalRequest) -> String {
    // Writes that wait, patches, connections, tools and forms have a line of their own.
    let ApprovalSubject::Command(command) = &question.subject else { return format!("May I {}?", question.subject) };
    if command.escalation == EscalationExecution::Unsandboxed {
        return format!("May `{}` do as it likes?", command.command);
    }
    if command.violations.is_empty() {
        return format!("May I run `{}`?", command.command);
    }
    let denied: Vec<String> = command.violations.iter().map(ToString::to_string).collect();
    format!("`{}` was denied {}. Allow it?", command.command, denied.join(" and "))
}
