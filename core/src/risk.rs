//! Risk assessments of requests by a program or a model, for the person who is asked. They decide nothing: if an
//! assessment fails or takes too long, the question is asked without it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stockade_protocol::{ApprovalRequest, RiskAssessment};

/// The timeout of an assessment.
pub const ASSESSMENT_LIMIT: Duration = Duration::from_secs(5);

/// Limit on the summary that a person reads before answering.
const LONGEST_SUMMARY: usize = 600;
const LONGEST_CATEGORY: usize = 60;

/// Assesses the risk of a request before a person is asked about it.
///
/// The question waits at most [`ASSESSMENT_LIMIT`]. A failure, a panic, more than 600 characters, or a timeout leaves
/// the question without an assessment; no decision depends on it.
#[async_trait]
pub trait RiskAssessor: Send + Sync {
    /// Assesses a request. An error is logged.
    async fn assess(&self, request: Arc<ApprovalRequest>) -> Result<RiskAssessment, Unassessed>;
}

/// Why there is no assessment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the risk was not assessed: {why}")]
pub struct Unassessed {
    /// Why.
    pub why: String,
}

/// The assessment of a request, if there is one in time.
pub(crate) async fn assessment(
    assessor: &Arc<dyn RiskAssessor>,
    request: &Arc<ApprovalRequest>,
) -> Option<RiskAssessment> {
    let (assessor, asked) = (Arc::clone(assessor), Arc::clone(request));
    // A separate task contains a panic. It ends with its set.
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move { assessor.assess(asked).await });
    let found = match tokio::time::timeout(ASSESSMENT_LIMIT, task.join_next()).await {
        Ok(Some(Ok(found))) => found.and_then(fitting),
        Ok(Some(Err(died))) => Err(Unassessed { why: died.to_string() }),
        Ok(None) | Err(_) => Err(Unassessed { why: format!("no answer within {ASSESSMENT_LIMIT:?}") }),
    };
    found.inspect_err(|error| tracing::warn!(request = %request.id, %error)).ok()
}

/// Refuses an assessment that would bury its question.
fn fitting(found: RiskAssessment) -> Result<RiskAssessment, Unassessed> {
    let is_long = |text: &str, most: usize| text.chars().nth(most).is_some();
    if is_long(&found.summary, LONGEST_SUMMARY) || is_long(&found.category, LONGEST_CATEGORY) {
        let why = format!(
            "the summary is longer than {LONGEST_SUMMARY} characters, or the category longer than {LONGEST_CATEGORY}"
        );
        return Err(Unassessed { why });
    }
    Ok(found)
}
