//! The program's arguments, output and exit codes.

use crate::support::{run, stockade, text};

#[test]
fn help_and_version_are_printed_and_succeed() {
    let help = text(&run(stockade().arg("--help"), 0).stdout);
    assert!(help.contains("Usage: stockade <COMMAND>"), "{help}");
    let help = text(&run(stockade().args(["schema", "--help"]), 0).stdout);
    assert!(help.contains("Examples:") && help.contains("stockade schema --out schemas"), "{help}");
    let version = text(&run(stockade().arg("--version"), 0).stdout);
    assert_eq!(version, format!("stockade {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments_exit_with_125_and_say_what_to_do() {
    for (arguments, words) in [
        (&["shema"][..], "a similar subcommand exists: 'schema'"),
        (&["schema", "--messge", "x"], "a similar argument exists: '--message'"),
        (&["schema", "--check"], "--out <DIR>"),
        (&[], "Usage: stockade <COMMAND>"),
    ] {
        let output = run(stockade().args(arguments), 125);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named_with_the_cause() {
    let stderr = text(&run(stockade().args(["schema", "--out", "/proc/version/x"]), 125).stderr);
    assert!(stderr.starts_with("stockade: could not write `/proc/version/x`: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn nothing_is_coloured_unless_it_goes_to_a_terminal() {
    let stderr = text(&run(stockade().arg("shema"), 125).stderr);
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
}
