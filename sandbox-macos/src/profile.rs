//! A whole profile: what every command may do, files, the network, and what nothing brings along.

use std::fmt;

use serde::Serialize;
use stockade_protocol::{Access, Permissions};
use stockade_sandboxing::{CommandSpec, HostFiles, Unenforceable};

use crate::network::{Certificates, ProxyPorts};
use crate::parameters::{Parameter, Parameters};
use crate::{files, network};

const BASE: &str = include_str!("base.sbpl");
const PREFERENCES: &str = include_str!("preferences.sbpl");
const LAST: &str = include_str!("last.sbpl");

/// Rules for Seatbelt, as text in its own language and as the values that the text refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    text: String,
    parameters: Vec<Parameter>,
}

/// What surrounds the permissions of one command.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) files: &'a dyn HostFiles,
    pub(crate) proxy: Option<&'a ProxyPorts>,
    pub(crate) certificates: Certificates,
}

/// A profile, and what is worth knowing about it.
pub(crate) struct Compiled {
    pub(crate) profile: Profile,
    pub(crate) private: Vec<stockade_protocol::AbsPath>,
    pub(crate) warnings: Vec<String>,
}

impl Profile {
    /// The rules.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The values that they refer to. Three are known only when a command starts, and are not among them:
    /// `RUN`, a name of its own, and `SCRATCH` and `CACHE`, its private directories.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Permissions whose links have been resolved, as a profile.
    pub(crate) fn compile(
        command: &CommandSpec,
        permissions: &Permissions,
        setting: Setting<'_>,
    ) -> Result<Compiled, Unenforceable> {
        let mut parameters = Parameters::default();
        let files = files::compile(&permissions.files, setting.files, &mut parameters)?;
        let network =
            network::compile(permissions, setting.proxy, &command.environment, setting.certificates, &mut parameters)?;
        let preferences = if reads_everything(permissions) { PREFERENCES } else { "" };
        let text = [BASE, preferences, &network, &files.text, "\n", LAST].concat();
        let profile = Self { text, parameters: parameters.into_list() };
        Ok(Compiled { profile, private: files.private, warnings: files.warnings })
    }
}

/// Whether reads are restricted to some directories is told by the root.
fn reads_everything(permissions: &Permissions) -> bool {
    "/".parse().is_ok_and(|root| permissions.access(&root) >= Access::Read)
}

/// The values, then the rules.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Parameter { name, value } in &self.parameters {
            writeln!(f, "{name}={}", stockade_protocol::RawText::from(value.as_str()))?;
        }
        f.write_str(&self.text)
    }
}
