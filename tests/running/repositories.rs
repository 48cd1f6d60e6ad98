//! `--with git`: what people do with git every day passes in the sandbox, and what would run something later does not.

use std::path::Path;

use super::home::{Home, User, said};
use crate::support::{program, text};

/// Makes a repository that others fetch from, a clone of it in the workspace, and one beside it.
const SETTING: &str = "
    git config --global user.name Ann && git config --global user.email ann@example.org &&
    git config --global init.defaultBranch main && git config --global protocol.file.allow always &&
    echo own > ~/.bashrc && cd ../outside &&
    git init -q --bare up.git && git clone -q up.git seed 2> /dev/null && cd seed &&
    echo 1 > a && git add a && git commit -qm one && echo 2 >> a && git commit -qam two && git push -q origin HEAD:main &&
    cd .. && git clone -q up.git other && git clone -q up.git ../ws && cd ../ws && git worktree add -q -b wt ../outside/wt";

/// What comes from outside while commands work.
const UPSTREAM: &str = "cd ../outside/seed && for i in $(seq 150); do echo $i > f$i; done && git add . &&
    git commit -qm many && git push -q origin HEAD:main";

const WORKFLOWS: &[(&str, &str)] = &[
    ("commit all", "echo 3 >> a && git commit -qam three"),
    ("add and commit", "echo b > b && git add b && git commit -qm b && git log --oneline | grep -q ' b$'"),
    ("a new branch", "git checkout -q -b topic && echo t > t && git add t && git commit -qm topic"),
    ("back again", "git checkout -q @{-1} && test ! -e t"),
    ("a fast-forward", "git merge -q topic && test -e t"),
    ("a branch is deleted", "git branch -q -d topic && ! git rev-parse -q --verify topic"),
    (
        "a stash",
        "echo x >> a && git stash -q && git diff --quiet && git stash pop -q && ! git diff --quiet && git checkout -q -- a",
    ),
    (
        "a stash of some files",
        "echo x >> a && echo x >> b && git stash -q -- b && ! git diff --quiet -- a && git checkout -q -- a && git stash pop -q && git checkout -q -- b",
    ),
    ("a stash is dropped", "echo x >> a && git stash -q && git stash drop -q && test -z \"$(git stash list)\""),
    (
        "a rebase",
        "git checkout -q -b side HEAD~2 && echo s > s && git add s && git commit -qm s && git rebase -q - && test -e t",
    ),
    (
        "a rebase that stops",
        "git checkout -q -b left HEAD~1 && echo l > s && git add s && git commit -qm l && \
      ! git rebase -q side 2> /dev/null && test -e \"$(git rev-parse --git-path rebase-merge)/git-rebase-todo\" && \
      echo both > s && git add s && GIT_EDITOR=true git rebase --continue > /dev/null 2>&1 && test \"$(cat s)\" = both",
    ),
    (
        "a rebase is given up",
        "git checkout -q -b right HEAD~1 && echo r > s && git add s && git commit -qm r && \
      ! git rebase -q left 2> /dev/null && git rebase --abort && test ! -e \"$(git rev-parse --git-path rebase-merge)\"",
    ),
    ("tags", "git tag v1 && git tag -a -m two v2 && git tag -d v1 > /dev/null && git describe --tags > /dev/null"),
    ("the message is changed", "git commit -q --amend -m other && git log -1 --format=%s | grep -q other"),
    ("a commit is taken back and picked again", "git reset -q --hard HEAD~1 && git cherry-pick ORIG_HEAD > /dev/null"),
    ("a commit is reverted", "git revert --no-edit HEAD > /dev/null"),
    ("files are moved and removed", "git mv a c && git rm -q t && git commit -qm moved"),
    (
        "one file is committed",
        "echo 1 > one && git add one && echo 4 >> c && git commit -qm one one && ! git diff --quiet && git checkout -q -- c",
    ),
    ("a branch is moved", "git branch -f left HEAD~1 && test $(git rev-parse left) = $(git rev-parse HEAD~1)"),
    ("without a branch", "git checkout -q --detach && git checkout -q -"),
    ("notes", "git notes add -m note && git notes show > /dev/null"),
    ("references are packed", "git pack-refs --all && git rev-parse -q --verify left > /dev/null"),
    (
        "a fetch and a merge",
        "git fetch -q origin 2> /dev/null && git merge -q --no-edit origin/main > /dev/null && test -e f150",
    ),
    (
        "a merge by hand",
        "git checkout -q -b m1 && echo 1 > m && git add m && git commit -qm m1 && git checkout -q -b m2 HEAD~1 && \
      echo 2 > m && git add m && git commit -qm m2 && ! git merge -q m1 > /dev/null && echo 3 > m && git commit -qam merged",
    ),
];

