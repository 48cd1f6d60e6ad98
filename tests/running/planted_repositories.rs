//! `git push` with what a rule gives it, where a command has planted what the user's settings or the words lead to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::elsewhere::World;
use super::home::{Home, User};
use crate::support::{program, run};

const RULES: [&str; 2] =
    ["prefix_rule([\"git\", \"push\"], profile = \"notes\")\n", "prefix_rule([\"git\", \"push\"], outside = True)\n"];

/// Starts a push, and moves `hidden` to its place as soon as the push is judged and its stub runs.
const MOVE_LATER: &str = "import os, subprocess, sys, time\n\
    p = subprocess.Popen(['git', 'push'] + sys.argv[2:])\n\
    t = time.time()\n\
    while time.time() - t < 3 and p.poll() is None:\n\
    \x20   try:\n\
    \x20       if 'memfd' in os.readlink(f'/proc/{p.pid}/exe'): break\n\
    \x20   except OSError: break\n\
    os.rename('hidden', sys.argv[1])\n\
    p.wait(60)\n";

fn git(home: &Home, words: &[&str]) {
    let mut git = program("git");
    git.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home.path("home"));
    run(git.args(words).current_dir(home.path("ws")), 0);
}

/// A repository with one commit and the remote `origin`, a repository of the host where no command writes.
fn world(rules: &str) -> World {
    let world = World::new(User::Own, "native", rules);
    let home = &world.home;
    git(home, &["init", "-q", "--bare", "-b", "main", home.path("server.git").to_str().unwrap()]);
    git(home, &["init", "-q", "-b", "main", "."]);
    git(home, &["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
    git(home, &["remote", "add", "origin", home.path("server.git").to_str().unwrap()]);
    git(home, &["remote", "add", "s", "ssh://git@nowhere.test/x"]);
    home.write("ws/move.py", MOVE_LATER);
    world
}

/// A script that leaves a mark outside of the workspace.
fn plant(world: &World, path: &str) {
    let outside = world.home.path("outside").display().to_string();
    world.home.write(path, &format!("#!/bin/sh\ntouch {outside}/evil\nexit 1\n"));
    fs::set_permissions(world.home.path(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn told(command: &mut Command) -> String {
    String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
}

/// As one program of a line, and as the command itself.
fn assert_harmless(world: &World, words: &[&str], what: &str) {
    let line = format!("ls > listed; git push {}", words.join(" "));
    let in_line = told(&mut world.command(&[], &["bash", "-c", &line]));
    assert!(!world.home.exists("outside/evil"), "{what} in a line: {in_line}");
    let alone = told(&mut world.command(&[], &[&["git", "push"], words].concat()));
    assert!(!world.home.exists("outside/evil"), "{what} alone: {alone}");
    assert!(in_line.contains("could not be given"), "{what}: {in_line}");
}

/// Relative paths in the user's own settings lead into the workspace.
#[test]
fn the_users_settings_lead_git_to_no_planted_file() {
    for rules in RULES {
        for settings in [
            "[core]\n\thooksPath = .githooks\n",
            "[include]\n\tpath = more\n",
            "[includeIf \"gitdir:/\"]\n\tpath = more\n",
        ] {
            let world = world(rules);
            plant(&world, "ws/.githooks/pre-push");
            world.home.write("home/.gitconfig", settings);
            world.home.write("home/more", "[core]\n\thooksPath = .githooks\n");
            assert_harmless(&world, &["origin", "main"], settings);
        }
        for settings in [
            "[core]\n\tsshCommand = evil.sh/../evil.sh\n",
            "[core]\n\tsshCommand = ./evil.sh\n",
            "[core]\n\tsshCommand = sh evil.sh\n",
            "[core]\n\tsshCommand = \"sh -c '. ./evil.sh'\"\n",
            "[core]\n\tsshCommand = ssh -F sshconfig\n",
            "[core]\n\tsshCommand = ssh -Fsshconfig\n",
            "[core]\n\tsshCommand = ssh -o ProxyCommand=./evil.sh\n",
        ] {
            let world = world(rules);
            plant(&world, "ws/evil.sh");
            world.home.write("ws/sshconfig", "Host *\n\tProxyCommand ./evil.sh\n");
            world.home.write("home/.gitconfig", settings);
            assert_harmless(&world, &["s", "main"], settings);
        }
    }
}

/// A word that is no remote when the push is judged, and a repository with hooks when it runs.
#[test]
fn no_word_becomes_a_repository_with_hooks() {
    for rules in RULES {
        let world = world(rules);
        git(&world.home, &["config", "remote.backup.prune", "true"]);
        for words in [
            &["-o", "origin", "late", "main:refs/heads/x"][..],
            &["-qo", "origin", "late", "main:refs/heads/x"],
            &["--push-option", "origin", "late", "main:refs/heads/x"],
            &["backup", "main:refs/heads/x"],
            &["--repo", "late", "--all"],
        ] {
            let target = if words.contains(&"backup") { "backup" } else { "late" };
            fs::remove_dir_all(world.home.path("ws").join(target)).ok();
            fs::remove_dir_all(world.home.path("ws/hidden")).ok();
            git(&world.home, &["init", "-q", "--bare", "hidden"]);
            git(&world.home, &["-C", "hidden", "config", "receive.advertisePushOptions", "true"]);
            plant(&world, "ws/hidden/hooks/pre-receive");
            let said = told(&mut world.command(&[], &[&["python3", "move.py", target], words].concat()));
            assert!(!world.home.exists("outside/evil"), "{words:?}: {said}");
            assert!(said.contains("could not be given"), "{words:?}: {said}");
        }
    }
}

/// A file that the settings name is away while the push is judged, and there when it runs.
#[test]
fn a_file_that_settings_name_counts_also_if_it_is_away() {
    for rules in RULES {
        let world = world(rules);
        plant(&world, "ws/evil.sh");
        world.home.write("home/.gitconfig", "[core]\n\tsshCommand = ssh -F sshconfig\n");
        world.home.write("ws/hidden", "Host *\n\tProxyCommand ./evil.sh\n");
        let said = told(&mut world.command(&[], &["python3", "move.py", "sshconfig", "s", "main"]));
        assert!(!world.home.exists("outside/evil"), "{said}");
        assert!(said.contains("`core.sshcommand`") && said.contains("sshconfig"), "{said}");
    }
}

/// A subcommand with a slash is the path of a program to git: `git a/b` starts `git-a/b` of the working directory.
#[test]
fn no_subcommand_is_the_path_of_a_planted_program() {
    let world = world("prefix_rule([\"git\"], outside = True)\n");
    plant(&world, "ws/git-a/b");
    for words in [&["bash", "-c", "ls > listed; git a/b"][..], &["git", "a/b"]] {
        let said = told(&mut world.command(&[], words));
        assert!(!world.home.exists("outside/evil"), "{words:?}: {said}");
    }
}

/// What people push with, and have in their settings.
#[test]
fn ordinary_pushes_have_what_their_rule_gives() {
    let world = world(RULES[1]);
    let hooks = world.home.path("hooks").display().to_string();
    world
        .home
        .write("hooks/pre-push", &format!("#!/bin/sh\necho on >> {}/pushed\n", world.home.path("outside").display()));
    fs::set_permissions(world.home.path("hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
    world.home.write("home/work", "[user]\n\temail = a@work.test\n");
    let settings = format!(
        "[user]\n\tname = A B\n\temail = a@a.test\n[core]\n\thooksPath = {hooks}\n\teditor = code --wait\n\tpager = less -FRX\n\
         \texcludesFile = ~/.gitignore\n[credential]\n\thelper = store\n\thelper = cache --timeout=3600\n\
         [credential \"https://github.com\"]\n\thelper =\n\thelper = !gh auth git-credential\n\
         [filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\tprocess = git-lfs filter-process\n\trequired = true\n\
         [alias]\n\tlg = log --graph\n\troot = \"!f() {{ cd ./x; }}; f\"\n[push]\n\tautoSetupRemote = true\n\
         [url \"git@github.com:\"]\n\tinsteadOf = https://github.com/\n[includeIf \"gitdir:~/work/\"]\n\tpath = work\n"
    );
    world.home.write("home/.gitconfig", &settings);
    for (number, words) in [
        &["origin", "main"][..],
        &["-u", "origin", "HEAD"],
        &[],
        &["--tags"],
        &["-q", "--force-with-lease", "origin", "main:refs/heads/x"],
        &["--force-with-lease=main", "-o", "ci.skip", "origin", "main"],
    ]
    .into_iter()
    .enumerate()
    {
        git(&world.home, &["-c", "user.name=a", "commit", "-q", "--no-verify", "--allow-empty", "-m", "more"]);
        git(&world.home, &["tag", &format!("t{number}")]);
        fs::remove_file(world.home.path("outside/pushed")).ok();
        let line = format!("ls > listed; git push {}", words.join(" "));
        let said = told(&mut world.command(&[], &["bash", "-c", &line]));
        assert!(world.home.exists("outside/pushed") && !said.contains("could not be given"), "{words:?}: {said}");
        git(&world.home, &["-c", "user.name=a", "commit", "-q", "--no-verify", "--allow-empty", "-m", "more"]);
        git(&world.home, &["tag", &format!("u{number}")]);
        fs::remove_file(world.home.path("outside/pushed")).ok();
        let said = told(&mut world.command(&[], &[&["git", "push"], words].concat()));
        assert!(world.home.exists("outside/pushed"), "{words:?} alone: {said}");
    }
}
