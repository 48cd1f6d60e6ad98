//! Judges a shell line without running it: its commands, whether it would be asked about, and why.
//!
//! ```console
//! cargo run --example judge_a_line -- 'git status && rm -rf /'
//! ```

use stockade::protocol::{AskForApproval, ExecApprovalRequirement};
use stockade::{Error, Stockade};

fn main() -> Result<(), Error> {
    let stockade = Stockade::builder().ask(AskForApproval::OnRequest).without_trail().build()?;
    for line in std::env::args().skip(1) {
        let judged = stockade.explain(["bash", "-c", &line])?;
        println!("{line}");
        for part in judged.parsed.commands.iter().filter(|part| part.via.is_some()) {
            let words: Vec<String> = part.words.iter().map(ToString::to_string).collect();
            println!("  runs {}", words.join(" "));
        }
        match judged.requirement {
            ExecApprovalRequirement::Skip { .. } => {
                println!("  without a question, in the sandbox: {}", judged.sandboxed)
            }
            ExecApprovalRequirement::NeedsApproval { reason, .. } => {
                println!("  asks first: {}", reason.unwrap_or_default());
            }
            ExecApprovalRequirement::Forbidden { reason } => println!("  is refused: {reason}"),
        }
    }
    Ok(())
}
