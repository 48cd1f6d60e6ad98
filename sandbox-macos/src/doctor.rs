//! What this Mac can enforce, found out by doing it.

#[cfg(unix)]
use std::fs;
#[cfg(unix)]
use std::path::Path;

#[cfg(unix)]
use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, Permissions};
use stockade_sandboxing::{Backend as _, Diagnosis, LayerSupport, Support, SupportLevel};
#[cfg(unix)]
use stockade_sandboxing::{CommandSpec, Plan as _, SpawnError, Stdio, WaitStatus};

#[cfg(unix)]
use crate::seatbelt::SeatbeltPlan;
use crate::seatbelt::{ENGINE, Seatbelt};

/// A program that is on every Mac, and what it tries. What fails is seen by what it leaves.
#[cfg(unix)]
const PROBE: &str = "/bin/sh";
#[cfg(unix)]
const SCRIPT: &str = "(echo x > granted); (echo x > .git/protected); (/bin/cat denied.probe > copied); exit 0";

/// What was seen if the engine works.
const TRIED: &str = "a command ran under a profile that was read back; it wrote where it may, and could neither write \
                     what is protected nor read what is denied";

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
        Ok(()) => layer("seatbelt", SupportLevel::Full, TRIED, None),
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

#[cfg(unix)]
fn probe(seatbelt: &Seatbelt) -> Result<(), String> {
    let temporary = crate::directories::user_directories().and_then(|found| found.temporary.to_host_path());
    let told = |error: SpawnError| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    try_out(seatbelt, &temporary.unwrap_or_else(std::env::temp_dir), |plan| {
        plan.spawn(Stdio::default()).map_err(told)?.wait(None).map_err(told)
    })
}

#[cfg(not(unix))]
fn probe(_: &Seatbelt) -> Result<(), String> {
    Err(String::from("this system is not macOS"))
}

/// Runs a command in a workspace, with everything in its profile that could be read otherwise than it is meant: a name
/// that is not ASCII, a protected directory, a glob. One write must work, one write and one read must not.
#[cfg(unix)]
fn try_out(
    seatbelt: &Seatbelt,
    place: &Path,
    run: impl FnOnce(&SeatbeltPlan) -> Result<Option<WaitStatus>, String>,
) -> Result<(), String> {
    let lost = |error: std::io::Error| format!("a workspace to try it out in can't be made: {error}");
    let workspace = tempfile::Builder::new().prefix("stockade-\u{e9}-").tempdir_in(place).map_err(lost)?;
    let root = workspace.path().canonicalize().map_err(lost)?;
    let [granted, protected, denied, copied] =
        ["granted", ".git/protected", "denied.probe", "copied"].map(|name| root.join(name));
    fs::create_dir(root.join(".git")).map_err(lost)?;
    fs::write(&denied, "x").map_err(lost)?;
    let plan = plan(seatbelt, &root)?;
    match run(&plan)? {
        Some(WaitStatus::Exited(0)) => {}
        other => return Err(format!("`{PROBE}` ended with {other:?}")),
    }
    let wrote = |path: &Path| fs::read(path).is_ok_and(|bytes| !bytes.is_empty());
    match () {
        () if !wrote(&granted) => Err(format!("`{}` could not be written, and is granted", granted.display())),
        () if wrote(&protected) => Err(format!("`{}` was written, and is protected", protected.display())),
        () if wrote(&copied) => Err(format!("`{}` was read, and is denied", denied.display())),
        () => Ok(()),
    }
}

#[cfg(unix)]
fn plan(seatbelt: &Seatbelt, root: &Path) -> Result<SeatbeltPlan, String> {
    let invalid = |error: stockade_protocol::Invalid| error.to_string();
    let workspace = AbsPath::from_path(root).map_err(invalid)?;
    let git = workspace.join(".git").map_err(invalid)?;
    let files = FileRules::new([
        FileRule::path("/".parse().map_err(invalid)?, Access::Read),
        FileRule::path(workspace.clone(), Access::Write),
        FileRule::path(git, Access::Read),
        FileRule::deny_glob(format!("{workspace}/**/*.probe").parse().map_err(invalid)?),
    ]);
    let permissions = Permissions { files: files.map_err(invalid)?, ..Permissions::default() };
    let command = CommandSpec {
        argv: Argv::parse([PROBE, "-c", SCRIPT]).map_err(invalid)?,
        cwd: workspace,
        environment: std::collections::BTreeMap::new(),
        process: Default::default(),
    };
    seatbelt.plan(&command, &permissions, None).map_err(|error| error.to_string())
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

    /// Runs the probe's script bare, after a change of it.
    #[expect(clippy::disallowed_methods, reason = "nothing confines the script here, which is what is looked for")]
    #[expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
    fn tried(change: impl Fn(&str) -> String) -> Result<(), String> {
        let place = tempfile::tempdir().unwrap();
        try_out(&Seatbelt::new(), place.path(), |plan| {
            let root = plan.command.cwd.to_host_path().unwrap();
            let status = std::process::Command::new(PROBE).arg("-c").arg(change(SCRIPT)).current_dir(root).status();
            Ok(status.unwrap().code().map(WaitStatus::Exited))
        })
    }

    #[test]
    fn a_sandbox_that_holds_too_little_or_too_much_is_told_apart() {
        let without = |parts: &'static [&str]| {
            move |script: &str| parts.iter().fold(script.to_owned(), |script, part| script.replace(part, ":"))
        };
        let (writes, reads) = ("echo x > .git/protected", "/bin/cat denied.probe > copied");
        // What would not have worked in a sandbox is left out.
        tried(without(&["echo x > .git/protected", "/bin/cat denied.probe > copied"])).unwrap();
        assert!(tried(str::to_owned).unwrap_err().contains("was written, and is protected"), "nothing is confined");
        assert!(tried(without(&["echo x > .git/protected"])).unwrap_err().contains("was read, and is denied"));
        let nothing =
            tried(without(&["echo x > granted", "echo x > .git/protected", "/bin/cat denied.probe > copied"]));
        assert!(nothing.unwrap_err().contains("could not be written, and is granted"));
        assert!(tried(|_| String::from("exit 1")).unwrap_err().contains("ended with"));
        assert!(SCRIPT.contains(writes) && SCRIPT.contains(reads), "the parts above are parts of it");
    }

    /// The profile of the probe, as it is read by the system, has the name in a parameter and in a pattern.
    #[test]
    fn the_probe_has_a_glob_and_a_name_beyond_ascii() {
        let place = tempfile::tempdir().unwrap();
        let mut seen = None;
        let tried = try_out(&Seatbelt::new(), place.path(), |plan| {
            seen = Some(plan.profile().clone());
            Ok(None)
        });
        tried.unwrap_err();
        let parameters = seen.as_ref().unwrap().parameters();
        assert!(parameters.iter().any(|own| own.name.starts_with("PATTERN") && own.value.contains('\u{e9}')));
        assert!(parameters.iter().any(|own| own.value.contains(r"[Pp][Rr][Oo][Bb][Ee]")), "the glob");
    }
}
