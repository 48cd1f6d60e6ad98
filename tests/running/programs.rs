//! Rules hold for the programs that a command starts, however it starts them.

use super::home::{Home, User};
use super::terminal::start;

const FORBIDDEN: &str =
    "prefix_rule(pattern=[\"touch\", \"made\"], decision=\"forbidden\", justification=\"use the other tool\")\n";
const PROMPT: &str = "prefix_rule(pattern=[\"touch\", \"made\"], decision=\"prompt\")\n";
const OTHER: &str = "prefix_rule(pattern=[\"shutdown\"], decision=\"forbidden\")\n";

const PYTHON: &str = r#"
import multiprocessing, os, subprocess, sys, threading
words, path = ["touch", "made"], "/usr/bin/touch"
def execute(): os.execv(path, words)
def spawned(): os.waitpid(os.posix_spawn(path, words, dict(os.environ)), 0)
def threaded():
    idle = threading.Event()
    others = [threading.Thread(target=idle.wait) for _ in range(4)]
    [other.start() for other in others]
    try: subprocess.run(words)
    finally: idle.set()
def opened(): os.execve(os.open(path, os.O_RDONLY), words, dict(os.environ))
def in_worker():
    worker = multiprocessing.get_context("fork").Process(target=execute)
    worker.start(); worker.join()
def renamed(): os.execv(path, ["something else", "made"])
def told(): os.execv("/proc/self/fd/%d" % os.open(path, os.O_RDONLY), words)
def searched(): os.execvp("touch", words)
{"run": lambda: subprocess.run(words), "shell": lambda: subprocess.run("touch made", shell=True), "exec": execute,
 "spawn": spawned, "threads": threaded, "fexecve": opened, "worker": in_worker, "renamed": renamed, "told": told,
 "searched": searched, "system": lambda: os.system("touch made")}[sys.argv[1]]()
"#;

const NODE: &str = r#"
const { spawnSync, execSync, spawn } = require("child_process");
const { Worker } = require("worker_threads");
const ways = {
  spawn: () => spawnSync("touch", ["made"]),
  exec: () => { try { execSync("touch made"); } catch {} },
  later: () => spawn("touch", ["made"]).on("error", () => {}),
  worker: () => new Worker('require("child_process").spawnSync("touch", ["made"])', { eval: true }),
};
ways[process.argv[2]]();
"#;

/// Lines that do not show what they start, each with a way to start it.
const WAYS: &[&str] = &[
    "sh ./plain.sh",
    "bash ./plain.sh",
    "./plain.sh",
    "sh ./quoted.sh",
    "sh ./evaluated.sh",
    "make -s",
    "make -s shell",
    "make -s -j4 many",
    "/usr/bin/python3 start.py run",
    "/usr/bin/python3 start.py shell",
    "/usr/bin/python3 start.py exec",
    "/usr/bin/python3 start.py spawn",
    "/usr/bin/python3 start.py threads",
    "/usr/bin/python3 start.py fexecve",
    "/usr/bin/python3 start.py worker",
    "/usr/bin/python3 start.py renamed",
    "/usr/bin/python3 start.py told",
    "/usr/bin/python3 start.py searched",
    "/usr/bin/python3 start.py system",
    "node start.js spawn",
    "node start.js exec",
    "node start.js later",
    "node start.js worker",
    "npm run --silent start",
    "git t",
    "sh ./xargs.sh",
    "sh ./find.sh",
    "sh ./wrapped.sh",
    "sh ./linked.sh",
    "./interpreted",
];

fn home(user: User, rules: &str) -> Home {
    let home = Home::of(user);
    home.write("config/stockade/rules/mine.rules", rules);
    for (name, text) in [
        ("plain.sh", "#!/bin/sh\ntouch made\n"),
        ("quoted.sh", "t=tou; \"${t}ch\" made\n"),
        ("evaluated.sh", "eval \"$(printf 'touch made')\"\n"),
        ("xargs.sh", "echo made | xargs touch\n"),
        ("find.sh", "find . -maxdepth 0 -exec touch made ';'\n"),
        ("wrapped.sh", "env A=1 nice timeout 20 setsid -w touch made\n"),
        ("linked.sh", "ln -sf /usr/bin/touch own && ./own made\n"),
        ("interpreted", "#!/usr/bin/touch made\n"),
        ("start.py", PYTHON),
        ("start.js", NODE),
        ("package.json", "{\"scripts\": {\"start\": \"touch made\"}}\n"),
        (
            "Makefile",
            "all:\n\ttouch made\nshell:\n\ttrue && touch made\nmany: 1 2 3 4 5 6\n1 2 3 4 5 6:\n\ttouch made\n",
        ),
    ] {
        home.write(&format!("ws/{name}"), text);
    }
    home.write("home/.gitconfig", "[alias]\n\tt = !touch made\n");
    for name in ["plain.sh", "interpreted"] {
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.path(&format!("ws/{name}")), executable).unwrap();
    }
    home.give_to_user();
    home
}

