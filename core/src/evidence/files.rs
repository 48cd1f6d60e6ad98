//! Files: whether the policy denies what a message says of one, and the least that would allow it.

use stockade_protocol::{
    AbsPath, Access, DenyingRule, FileRule, FileRules, FileTarget, Operation, PermissionAmendment, Permissions,
    RuleSource, Violation, ViolationTarget,
};
use stockade_sandboxing::{HostFiles as _, RealFiles, permits};

const TOOL_DIRECTORIES: &[&str] = &[
    ".bun",
    ".bundle",
    ".cabal",
    ".cache",
    ".cargo",
    ".conda",
    ".config",
    ".deno",
    ".dotnet",
    ".gem",
    ".gradle",
    ".ipython",
    ".ivy2",
    ".jupyter",
    ".local",
    ".m2",
    ".matplotlib",
    ".npm",
    ".nuget",
    ".pnpm-store",
    ".rustup",
    ".sbt",
    ".stack",
    ".yarn",
    "go",
];

/// What a line says was tried on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The file system is read-only, or the line speaks of creating or writing.
    Write,
    /// A directory was to be made.
    MakeDirectory,
    /// The name was to be removed, replaced or locked, which writes the directory that it is in.
    Replace,
    /// Access was denied; to what end, the line does not say.
    Unclear,
    /// The file is not there.
    Missing,
    /// There is something of that name already.
    Taken,
}

/// The denial that a message about a file stands for. The name that was printed may lead elsewhere.
pub(super) fn violation(permissions: &Permissions, path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    if let Some(masked) = masked_name(permissions, path) {
        return at(permissions, &masked, attempt);
    }
    at(permissions, path, attempt).or_else(|| leads_to(path).and_then(|path| at(permissions, &path, attempt)))
}

/// The path below the name that is denied, where that is a link and this is where it leads: the sandbox denies what is
/// there, and the name is what a grant has to speak of.
fn masked_name(permissions: &Permissions, path: &AbsPath) -> Option<AbsPath> {
    let denied = permissions.files.iter().filter(|rule| rule.access == Access::None);
    denied
        .filter_map(|rule| match &rule.target {
            FileTarget::Path(name) => Some(name),
            FileTarget::Glob(_) => None,
        })
        .find_map(|name| {
            let real = RealFiles.canonical(name);
            if real == *name || !path.starts_with(&real) {
                return None;
            }
            path.components()
                .skip(real.components().count())
                .try_fold(name.clone(), |found, name| found.join(name.to_vec()))
                .ok()
        })
}

/// Where a path leads by the links on its way, if that is another. A link to a directory is what was moved or
/// removed more often than what was written.
fn leads_to(path: &AbsPath) -> Option<AbsPath> {
    let real = |path: &AbsPath| AbsPath::from_path(&path.to_host_path()?.canonicalize().ok()?).ok();
    let (above, real) = path.ancestors().find_map(|above| real(&above).map(|real| (above, real)))?;
    let rest = path.components().skip(above.components().count());
    let found = rest.map(<[u8]>::to_vec).try_fold(real, |found, name| found.join(name)).ok()?;
    let is_directory = found.to_host_path().is_some_and(|found| found.is_dir());
    (found != *path && !is_directory).then_some(found)
}

/// A device of the host that is not among the sandbox's own.
fn missing_device(path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    let is_device = "/dev".parse().is_ok_and(|devices| path.starts_with(&devices));
    let is_there = RealFiles.kind(path) == Some(stockade_sandboxing::Kind::File) && permits(path, Access::Read);
    let reason = String::from("the sandbox has a `/dev` of its own, with the devices that every program needs");
    (attempt == Attempt::Missing && is_device && is_there).then(|| {
        let target = ViolationTarget::Path(path.clone());
        super::violation(Operation::Read, target, DenyingRule::Layer { reason }, None)
    })
}

fn at(permissions: &Permissions, path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    if let Some(device) = missing_device(path, attempt) {
        return Some(device);
    }
    let operation = denied_operation(permissions.access(path), path, attempt)?;
    let wanted = if operation == Operation::Write { Access::Write } else { Access::Read };
    // What this user could not do anyway is not the sandbox's doing.
    let written = if attempt == Attempt::Replace { path.parent()? } else { path.clone() };
    if !permits(&written, wanted) {
        return None;
    }
    let rule = permissions.files.deciding(path);
    let amendment = if rule.is_some_and(|rule| rule.is_hard_denial() || rule.is_bound()) {
        None
    } else {
        least(permissions, path, wanted, attempt).map(PermissionAmendment::File)
    };
    let denied_by = rule.map_or(DenyingRule::NotGranted, |rule| DenyingRule::File(rule.clone()));
    Some(super::violation(operation, ViolationTarget::Path(path.clone()), denied_by, amendment))
}

