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

const COMMANDS: [&str; 18] = [
    "run",
    "explain",
    "patch",
    "serve",
    "exec-server",
    "mcp",
    "session",
    "install",
    "import",
    "hook",
    "profile",
    "audit",
    "doctor",
    "execpolicy",
    "schema",
    "trust",
    "completions",
    "man",
];

#[test]
fn completions_and_the_manual_name_every_command() {
    let help = text(&run(stockade().arg("--help"), 0).stdout);
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert_eq!(listed.len(), COMMANDS.len(), "{listed:?}");
    let manual = text(&run(stockade().arg("man"), 0).stdout);
    assert!(manual.contains(".TH stockade 1"), "{manual}");
    for name in COMMANDS {
        assert!(listed.contains(&name), "{name} is not in {listed:?}");
        let page = format!("stockade\\-{}(1)", name.replace('-', "\\-"));
        assert!(manual.contains(&page), "{name}: {manual}");
    }
    for (shell, words) in [
        ("bash", "complete -F _stockade"),
        ("zsh", "#compdef stockade"),
        ("fish", "complete -c stockade"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = text(&run(stockade().args(["completions", shell]), 0).stdout);
        assert!(script.contains(words), "{shell}: {script}");
        for name in COMMANDS {
            assert!(script.contains(name), "{shell}: {name}");
        }
        assert!(script.contains("deny-read"), "{shell}");
    }
    // A shell that reads the script has nothing to say about it.
    let mut bash = program("bash");
    bash.args(["-c", "source <(\"$1\" completions bash) && complete -p stockade", "bash"]);
    let told = text(&run(bash.arg(stockade().get_program()), 0).stdout);
    assert!(told.contains("_stockade"), "{told}");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let directory = tempfile::tempdir().unwrap();
    run(stockade().args(["man", "--out"]).arg(directory.path().join("man1")), 0);
    let page = |name: &str| std::fs::read_to_string(directory.path().join("man1").join(name)).unwrap();
    for name in COMMANDS {
        let page = page(&format!("stockade-{name}.1"));
        let title = format!("stockade\\-{}", name.replace('-', "\\-"));
        assert!(page.contains(&title) && page.contains(".SH OPTIONS"), "{page}");
    }
    for name in
        ["stockade-audit-list.1", "stockade-audit-show.1", "stockade-audit-verify.1", "stockade-execpolicy-check.1"]
    {
        assert!(page(name).contains("Examples:"), "{name}");
    }
    assert!(page("stockade-run.1").contains("Exit codes:"));
    assert!(page("stockade.1").contains("stockade\\-run(1)"));
}

#[test]
fn every_command_has_examples_in_its_help() {
    let pages = COMMANDS.iter().map(|name| vec![*name]).chain([
        vec!["audit", "list"],
        vec!["audit", "show"],
        vec!["audit", "verify"],
        vec!["execpolicy", "check"],
    ]);
    for words in pages.filter(|words| *words != ["audit"] && *words != ["execpolicy"] && *words != ["session"]) {
        let help = text(&run(stockade().args(&words).arg("--help"), 0).stdout);
        assert!(help.contains("Examples:"), "{words:?}: {help}");
        let mention = format!("stockade {}", words.join(" "));
        assert!(help.matches(&mention).count() >= 2, "{words:?}: {help}");
    }
}
