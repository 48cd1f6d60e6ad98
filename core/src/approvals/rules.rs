//! The rules in force, and the file for new ones.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use stockade_execpolicy::{Policy, PolicyLoader, append_allow_rule, append_network_rule};
use stockade_protocol::{ExecPolicyAmendment, HostPattern, HostRule, NetworkPolicyAmendment};

use crate::saved_grants::ProfileStore;

/// The rules of a session. A rule that a person saves counts from then on.
#[derive(Debug, Default)]
pub struct RuleStore {
    policy: RwLock<Arc<Policy>>,
    file: Option<PathBuf>,
    home: Option<OsString>,
    profiles: Option<Arc<dyn ProfileStore>>,
}

impl RuleStore {
    /// These rules, without a file for new ones.
    pub fn new(policy: Policy) -> Self {
        Self { policy: RwLock::new(Arc::new(policy)), file: None, home: None, profiles: None }
    }

    /// Saves new rules in this file.
    #[must_use]
    pub fn saving_to(self, file: PathBuf) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Sets the directory for `~/` in a file that is reloaded.
    #[must_use]
    pub fn with_home(self, home: Option<OsString>) -> Self {
        Self { home, ..self }
    }

    /// Saves permission profiles here.
    #[must_use]
    pub fn saving_profiles(self, profiles: Arc<dyn ProfileStore>) -> Self {
        Self { profiles: Some(profiles), ..self }
    }

    /// Where permission profiles are saved, if they can be.
    pub(crate) fn profiles(&self) -> Option<&Arc<dyn ProfileStore>> {
        self.profiles.as_ref()
    }

    /// Whether a new rule could be saved.
    pub fn can_save(&self) -> bool {
        self.file.is_some()
    }

    /// The current rules.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Saves a rule. If that fails, the approval holds for this once.
    pub(crate) fn save(&self, amendment: &ExecPolicyAmendment) {
        let Some(file) = &self.file else { return };
        match append_allow_rule(file, amendment) {
            Ok(_) => self.reload(file),
            Err(error) => tracing::warn!(%error, file = %file.display(), "a rule was approved but could not be saved"),
        }
    }

    /// Saves a network rule. A rule for every protocol or for several hosts can't be written in a file.
    pub(crate) fn save_network(&self, amendment: &NetworkPolicyAmendment) {
        let (Some(file), HostPattern::Exact(host), Some(protocol)) = (&self.file, &amendment.host, amendment.protocol)
        else {
            return tracing::warn!("a network rule was approved that can't be saved");
        };
        let decision = HostRule::from(amendment).decision;
        match append_network_rule(file, host, protocol, amendment.port, decision, None) {
            Ok(_) => self.reload(file),
            Err(error) => tracing::warn!(%error, file = %file.display(), "a rule was approved but could not be saved"),
        }
    }

    fn reload(&self, file: &PathBuf) {
        match PolicyLoader::new().home(self.home.clone()).file(file).load() {
            Ok(saved) => {
                let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
                *policy = Arc::new(Policy::clone(&policy).merge(saved));
            }
            Err(error) => tracing::warn!(%error, "the saved rule counts from the next start"),
        }
    }
}