/// Runs a line to its end, whatever that is, and gives what Stockade said.
fn tries(home: &Home, options: &[&str], line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = home.stockade(&[&["run"], options, &["--"], words.as_slice()].concat()).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn own_lines(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("stockade: ")).collect()
}

#[test]
fn a_forbidden_program_fails_with_its_reason_however_it_is_started() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = home(user, FORBIDDEN);
        for line in WAYS {
            let said = tries(&home, &["--engine", engine], line);
            assert!(!home.exists("ws/made"), "{engine} {line}: {said}");
            let told: Vec<&str> = own_lines(&said);
            let is_told = told.iter().filter(|told| told.contains("use the other tool")).count();
            assert_eq!(is_told, 1, "{engine} {line}: {said}");
        }
    }
}

/// Lines of a script that start `/usr/bin/touch` by another path.
const SPELLINGS: &[&str] = &[
    "/bin/touch made",
    "/usr/lib/../bin/touch made",
    "/proc/self/root/usr/bin/touch made",
    "/proc/self/../self/root/usr/bin/touch made",
    "/proc/./self//root/usr/bin/touch made",
    "/proc/thread-self/root/usr/bin/touch made",
    "/proc/$$/root/usr/bin/touch made",
    "/proc/$$/task/$$/root/bin/touch made",
    "/proc/self/root/proc/self/root/usr/bin/touch made",
    "/dev/fd/../../../usr/bin/touch made",
    "w=$PWD; cd /usr/bin; /proc/self/cwd/touch $w/made",
    "w=$PWD; cd /usr/bin; /proc/self/../self/cwd/touch $w/made",
    "w=$PWD; cd /usr/lib; /proc/$$/cwd/../bin/touch $w/made",
    "exec 9</usr/bin; /dev/fd/9/touch made",
    "exec 9</usr/lib; /dev/fd/9/../bin/touch made",
    "exec 9</usr/bin/touch; /proc/self/fd/9 made",
    "exec 9</usr/bin/touch; /proc/self/../$$/fd/9 made",
    "exec 9</usr/bin/touch; exec -a ls /proc/$$/task/$$/fd/9 made",
    "ln -sf /proc/self/root/usr/bin/touch own; ./own made",
    "ln -sfn /proc/self/root/usr d; ./d/bin/touch made",
    "ln -sf /bin/touch one; ln -sf one two; ./two made",
    "printf '#!/proc/self/root/usr/bin/touch made\\n' > script; chmod +x script; ./script",
    "printf '#!/bin/touch made\\n' > script; chmod +x script; ./script",
    "/lib64/ld-linux-x86-64.so.2 /proc/self/root/usr/bin/touch made",
    "/proc/self/root/lib64/ld-linux-x86-64.so.2 /bin/touch made",
    "/lib64/ld-linux-x86-64.so.2 --library-path /usr/bin touch made",
    "printf '#!/usr/bin/touch\\0x\\n' > script; chmod +x script; ./script made",
    "printf '#!/usr/bin/touch made\\0' > script; chmod +x script; ./script",
    "ln -sf /usr/bin/touch $'t\\r'; printf '#!t\\r\\n' > script; chmod +x script; ./script made",
    "ln -sf /usr/bin/touch $'t\\f'; printf '#! t\\f\\n' > script; chmod +x script; ./script made",
];

/// Descriptors of a caller that is not dumpable can't be read by their names.
const UNDUMPABLE: &str = r#"
import ctypes, os, sys
file = os.open("/usr/bin/touch", os.O_RDONLY)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
os.execve(file if sys.argv[1] == "descriptor" else "/proc/self/fd/%d" % file, ["x", "made"], {})
"#;

#[test]
fn a_caller_that_is_not_dumpable_starts_nothing_by_a_descriptor() {
    for (user, engine) in [(User::Ordinary, "native"), (User::Own, "native"), (User::Ordinary, "bwrap")] {
        let home = home(user, FORBIDDEN);
        home.write("ws/hidden.py", UNDUMPABLE);
        home.give_to_user();
        for (way, unknown) in [("descriptor", "use the other tool"), ("path", "can't be known which file")] {
            let said = tries(&home, &["--engine", engine], &format!("/usr/bin/python3 hidden.py {way}"));
            assert!(!home.exists("ws/made"), "{engine} {way}: {said}");
            assert!(said.contains("use the other tool") || said.contains(unknown), "{engine} {way}: {said}");
        }
    }
}

