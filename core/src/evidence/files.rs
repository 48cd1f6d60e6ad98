//! Files: whether the policy denies the access that a message mentions, and the least amendment.

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

/// What stands against a device that the sandbox lacks.
pub(super) const OWN_DEVICES: &str = "the sandbox has a `/dev` of its own, with the devices that every program needs";

/// The act on a file according to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The file system is read-only, or the line mentions creating or writing.
    Write,
    /// A directory was to be made.
    MakeDirectory,
    /// The name was to be removed, replaced or locked, which writes its directory.
    Replace,
    /// Access was denied; the line does not say which.
    Unclear,
    /// The file is missing.
    Missing,
    /// The name exists already.
    Taken,
}

/// The denial behind a message about a file. The printed name may be a link.
pub(super) fn violation(permissions: &Permissions, path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    if let Some(masked) = masked_name(permissions, path) {
        return at(permissions, &masked, attempt);
    }
    at(permissions, path, attempt).or_else(|| leads_to(path).and_then(|path| at(permissions, &path, attempt)))
}

/// The path under its denied name, if that is a link to this target: the sandbox denies the target, but a grant has to
/// use the name.
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

/// The target of a path with links, if it is another. A link to a directory is more often moved or removed than
/// written.
fn leads_to(path: &AbsPath) -> Option<AbsPath> {
    let real = |path: &AbsPath| AbsPath::from_path(&path.to_host_path()?.canonicalize().ok()?).ok();
    let (above, real) = path.ancestors().find_map(|above| real(&above).map(|real| (above, real)))?;
    let rest = path.components().skip(above.components().count());
    let found = rest.map(<[u8]>::to_vec).try_fold(real, |found, name| found.join(name)).ok()?;
    let is_directory = found.to_host_path().is_some_and(|found| found.is_dir());
    (found != *path && !is_directory).then_some(found)
}

/// A device of the host that the sandbox does not have.
fn missing_device(path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    let is_device = "/dev".parse().is_ok_and(|devices| path.starts_with(&devices));
    let is_there = RealFiles.kind(path) == Some(stockade_sandboxing::Kind::File) && permits(path, Access::Read);
    let reason = String::from(OWN_DEVICES);
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
    // A failure without the sandbox as well is not a denial.
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

/// The operation that the policy denied, if any.
fn denied_operation(granted: Access, path: &AbsPath, attempt: Attempt) -> Option<Operation> {
    match (attempt, granted) {
        // The policy grants it, so the sandbox was not the cause.
        (_, Access::Write) | (Attempt::Missing, Access::Read) => None,
        // A placeholder exists only while a command runs.
        (Attempt::Taken, Access::Read) if RealFiles.kind(path).is_none() => Some(Operation::Write),
        (Attempt::Taken, Access::None | Access::Scratch | Access::Read) => None,
        // A private directory can be written.
        (Attempt::Write | Attempt::MakeDirectory | Attempt::Replace | Attempt::Unclear, Access::Scratch) => None,
        (Attempt::Write | Attempt::MakeDirectory | Attempt::Replace, Access::None | Access::Read) => {
            Some(Operation::Write)
        }
        (Attempt::Unclear, Access::Read) => permits(path, Access::Write).then_some(Operation::Write),
        (Attempt::Unclear, Access::None) => Some(Operation::Read),
        // A hidden file looks missing from inside; one that is missing outside too is not a denial.
        (Attempt::Missing, Access::None | Access::Scratch) => permits(path, Access::Read).then_some(Operation::Read),
    }
}

/// The least sensible rule that would allow it.
fn least(permissions: &Permissions, path: &AbsPath, wanted: Access, attempt: Attempt) -> Option<FileRule> {
    let rule =
        |target: AbsPath| FileRule { target: FileTarget::Path(target), access: wanted, source: RuleSource::Approval };
    let nearest = if wanted == Access::Write { to_write(path, attempt) } else { Some(path.clone()) };
    // For a protected name inside of it, that name.
    let protected = permissions.files.deciding(path).filter(|rule| rule.source == RuleSource::ProtectedMetadata);
    let protected = protected.and_then(|rule| match &rule.target {
        FileTarget::Path(name) => Some(name.clone()),
        FileTarget::Glob(_) => None,
    });
    nearest.into_iter().chain(protected).map(rule).find(|rule| suffices(permissions, rule, path))
}

/// The path that has to be writable: the file itself, its directory if the name is created or changed, and the first
/// missing directory if that is missing too. Never a whole file system, which is too much for one file.
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

/// Whether a name is a directory that tools create in a home directory; a message may not say which of the two was to
/// be created.
pub(super) fn is_tool_directory(path: &AbsPath) -> bool {
    path.components().last().is_some_and(|name| TOOL_DIRECTORIES.iter().any(|known| known.as_bytes() == name))
}

/// The outermost missing component of a path.
pub(super) fn first_missing(path: &AbsPath) -> Option<AbsPath> {
    path.ancestors().take_while(|above| RealFiles.kind(above).is_none()).last()
}

/// Whether an added rule decides for the path: one for a directory does not if something below it is protected.
fn suffices(permissions: &Permissions, amendment: &FileRule, path: &AbsPath) -> bool {
    let Ok(files) = FileRules::new([amendment.clone()]) else { return false };
    let more = Permissions { files, ..Permissions::default() };
    permissions.merge(&more).access(path) >= amendment.access
}
