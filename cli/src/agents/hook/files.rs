//! Files that an agent reads, searches or writes itself, judged by its commands' policy.

use std::path::{Component, Path, PathBuf};

use stockade::Stockade;
use stockade_protocol::{
    AbsPath, Access, ExecApprovalRequirement, FileChange, FileRule, FileTarget, PatchRequest, RawText, RuleSource,
};
use stockade_sandboxing::{HostFiles as _, RealFiles, absolute};

use super::answer::Answer;
use super::call::Call;
use super::javascript;
use super::judge::{listed, policy};
use super::pattern::{Reach, SearchPattern};
use crate::exit::with_causes;
use crate::report;

/// The files that a path may denote: agents treat `~` as the home directory, or as a name, and some tools trim the path.
fn meant(call: &Call, path: &Path) -> Result<Vec<AbsPath>, String> {
    let cwd = AbsPath::from_path(&call.cwd).map_err(|error| error.to_string())?;
    let mut meant = Vec::new();
    for path in readings(path)? {
        if let Ok(below) = path.strip_prefix("~") {
            let home = std::env::home_dir().filter(|home| home.is_absolute());
            let home = home.ok_or_else(|| String::from("`HOME` names no directory, so that `~` means nothing"))?;
            meant.extend(both_ways(&cwd, &home.join(below))?);
        }
        meant.extend(both_ways(&cwd, &path)?);
    }
    Ok(meant)
}

/// A path as the kernel reads `..`, and as a program does that takes it for the name before it: they differ behind a link.
fn both_ways(cwd: &AbsPath, path: &Path) -> Result<Vec<AbsPath>, String> {
    let by_kernel = absolute(cwd, path).map_err(|error| error.to_string())?;
    let mut by_text = PathBuf::new();
    for part in cwd.to_host_path().unwrap_or_default().join(path).components() {
        if part == Component::ParentDir {
            by_text.pop();
        } else {
            by_text.push(part);
        }
    }
    let by_text = AbsPath::from_path(&by_text).map_err(|error| error.to_string())?;
    Ok(if by_text == by_kernel { vec![by_kernel] } else { vec![by_kernel, by_text] })
}

/// The path, and the path as an agent may read it ([`javascript::readings`]).
fn readings(path: &Path) -> Result<Vec<PathBuf>, String> {
    // From a JSON text.
    let text = path.to_str().ok_or("the path is not UTF-8")?;
    Ok(javascript::readings(text).into_iter().map(PathBuf::from).collect())
}

/// Files that the agent writes, judged as a patch of them.
pub(super) fn writing(call: &Call, paths: &[PathBuf]) -> Result<Answer, String> {
    let stockade = policy(call)?;
    let mut changes = Vec::new();
    for path in paths {
        let added = |path| FileChange::Add { path, content: RawText::default() };
        changes.extend(meant(call, path)?.into_iter().map(added));
    }
    let request = PatchRequest {
        id: stockade.next_id().map_err(|error| with_causes(&error))?,
        thread_id: stockade.id(),
        changes,
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    };
    let explanation = stockade.orchestrator().explain_writing(&request).map_err(|error| with_causes(&error))?;
    let remedy = explanation.outside.first().map(|path| granting(&stockade, path)).unwrap_or_default();
    Ok(match explanation.requirement {
        ExecApprovalRequirement::Skip { .. } => {
            Answer::Allow { reason: String::from("may be written by the policy"), line: None }
        }
        ExecApprovalRequirement::NeedsApproval { reason, .. } => {
            let reason = reason.unwrap_or_else(|| String::from("the policy asks before files are written"));
            Answer::Ask { reason: format!("Stockade asks: {reason}{remedy}"), line: None }
        }
        ExecApprovalRequirement::Forbidden { reason } => {
            Answer::Deny { reason: format!("Stockade refuses it: {reason}") }
        }
    })
}

/// The setting that would let the agent write a path without a question. A protected name of a workspace has to be
/// named itself.
fn granting(stockade: &Stockade, path: &AbsPath) -> String {
    let rule = stockade.orchestrator().explain_path(path).ok().and_then(|explanation| explanation.rule);
    let (root, why) = match rule {
        Some(FileRule { target: FileTarget::Path(name), source: RuleSource::ProtectedMetadata, .. }) => {
            (Some(name), "a command that writes there can take over later runs; ")
        }
        // Only existing paths can be granted.
        Some(_) | None => (path.ancestors().find(|path| RealFiles.kind(path).is_some()), ""),
    };
    let Some(root) = root else { return String::new() };
    let made = if RealFiles.kind(&root).is_none() { format!("after `mkdir -p {root}`, ") } else { String::new() };
    format!("; {why}{made}{}", listed("writable_roots", &root.to_string()))
}

