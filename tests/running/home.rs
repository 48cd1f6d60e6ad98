//! A user with a home, a workspace and a directory outside of it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{program, stockade, text};

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user who runs the tests.
    Own,
    /// `nobody` if that is root; else the same.
    Ordinary,
}

const NOBODY: u32 = 65534;

/// A directory with `home`, `ws`, `outside`, `config` and `state`. Nothing of the host's user is used.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    program: PathBuf,
    user: User,
}

/// How a run ended.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::of(User::Own)
    }

    pub(crate) fn of(user: User) -> Self {
        // Not below `/tmp`, which is private inside.
        let directory = tempfile::Builder::new().prefix("stockade-home").tempdir_in("/var/tmp").unwrap();
        for name in ["", "home", "ws", "outside", "config", "state"] {
            let path = directory.path().join(name);
            fs::create_dir_all(&path).unwrap();
            if user == User::Ordinary && rustix::process::geteuid().is_root() {
                std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        // Where another user can reach it, wherever the repository lies.
        let built = stockade().get_program().to_owned();
        let copy = directory.path().join("stockade");
        if fs::hard_link(&built, &copy).is_err() {
            fs::copy(&built, &copy).unwrap();
        }
        Self { directory, program: copy, user }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    pub(crate) fn exists(&self, below: &str) -> bool {
        self.path(below).exists()
    }

    pub(crate) fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes everything here the user's own.
    pub(crate) fn give_to_user(&self) {
        if self.user == User::Ordinary && rustix::process::geteuid().is_root() {
            // Not the program, which is another name of the one that was built.
            for name in ["home", "ws", "outside", "config", "state"] {
                crate::support::run(program("chown").args(["-hR", "65534:65534"]).arg(self.path(name)), 0);
            }
        }
    }

    /// The program, started in the workspace by a user without a terminal, so that no question is asked.
    pub(crate) fn stockade(&self, arguments: &[&str]) -> Command {
        // Whatever the shell ignores that runs the tests.
        let mut command = program("env");
        command.args(["--default-signal", "setsid", "--wait"]).args(self.words()).args(arguments);
        self.surround(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// The program itself, with nothing in between, so that a signal reaches it.
    pub(crate) fn program(&self) -> Command {
        let mut command = program(&self.program);
        self.surround(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// The words that start the program as this user.
    pub(crate) fn words(&self) -> Vec<PathBuf> {
        let mut words = self.as_user();
        words.push(self.program.clone());
        words
    }

    /// The words that start anything as this user.
    fn as_user(&self) -> Vec<PathBuf> {
        let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let is_other = self.user == User::Ordinary && rustix::process::geteuid().is_root();
        if is_other { nobody.map(PathBuf::from).to_vec() } else { Vec::new() }
    }

    /// Another program, started by this user.
    pub(crate) fn other(&self, name: &str) -> Command {
        let mut command = program("env");
        command.args(self.as_user()).arg(name);
        self.surround(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// The directory and the environment.
    pub(crate) fn surround(&self, command: &mut Command) {
        command.current_dir(self.path("ws")).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TERM", "xterm").env("LANG", "C.UTF-8");
        command.env("HOME", self.path("home"));
        command.env("XDG_CONFIG_HOME", self.path("config")).env("XDG_STATE_HOME", self.path("state"));
    }

    /// Runs the program with these arguments, which has to end with this exit code.
    pub(crate) fn says(&self, arguments: &[&str], exit_code: i32) -> Said {
        said(&mut self.stockade(arguments), exit_code)
    }

    /// `stockade run` with some options and a shell line.
    pub(crate) fn runs(&self, options: &[&str], line: &str, exit_code: i32) -> Said {
        self.says(&[&["run"], options, &["--", "sh", "-c", line]].concat(), exit_code)
    }

    /// The same, started in another directory.
    pub(crate) fn runs_in(&self, directory: &Path, options: &[&str], line: &str, exit_code: i32) -> Said {
        self.says_in(directory, &[&["run"], options, &["--", "sh", "-c", line]].concat(), exit_code)
    }

    /// The program with these arguments, started in another directory.
    pub(crate) fn says_in(&self, directory: &Path, arguments: &[&str], exit_code: i32) -> Said {
        said(self.stockade(arguments).current_dir(directory), exit_code)
    }
}

pub(crate) fn said(command: &mut Command, exit_code: i32) -> Said {
    let output = crate::support::run(command, exit_code);
    Said { stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Runs a command that is fed with this.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}