#[test]
fn a_rule_that_names_a_path_holds_for_every_spelling() {
    for (user, engine) in [(User::Ordinary, "native"), (User::Own, "native"), (User::Ordinary, "bwrap")] {
        for path in ["/usr/bin/touch", "/bin/touch"] {
            let rule =
                format!("prefix_rule(pattern=[\"{path}\"], decision=\"forbidden\", justification=\"not that\")\n");
            let home = home(user, &rule);
            for line in SPELLINGS {
                home.write("ws/spelled.sh", &format!("{line}\n"));
                let said = tries(&home, &["--engine", engine], "bash ./spelled.sh");
                assert!(!home.exists("ws/made"), "{engine} {path} {line}: {said}");
                assert!(said.contains("not that"), "{engine} {path} {line}: {said}");
            }
        }
    }
}

/// A link of the system's is a name of its own to a rule that names a program, and leads to the file of one that names it.
#[test]
fn a_link_that_a_command_makes_leads_to_every_name_behind_it() {
    let rule = |program: &str| format!("prefix_rule(pattern=[\"{program}\"], decision=\"forbidden\")\n");
    let own = "ln -sf /usr/bin/python3 own; ./own -c 'open(\"made\", \"w\")'";
    let systems = "/usr/bin/python3 -c 'open(\"made\", \"w\")'";
    let file = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let (path, name) = (file.to_str().unwrap(), file.file_name().unwrap().to_str().unwrap());
    for (program, line, is_started) in
        [("python3", own, false), (name, own, false), (path, own, false), (path, systems, false), (name, systems, true)]
    {
        let home = home(User::Ordinary, &rule(program));
        home.write("ws/spelled.sh", &format!("{line}\n"));
        let said = tries(&home, &[], "bash ./spelled.sh");
        assert_eq!(home.exists("ws/made"), is_started, "{program} {line}: {said}");
    }
}

#[test]
fn what_no_rule_restricts_is_started_as_ever() {
    for rules in [OTHER, ""] {
        let home = home(User::Ordinary, rules);
        for line in WAYS {
            let said = tries(&home, &[], line);
            let is_told = own_lines(&said).iter().any(|told| told.contains("running `"));
            assert!(home.exists("ws/made") && !is_told, "{line}: {said}");
            std::fs::remove_file(home.path("ws/made")).unwrap();
        }
    }
}

#[test]
fn a_makefile_that_removes_fails_with_the_sentence_of_the_rule() {
    let rule = "prefix_rule([\"rm\"], decision=\"forbidden\", justification=\"use trash\")\n";
    let home = home(User::Ordinary, rule);
    home.write("ws/Makefile", "clean:\n\trm -rf build\n");
    home.write("ws/build/kept", "");
    home.give_to_user();
    let said = home.says(&["run", "--", "make", "clean"], 2).stderr;
    assert!(said.contains("running `rm -rf build` was denied: a rule ("), "{said}");
    assert!(said.contains("forbids `rm -rf build`: use trash"), "{said}");
    assert!(home.exists("ws/build/kept"));
    let told = home.says(&["run", "--json", "--", "make", "clean"], 2).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let violation = &told["denied"]["execution"]["violations"][0];
    assert_eq!(violation["operation"], "execute", "{told}");
    assert_eq!(violation["target"]["command"], serde_json::json!(["rm", "-rf", "build"]));
    assert!(violation["pid"].is_u64() && violation["program"].as_str().unwrap().ends_with("/make"), "{violation}");
    assert!(violation["rule"]["command"]["reason"].as_str().unwrap().contains("use trash"), "{violation}");
    let listed = home.says(&["audit", "list"], 0).stdout;
    let id = listed.split("\"request_id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let shown = home.says(&["audit", "show", id], 0).stdout;
    assert!(shown.contains("its program may not start  rm -rf build"), "{shown}");
    assert!(shown.contains("started by `make clean`"), "{shown}");
}

/// Without an approver, and under a policy that never asks.
#[test]
fn what_would_be_asked_is_refused_where_nobody_is_asked() {
    let home = home(User::Ordinary, PROMPT);
    for line in ["make -s", "sh ./plain.sh", "npm run --silent start", "/usr/bin/python3 start.py threads"] {
        let said = tries(&home, &["--ask", "never"], line);
        assert!(said.contains("the approval policy `never`") && !home.exists("ws/made"), "{line}: {said}");
        let said = tries(&home, &[], line);
        assert!(said.contains("asks before `touch made`") && !home.exists("ws/made"), "{line}: {said}");
    }
}

#[test]
fn a_program_waits_for_the_answer_and_the_question_shows_the_chain() {
    for (engine, line, chain) in [
        ("native", "make -s shell", "`make -s shell` › `/bin/sh -c 'true && touch made'` › `touch made`"),
        ("bwrap", "sh ./plain.sh", "`sh ./plain.sh` › `touch made`"),
        ("native", "/usr/bin/python3 start.py threads", "`/usr/bin/python3 start.py threads` › `touch made`"),
    ] {
        let home = home(User::Ordinary, PROMPT);
        let words: Vec<&str> = line.split(' ').collect();
        for (keys, is_made) in [("n", false), ("y", true)] {
            let mut screen = start(&home, &[&["run", "--engine", engine, "--"], words.as_slice()].concat());
            let asked = screen.sees("]? ");
            let flat = asked.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(chain), "{flat}");
            assert!(!home.exists("ws/made"), "before the answer");
            screen.types(keys);
            if keys == "n" {
                screen.sees("Why not? (Enter alone gives no reason) ");
                screen.types("\r");
            }
            let (_, rest) = screen.ends();
            assert!(!rest.contains("stockade asks"), "{line} {keys}: {rest}");
            assert_eq!(home.exists("ws/made"), is_made, "{line} {keys}: {rest}");
            assert_eq!(rest.contains("the reviewer said no"), !is_made, "{line} {keys}: {rest}");
        }
    }
}