/// Each of them has to fail. `$O` is another repository.
const TAKEOVERS: &[&str] = &[
    "git config core.hooksPath /var/tmp",
    "git config core.fsmonitor 'touch ../taken'",
    "git config --worktree core.editor 'touch ../taken'",
    "echo '[core]' >> .git/config",
    "echo 'touch ../taken' > .git/hooks/post-commit",
    "mkdir .git/hooks/x",
    "rm -r .git/hooks",
    "echo ../evil > .git/commondir",
    "echo x > .git/gitdir",
    "echo /var/tmp > .git/objects/info/alternates",
    "echo '* filter=x' > .git/info/attributes",
    "mv .git .g",
    "mv .git/config .git/FETCH_HEAD",
    "mv .git/refs .git/logs/refs/x",
    "ln -s ~/.bashrc .git/COMMIT_EDITMSG.lock",
    "ln -s ~/.bashrc .git/logs/refs/heads/x",
    "ln -s ~/.bashrc l; mv l .git/FETCH_HEAD",
    "ln .git/config .git/FETCH_HEAD",
    "ln .git/config c",
    "mkfifo .git/index.lock",
    "mkdir -p .git/rebase-merge && echo 'exec touch ../taken' > .git/rebase-merge/git-rebase-todo",
    "mkdir -p .git/rebase-merge; echo 'x touch ../taken' > .git/rebase-merge/git-rebase-todo.lock && \
     mv .git/rebase-merge/git-rebase-todo.lock .git/rebase-merge/git-rebase-todo",
    "rm -rf .git/rebase-merge; git rebase -q -x 'touch ../taken' HEAD~1",
    "echo theirs > .git/rebase-merge/strategy",
    "echo nonsense > .git/HEAD.lock && mv .git/HEAD.lock .git/HEAD",
    "rm .git/HEAD",
    "rm .git/index",
    "git update-index --index-info < /dev/null; python3 evil.py",
    "mkdir -p .git/modules/x",
    "mkdir -p .git/worktrees/x",
    "rm -f .git/objects/??/??????*",
    "for o in .git/objects/??/*; do chmod u+w $o && echo x > $o && exit 0; done; exit 1",
    "git replace HEAD HEAD~1",
    "git push -q origin HEAD~1:refs/heads/pushed",
    "git -C $O commit -q --allow-empty -m x",
    "echo x > $O/.git/ORIG_HEAD",
    "git submodule add -q $O sub",
    "git worktree add -q x",
    "truncate -s 0 .git/config",
    "touch .git/config",
    "mkdir -m 777 .git/info/x",
    // Git outside writes through a reference to another name.
    "echo 'ref: commondir' > .git/ORIG_HEAD",
    "echo 'ref: commondir' > .git/refs/stash",
    "python3 publish.py .git/ORIG_HEAD 'ref: commondir'",
    "python3 publish.py .git/refs/stash 'ref: commondir'",
    "python3 publish.py .git/refs/heads/new 'ref: hooks/post-checkout'",
    "python3 publish.py .git/HEAD \"ref: refs/replace/$(git rev-parse HEAD)\"",
    "echo \"$(git rev-parse HEAD) refs/replace/$(git rev-parse HEAD)\" > .git/packed-refs",
    "python3 publish.py .git/packed-refs \"$(git rev-parse HEAD) refs/replace/$(git rev-parse HEAD)\"",
];

/// Gives a file a content by way of its lock, as git does.
const PUBLISH: &str = r#"
import os, sys
name, lock = sys.argv[1], sys.argv[1] + ".lock"
with open(lock, "x") as file:
    file.write(sys.argv[2] + "\n")
try:
    os.rename(lock, name)
finally:
    os.path.exists(lock) and os.unlink(lock)
"#;

/// An index by which git would write a hook to the working tree.
const EVIL_INDEX: &str = r##"
import hashlib, os, struct, subprocess
blob = subprocess.run(["git", "hash-object", "-w", "--stdin"], input=b"#!/bin/sh\ntouch ../taken\n", capture_output=True, check=True).stdout.strip()
name = b".git/hooks/post-checkout"
entry = struct.pack(">10I", *[0] * 6, 0o100755, 0, 0, 0) + bytes.fromhex(blob.decode()) + struct.pack(">H", len(name)) + name
entry += b"\0" * (8 - len(entry) % 8)
index = b"DIRC" + struct.pack(">II", 2, 1) + entry
open(".git/index.lock", "wb").write(index + hashlib.sha1(index).digest())
try:
    os.rename(".git/index.lock", ".git/index")
finally:
    os.path.exists(".git/index.lock") and os.unlink(".git/index.lock")
"##;

