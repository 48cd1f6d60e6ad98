//! The approver of a session.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use stockade_config::Settings;
use stockade_core::{Answer, Approver, Fixed, RiskAssessor, Unanswered, Unassessed};
use stockade_protocol::{ApprovalRequest, Permissions, ReviewDecision, RiskAssessment};

use crate::Error;
use crate::assembly::program;

/// The approver of a session. A program named in the settings takes precedence.
#[derive(Clone, Default)]
pub enum Answers {
    /// None: requests that need an approval are refused.
    #[default]
    Nobody,
    /// This approver.
    By(Arc<dyn Approver>),
    /// The person at the terminal of this process, if it has one.
    #[cfg(feature = "terminal")]
    Terminal,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::By(_) => "By",
            #[cfg(feature = "terminal")]
            Self::Terminal => "Terminal",
        })
    }
}

impl Answers {
    /// Whether questions are answered, unless the settings name a program.
    pub(crate) fn is_given(&self) -> bool {
        match self {
            Self::Nobody => false,
            Self::By(_) => true,
            #[cfg(feature = "terminal")]
            Self::Terminal => crate::terminal::has_person(),
        }
    }

    /// The approver: the program named in the settings, else the given one. A program that commands could change is
    /// refused.
    pub(crate) fn approver(&self, settings: &Settings, permissions: &Permissions) -> Result<Arc<dyn Approver>, Error> {
        if let Some(hook) = &settings.hook {
            let asked = program(&hook.command, permissions)?;
            return Ok(Arc::new(match hook.timeout {
                Some(limit) => asked.within_time(limit),
                None => asked,
            }));
        }
        Ok(match self {
            Self::Nobody => Arc::new(Fixed::deny("nothing answers questions here")),
            Self::By(approver) => Arc::clone(approver),
            #[cfg(feature = "terminal")]
            Self::Terminal => {
                crate::terminal::person(crate::losses::accepted(settings), crate::terminal::Lifetime::Run)
                    .unwrap_or_else(|| Arc::new(Fixed::deny("there is no terminal to ask at")))
            }
        })
    }
}

/// Answers with what a closure returns.
pub(crate) struct Closure<F>(pub(crate) F);

#[async_trait]
impl<F, Fut> Approver for Closure<F>
where
    F: Fn(Arc<ApprovalRequest>) -> Fut + Send + Sync,
    Fut: Future<Output = ReviewDecision> + Send,
{
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        Ok((self.0)(request).await.into())
    }
}

/// The approver and the risk assessor of the current settings.
pub(crate) struct Current {
    approver: RwLock<Arc<dyn Approver>>,
    assessor: RwLock<Option<Arc<dyn RiskAssessor>>>,
}

impl Current {
    pub(crate) fn new(approver: Arc<dyn Approver>, assessor: Option<Arc<dyn RiskAssessor>>) -> Self {
        Self { approver: RwLock::new(approver), assessor: RwLock::new(assessor) }
    }

    /// Replaces both, from the next question on.
    pub(crate) fn replace(&self, approver: Arc<dyn Approver>, assessor: Option<Arc<dyn RiskAssessor>>) {
        *self.approver.write().unwrap_or_else(PoisonError::into_inner) = approver;
        *self.assessor.write().unwrap_or_else(PoisonError::into_inner) = assessor;
    }
}

#[async_trait]
impl Approver for Current {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let approver = Arc::clone(&self.approver.read().unwrap_or_else(PoisonError::into_inner));
        approver.review(request).await
    }
}

#[async_trait]
impl RiskAssessor for Current {
    async fn assess(&self, request: Arc<ApprovalRequest>) -> Result<RiskAssessment, Unassessed> {
        let assessor = self.assessor.read().unwrap_or_else(PoisonError::into_inner).clone();
        match assessor {
            Some(assessor) => assessor.assess(request).await,
            None => Err(Unassessed { why: String::from("the settings name no program that assesses") }),
        }
    }
}
