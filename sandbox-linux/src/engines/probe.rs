//! Probes what this host can enforce.

use stockade_protocol::{Access, Argv, FileRule, FileRules, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, LayerSupport, SpawnError, Stdio, Support, SupportLevel, Unenforceable,
};

use crate::doctor;
use crate::engines::bwrap::Bwrap;
use crate::engines::bwrap::program::Program;
use crate::engines::landlock_only::LandlockOnly;
use crate::engines::losses::Loss;
use crate::engines::native::Native;

/// Probes bubblewrap.
pub(crate) fn bwrap(bwrap: &Bwrap, program: Result<&Program, &Unenforceable>, landlock_version: u32) -> Support {
    let program = match program {
        Ok(program) => layer("bubblewrap", SupportLevel::Full, Some(program.path().display().to_string()), None),
        Err(refused) => layer("bubblewrap", SupportLevel::Missing, Some(refused.why.clone()), Some(&refused.remedy)),
    };
    let layers = vec![program, namespaces(bwrap, landlock_version), landlock(landlock_version), seccomp()];
    Support { engine: String::from("bwrap"), layers }
}

/// Probes Landlock alone.
pub(crate) fn landlock_only(engine: &LandlockOnly, landlock_version: u32) -> Support {
    let refused = "it has no view of its own: denied and protected paths inside a grant, and private directories, \
        are refused unless their loss is accepted";
    let processes = match try_engine(engine) {
        Ok(()) => layer("process_tree", SupportLevel::Full, Some(String::from("kept together by Landlock")), None),
        Err(why) => layer("process_tree", SupportLevel::Missing, Some(why), Some("a kernel from 6.12 on")),
    };
    let names: Vec<&str> = Loss::ALL.into_iter().map(Loss::name).collect();
    let remedy = format!("use the engine `native` or `bwrap`, or `--accept-loss` with one of {}", names.join(", "));
    let files = layer("files", SupportLevel::Partial, Some(refused.to_owned()), Some(&remedy));
    Support { engine: String::from("landlock"), layers: vec![files, landlock(landlock_version), seccomp(), processes] }
}

/// Builds a sandbox around a missing program: everything except the program has to work.
pub(crate) fn support(native: &Native, landlock_version: u32) -> Support {
    let layers = vec![namespaces(native, landlock_version), landlock(landlock_version), seccomp()];
    Support { engine: String::from("native"), layers }
}

fn layer(name: &str, level: SupportLevel, detail: Option<String>, remedy: Option<&str>) -> LayerSupport {
    LayerSupport { layer: name.to_owned(), level, detail, remedy: remedy.map(String::from) }
}

fn namespaces(engine: &dyn Backend, landlock_version: u32) -> LayerSupport {
    let name = "namespaces";
    if landlock_version == 0 {
        // The engine would refuse before it made one, and a remedy for namespaces would be the wrong one.
        return layer(name, SupportLevel::Missing, Some(String::from("not tried: Landlock is needed first")), None);
    }
    match try_engine(engine) {
        Ok(()) => layer(name, SupportLevel::Full, None, None),
        Err(why) => {
            let remedy = doctor::namespaces_remedy();
            layer(name, SupportLevel::Missing, Some(why), Some(&remedy))
        }
    }
}

pub(crate) fn try_engine(engine: &dyn Backend) -> Result<(), String> {
    let invalid = |error: stockade_protocol::Invalid| error.to_string();
    let command = CommandSpec {
        argv: Argv::parse(["/nonexistent/probe"]).map_err(invalid)?,
        cwd: "/".parse().map_err(invalid)?,
        environment: std::collections::BTreeMap::new(),
        process: Default::default(),
    };
    let rules = FileRules::new([FileRule::path("/".parse().map_err(invalid)?, Access::Read)]).map_err(invalid)?;
    let permissions = Permissions { files: rules, ..Permissions::default() };
    let plan = engine.compile(&command, &permissions).map_err(|error| error.to_string())?;
    let told = |error: SpawnError| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match plan.spawn(Stdio::default()).map_err(told)?.wait(None) {
        Err(SpawnError::NotFound { .. }) => Ok(()),
        Err(error) => Err(told(error)),
        Ok(status) => Err(format!("a program that does not exist ended with {status:?}")),
    }
}

fn landlock(version: u32) -> LayerSupport {
    let name = "landlock";
    match version {
        0 => layer(
            name,
            SupportLevel::Missing,
            Some(String::from("the kernel has no Landlock, or it is switched off")),
            Some("boot a kernel from 5.13 on with `lsm=landlock,…`"),
        ),
        1..6 => layer(
            name,
            SupportLevel::Partial,
            Some(format!("version {version}: signals and abstract sockets are kept apart by namespaces alone")),
            Some("a kernel from 6.12 on"),
        ),
        6.. => layer(name, SupportLevel::Full, Some(format!("version {version}")), None),
    }
}

fn seccomp() -> LayerSupport {
    // The probe above has installed the filter; a kernel without it would have failed there.
    layer("seccomp", SupportLevel::Full, None, None)
}