/// Refuses files that commands may not read. There is no answer for others.
pub(super) fn reading(call: &Call, path: &Path) -> Result<Answer, String> {
    let stockade = policy(call)?;
    for path in meant(call, path)? {
        if let Some(refused) = refused(&stockade, &path)? {
            return Ok(refused);
        }
    }
    Ok(Answer::NoOpinion)
}

fn refused(stockade: &Stockade, path: &AbsPath) -> Result<Option<Answer>, String> {
    // Links below `/proc` lead anywhere, for the agent, too: a root is a root.
    let path = RealFiles.canonical(path);
    let refuse = |why: &str| Some(Answer::Deny { reason: format!("Stockade refuses to have `{path}` read: {why}") });
    if path.components().next() == Some(b"proc") {
        return Ok(refuse("`/proc` tells of the agent's own processes there; a command sees those of its sandbox"));
    }
    let explanation = stockade.orchestrator().explain_path(&path).map_err(|error| error.to_string())?;
    if explanation.access != Access::None {
        return Ok(None);
    }
    Ok(refuse(&explanation.rule.as_ref().map_or_else(|| String::from("no rule grants it"), report::file_rule)))
}

/// A search is refused if it names files that commands may not read, and asked about if it may encounter them.
pub(super) fn searching(call: &Call, below: Option<&Path>, patterns: &[String]) -> Result<Answer, String> {
    let stockade = policy(call)?;
    let unreadable = stockade.orchestrator().unreadable().map_err(|error| error.to_string())?;
    let below = readings(below.unwrap_or_else(|| Path::new(".")))?;
    let mut passed = None;
    let patterns: Vec<String> = patterns.iter().flat_map(|pattern| javascript::readings(pattern)).collect();
    for pattern in &patterns {
        for pattern in SearchPattern::read(pattern).map_err(|error| error.to_string())? {
            // Absolute patterns and those of the home directory don't depend on the start.
            let mut starts = if pattern.fixed.starts_with("~") { meant(call, &pattern.fixed)? } else { Vec::new() };
            for below in &below {
                starts.extend(meant(call, &below.join(&pattern.fixed))?);
            }
            for start in starts {
                if let Some(refused) = refused(&stockade, &start)? {
                    return Ok(refused);
                }
                let start = RealFiles.canonical(&start);
                let found = unreadable.iter().find(|rule| comes_by(&pattern, &start, rule));
                passed = passed.or_else(|| found.cloned());
            }
        }
    }
    let Some(rule) = passed else { return Ok(Answer::NoOpinion) };
    let why = format!("the search comes by what commands may not read: {}", report::file_rule(&rule));
    let remedy = "search below another directory, or for other names";
    Ok(if rule.is_hard_denial() {
        Answer::Deny { reason: format!("Stockade refuses it: {why}; {remedy}") }
    } else {
        Answer::Ask { reason: format!("Stockade asks: {why}; {remedy}"), line: None }
    })
}

/// Whether a search from this directory may encounter a path that a rule denies, if it exists. Glob rules count only
/// for searches that name files: every directory might contain such a file.
fn comes_by(pattern: &SearchPattern, start: &AbsPath, rule: &FileRule) -> bool {
    let (target, at) = match &rule.target {
        FileTarget::Path(path) if RealFiles.kind(path).is_some() => (path.to_string(), Reach::OrBelow),
        FileTarget::Glob(glob) if pattern.is_specific() => (glob.to_string(), Reach::Exactly),
        FileTarget::Path(_) | FileTarget::Glob(_) => return false,
    };
    let (from, start) = (target.split('/').filter(|name| !name.is_empty()), start.to_string());
    let mut names = from.peekable();
    for own in start.split('/').filter(|name| !name.is_empty()) {
        match names.peek() {
            // Ancestors of the start have been judged with it.
            None => return false,
            Some(name) if *name == own => drop(names.next()),
            // The pattern decides from here on.
            Some(name) if name.contains(['*', '?', '[']) => break,
            Some(_) => return false,
        }
    }
    names.peek().is_some() && pattern.may_reach(names, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that a command has made: the kernel and JavaScript read `..` behind it in two ways.
    #[test]
    fn parents_behind_a_link_are_read_in_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let cwd = AbsPath::from_path(&root).unwrap();
        let read = |path: &str| both_ways(&cwd, Path::new(path)).unwrap();
        let at = |path: &str| AbsPath::from_path(&root.join(path)).unwrap();
        assert_eq!(read("link/../.claude"), [at("a/.claude"), at(".claude")]);
        assert_eq!(read("a/../.claude"), [at(".claude")]);
    }
}
