//! Runs one command in the sandbox, in the current directory, and shows the result:
//!
//! ```console
//! cargo run --example run_one_command -- sh -c 'echo hello; touch /etc/no'
//! ```

use stockade::{Error, Outcome, Stockade};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let stockade = Stockade::builder().build()?;
    let outcome = stockade.run(std::env::args_os().skip(1)).await?;
    if let Some(execution) = outcome.execution() {
        print!("{}", execution.stdout.to_string_lossy());
        for violation in &execution.violations {
            println!("denied: {violation}");
        }
    }
    match outcome {
        Outcome::Exited { exit_code, .. } => println!("exited with {exit_code}"),
        Outcome::Denied { .. } => println!("failed because it was denied something"),
        Outcome::Refused(refusal) => println!("not run: {}", refusal.reason),
        Outcome::TimedOut { .. } => println!("took too long"),
        Outcome::Cancelled { reason, .. } => println!("ended: {reason}"),
        Outcome::Signaled { signal, .. } => println!("ended by signal {signal}"),
    }
    Ok(())
}
