//! Single programs of a command that run elsewhere, with what a rule gives them: from every caller, with what is theirs
//! of it, and for no caller that chooses what is run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::home::{Home, Said, User, said};
use crate::support::{program, run};

/// Appends its arguments to a file outside of the workspace, or says that it can't.
const NOTE: &str = "#!/bin/sh\necho \"$*\" >> OUTSIDE/notes || exit 9\nenv > OUTSIDE/env\ncase $1 in by) kill -$2 $$;; esac\nexit ${1:-0}\n";
const SLEEPER: &str = "#!/bin/sh\necho on >> OUTSIDE/notes || exit 9\nexec sleep \"$1\"\n";
const PROFILE: &str = "about = \"notes\"\ntools = [\"note\"]\n[[write]]\npath = \"OUTSIDE\"\nreason = \"notes\"\n";
const RULES: &str = "prefix_rule([\"note\"], profile = \"notes\")\nprefix_rule([\"sleeper\"], profile = \"notes\")\n";

pub(super) struct World {
    pub(super) home: Home,
    pub(super) engine: &'static str,
}

impl World {
    pub(super) fn new(user: User, engine: &'static str, rules: &str) -> Self {
        let home = Home::of(user);
        let outside = home.path("outside").display().to_string();
        for (name, text) in [("bin/note", NOTE), ("bin/sleeper", SLEEPER)] {
            home.write(name, &text.replace("OUTSIDE", &outside));
            fs::set_permissions(home.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        home.write("config/stockade/profiles/notes.toml", &PROFILE.replace("OUTSIDE", &outside));
        home.write("config/stockade/rules/mine.rules", rules);
        home.give_to_user();
        Self { home, engine }
    }

    pub(super) fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let run = ["run", "--engine", self.engine, "--timeout", "2m"];
        let mut command = self.home.stockade(&[&run, options, &["--"], words].concat());
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.home.path("bin").display());
        command.env("PATH", path);
        command
    }

    pub(super) fn runs(&self, options: &[&str], line: &str, exit_code: i32) -> Said {
        said(&mut self.command(options, &["bash", "-c", line]), exit_code)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.home.path("outside/notes")).unwrap_or_default();
        fs::remove_file(self.home.path("outside/notes")).ok();
        text.lines().map(str::to_owned).collect()
    }
}

/// Every engine, as any user.
pub(super) fn worlds(rules: &str) -> Vec<World> {
    let all = [(User::Own, "native"), (User::Ordinary, "native"), (User::Own, "bwrap"), (User::Ordinary, "bwrap")];
    all.into_iter().map(|(user, engine)| World::new(user, engine, rules)).collect()
}

#[test]
fn every_caller_gets_the_code_and_only_the_program_has_more() {
    let python = "import os, subprocess, threading\n\
        assert subprocess.run(['note', '3', 'run']).returncode == 3\n\
        assert subprocess.run(['note', '4', 'out'], stdout=subprocess.PIPE).returncode == 4\n\
        p = os.posix_spawnp('note', ['note', '5', 'spawn'], os.environ)\n\
        assert os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) == 5\n\
        codes = []\n\
        run = lambda: codes.append(subprocess.run(['note', '6', 'thread']).returncode)\n\
        threads = [threading.Thread(target=run) for _ in range(4)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        assert codes == [6] * 4, codes\n\
        assert sorted(os.listdir('/proc/self/fd'))[:3] == ['0', '1', '2'] and len(os.listdir('/proc/self/fd')) == 4\n\
        os.execvp('note', ['note', '7', 'exec'])\n";
    let node = "const c = require('child_process'); process.exit(c.spawnSync('note', ['8', 'node']).status)";
    for world in worlds(RULES) {
        world.home.write("ws/Makefile", "all:\n\tnote 0 make\n");
        world.home.write("ws/all.py", python);
        world.home.give_to_user();
        let outside = world.home.path("outside").display().to_string();
        let line = format!(
            "echo no > {outside}/direct; note 1 bash; [ $? = 1 ] || exit 11; dash -c 'note 2 dash; exit $?'; [ $? = 2 ] || exit 12; \
             python3 all.py; [ $? = 7 ] || exit 13; node -e \"{node}\"; [ $? = 8 ] || exit 14; \
             echo xargs | xargs note 0 || exit 15; find Makefile -exec note 0 find ';' || exit 16; make -s || exit 17; \
             env note 0 env || exit 18; (exec note 0 exec) || exit 19; echo | note 0 | cat || exit 20; \
             note by TERM; [ $? = 143 ] || exit 21; note by KILL; [ $? = 137 ] || exit 22"
        );
        let told = world.runs(&[], &line, 0);
        assert!(!world.home.exists("outside/direct"), "{}", told.stderr);
        let mut notes = world.notes();
        notes.sort();
        let wanted = [
            "0", "0 env", "0 exec", "0 find", "0 make", "0 xargs", "1 bash", "2 dash", "3 run", "4 out", "5 spawn",
            "6 thread", "6 thread", "6 thread", "6 thread", "7 exec", "8 node", "by KILL", "by TERM",
        ];
        assert_eq!(notes, wanted, "{} {}", world.engine, told.stderr);
    }
}

