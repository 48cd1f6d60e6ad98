//! What is left of the user's token, as data.

use serde::Serialize;

use crate::Sid;
use crate::mark::{LOW, MEDIUM};

/// Groups that a command never uses to get at something: they only count where they deny.
/// By number below `S-1-5-32`.
const POWERFUL_GROUPS: &[u32] = &[
    544, // Administrators
    547, // Power Users
    548, // Account Operators
    549, // Server Operators
    550, // Print Operators: they load drivers
    551, // Backup Operators: they read and write past every list
    552, // Replicators
    556, // Network Configuration Operators
    578, // Hyper-V Administrators: they reach into every virtual machine
];

/// The last numbers of a domain's administrators: Domain, Schema, Enterprise, Policy, Key, Enterprise Key.
const DOMAIN_ADMINISTRATORS: &[u32] = &[512, 518, 519, 520, 526, 527];

/// The token that the command runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TokenPlan {
    /// A write needs an entry for one of these as well. If it is empty, writes are not confined.
    pub(crate) restricting: Vec<Whom>,
    pub(crate) integrity: Integrity,
}

/// An identifier that is known when the token is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Whom {
    /// Only this sandbox: what the marks name, and the trees that can be written.
    Capability,
    /// The logon session: the window station and the session's directory for named objects, which
    /// programs need to start and to talk to what they have started.
    LogonSession,
    /// `Everyone`: the null device and its like, which `Everyone` may write and restricted code may only read. Other
    /// objects that `Everyone` may write are above the command's level.
    Everyone,
    /// Restricted code: what the system means such programs to use.
    Restricted,
    /// Write-restricted code: what the system means such programs to write.
    WriteRestricted,
}

/// An integrity level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Integrity {
    /// Neither writes to what the user owns nor reads the memory of what the user runs.
    Low,
    /// As everything that the user runs.
    Medium,
}

impl TokenPlan {
    /// Writes stay as they are for the user: only privileges and groups go.
    pub(crate) fn everything() -> Self {
        Self { restricting: Vec::new(), integrity: Integrity::Medium }
    }

    pub(crate) fn confined() -> Self {
        let restricting =
            vec![Whom::Capability, Whom::LogonSession, Whom::Everyone, Whom::Restricted, Whom::WriteRestricted];
        Self { restricting, integrity: Integrity::Low }
    }

    /// The identifiers, in a session that has this one.
    pub(crate) fn restricting_sids(&self, capabilities: &[Sid], logon: &Sid) -> Vec<Sid> {
        let sids = |whom: &Whom| match whom {
            Whom::Capability => capabilities.to_vec(),
            Whom::LogonSession => vec![logon.clone()],
            Whom::Everyone => vec![Sid::everyone()],
            Whom::Restricted => vec![Sid::nt([12])],
            Whom::WriteRestricted => vec![Sid::nt([33])],
        };
        self.restricting.iter().flat_map(sids).collect()
    }
}

impl Integrity {
    pub(crate) fn sid(self) -> Sid {
        Sid::label(match self {
            Self::Low => LOW,
            Self::Medium => MEDIUM,
        })
    }
}

/// Whether a group of the user's may only count where it denies.
pub(crate) fn is_powerful(group: &Sid) -> bool {
    let built_in = POWERFUL_GROUPS.iter().any(|number| *group == Sid::nt([32, *number]));
    let of_a_domain = group.to_string().starts_with("S-1-5-21-")
        && group.last().is_some_and(|last| DOMAIN_ADMINISTRATORS.contains(&last));
    built_in || of_a_domain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_of_machine_and_domain_are_powerful() {
        let powerful = |text: &str| is_powerful(&text.parse().unwrap());
        assert!(powerful("S-1-5-32-544") && powerful("S-1-5-32-551") && powerful("S-1-5-21-1-2-3-512"));
        assert!(!powerful("S-1-5-32-545") && !powerful("S-1-1-0") && !powerful("S-1-5-21-1-2-3-513"));
    }

    /// What a low label must not be put beside is told by these.
    #[test]
    fn what_is_in_every_token_is_known() {
        let (own, logon) = (Sid::capability("own"), "S-1-5-5-0-7".parse().unwrap());
        let sids = TokenPlan::confined().restricting_sids(std::slice::from_ref(&own), &logon);
        assert!(sids.iter().all(|sid| *sid == own || sid.is_in_every_token()), "{sids:?}");
        assert!(!own.is_in_every_token() && !Sid::nt([11]).is_in_every_token());
    }
}
