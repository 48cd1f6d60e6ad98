//! A build service: a session for each project, concurrent builds, streamed output. Approvals for a session hold for
//! its further builds, and a cancelled build ends with all its processes.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stockade::protocol::{ApprovalSubject, AskForApproval, ResourceLimits};
use stockade::{Error, Outcome, ReviewDecision, Stockade, StreamName};

/// The sessions of a service, by project.
struct Service {
    sessions: HashMap<&'static str, Stockade>,
    questions: Arc<AtomicUsize>,
}

impl Service {
    fn open(&mut self, project: &'static str, directory: &Path) -> Result<(), Error> {
        let questions = Arc::clone(&self.questions);
        let session = Stockade::builder()
            .workspace(directory)
            // Every line that is not known as harmless is asked about, once per session.
            .ask(AskForApproval::Untrusted)
            .on_question(move |question| {
                questions.fetch_add(1, Ordering::Relaxed);
                async move {
                    let ApprovalSubject::Command(line) = &question.subject else { return ReviewDecision::Abort };
                    // Nothing leaves its project.
                    if !line.violations.is_empty() {
                        return ReviewDecision::Denied { reason: None };
                    }
                    // Not every question can be answered for the session.
                    let answers = [ReviewDecision::ApprovedForSession, ReviewDecision::Approved];
                    let offered = answers.into_iter().find(|answer| question.available_decisions.contains(answer));
                    offered.unwrap_or(ReviewDecision::Denied { reason: None })
                }
            })
            .limits(ResourceLimits { cpu_seconds: NonZeroU64::new(600), ..ResourceLimits::default() })
            .env("CI", "true")
            .build()?;
        self.sessions.insert(project, session);
        Ok(())
    }

    async fn build(&self, project: &str, line: &str) -> Result<String, Error> {
        let Some(session) = self.sessions.get(project) else { return Ok(format!("{project}: no such project")) };
        let name = project.to_owned();
        let command =
            session.command(["sh", "-c", line]).timeout(Duration::from_secs(2)).on_output(move |stream, bytes| {
                if stream == StreamName::Stdout {
                    print!("{name} | {}", String::from_utf8_lossy(bytes));
                }
            });
        Ok(match command.run().await? {
            Outcome::Exited { exit_code: 0, .. } => format!("{project}: built"),
            Outcome::TimedOut { .. } => format!("{project}: took too long"),
            Outcome::Refused(refusal) => format!("{project}: not built, {}", refusal.reason),
            Outcome::Cancelled { reason, .. } => format!("{project}: stopped, {reason}"),
            Outcome::Exited { .. } | Outcome::Denied { .. } | Outcome::Signaled { .. } => format!("{project}: failed"),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut service = Service { sessions: HashMap::new(), questions: Arc::default() };
    for project in ["one", "two"] {
        let directory = std::path::absolute(project).map_err(Error::NoDirectory)?;
        std::fs::create_dir_all(&directory).map_err(Error::NoDirectory)?;
        service.open(project, &directory)?;
    }
    // Both at once.
    let (one, two) = tokio::join!(service.build("one", "touch done; echo $CI"), service.build("two", "sleep 60"));
    println!("{}\n{}", one?, two?);
    let again = service.build("one", "touch done; echo $CI").await?;
    println!("{again} again");
    println!("{}", service.build("one", "touch ../two/planted").await?);
    println!("asked {} times", service.questions.load(Ordering::Relaxed));
    Ok(())
}
