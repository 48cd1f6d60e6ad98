//! More callers of programs that run elsewhere or are refused: other shells and compiled programs. And many starts at
//! once: none is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use super::elsewhere::{World, worlds};
use super::home::User;
use crate::support::{program, run};

const RULES: &str = "prefix_rule([\"note\"], profile = \"notes\")\n\
    prefix_rule([\"rm\"], decision = \"forbidden\", justification = \"use trash\")\n\
    prefix_rule([\"touch\", \"asked\"], decision = \"prompt\")\n";

const GO: &str = r#"package main

import ("fmt"; "os"; "os/exec")

func main() {
	code := func(words ...string) int {
		err := exec.Command(words[0], words[1:]...).Run()
		if exit, ok := err.(*exec.ExitError); ok { return exit.ExitCode() }
		if err != nil { return -1 }
		return 0
	}
	fmt.Println(code("note", "3", "go"), code("rm", "keep"), code("touch", "asked"), code("touch", "plain"))
	if _, err := os.Stat("keep"); err != nil { os.Exit(9) }
}
"#;

const RUST: &str = r#"use std::process::Command;
fn main() {
    let code = |words: &[&str]| Command::new(words[0]).args(&words[1..]).status().map_or(-1, |end| end.code().unwrap_or(-2));
    let codes = [code(&["note", "3", "cargo"]), code(&["rm", "keep"]), code(&["touch", "asked"]), code(&["touch", "plain"])];
    println!("{codes:?}");
    assert!(std::path::Path::new("keep").exists());
}
"#;

/// A shell's own line: the codes of a program with a profile, of one that is forbidden, of one that nobody answers for, and
/// of one without a rule.
fn line(name: &str) -> String {
    // By their paths: a busybox that stands alone has programs of these names in itself, and starts none.
    let [rm, touch] = ["/bin/rm", "/bin/touch"];
    format!("note 3 {name}; a=$?; {rm} keep; b=$?; {touch} asked; c=$?; {touch} plain; echo $a $b $c $?; test -e keep")
}

fn world(user: User, engine: &'static str) -> World {
    let world = World::new(user, engine, RULES);
    world.home.write("ws/keep", "");
    world.home.give_to_user();
    world
}

fn is_as_decided(world: &World, words: &[&str], name: &str, codes: &str) {
    let output = world.command(&[], words).output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && stdout.contains(codes), "{name} {}: {stdout}{stderr}", world.engine);
    assert_eq!(world.notes(), [format!("3 {name}")], "{name} {}: {stderr}", world.engine);
    assert!(stderr.contains("use trash"), "{name} {}: {stderr}", world.engine);
    assert!(world.home.exists("ws/keep") && !world.home.exists("ws/asked"), "{name}");
}

