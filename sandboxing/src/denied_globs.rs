//! Additional rules for denied globs, besides their matches.

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Glob, Invalid, RuleSource};

use crate::HostFiles;

/// Adds a denial for each unsearchable directory and for the targets of matching links, and protects the links in
/// between, so that a later run finds the same files.
pub(crate) fn cover_globs(files: FileRules, host: &dyn HostFiles) -> Result<FileRules, Invalid> {
    let denials: Vec<(&FileRule, &Glob)> = files
        .iter()
        .filter_map(|rule| match &rule.target {
            FileTarget::Glob(glob) => Some((rule, glob)),
            FileTarget::Path(_) => None,
        })
        .collect();
    if denials.is_empty() {
        return Ok(files);
    }
    let globs: Vec<&Glob> = denials.iter().map(|(_, glob)| *glob).collect();
    let found = host.matches(&globs)?;
    let source = |number: &usize| denials.get(*number).map_or(RuleSource::Policy, |(rule, _)| rule.source);
    let mut added = Vec::new();
    for (path, number) in &found.closed {
        if let Some(granted) = grants(&files).find(|granted| granted.starts_with(path)) {
            let why = format!("it can't be listed, and `{granted}` is granted; open it with `chmod u+rx {path}`");
            return Err(Invalid::GlobUnsearchable { path: path.as_raw().clone(), why });
        }
        added.push(FileRule::path(path.clone(), Access::None).from_source(source(number)));
    }
    for (path, number) in found.targets.iter().filter(|(path, _)| files.access(path) > Access::None) {
        if grants(&files).any(|granted| granted == path) {
            let why = String::from("a link that matches leads to it, and it is granted; remove the link");
            return Err(Invalid::GlobUnsearchable { path: path.as_raw().clone(), why });
        }
        added.push(FileRule::path(path.clone(), Access::None).from_source(source(number)));
    }
    let can_be_replaced = |link: &&AbsPath| link.parent().is_some_and(|parent| files.access(&parent) == Access::Write);
    let is_denied = |link: &AbsPath| files.access(link) == Access::None;
    for link in found.links.iter().filter(can_be_replaced).filter(|link| !is_denied(link)) {
        added.push(FileRule::path(link.clone(), Access::Read).from_source(RuleSource::ProtectedMetadata));
    }
    FileRules::new(files.iter().cloned().chain(added))
}

fn grants(files: &FileRules) -> impl Iterator<Item = &AbsPath> {
    files.iter().filter(|rule| rule.access > Access::Scratch).filter_map(|rule| match &rule.target {
        FileTarget::Path(path) => Some(path),
        FileTarget::Glob(_) => None,
    })
}
