//! What this Mac can enforce, found out by doing it.

use stockade_protocol::{Access, Argv, FileRule, FileRules, Permissions};
use stockade_sandboxing::{
    Backend as _, CommandSpec, Diagnosis, LayerSupport, Plan as _, SpawnError, Stdio, Support, SupportLevel, WaitStatus,
};

use crate::seatbelt::{ENGINE, Seatbelt};

/// A program that does nothing and is on every Mac.
const PROBE: &str = "/usr/bin/true";

/// Tries the engine out.
pub fn diagnose() -> Diagnosis {
    let seatbelt = Seatbelt::new();
    let support = seatbelt.support().clone();
    let chosen = support.works().then(|| support.engine.clone());
    // Only programs that know proxies reach single hosts, and limits on memory and processes are refused.
    Diagnosis { chosen, complete: false, host: host(), engines: vec![support] }
}

pub(crate) fn support(seatbelt: &Seatbelt) -> Support {
    let profile = match probe(seatbelt) {
        Ok(()) => layer("seatbelt", SupportLevel::Full, "a command ran under a profile, which was read back", None),
        Err(why) => layer("seatbelt", SupportLevel::Missing, &why, Some("run outside of other sandboxes, on macOS")),
    };
    let private = "nothing can be mounted: in the place of `/tmp` a command has a directory of its own in `TMPDIR`";
    let network = "off and full for every program; single hosts through a proxy of the run, for programs that look at \
                   `HTTPS_PROXY` and its like: others reach nothing";
    let limits = "processor time, file size and open files; memory and processes are refused";
    let layers = vec![
        profile,
        layer("private_directories", SupportLevel::Partial, private, None),
        layer("network", SupportLevel::Partial, network, None),
        layer("limits", SupportLevel::Partial, limits, None),
    ];
    Support { engine: ENGINE.to_owned(), layers }
}

fn probe(seatbelt: &Seatbelt) -> Result<(), String> {
    let invalid = |error: stockade_protocol::Invalid| error.to_string();
    let command = CommandSpec {
        argv: Argv::parse([PROBE]).map_err(invalid)?,
        cwd: "/".parse().map_err(invalid)?,
        environment: std::collections::BTreeMap::new(),
        process: Default::default(),
    };
    let files = FileRules::new([FileRule::path("/".parse().map_err(invalid)?, Access::Read)]).map_err(invalid)?;
    let plan = seatbelt
        .plan(&command, &Permissions { files, ..Permissions::default() }, None)
        .map_err(|error| error.to_string())?;
    let told = |error: SpawnError| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match plan.spawn(Stdio::default()).map_err(told)?.wait(None).map_err(told)? {
        Some(WaitStatus::Exited(0)) => Ok(()),
        other => Err(format!("`{PROBE}` ended with {other:?}")),
    }
}

/// What is worth knowing of the host.
fn host() -> Vec<LayerSupport> {
    let managed = match crate::managed::maximum() {
        Ok(None) => layer("maximum", SupportLevel::Full, "no administrator has set one", None),
        Ok(Some(_)) => layer("maximum", SupportLevel::Full, "an administrator has set one, and it is kept to", None),
        Err(error) => layer("maximum", SupportLevel::Missing, &error.why, Some(&error.remedy)),
    };
    let directories = crate::directories::user_directories();
    let directories = match &directories {
        Some(found) => layer("temporary", SupportLevel::Full, &found.temporary.to_string(), None),
        None => layer("temporary", SupportLevel::Missing, "the system names no directory of this user's", None),
    };
    vec![managed, directories]
}

fn layer(name: &str, level: SupportLevel, detail: &str, remedy: Option<&str>) -> LayerSupport {
    LayerSupport { layer: name.to_owned(), level, detail: Some(detail.to_owned()), remedy: remedy.map(String::from) }
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::*;

    #[test]
    fn elsewhere_nothing_works_and_the_reason_is_given() {
        let diagnosis = diagnose();
        assert_eq!((diagnosis.chosen, diagnosis.complete), (None, false));
        let engine = diagnosis.engines.first().unwrap();
        assert!(!engine.works());
        assert!(engine.layers.first().unwrap().detail.as_ref().unwrap().contains("not macOS"));
    }
}