#[test]
fn other_shells_and_compiled_programs() {
    let all = [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")];
    for (number, (user, engine)) in all.into_iter().enumerate() {
        let world = world(user, engine);
        // In files: what a line shows is decided on before it runs.
        for (name, words) in [("zsh", "zsh -f"), ("busybox", "busybox sh")] {
            world.home.write("ws/by-shell", &line(name));
            world.home.write("ws/outer", &format!("{words} by-shell\n"));
            is_as_decided(&world, &["bash", "outer"], name, "3 126 126 0");
        }
        let jobs = "'note 3 parallel; echo got $?' 'rm keep; echo got $?' 'touch asked; echo got $?'";
        let line = format!("parallel -k --will-cite ::: {jobs}");
        is_as_decided(&world, &["bash", "-c", &line], "parallel", "got 3\ngot 126\ngot 126");
        for (name, source, file) in [("go", GO, "go.go"), ("cargo", RUST, "p/src/main.rs")] {
            world.home.write(file, source);
            let built = world.home.path(&format!("bin/by-{name}"));
            match name {
                "go" => {
                    let mut build = program("go");
                    build
                        .env("GOCACHE", world.home.path("cache"))
                        .env("GOFLAGS", "-mod=mod")
                        .env("GOTOOLCHAIN", "local");
                    run(build.args(["build", "-o"]).arg(&built).arg(world.home.path(file)), 0);
                    is_as_decided(&world, &[built.to_str().unwrap()], name, "3 -1 -1 0");
                }
                // Once: the compiler is slow, and needs a home.
                _ if number == 0 => {
                    world.home.write(
                        "ws/p/Cargo.toml",
                        "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
                    );
                    world.home.write("ws/p/src/main.rs", source);
                    let tools = std::path::Path::new(env!("CARGO")).parent().unwrap().display();
                    let line = format!("PATH={tools}:$PATH cargo run -q --offline --manifest-path p/Cargo.toml\n");
                    world.home.write("ws/outer", &line);
                    is_as_decided(&world, &["bash", "outer"], name, "[3, -1, -1, 0]");
                }
                _ => {}
            }
        }
    }
}

/// As many starts as two processors make: each ends with its own code, and each that has more is on record.
#[test]
fn none_of_many_starts_is_lost() {
    const STARTS: &str = "#!/bin/sh\nexit $1\n";
    for engine in ["native", "bwrap"] {
        let world = World::new(
            User::Own,
            engine,
            "prefix_rule([\"quick\"], profile = \"notes\")\nprefix_rule([\"rm\"], decision = \"forbidden\")\n",
        );
        world.home.write("bin/quick", STARTS);
        fs::set_permissions(world.home.path("bin/quick"), fs::Permissions::from_mode(0o755)).unwrap();
        let line = "one() { end=$(( $(date +%s) + SECONDS_EACH )); n=0; while [ $(date +%s) -lt $end ]; do quick $((n % 7)); [ $? = $((n % 7)) ] || exit 11; /bin/true || exit 12; \
            rm x 2>/dev/null && exit 13; n=$((n+1)); done; echo $n; }; one & a=$!; one & b=$!; one & c=$!; one & d=$!; for p in $a $b $c $d; do wait $p || exit $?; done";
        let seconds = std::env::var("STOCKADE_STARTS_SECONDS").unwrap_or_else(|_| String::from("2"));
        let from = Instant::now();
        world.home.write("ws/many", &line.replace("SECONDS_EACH", &seconds));
        let said = world.runs(&[], "bash many", 0);
        let counted: u64 = said.stdout.lines().map(|count| count.parse::<u64>().unwrap()).sum();
        println!("{engine}: {counted} programs elsewhere, three times as many starts, in {:?}", from.elapsed());
        assert!(counted > 0 && !said.stderr.contains("could not be given"), "{engine}: {}", said.stderr);
        let listed = world.home.says(&["audit", "list", "--json"], 0).stdout;
        let first: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let shown = world.home.says(&["audit", "show", first["request_id"].as_str().unwrap()], 0).stdout;
        let recorded = shown.matches("gives it the profile `notes`").count() as u64;
        assert_eq!(recorded, counted, "{engine}");
    }
}

/// A caller that is killed while its start waits for an answer leaves nothing: the run ends, and so does the question.
#[test]
fn a_caller_that_is_killed_while_it_waits_leaves_nothing() {
    for world in worlds("prefix_rule([\"note\"], decision = \"prompt\", profile = \"notes\")\n") {
        world.home.write("ws/hidden", "exec note 0 late\n");
        world.home.give_to_user();
        let from = Instant::now();
        let line = "sh hidden & p=$!; sleep 3; kill -KILL $p; wait $p; echo killed:$?\n";
        world.home.write("ws/outer", line);
        let mut screen = super::elsewhere_terminal::start(&world, &["--ask", "on-request"], &["bash", "outer"]);
        screen.sees("may this");
        let (code, shown) = screen.ends();
        assert!(code == 0 && shown.contains("killed:137"), "{shown}");
        assert!(from.elapsed() < Duration::from_secs(60) && world.notes().is_empty(), "{shown}");
    }
}
