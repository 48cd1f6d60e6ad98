//! The sandbox of Linux on a processor for which there is no launcher and no list of system calls: it refuses. Commands without a
//! sandbox, and under the policy `external-sandbox`, run as everywhere.

use std::path::PathBuf;

use stockade_config::Settings;
use stockade_protocol::{AbsPath, NetworkPolicy, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Diagnosis, LayerSupport, Plan, Repository, Support, SupportLevel, Unenforceable,
};

const REMEDY: &str = "use x86-64 or AArch64, or the policy `external-sandbox` inside a sandbox of another program";

fn why() -> String {
    format!("the sandbox of Linux supports x86-64 and AArch64, and this processor is `{}`", std::env::consts::ARCH)
}

pub(super) fn diagnose() -> Diagnosis {
    let processor = LayerSupport {
        layer: String::from("processor"),
        level: SupportLevel::Missing,
        detail: Some(why()),
        remedy: Some(REMEDY.to_owned()),
    };
    Diagnosis { chosen: None, complete: false, host: vec![processor], engines: Vec::new() }
}

pub(super) fn get_ready(_: &NetworkPolicy) {}

pub(super) fn backend(_: &Settings, _: Option<PathBuf>) -> Box<dyn Backend> {
    Box::new(Refusing(Support { engine: String::from("none"), layers: diagnose().host }))
}

pub(super) fn keeping(_: &Settings, backend: Box<dyn Backend>, _: Option<PathBuf>) -> Box<dyn Backend> {
    backend
}

#[cfg_attr(test, allow(dead_code, reason = "compiled beside the one in use for its tests"))]
pub(super) fn git_writes(_: &Repository, _: &AbsPath) -> bool {
    false
}

pub(super) fn platform_defaults() -> Vec<AbsPath> {
    Vec::new()
}

/// Every engine.
#[derive(Debug)]
struct Refusing(Support);

impl Backend for Refusing {
    fn support(&self) -> &Support {
        &self.0
    }

    fn compile(&self, _: &CommandSpec, _: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        Err(Unenforceable { what: String::from("the sandbox"), why: why(), remedy: REMEDY.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_refused_with_a_sentence() {
        let settings = Settings::new(Vec::new());
        get_ready(&NetworkPolicy::Off);
        let backend = keeping(&settings, backend(&settings, None), None);
        let command = CommandSpec {
            argv: stockade_protocol::Argv::parse(["/bin/true"]).unwrap(),
            cwd: "/".parse().unwrap(),
            environment: Default::default(),
            process: Default::default(),
        };
        let refused = backend.compile(&command, &Permissions::default()).unwrap_err();
        assert!(refused.to_string().contains("x86-64 and AArch64") && refused.remedy.contains("external-sandbox"));
        assert!(!backend.support().works() && diagnose().chosen.is_none() && platform_defaults().is_empty());
    }
}
