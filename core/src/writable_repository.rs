//! Whether `git` would read the settings of a repository that the session's commands may have made.
//!
//! Such settings name programs to run (`core.fsmonitor`, filters, pagers), so `git status` there is whatever a command
//! wanted it to be. The repository of a workspace is protected from the first command on. One that lies deeper,
//! or that looks like a bare one, a command could have put there before.

use std::path::Path;

use stockade_protocol::{AbsPath, Access, ParsedLine, Word};

use crate::session::{Sandboxing, Session};

/// Words that lead a line elsewhere, where nobody has looked.
const LEADING_ELSEWHERE: &[&[u8]] = &[b"cd", b"pushd", b"popd"];

/// Whether the line runs `git` where that could be so. Without a sandbox there is none to leave.
pub(crate) fn has_writable_repository(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> bool {
    let programs = || line.commands.iter().filter_map(|part| part.words.first().and_then(Word::known));
    let is_git = |name: &[u8]| name == b"git" || name.ends_with(b"/git");
    if session.sandboxing() != Sandboxing::On || !programs().any(|program| is_git(program.as_bytes())) {
        return false;
    }
    programs().any(|program| LEADING_ELSEWHERE.contains(&program.as_bytes())) || is_writable(session, cwd)
}

/// Whether the repository that `git` finds from a directory is one that commands may write, the nearest first.
fn is_writable(session: &Session, cwd: &AbsPath) -> bool {
    let real = cwd.to_host_path().and_then(|cwd| AbsPath::from_path(&cwd.canonicalize().ok()?).ok());
    // What can't be looked at is not known to be harmless.
    let Some(real) = real else { return true };
    let found = real.ancestors().find_map(|directory| {
        let host = directory.to_host_path()?;
        match host.join(".git").symlink_metadata() {
            Ok(_) => directory.join(".git").ok(),
            Err(_) => looks_bare(&host).then_some(directory),
        }
    });
    found.is_some_and(|metadata| session.permissions.access(&metadata) == Access::Write)
}

fn looks_bare(directory: &Path) -> bool {
    directory.join("HEAD").symlink_metadata().is_ok() && directory.join("objects").is_dir()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use stockade_protocol::{Argv, AskForApproval, HostPaths, SandboxPolicy};
    use stockade_shell_command::parse_argv;

    use super::*;

    #[test]
    fn a_repository_that_a_command_could_have_made_is_seen() {
        let world = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = world.path().canonicalize().unwrap();
        for directory in ["ws/.git", "ws/src", "ws/nested/.git/hooks", "ws/nested/src", "ws/bare/objects", "other/.git"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("ws/bare/HEAD"), "").unwrap();
        let path = |name: &str| AbsPath::from_path(&root.join(name)).unwrap();
        let host = HostPaths::without_masks([path("ws")]);
        let policy = SandboxPolicy::workspace_write();
        let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, policy, &host).unwrap();
        let cases: &[(&[&str], &str, bool)] = &[
            (&["git", "status"], "ws", false),
            (&["git", "status"], "ws/src", false),
            (&["git", "status"], "other", false),
            (&["git", "status"], "ws/nested", true),
            (&["/usr/bin/git", "status"], "ws/nested/src", true),
            (&["git", "status"], "ws/bare", true),
            (&["git", "status"], "ws/gone", true),
            (&["bash", "-c", "cd nested && git status"], "ws", true),
            (&["bash", "-c", "ls && git status"], "ws", false),
            (&["ls"], "ws/nested", false),
        ];
        for (words, cwd, wanted) in cases {
            let line = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
            assert_eq!(has_writable_repository(&session, &path(cwd), &line), *wanted, "{words:?} in {cwd}");
        }
        session.sandbox = SandboxPolicy::DangerFullAccess {};
        let line = parse_argv(&Argv::parse(["git", "status"]).unwrap());
        assert!(!has_writable_repository(&session, &path("ws/nested"), &line), "there is no sandbox to leave");
    }
}