/// The start of the command itself was decided, and so were the parts of its line.
#[test]
fn what_was_asked_before_the_run_is_not_asked_in_it() {
    let home = home(User::Ordinary, PROMPT);
    for words in [&["touch", "made"][..], &["sh", "-c", "true; env touch made; touch made"], &["nice", "touch", "made"]]
    {
        let mut screen = start(&home, &[&["run", "--"], words].concat());
        screen.sees("]? ");
        screen.types("y");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && !rest.contains("stockade asks") && home.exists("ws/made"), "{words:?}: {rest}");
        std::fs::remove_file(home.path("ws/made")).unwrap();
    }
}

/// One answer for equal starts, also at the same time.
#[test]
fn equal_starts_share_an_answer() {
    for (keys, is_made) in [("y", true), ("n", false)] {
        let home = home(User::Ordinary, PROMPT);
        let mut screen = start(&home, &["run", "--", "make", "-k", "-j6", "many"]);
        screen.sees("]? ");
        screen.types(keys);
        if keys == "n" {
            screen.sees("Why not? (Enter alone gives no reason) ");
            screen.types("\r");
        }
        let (_, rest) = screen.ends();
        assert!(!rest.contains("stockade asks") && home.exists("ws/made") == is_made, "{keys}: {rest}");
    }
}

/// A question ends with its limit, with the process that waits, and with the run.
#[test]
fn a_question_about_a_start_ends_with_its_limit_and_with_its_caller() {
    let home = home(User::Ordinary, PROMPT);
    home.write(
        "ws/killed.sh",
        "sh ./plain.sh & until [ -e ../outside/asked ]; do sleep 0.1; done; kill -KILL $!; \
        wait $!; echo gone; exit 4\n",
    );
    home.give_to_user();
    let mut screen = start(&home, &["run", "--", "sh", "./killed.sh"]);
    screen.sees("]? ");
    home.write("outside/asked", "");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 4 && rest.contains("gone") && !home.exists("ws/made"), "{rest}");
    let mut screen = start(&home, &["run", "--", "sh", "./plain.sh"]);
    screen.sees("]? ");
    screen.types("\u{3}");
    screen.ends();
    assert!(!home.exists("ws/made"));
    let hook = "[approver]\nhook = [\"/usr/bin/sleep\", \"600\"]\ntimeout = \"1s\"\n";
    home.write("config/stockade/config.toml", hook);
    let said = tries(&home, &[], "make -k -j6 many");
    assert!(said.contains("asks before `touch made`") && !home.exists("ws/made"), "{said}");
}

/// A command in a session is judged as one without, and a yes for the session counts there.
#[test]
fn explain_says_which_rules_hold_inside() {
    let home = home(User::Ordinary, &[FORBIDDEN, PROMPT, OTHER].concat());
    let explained = home.says(&["explain", "--", "make"], 0).stdout;
    assert!(explained.contains("inside   programs that it starts are judged by 3 rules: "), "{explained}");
    assert!(explained.contains("[\"shutdown\"]") || explained.contains("shutdown"), "{explained}");
    home.write("config/stockade/rules/mine.rules", "prefix_rule(pattern=[\"make\"])\n");
    let explained = home.says(&["explain", "--", "make"], 0).stdout;
    assert!(!explained.contains("programs that it starts"), "{explained}");
}
