//! Running programs and finding files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The top of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A program, where the clippy rule against starting processes does not apply.
#[expect(clippy::disallowed_methods, reason = "the test harness is one of the places that start processes")]
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    Command::new(path)
}

/// The `stockade` program of this build.
pub(crate) fn stockade() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    program(BUILT.get_or_init(build))
}

/// `cargo test` builds only the programs of the tested package, so this one is built here. On a machine without a compiler
/// `STOCKADE_PROGRAM` names it.
fn build() -> PathBuf {
    if let Some(named) = std::env::var_os("STOCKADE_PROGRAM") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/integration-… -> target/debug
    let directory = test.parent().and_then(Path::parent).unwrap();
    let profile = if directory.ends_with("release") { "release" } else { "dev" };
    let built = program(env!("CARGO"))
        .args(["build", "--quiet", "--package", "stockade-cli", "--profile", profile])
        .arg("--target-dir")
        .arg(directory.parent().unwrap())
        .current_dir(repository())
        .status()
        .unwrap();
    assert!(built.success(), "the `stockade` program does not build");
    directory.join(format!("stockade{}", std::env::consts::EXE_SUFFIX))
}

/// Runs to the end and panics, with all that was printed, unless the exit code is the expected one.
pub(crate) fn run(command: &mut Command, exit_code: i32) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert_eq!(
        output.status.code(),
        Some(exit_code),
        "{command:?}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// What was printed, as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every golden message: the name of its type, the file, the text.
pub(crate) fn golden_messages() -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for directory in std::fs::read_dir(repository().join("protocol/tests/golden")).unwrap() {
        let directory = directory.unwrap().path();
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        for file in std::fs::read_dir(&directory).unwrap() {
            let file = file.unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            found.push((name.clone(), file, text));
        }
    }
    found.sort();
    assert!(found.len() > 70, "only {} golden messages were found", found.len());
    found
}
