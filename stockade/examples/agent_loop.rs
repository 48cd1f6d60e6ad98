//! An agent: a model that requests commands until it is done. Each command runs in the sandbox, and the model reads
//! the result, also of a denied command. The model is faked here.

use stockade::{Error, Outcome, ReviewDecision, Stockade};

/// A model's answer to a conversation.
enum Turn {
    Run(&'static str),
    Done(&'static str),
}

/// Stands for the call of a model.
fn model(conversation: &[String]) -> Turn {
    match conversation.len() {
        1 => Turn::Run("echo hello"),
        3 => Turn::Run("cat ~/.ssh/id_ed25519"),
        5 => Turn::Run("printf 'fn main() {}' > main.rs && cat main.rs"),
        _ => Turn::Done("I have written main.rs, and your keys are none of my business."),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let stockade = Stockade::builder()
        .timeout(std::time::Duration::from_secs(60))
        .on_question(|question| async move {
            println!("[asked] {}", question.subject);
            ReviewDecision::Denied { reason: Some(String::from("stay in the workspace")) }
        })
        .build()?;
    let mut conversation = vec![String::from("Write main.rs.")];
    loop {
        match model(&conversation) {
            Turn::Run(line) => {
                println!("[runs] {line}");
                let outcome = stockade.command(["sh", "-c", line]).justification("the model wants it").run().await?;
                conversation.push(String::from(line));
                conversation.push(told(&outcome));
                println!("{}", conversation.last().map_or("", |text| text.trim_end()));
            }
            Turn::Done(text) => {
                println!("[says] {text}");
                return Ok(());
            }
        }
    }
}

/// The description of an outcome for the model.
fn told(outcome: &Outcome) -> String {
    let Some(ran) = outcome.execution() else { return format!("not run: {outcome:?}") };
    let denied = ran.violations.iter().map(|violation| format!("\n(the sandbox denied {violation})"));
    let output = ran.stdout.to_string_lossy() + &ran.stderr.to_string_lossy();
    output.trim_end().to_owned() + &denied.collect::<String>()
}
