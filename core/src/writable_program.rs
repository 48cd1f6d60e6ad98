//! Whether a program is in a directory that the session's commands may write.
//!
//! A rule names a program, and may let it leave the sandbox. A command inside could plant a program of that name in
//! the workspace, which `PATH` may search first (`.venv/bin`, `node_modules/.bin`), or change one that a rule names by
//! its path. Such a program stays in the sandbox.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, ParsedLine, RawText, Word};

use crate::places::may_be_planted;
use crate::session::{Sandboxing, Session};
use crate::steering_variable::steering_variable;

/// As much as the kernel looks at for an interpreter, and as often.
const LONGEST_HEAD: usize = 256;
const MOST_INTERPRETERS: usize = 5;

/// Why a program of the line could be another one, or could load writable files because of its variables, as far as that
/// can be determined before it runs. Without a sandbox there is none to leave.
pub(crate) fn why_program_is_steered(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> Option<String> {
    if session.sandboxing() != Sandboxing::On {
        return None;
    }
    let Some(cwd) = cwd.to_host_path() else { return Some(String::from("its directory has no name on this system")) };
    if line.commands.iter().any(|part| !part.assigns.is_empty()) {
        return Some(String::from("the line sets variables"));
    }
    let path = search_path(session);
    if let Some(directory) = writable_path(session, &path) {
        return Some(format!("commands may write `{}`, a directory of `PATH`", shown(&directory)));
    }
    if let Some(name) = steering_variable(session, &cwd) {
        return Some(format!(
            "the variable `{name}` could lead it to what commands or the project wrote: unset it, or name it in `exclude` \
             of `[env]`"
        ));
    }
    let programs = line.commands.iter().filter_map(|part| part.words.first().and_then(Word::known)?.to_os_string());
    let files = programs.filter_map(|program| find(&program, &path, &cwd));
    let planted = files.flat_map(with_interpreters).find(|file| may_be_planted(session, file))?;
    Some(format!("commands may have put `{}` there", shown(&planted)))
}

/// The value of `PATH` for the session's commands.
fn search_path(session: &Session) -> OsString {
    let name = RawText::from("PATH");
    // Each variable is judged by itself, so that the others don't matter.
    let inherited = session.environment.get_key_value(&name).map(|(name, value)| (name.clone(), value.clone()));
    let variables = session.permissions.environment.apply(inherited);
    variables.get(&name).and_then(RawText::to_os_string).unwrap_or_default()
}

/// A program's file and, if that is a script, its interpreters, as the kernel follows them.
fn with_interpreters(file: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![file];
    while let Some(next) = all.last().and_then(|file| interpreter(file)) {
        all.push(next);
        if all.len() > MOST_INTERPRETERS {
            break;
        }
    }
    all
}

/// The interpreter that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    // With room for all of it, it is read by one call.
    let mut head = Vec::with_capacity(LONGEST_HEAD);
    // What is no file could be waited for.
    let file = script.is_file().then(|| fs::File::open(script).ok())??;
    file.take(LONGEST_HEAD as u64).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    RawText::from(word.to_vec()).to_os_string().map(PathBuf::from)
}

/// A path in a message.
fn shown(path: &Path) -> RawText {
    RawText::from(path.to_string_lossy().as_ref())
}