/// A descriptor of the lock says nothing in what takes its place.
const LATE: &str = r#"
import os
os.path.exists(".git/HEAD.lock") and os.unlink(".git/HEAD.lock")
lock = os.open(".git/HEAD.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(lock, open(".git/HEAD", "rb").read())
os.rename(".git/HEAD.lock", ".git/HEAD")
os.pwrite(lock, b"nonsense", 0)
os.ftruncate(lock, 3)
"#;

/// A line outside of the sandbox, as the same user.
fn outside(home: &Home, directory: &Path, line: &str) -> String {
    let words = home.words();
    let (_, before) = words.split_last().unwrap();
    let mut command = program("env");
    command.args(before).args(["sh", "-c", line]);
    home.surround(&mut command);
    text(&crate::support::run(command.current_dir(directory), 0).stdout)
}

fn set_up() -> Home {
    let home = Home::of(User::Ordinary);
    outside(&home, &home.path("ws"), SETTING);
    home
}

fn passes(directory: &str) {
    for engine in ["native", "bwrap"] {
        let home = set_up();
        let directory = home.path(directory);
        let options = ["--engine", engine, "--ask", "never", "--with", "git"];
        // Without the profile it does not, and the profile is what is advised: less than all of `.git`.
        let bare = ["--engine", engine, "--ask", "never"];
        let told = home.runs_in(&directory, &bare, "echo 3 >> a && git commit -qam three", 128);
        assert!(told.stderr.contains("`--with git` would allow it"), "{engine}: {}", told.stderr);
        // It does not let git change its configuration.
        let told = home.runs_in(&directory, &bare, "git config a.b c", 255);
        assert!(!told.stderr.contains("--with git"), "{engine}: {}", told.stderr);
        outside(&home, &directory, "git checkout -q -- a");
        outside(&home, &home.path("ws"), UPSTREAM);
        for (name, line) in WORKFLOWS {
            let mut command = home.stockade(&[&["run"], options.as_slice(), &["--", "sh", "-c", line]].concat());
            let output = command.current_dir(&directory).output().unwrap();
            let told = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{engine}, {name}: {told:?}");
        }
        let told = outside(
            &home,
            &directory,
            "git fsck --strict --no-dangling 2>&1; git status --short; ls $(git rev-parse --git-dir)",
        );
        assert!(!told.contains("error") && !told.contains(".lock") && !told.contains(".stockade"), "{told}");
    }
}

#[test]
fn what_people_do_with_git_passes_in_a_clone() {
    passes("ws");
}

#[test]
fn what_people_do_with_git_passes_in_a_worktree() {
    passes("outside/wt");
}

#[test]
fn what_would_run_something_later_is_denied() {
    for engine in ["native", "bwrap"] {
        let home = set_up();
        home.write("ws/evil.py", EVIL_INDEX);
        home.write("ws/late.py", LATE);
        home.write("ws/publish.py", PUBLISH);
        // What is denied below is what the file says.
        let publish = "python3 publish.py .git/refs/heads/own $(git rev-parse HEAD)";
        home.runs(&["--engine", engine, "--with", "git"], publish, 0);
        let before = outside(&home, &home.path("ws"), "cat .git/config .git/HEAD; ls .git/hooks; git rev-parse HEAD");
        for line in TAKEOVERS {
            let words = ["run", "--engine", engine, "--ask", "never", "--with", "git", "--", "sh", "-c", line];
            let mut command = home.stockade(&words);
            let output = command.env("O", home.path("outside/other")).output().unwrap();
            let told = (text(&output.stdout), text(&output.stderr));
            assert_ne!(output.status.code(), Some(0), "{engine}, {line}: {told:?}");
            assert_ne!(output.status.code(), Some(125), "{engine}, {line}: {told:?}");
        }
        home.runs(&["--engine", engine, "--with", "git"], "python3 late.py", 0);
        let after = "cat .git/config .git/HEAD; ls .git/hooks; git rev-parse HEAD";
        assert_eq!(outside(&home, &home.path("ws"), after), before, "{engine}");
        let later = "git status > /dev/null; git rebase --continue; git rebase --abort; git checkout .; git fetch -q; \
            git commit -q --allow-empty -m x; git checkout -q -b later; find .git -type l -o -type p; true";
        let links = outside(&home, &home.path("ws"), &format!("({later}) 2> /dev/null"));
        assert!(!links.contains(".git/"), "{engine}: {links}");
        assert!(!home.exists("taken"), "{engine}");
        assert_eq!(home.read("home/.bashrc"), "own\n", "{engine}");
    }
}

/// The profile is for the workspace's own repository, where the workspace may be written.
#[test]
fn the_profile_says_where_it_grants_nothing() {
    let home = set_up();
    let told = home.runs(&["--sandbox", "read-only", "--with", "git"], "git commit -q --allow-empty -m x", 128);
    assert!(told.stderr.contains("no repository is granted: the workspace is not writable"), "{}", told.stderr);
    outside(&home, &home.path("ws"), "mkdir ../outside/planted && echo gitdir: $PWD/.git > ../outside/planted/.git");
    let told = home.runs_in(&home.path("outside/planted"), &["--with", "git"], "git commit -q --allow-empty -m x", 128);
    assert!(told.stderr.contains("names no worktree of a repository that knows of it"), "{}", told.stderr);
    let told = said(&mut home.stockade(&["profile", "show", "git"]), 0).stdout;
    assert!(told.contains("repository of the workspace"), "{told}");
    home.write(
        "config/stockade/rules/x.rules",
        "prefix_rule(pattern = [\"git\"], decision = \"allow\", profile = \"git\")\n",
    );
    home.give_to_user();
    home.runs(&[], "true", 125);
}
