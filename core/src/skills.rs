//! Scripts of skills: programs below directories that a permission profile declares as skills.
//!
//! They are asked about as what they are, where the policy asks, since they come from elsewhere and are started by an agent's
//! choice. A rule that allows one answers the question. A program that commands can write is no skill's: it may
//! be any command's own work.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Access, Decision, FileRules, Word};

use crate::session::Session;
use crate::verdict::Verdict;
use crate::writable_program::program_file;

/// The real path of a program, if it is a skill's script. `files` are the rules for commands.
pub(crate) fn skill_script(session: &Session, files: &FileRules, program: &Path) -> Option<AbsPath> {
    if session.skills.is_empty() {
        return None;
    }
    let real = fs::canonicalize(program).ok()?;
    let roots = session.skills.iter().filter_map(AbsPath::to_host_path);
    let is_below = |root: PathBuf| real.starts_with(fs::canonicalize(&root).unwrap_or(root));
    let path = AbsPath::from_path(&real).ok().filter(|_| roots.into_iter().any(is_below))?;
    (files.access(&path) != Access::Write).then_some(path)
}

/// The skills' scripts among the programs of a line, without those that a rule allows.
pub(crate) fn skill_scripts(session: &Session, cwd: &AbsPath, verdict: &Verdict) -> Vec<AbsPath> {
    if session.skills.is_empty() {
        return Vec::new();
    }
    let parts = verdict.evaluation.commands.iter().zip(&verdict.parsed.commands);
    let open = parts.filter(|(judged, _)| judged.decision != Decision::Allow || judged.fallback.is_some());
    let programs = open.filter_map(|(_, part)| part.words.first().and_then(Word::known)?.to_os_string());
    let files = programs.filter_map(|program| program_file(session, cwd, &program));
    files.filter_map(|file| skill_script(session, &session.permissions.files, &file)).collect()
}

/// What a script is called in a question and a refusal.
pub(crate) fn named(script: &AbsPath) -> String {
    format!("skill script `{script}`")
}
