//! Which file a command's first word means.
//!
//! Windows would look in this program's directory, the working directory and the system's before it
//! looks along the search path, and try names that were not written. Here a bare name is looked up along the
//! `PATH` of the command's own environment and nowhere else, and the file's whole path is handed over.

use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{CommandSpec, HostFiles, Kind, Unenforceable};

/// What is tried for a name without an ending, in this order.
const ENDINGS: &[&str] = &[".com", ".exe", ".bat", ".cmd"];

/// A program, and how it takes its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// An ordinary one. Nothing if none was found.
    Executable(Vec<AbsPath>),
    /// The system's command interpreter.
    Interpreter(AbsPath),
    /// A file that the command interpreter runs.
    Batch(String),
}

impl Program {
    /// Looks for the file.
    pub(crate) fn find(
        command: &CommandSpec,
        interpreter: &AbsPath,
        files: &dyn HostFiles,
    ) -> Result<Self, Unenforceable> {
        let found = candidates(command)?.into_iter().find(|path| files.kind(path).is_some_and(is_file));
        let Some(path) = found else { return Ok(Self::Executable(Vec::new())) };
        Ok(match () {
            () if has_ending(&path, &[".bat", ".cmd"]) => {
                Self::Batch(path.as_raw().as_str().unwrap_or_default().to_owned())
            }
            () if path.starts_with(interpreter) || is_interpreter(&path) => Self::Interpreter(path),
            () => Self::Executable(vec![path]),
        })
    }
}

/// A link to a program is a program as well.
fn is_file(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Symlink)
}

fn name(path: &AbsPath) -> String {
    let name = path.components().last().unwrap_or_default();
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

fn has_ending(path: &AbsPath, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name(path).ends_with(ending))
}

/// Wherever it lies: a copy speaks the same language.
fn is_interpreter(path: &AbsPath) -> bool {
    name(path) == "cmd.exe"
}

/// The files that a command's first word may mean, the first that exists being meant.
fn candidates(command: &CommandSpec) -> Result<Vec<AbsPath>, Unenforceable> {
    let program = command.argv.program();
    let refuse = |why: &str| Unenforceable {
        what: format!("the program `{program}`"),
        why: why.to_owned(),
        remedy: String::from("give its whole path, or its bare name"),
    };
    let word = program.as_str().ok_or_else(|| refuse("its name is not Unicode text"))?;
    let bases: Vec<AbsPath> = if !word.contains(['/', '\\', ':']) {
        let directories = search_path(command);
        directories.iter().filter_map(|directory| directory.join(word).ok()).collect()
    } else if let Ok(path) = AbsPath::parse(word) {
        vec![path]
    } else {
        vec![command.cwd.join(word.trim_start_matches(r".\")).map_err(|error| refuse(&error.to_string()))?]
    };
    Ok(bases.iter().flat_map(with_endings).collect())
}

fn with_endings(base: &AbsPath) -> Vec<AbsPath> {
    let has_one = has_ending(base, ENDINGS);
    let text = base.as_raw().as_str().unwrap_or_default();
    let endings = ENDINGS.iter().filter_map(|ending| AbsPath::parse(format!("{text}{ending}")).ok());
    if has_one { vec![base.clone()] } else { endings.collect() }
}

/// The absolute directories in the command's own search path.
fn search_path(command: &CommandSpec) -> Vec<AbsPath> {
    let is_path = |name: &RawText| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("PATH"));
    let value = command.environment.iter().find(|(name, _)| is_path(name)).and_then(|(_, value)| value.as_str());
    let entries = value.unwrap_or_default().split(';').map(|entry| entry.trim_matches('"'));
    entries.filter_map(|entry| AbsPath::parse(entry).ok()).collect()
}

#[cfg(test)]
mod tests {
    use stockade_protocol::Argv;
    use stockade_sandboxing::FakeHost;

    use super::*;

    fn find(word: &str) -> Program {
        let host = FakeHost::new(&[
            r"C:\Windows\System32\cmd.exe",
            r"C:\bin\git.exe",
            r"C:\bin\npm.cmd",
            r"C:\w\git.exe",
            r"C:\w\tool.exe",
            r"C:\w\copy\CMD.EXE",
            r"C:\bin\git.bat",
        ]);
        let command = CommandSpec {
            argv: Argv::parse([word]).unwrap(),
            cwd: r"C:\w".parse().unwrap(),
            environment: [("Path".into(), r#"relative;;"C:\bin";C:\Windows\System32"#.into())].into(),
            process: Default::default(),
        };
        Program::find(&command, &r"C:\Windows\System32\cmd.exe".parse().unwrap(), &host).unwrap()
    }

    #[test]
    fn a_bare_name_is_looked_up_along_the_commands_own_path() {
        let executable = |path: &str| Program::Executable(vec![path.parse().unwrap()]);
        assert_eq!(find("git"), executable(r"C:\bin\git.exe"), "never the working directory");
        assert_eq!(find("tool"), Program::Executable(Vec::new()));
        assert_eq!(find(r".\tool"), executable(r"C:\w\tool.exe"));
        assert_eq!(find(r"C:\w\tool.exe"), executable(r"C:\w\tool.exe"));
    }

    #[test]
    fn what_the_interpreter_reads_is_known() {
        let interpreter = |path: &str| Program::Interpreter(path.parse().unwrap());
        assert_eq!(find("npm"), Program::Batch(String::from(r"C:\bin\npm.cmd")));
        assert_eq!(find("GIT.BAT"), Program::Batch(String::from(r"C:\bin\GIT.BAT")));
        assert_eq!(find("cmd"), interpreter(r"C:\Windows\System32\cmd.exe"));
        assert_eq!(find(r"copy\cmd.exe"), interpreter(r"C:\w\copy\cmd.exe"));
    }
}