/// What the policy denied, if it did.
fn denied_operation(granted: Access, path: &AbsPath, attempt: Attempt) -> Option<Operation> {
    match (attempt, granted) {
        // The policy grants it, so the sandbox was not in the way.
        (_, Access::Write) | (Attempt::Missing, Access::Read) => None,
        // A name that must not be made is taken while a command runs, and only then.
        (Attempt::Taken, Access::Read) if RealFiles.kind(path).is_none() => Some(Operation::Write),
        (Attempt::Taken, Access::None | Access::Scratch | Access::Read) => None,
        // A private directory can be written.
        (Attempt::Write | Attempt::MakeDirectory | Attempt::Replace | Attempt::Unclear, Access::Scratch) => None,
        (Attempt::Write | Attempt::MakeDirectory | Attempt::Replace, Access::None | Access::Read) => {
            Some(Operation::Write)
        }
        (Attempt::Unclear, Access::Read) => permits(path, Access::Write).then_some(Operation::Write),
        (Attempt::Unclear, Access::None) => Some(Operation::Read),
        // What the sandbox hides looks missing from inside; what is missing outside too simply is.
        (Attempt::Missing, Access::None | Access::Scratch) => permits(path, Access::Read).then_some(Operation::Read),
    }
}

/// The least rule that would allow it, of those that a person could mean.
fn least(permissions: &Permissions, path: &AbsPath, wanted: Access, attempt: Attempt) -> Option<FileRule> {
    let rule =
        |target: AbsPath| FileRule { target: FileTarget::Path(target), access: wanted, source: RuleSource::Approval };
    let nearest = if wanted == Access::Write { to_write(path, attempt) } else { Some(path.clone()) };
    // Where a name is protected inside of that, its own.
    let protected = permissions.files.deciding(path).filter(|rule| rule.source == RuleSource::ProtectedMetadata);
    let protected = protected.and_then(|rule| match &rule.target {
        FileTarget::Path(name) => Some(name.clone()),
        FileTarget::Glob(_) => None,
    });
    nearest.into_iter().chain(protected).map(rule).find(|rule| suffices(permissions, rule, path))
}

/// What has to be writable for this: the file itself, where its name changes or is made the directory that it is
/// in, and where that is to be made too, the first of the directories that are missing. A whole file system is more
/// than anybody means to grant for one file.
fn to_write(path: &AbsPath, attempt: Attempt) -> Option<AbsPath> {
    let exists = |path: &AbsPath| RealFiles.kind(path).is_some();
    let target = match (exists(path), attempt) {
        (true, Attempt::Replace) => path.parent()?,
        (true, _) => path.clone(),
        (false, Attempt::MakeDirectory | Attempt::Taken) => first_missing(path)?,
        (false, _) if is_tool_directory(path) => first_missing(path)?,
        (false, _) => path.parent().filter(exists).or_else(|| first_missing(path))?,
    };
    target.parent().is_some().then_some(target)
}

/// Whether a name is that of a directory which tools make in a home directory, where a message may not say which of
/// the two was to be made.
pub(super) fn is_tool_directory(path: &AbsPath) -> bool {
    path.components().last().is_some_and(|name| TOOL_DIRECTORIES.iter().any(|known| known.as_bytes() == name))
}

/// The outermost name of a path that does not exist.
pub(super) fn first_missing(path: &AbsPath) -> Option<AbsPath> {
    path.ancestors().take_while(|above| RealFiles.kind(above).is_none()).last()
}

/// Whether a rule that is added decides over the path: one for a directory does not, where something below it
/// is protected.
fn suffices(permissions: &Permissions, amendment: &FileRule, path: &AbsPath) -> bool {
    let Ok(files) = FileRules::new([amendment.clone()]) else { return false };
    let more = Permissions { files, ..Permissions::default() };
    permissions.merge(&more).access(path) >= amendment.access
}
