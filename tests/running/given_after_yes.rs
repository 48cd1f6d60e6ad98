//! What a yes gives to a program is what its question said, for the start that it was about; and no name that a caller makes
//! leads to another program.

use super::elsewhere::{World, worlds};
use super::elsewhere_terminal::{start, types};
use super::home::User;
use crate::support::program;

const ASKS: &str = "prefix_rule([\"note\"], decision = \"prompt\", profile = \"notes\", environment = [\"CI\"])\n";

/// A name in the sandbox's private `/tmp` leads to the trusted program there, and to another one on the host.
#[test]
fn a_name_that_means_another_file_outside_starts_nothing_there() {
    for (number, world) in worlds("prefix_rule([\"note\"], outside = True)\n").into_iter().enumerate() {
        let trusted = world.home.path("bin/note").display().to_string();
        let escaped = world.home.path("outside/escaped").display().to_string();
        for directory in ["/tmp", "/dev/shm"] {
            let place = format!("{directory}/stockade-planted-{}-{number}", std::process::id());
            std::fs::create_dir(&place).unwrap();
            let planted = format!("{place}/note");
            std::fs::write(&planted, format!("#!/bin/sh\ntouch {escaped}\n")).unwrap();
            std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            assert!(program(&planted).status().unwrap().success(), "it works without the sandbox");
            assert!(world.home.exists("outside/escaped"));
            std::fs::remove_file(&escaped).unwrap();
            world.runs(&[], &format!("mkdir -p {place}; ln -s {trusted} {planted}; {planted} 0 x; true"), 0);
            std::fs::remove_dir_all(&place).unwrap();
            assert!(!world.home.exists("outside/escaped"), "{directory} {}", world.engine);
            assert!(world.notes().is_empty(), "{directory} {}", world.engine);
        }
        world.runs(&[], "note 0 itself", 0);
        assert_eq!(world.notes(), ["0 itself"], "{}", world.engine);
    }
}

/// `..` in a path is no other program.
#[test]
fn a_path_with_parents_is_judged_as_what_it_leads_to() {
    for world in worlds("") {
        let note = world.home.path("bin/note").display().to_string();
        let rule = format!("prefix_rule([{note:?}], decision = \"forbidden\", justification = \"not this one\")\n");
        world.home.write("config/stockade/rules/mine.rules", &rule);
        world.home.give_to_user();
        let around = world.home.path("bin/../bin/note").display().to_string();
        for path in [&note, &around] {
            let script = format!("import subprocess; subprocess.run([{path:?}, '0', 'x'])");
            let output = world.command(&["--writable", "../outside"], &["python3", "-c", &script]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.contains("not this one") && world.notes().is_empty(), "{path} {}: {told}", world.engine);
        }
    }
}

/// Questions in turn: each is shown to a person who presses a key.
fn questions(world: &World, options: &[&str], line: &str, keys: &[&str]) -> (Vec<String>, String) {
    let mut screen = start(world, options, &["bash", "-c", line]);
    let mut shown = Vec::new();
    for key in keys {
        shown.push(screen.sees("]? ").split_whitespace().collect::<Vec<_>>().join(" "));
        types(&mut screen, key);
        if *key == "n" {
            screen.sees("Why not?");
            types(&mut screen, "\r");
        }
    }
    (shown, screen.ends().1)
}

#[test]
fn a_yes_counts_for_the_directory_and_the_variables_that_it_was_about() {
    let world = World::new(User::Ordinary, "native", ASKS);
    world.home.write("ws/hidden", "CI=good note 0 a\nCI=good note 0 a\nCI=evil note 0 a\ncd sub; CI=good note 0 a\n");
    world.home.write("ws/sub/x", "");
    world.home.give_to_user();
    let (shown, rest) = questions(&world, &["--ask", "on-request"], "sh hidden; true", &["y", "n", "n"]);
    for (question, words) in shown.iter().zip(["`CI=good`", "`CI=evil`", "in a sandbox of its own"]) {
        assert!(question.contains(words), "{words}: {question}");
    }
    assert_eq!(world.notes(), ["0 a", "0 a"], "{rest}");
}

/// The question about the line was about the program in the line's own directory.
#[test]
fn a_yes_for_a_line_is_for_its_own_directory() {
    let world = World::new(User::Ordinary, "native", ASKS);
    world.home.write("ws/hidden", "cd sub; note 0 a\n");
    world.home.write("ws/sub/x", "");
    world.home.give_to_user();
    let line = "sh hidden; note 0 a";
    let (_, rest) = questions(&world, &["--ask", "on-request"], line, &["y", "n"]);
    assert_eq!(world.notes(), ["0 a"], "{rest}");
}

/// What can't be shown is not given.
#[test]
fn words_that_are_not_shown_give_nothing() {
    let world = World::new(User::Ordinary, "native", ASKS);
    let many = |count: usize| format!("import subprocess; subprocess.run(['note', '0'] + ['a'] * {count} + ['TAIL'])");
    world.home.write("ws/few.py", &many(70));
    world.home.write("ws/many.py", &many(600));
    world.home.give_to_user();
    let (shown, rest) = questions(&world, &["--ask", "on-request"], "python3 few.py", &["y"]);
    assert!(shown.concat().contains("TAIL"), "{shown:?}");
    assert_eq!(world.notes().len(), 1, "{rest}");
    let (shown, rest) = questions(&world, &["--ask", "on-request"], "python3 many.py; true", &["y", "y"]);
    // The first yes shows the rest of a long question.
    assert!(shown.concat().contains("its words are too many to be shown in a question"), "{shown:?}");
    assert!(world.notes().is_empty(), "{rest}");
}

/// A script is what its interpreter makes of it.
#[test]
fn an_interpreter_that_commands_write_keeps_a_line_inside() {
    let rules = ["outside = True", "profile = \"notes\""].map(|gift| format!("prefix_rule([\"tool\"], {gift})\n"));
    for world in rules.iter().flat_map(|rules| worlds(rules)) {
        let interpreter = world.home.path("ws/venv/python").display().to_string();
        let outside = world.home.path("outside/made").display().to_string();
        world.home.write("bin/tool", &format!("#!{interpreter}\n"));
        world.home.write("ws/venv/python", &format!("#!/bin/sh\ntouch {outside}\n"));
        for name in ["bin/tool", "ws/venv/python"] {
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(world.home.path(name), executable).unwrap();
        }
        world.home.give_to_user();
        world.command(&["--ask", "never"], &["tool"]).output().unwrap();
        assert!(!world.home.exists("outside/made"), "{}", world.engine);
        assert!(program(world.home.path("bin/tool").to_str().unwrap()).status().unwrap().success());
        assert!(world.home.exists("outside/made"), "it works without the sandbox");
    }
}

/// A link that a command makes is no other program, wherever it makes it.
#[test]
fn links_of_a_commands_own_are_followed() {
    for world in worlds("prefix_rule([\"touch\"], decision = \"forbidden\", justification = \"not this one\")\n") {
        let ws = world.home.path("ws").display().to_string();
        world.home.write(
            "ws/hidden",
            &format!(
                "touch=$(command -v touch); for d in /tmp /dev/shm {ws}; do ln -s $touch $d/zz; $d/zz made; \
             printf '#!%s made\\n' $d/zz > script; chmod +x script; ./script; done; true\n"
            ),
        );
        world.home.give_to_user();
        let told = world.runs(&[], "sh hidden", 0).stderr;
        assert!(!world.home.exists("ws/made") && told.contains("not this one"), "{}: {told}", world.engine);
    }
}