#[test]
fn directory_mask_streams_and_signals_are_the_callers() {
    for world in worlds(RULES) {
        let line = "umask 027; mkdir d; cd d; sleeper 60 & p=$!; sleep 1; kill -HUP $p; wait $p; [ $? = 129 ] || exit 11; \
            note 0 > out 2>&1; [ -z \"$(cat out)\" ] || exit 12; nohup sleeper 60 2>/dev/null & p=$!; sleep 1; kill -HUP $p; sleep 1; \
            kill -0 $p || exit 13; kill -TERM $p; wait $p; [ $? = 143 ] || exit 14";
        world.runs(&[], line, 0);
        let mode = fs::metadata(world.home.path("outside/env")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "{}", world.engine);
        let env = world.home.read("outside/env");
        assert!(env.contains(&format!("PWD={}\n", world.home.path("ws/d").display())), "{env}");
    }
}

/// What the command's own end, a limit, or a signal to the caller leaves behind: nothing.
#[test]
fn it_ends_with_its_caller() {
    for (number, world) in worlds(RULES).into_iter().enumerate() {
        let mark = format!("6{number}{}.125", std::process::id());
        let is_there = || {
            let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
            all.filter_map(|file| fs::read(file).ok())
                .any(|words| words.starts_with(b"sleep\0") && String::from_utf8_lossy(&words).contains(&mark))
        };
        world.runs(&[], &format!("sleeper {mark} & p=$!; sleep 1; kill -KILL $p; wait $p; [ $? = 137 ]"), 0);
        assert!(!is_there());
        world.runs(&[], &format!("sleeper {mark} & sleep 1"), 0);
        assert!(!is_there(), "the sandbox ended");
        let mut running = world.command(&[], &["sh", "-c", &format!("sleeper {mark}; true")]).spawn().unwrap();
        let from = Instant::now();
        while !is_there() {
            assert!(from.elapsed() < Duration::from_secs(60), "it does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        running.kill().unwrap();
        running.wait().unwrap();
        while is_there() {
            assert!(from.elapsed() < Duration::from_secs(90), "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Confused deputies: nothing that the caller chooses leads the program to its code.
#[test]
fn no_caller_chooses_what_is_run() {
    const MORE: &str = "prefix_rule([\"git\", \"push\"], profile = \"notes\")\nprefix_rule([[\"python3\", \"perl\", \"sh\", \"sed\", \"awk\"]], profile = \"notes\")\n\
        prefix_rule([[\"env\", \"xargs\", \"find\", \"nice\", \"timeout\"]], profile = \"notes\")\n";
    let world = World::new(User::Own, "native", &format!("{RULES}{MORE}"));
    let outside = world.home.path("outside").display().to_string();
    let evil = format!("touch {outside}/evil");
    let git = |words: &[&str]| {
        let ws = world.home.path("ws");
        run(program("git").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").args(words).current_dir(ws), 0);
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["remote", "add", "origin", "ssh://nowhere.test/x"]);
    world.home.write("ws/evil.py", &format!("import os; os.system('{evil}')\n"));
    world.home.write("ws/evil.sh", &format!("#!/bin/sh\n{evil}\n"));
    world.home.write("ws/bin/note", &format!("#!/bin/sh\n{evil}\n"));
    for name in ["evil.sh", "bin/note"] {
        fs::set_permissions(world.home.path("ws").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let note = world.home.path("bin/note").display().to_string();
    let plant = format!(
        "git init -q r && git -C r config core.sshCommand \"{evil};\" && git init -q --bare b && cp evil.sh b/hooks/pre-receive"
    );
    world.runs(&[], &plant, 0);
    let tries = [
        "PATH=$PWD/bin:$PATH note 0 path".to_owned(),
        "cp evil.sh note && ./note 0 writable".to_owned(),
        format!("ln -sf {note} linked && ln -sf evil.sh linked && ./linked 0 link"),
        "exec 9< evil.sh; python3 -c 'import os; os.execve(9, [\"note\", \"0\"], os.environ)'".to_owned(),
        "python3 -c 'import os; os.execv(\"/proc/self/fd/9\", [\"note\", \"0\"])' 9< evil.sh".to_owned(),
        format!("exec -a note sh -c '{evil}'"),
        format!("sh -c '{evil}'"),
        "python3 evil.py".to_owned(),
        "./evil.sh".to_owned(),
        "python3 < evil.py".to_owned(),
        "python3 /dev/fd/0 < evil.py".to_owned(),
        "python3 -m evil".to_owned(),
        "echo 'system(\"./evil.sh\")' | perl".to_owned(),
        "sh < evil.sh".to_owned(),
        "echo 1 | sed '1e ./evil.sh'".to_owned(),
        "awk 'BEGIN { system(\"./evil.sh\") }'".to_owned(),
        "env -i sh ./evil.sh".to_owned(),
        "echo ./evil.sh | xargs sh".to_owned(),
        "find evil.sh -exec sh {} ';'".to_owned(),
        "nice ./evil.sh; timeout 5 ./evil.sh".to_owned(),
        "cd r && git push".to_owned(),
        "GIT_DIR=$PWD/r/.git git push".to_owned(),
        format!("GIT_SSH_COMMAND='{evil};' git push origin main"),
        format!("git -c core.sshCommand='{evil};' push origin main"),
        format!("git push --receive-pack='{evil};' b main"),
        "git push b main".to_owned(),
        "git push ./b main".to_owned(),
        "git push file://$PWD/b main".to_owned(),
        format!("git push 'ext::sh -c {}' main", evil.replace(' ', "% ")),
        "mkdir -p s/t && cd s/t && (for i in $(seq 40); do rm -rf .git; cp -r ../../r/.git .git; done & for i in 1 2 3 4 5; do git push origin main; done; wait)".to_owned(),
        "(for i in $(seq 40); do cp -r b late; rm -rf late; done & for i in 1 2 3 4 5; do git push late main; done; wait)".to_owned(),
        "cd /proc/self/cwd/r && git push".to_owned(),
    ];
    for line in tries {
        // Not a line of granted programs alone, which has the profile as a whole.
        let said = world.command(&[], &["bash", "-c", &format!("ls > listed; {line}")]).output().unwrap();
        assert!(!world.home.exists("outside/evil"), "{line}: {}", String::from_utf8_lossy(&said.stderr));
    }
    // A line of granted programs alone has the profile as a whole, unless its repository may be planted.
    for line in ["git push b main", "git push ./b main", "git push file://$PWD/b main", "cd r && git push"] {
        let said = world.command(&[], &["bash", "-c", line]).output().unwrap();
        assert!(!world.home.exists("outside/evil"), "{line}: {}", String::from_utf8_lossy(&said.stderr));
    }
    let said = world.command(&[], &["git", "push", "b", "main"]).output().unwrap();
    assert!(!world.home.exists("outside/evil"), "{}", String::from_utf8_lossy(&said.stderr));
    // It is told why a program stays.
    let told = world.command(&[], &["bash", "-c", "ls > listed; python3 < evil.py"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("runs what its words or its input say"), "{told}");
    // The variables of the caller are not the program's.
    world.notes();
    world.runs(
        &[],
        "LD_PRELOAD=/x LD_LIBRARY_PATH=$PWD GIT_DIR=x HOME=$PWD BASH_ENV=evil.sh ENV=evil.sh OWN=1 note 0 -- --evil",
        0,
    );
    assert_eq!(world.notes(), ["0 -- --evil"]);
    let env = world.home.read("outside/env");
    assert!(!["LD_", "GIT_DIR", "BASH_ENV", "OWN"].iter().any(|name| env.contains(name)), "{env}");
    assert!(env.contains(&format!("HOME={}\n", world.home.path("home").display())), "{env}");
}

/// What a rule's profile lets a program write is written by a command: no other rule gives that more.
#[test]
fn what_another_profile_writes_is_not_trusted() {
    for engine in ["native", "bwrap"] {
        let world = World::new(User::Own, engine, "");
        let [outside, kept] = ["outside", "kept"].map(|name| world.home.path(name).display().to_string());
        fs::create_dir(&kept).unwrap();
        let rules = format!(
            "prefix_rule([\"cp\"], profile = \"notes\")\nprefix_rule([\"{outside}/tool\"], profile = \"kept\")\n\
             prefix_rule([\"tool\"], profile = \"kept\")\nprefix_rule([\"note\"], profile = \"kept\")\n"
        );
        world.home.write("config/stockade/rules/mine.rules", &rules);
        let profile = PROFILE.replace("OUTSIDE", &kept);
        world.home.write("config/stockade/profiles/kept.toml", &profile);
        world.home.write("bin/note", &format!("#!/bin/sh\ntouch {kept}/noted\n"));
        world.home.write("ws/tool", &format!("#!/bin/sh\ntouch {kept}/evil\n"));
        fs::set_permissions(world.home.path("ws/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!("ls > listed; cp tool {outside}/tool && {outside}/tool; true");
        let said = world.runs(&[], &line, 0);
        assert!(world.home.exists("outside/tool") && !world.home.exists("kept/evil"), "{engine}: {}", said.stderr);
        assert!(said.stderr.contains("commands may have put"), "{engine}: {}", said.stderr);
        // A directory of `PATH` that a profile opens.
        let path = format!("{outside}:{}:/usr/bin:/bin", world.home.path("bin").display());
        let mut command = world.command(&[], &["bash", "-c", "ls > listed; tool; note; true"]);
        said_of(command.env("PATH", path));
        assert!(!world.home.exists("kept/evil") && !world.home.exists("kept/noted"), "{engine}");
        world.runs(&[], "ls > listed; note", 0);
        assert!(world.home.exists("kept/noted"), "{engine}");
    }
}

fn said_of(command: &mut Command) -> String {
    String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
}

/// An address that settings turn into another one, and a variable with a path.
#[test]
fn rewritten_addresses_and_paths_in_variables_keep_a_program_inside() {
    let rules = "prefix_rule([\"git\", \"push\"], profile = \"notes\")\nprefix_rule([\"note\"], profile = \"notes\", environment = [\"FLAVOUR\"])\n";
    let world = World::new(User::Own, "native", rules);
    let outside = world.home.path("outside").display().to_string();
    let git = |words: &[&str]| {
        let ws = world.home.path("ws");
        run(program("git").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").args(words).current_dir(ws), 0);
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
    world.home.write("ws/evil.sh", &format!("#!/bin/sh\ntouch {outside}/evil\n"));
    fs::set_permissions(world.home.path("ws/evil.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let plant = "git init -q --bare ev.git && cp evil.sh ev.git/hooks/pre-receive";
    world.runs(&[], plant, 0);
    let push = |start: &str| said_of(&mut world.command(&[], &["bash", "-c", &format!("{start}git push foo: main")]));
    git(&["config", "url.ev.git.insteadOf", "foo:"]);
    for start in ["ls > listed; ", ""] {
        let told = push(start);
        assert!(!world.home.exists("outside/evil") && told.contains("insteadOf"), "{told}");
    }
    git(&["config", "--remove-section", "url.ev.git"]);
    world.home.write("home/.gitconfig", "[url \"ev.git\"]\n\tpushInsteadOf = foo:\n");
    let told = push("ls > listed; ");
    assert!(!world.home.exists("outside/evil") && told.contains("insteadOf"), "{told}");
    for (value, is_given) in [("plain", true), ("a/b", false), ("/usr/bin/env", false)] {
        world.notes();
        let line = format!("ls > listed; FLAVOUR={value} note 0");
        let told = said_of(&mut world.command(&[], &["bash", "-c", &line]));
        assert_eq!(!world.notes().is_empty(), is_given, "{value}: {told}");
        assert_eq!(!told.contains("could not be given"), is_given, "{value}: {told}");
    }
}

/// Another thread rewrites the words while they are judged: what runs elsewhere is what was judged.
#[test]
fn words_that_are_rewritten_gain_nothing() {
    const RACE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char word[8] = "good"; static volatile int over;
static void *flip(void *x) { for (;;) { memcpy(word, "evil", 4); memcpy(word, "good", 4); if (over) return 0; } }
int main(int c, char **v, char **e) {
    char path[4096], copy[4096]; strcpy(path, v[1]); strcpy(copy, path);
    char *words[] = {"note", "0", word, 0}; pthread_t t; pthread_create(&t, 0, flip, 0);
    for (int i = 0; i < 150; i++) {
        pid_t p = vfork(); if (!p) { execve(path, words, e); _exit(99); }
        int s; waitpid(p, &s, 0);
        if (strcmp(path, copy) || words[2] != word || strcmp(words[0], "note") || strcmp(words[1], "0")) return 3;
    }
    over = 1; pthread_join(t, 0); return 0;
}
"#;
    let rules = "prefix_rule([\"note\", \"0\", \"good\"], profile = \"notes\")\n";
    for engine in ["native", "bwrap"] {
        let world = World::new(User::Own, engine, rules);
        world.home.write("race.c", RACE);
        let (source, built) = (world.home.path("race.c"), world.home.path("ws/race"));
        run(program("cc").arg("-pthread").arg("-o").arg(&built).arg(&source), 0);
        let note = world.home.path("bin/note").display().to_string();
        world.runs(&[], &format!("./race {note} 2>/dev/null"), 0);
        let notes = world.notes();
        assert!(!notes.is_empty() && notes.iter().all(|note| note == "0 good"), "{engine}: {notes:?}");
    }
}

/// What the session's policy needs the sandbox for, no rule lifts; and what could not be given is told.
#[test]
fn a_place_outside_is_given_only_where_nothing_needs_the_sandbox() {
    let world = World::new(User::Own, "native", "prefix_rule([\"note\"], outside = True)\n");
    world.runs(&[], "true; note 0 out", 0);
    assert_eq!(world.notes(), ["0 out"]);
    let denied = world.home.path("home/x").display().to_string();
    for options in [&["--sandbox", "workspace-write"][..], &["--limit", "cpu=300"], &["--deny-read", &denied]] {
        let said = world.command(options, &["sh", "-c", "true; note 0 kept; test $? = 9"]).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(world.notes().is_empty() && text.contains("could not be given a place outside"), "{options:?}: {text}");
    }
}

/// The command itself has what its rule gives, in its one sandbox; what it starts has it once more by itself.
#[test]
fn a_command_that_has_it_is_not_started_twice() {
    let world = World::new(User::Own, "native", RULES);
    said(&mut world.command(&[], &["note", "0", "itself"]), 0);
    assert_eq!(world.notes(), ["0 itself"]);
    world.runs(&[], "ls > listed; note 0 a; note 0 a", 0);
    assert_eq!(world.notes(), ["0 a", "0 a"]);
    let listed = world.home.says(&["audit", "list", "--json"], 0).stdout;
    let shown: Vec<String> = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|run| world.home.says(&["audit", "show", run["request_id"].as_str().unwrap()], 0).stdout)
        .collect();
    let count = |text: &str| text.matches("gives it the profile `notes`").count();
    assert_eq!(shown.iter().map(|text| count(text)).collect::<Vec<_>>(), [0, 2], "{shown:?}");
}

/// Exactly what a profile gives: not what the session has.
#[test]
fn a_program_may_have_less_than_its_caller() {
    let rules = "prefix_rule([\"note\"], profile = [\"notes\", \"own\"], permissions = \"exact\", environment = [\"FLAVOUR\"])\n";
    for engine in ["native", "bwrap"] {
        let world = World::new(User::Own, engine, rules);
        let [bin, ws] = ["bin", "ws"].map(|name| world.home.path(name).display().to_string());
        let own = format!(
            "about = \"own\"\n[[read]]\npath = \"{bin}\"\nreason = \"the program\"\n[[read]]\npath = \"{ws}/d\"\nreason = \"its directory\"\n"
        );
        world.home.write("config/stockade/profiles/own.toml", &own);
        world.home.write("ws/secret", "secret");
        let outside = world.home.path("outside").display().to_string();
        world.home.write("bin/note", &format!("#!/bin/sh\ncat {ws}/secret && touch {outside}/read\ntouch {ws}/d/x && touch {outside}/wrote\necho $FLAVOUR-$OTHER > {outside}/flavour\n"));
        world.runs(&[], "mkdir d; cd d; FLAVOUR=sweet OTHER=1 note; true", 0);
        assert_eq!(world.home.read("outside/flavour"), "sweet-\n", "{engine}");
        assert!(!world.home.exists("outside/read") && !world.home.exists("outside/wrote"));
    }
}
