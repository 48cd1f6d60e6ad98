//! The program's arguments, output and exit codes.

use crate::support::{program, run, stockade, text};

#[test]
fn help_and_version_are_printed_and_succeed() {
    let help = text(&run(stockade().arg("--help"), 0).stdout);
    assert!(help.contains("Usage: stockade [OPTIONS] <COMMAND>"), "{help}");
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
        (&[], "Usage: stockade [OPTIONS] <COMMAND>"),
        (&["--otlp", "http://127.0.0.1:4318", "schema"], "cargo install --path cli --features otlp"),
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

#[test]
fn the_doctor_names_each_engine_and_what_it_would_use() {
    let told = text(&run(stockade().arg("doctor"), 0).stdout);
    assert!(told.starts_with("Commands are sandboxed by `native`, which can enforce every policy.\n"), "{told}");
    for part in ["\nhost\n", "\nengine native: works\n", "\nengine bwrap: works\n", "\nengine landlock: works\n"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
    let help = text(&run(stockade().args(["doctor", "--help"]), 0).stdout);
    assert!(help.contains("Exit codes:") && help.contains("--json"), "{help}");
}

#[test]
fn the_doctor_says_the_same_as_json() {
    let json: serde_json::Value =
        serde_json::from_slice(&run(stockade().args(["doctor", "--json"]), 0).stdout).unwrap();
    assert_eq!((&json["chosen"], &json["complete"]), (&"native".into(), &true.into()));
    let engines: Vec<_> = json["engines"].as_array().unwrap().iter().map(|engine| &engine["engine"]).collect();
    assert_eq!(engines, ["native", "bwrap", "landlock"]);
    for engine in json["engines"].as_array().unwrap() {
        for layer in engine["layers"].as_array().unwrap() {
            assert!(["missing", "partial", "full"].contains(&layer["level"].as_str().unwrap()), "{layer}");
            assert!(layer["level"] == "full" || layer["remedy"].is_string(), "{layer}");
        }
    }
}

/// Where user namespaces are switched off, the switch is named with the command that turns it on.
#[test]
fn the_doctor_explains_a_host_without_user_namespaces() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let mut command = program("unshare");
    command.args(["-Ur", "sh", "-c", script, "sh"]).arg(stockade().get_program()).arg("doctor");
    let told = text(&run(&mut command, 1).stdout);
    assert!(told.starts_with("Commands are sandboxed by `landlock`, which refuses policies"), "{told}");
    assert!(told.contains("engine native: does not work here"), "{told}");
    assert!(told.contains("to do: sysctl -w user.max_user_namespaces=65536"), "{told}");
}