/// The first program of the line that may be planted: it is found in a writable directory or, without a sandbox, below
/// the working directory.
pub(crate) fn planted_program(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> Option<PathBuf> {
    let path = search_path(session);
    let mut programs = line.commands.iter().filter_map(|part| part.words.first().and_then(Word::known)?.to_os_string());
    let Some(host_cwd) = cwd.to_host_path() else { return programs.next().map(PathBuf::from) };
    let moves = |program: &OsString| ["cd", "pushd", "popd"].iter().any(|name| program == name);
    // After `cd` a relative directory of `PATH` is unknown.
    if std::env::split_paths(&path).any(|directory| directory.is_relative())
        && programs.clone().any(|name| moves(&name))
    {
        return programs.find(|program| !moves(program)).map(|program| Path::new(".").join(program));
    }
    let is_planted = |program: &PathBuf| match session.sandboxing() {
        Sandboxing::On => may_be_planted(session, program),
        Sandboxing::Off | Sandboxing::External => {
            let real = fs::canonicalize(program).unwrap_or_default();
            program.starts_with(&host_cwd) || fs::canonicalize(&host_cwd).is_ok_and(|cwd| real.starts_with(cwd))
        }
    };
    programs.filter_map(|program| find(&program, &path, &host_cwd)).flat_map(with_interpreters).find(is_planted)
}

/// The file of a program with the session's variables.
pub(crate) fn program_file(session: &Session, cwd: &AbsPath, program: &OsStr) -> Option<PathBuf> {
    let path = search_path(session);
    find(program, &path, &cwd.to_host_path()?)
}

/// The file that would be started: the first of that name, as a shell and `execvp` search it.
pub(crate) fn find(program: &OsStr, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    let given = Path::new(program);
    if given.components().count() > 1 || given.is_absolute() || program.as_encoded_bytes().contains(&b'/') {
        return Some(cwd.join(given));
    }
    // A relative or empty directory is relative to the working directory.
    std::env::split_paths(path).map(|directory| cwd.join(directory).join(given)).find(|file| file.is_file())
}

/// A relative or writable directory of `PATH`. A program could start a planted one by name, also after a `cd`.
fn writable_path(session: &Session, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).find(|directory| may_be_planted(session, directory))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use stockade_protocol::{Argv, AskForApproval, HostPaths, SandboxPolicy};
    use stockade_shell_command::parse_argv;

    use super::*;

    #[test]
    fn what_a_command_could_have_put_there_is_seen() {
        let world = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = world.path().canonicalize().unwrap();
        let [workspace, system] = ["ws", "system"].map(|name| root.join(name));
        for directory in [workspace.join("bin"), workspace.join("deep/down"), system.clone()] {
            fs::create_dir_all(directory).unwrap();
        }
        for file in ["system/tool", "system/interpreter", "ws/bin/planted", "ws/own"] {
            fs::write(root.join(file), "").unwrap();
        }
        symlink(system.join("interpreter"), workspace.join("bin/linked")).unwrap();
        symlink(workspace.join("own"), system.join("outward")).unwrap();
        symlink(workspace.join("deep/down"), system.join("down")).unwrap();
        fs::write(workspace.join("deep/tool"), "").unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let host = HostPaths::without_masks([text(&workspace).parse().unwrap()]);
        let policy = SandboxPolicy::workspace_write();
        let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, policy, &host).unwrap();
        let is_found = |session: &Session, words: &[&str]| {
            let line = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
            why_program_is_steered(session, &text(&workspace).parse().unwrap(), &line).is_some()
        };
        for (path, words, wanted) in [
            (format!("{}/bin:{}", text(&workspace), text(&system)), &["tool", "x"][..], true),
            (format!("{}/bin:{}", text(&workspace), text(&system)), &["planted"], true),
            (format!("{}/bin:{}", text(&workspace), text(&system)), &["linked"], true),
            (format!("{}/bin:{}", text(&workspace), text(&system)), &["bash", "-c", "tool && planted"], true),
            (format!("bin:{}", text(&system)), &["planted"], true),
            (format!(":{}", text(&system)), &["own"], true),
            (text(&system), &["tool", "x"], false),
            (text(&system), &["bash", "-c", "A=1 tool"], true),
            (format!("{}:.", text(&system)), &["tool"], true),
            (text(&system), &["outward"], true),
            (text(&system), &["planted"], false),
            (text(&system), &["./own"], true),
            (text(&system), &["bin/../own"], true),
        ] {
            session.environment = [(RawText::from("PATH"), RawText::from(path.as_str()))].into();
            assert_eq!(is_found(&session, words), wanted, "{path} {words:?}");
        }
        session.environment =
            [(RawText::from("PATH"), RawText::from(format!("bin:{}", text(&system)).as_str()))].into();
        let cwd = text(&workspace).parse().unwrap();
        for policy in [SandboxPolicy::workspace_write(), SandboxPolicy::DangerFullAccess {}] {
            session.sandbox = policy;
            let planted = |words: &[&str]| {
                planted_program(&session, &cwd, &parse_argv(&Argv::parse(words.iter().copied()).unwrap()))
            };
            assert_eq!(planted(&["planted"]), Some(workspace.join("bin/planted")));
            assert_eq!(planted(&["tool"]), None);
        }
        session.sandbox = SandboxPolicy::workspace_write();
        // Textually this is a file beside the workspace; to the kernel it is inside.
        assert!(is_found(&session, &[&format!("{}/down/../tool", text(&system))]));
    }
}
