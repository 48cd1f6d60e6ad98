//! Repositories, settings and words that commands could have made, in directories of their own.

use std::fs;

use stockade_protocol::{Argv, AskForApproval, HostPaths, SandboxPolicy};
use stockade_shell_command::parse_argv;

use super::*;

#[test]
fn a_repository_that_a_command_could_have_made_is_seen() {
    let world = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = world.path().canonicalize().unwrap();
    for directory in ["ws/.git", "ws/src", "ws/nested/.git/hooks", "ws/nested/src", "ws/bare/objects", "other/.git"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("ws/bare/HEAD"), "").unwrap();
    fs::write(root.join("ws/.git/config"), "[remote \"origin\"]\n\turl = git@h.test:x\n").unwrap();
    fs::write(root.join("ws/a.rs"), "").unwrap();
    fs::create_dir_all(root.join("led")).unwrap();
    fs::write(root.join("led/.git"), "gitdir: ../ws/nested/.git\n").unwrap();
    fs::create_dir_all(root.join("hooked/.git")).unwrap();
    fs::write(root.join("hooked/.git/config"), "[core]\n\thooksPath = ../ws/src\n").unwrap();
    let path = |name: &str| AbsPath::from_path(&root.join(name)).unwrap();
    let host = HostPaths::without_masks([path("ws")]);
    let policy = SandboxPolicy::workspace_write();
    let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, policy, &host).unwrap();
    let cases: &[(&[&str], &str, bool)] = &[
        (&["git", "status"], "ws", false),
        (&["git", "status"], "ws/src", false),
        (&["git", "status"], "other", false),
        (&["git", "status"], "ws/nested", true),
        (&["/usr/bin/git", "status"], "ws/nested/src", true),
        (&["git", "status"], "ws/bare", true),
        (&["git", "status"], "ws/gone", true),
        (&["bash", "-c", "cd nested && git status"], "ws", true),
        (&["bash", "-c", "ls && git status"], "ws", false),
        (&["ls"], "ws/nested", false),
        (&["git", "-C", "nested", "status"], "ws", true),
        (&["git", "--git-dir=bare", "status"], "ws", true),
        (&["git", "-c", "core.fsmonitor=x", "status"], "ws", true),
        (&["git", "--no-pager", "log"], "ws", false),
        (&["git", "push", "bare", "HEAD"], "ws", true),
        (&["git", "push", "origin", "HEAD"], "ws", false),
        (&["git", "push", "-u", "origin", "HEAD"], "ws", false),
        (&["git", "clone", "-qu", "x", "https://a.test/x"], "ws", true),
        (&["git", "push", "--rec=x", "origin"], "ws", true),
        (&["git", "fetch", "ext::sh -c x"], "ws", true),
        (&["git", "fetch", "file:///x"], "ws", true),
        (&["git", "commit", "-m", "x", "a.rs"], "ws", false),
        (&["env", "-C", "nested", "git", "status"], "ws", true),
        (&["git", "status"], "led", true),
        (&["git", "status"], "hooked", true),
    ];
    for (words, cwd, wanted) in cases {
        let line = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
        assert_eq!(has_writable_repository(&session, &path(cwd), &line), *wanted, "{words:?} in {cwd}");
    }
    let line = parse_argv(&Argv::parse(["git", "status"]).unwrap());
    for (name, wanted) in [("GIT_DIR", true), ("GIT_AUTHOR_NAME", false)] {
        session.environment = [(RawText::from(name), RawText::from("x"))].into();
        assert_eq!(has_writable_repository(&session, &path("ws"), &line), wanted, "{name}");
    }
    session.sandbox = SandboxPolicy::DangerFullAccess {};
    let line = parse_argv(&Argv::parse(["git", "status"]).unwrap());
    assert!(!has_writable_repository(&session, &path("ws/nested"), &line), "there is no sandbox to leave");
}

/// A user's home beside a workspace with the remote `origin`.
struct World {
    _directory: tempfile::TempDir,
    root: PathBuf,
    session: Session,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["ws/.git/hooks", "ws/src", "home/hooks", "srv/x.git"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let host = HostPaths::without_masks([AbsPath::from_path(&root.join("ws")).unwrap()]);
        let policy = SandboxPolicy::workspace_write();
        let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, policy, &host).unwrap();
        let home = root.join("home").to_str().unwrap().to_owned();
        session.environment = [("HOME", home.as_str()), ("PATH", "/usr/bin:/bin")]
            .map(|(name, value)| (RawText::from(name), RawText::from(value)))
            .into();
        let world = Self { _directory: directory, root, session };
        world.has("");
        world
    }

    /// Settings of the repository besides its remotes.
    fn has(&self, more: &str) {
        let settings = format!(
            "[remote \"origin\"]\n\turl = git@h.test:x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [remote \"web\"]\n\turl = https://h.test/x\n[remote \"local\"]\n\turl = ROOT/srv/x.git\n\
             [remote \"out\"]\n\tpushurl = ssh://h.test/x\n[remote \"backup\"]\n\tprune = true\n{more}"
        );
        self.write("ws/.git/config", &settings);
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root.join(path), text.replace("ROOT", self.root.to_str().unwrap())).unwrap();
    }

    fn why(&self, words: &[&str]) -> Option<String> {
        let line = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
        why_git_is_steered(&self.session, &AbsPath::from_path(&self.root.join("ws")).unwrap(), &line)
    }
}

#[test]
fn the_repository_of_a_push_is_a_remote_with_an_address_or_an_address() {
    let world = World::new();
    for words in [
        &["push"][..],
        &["push", "origin"],
        &["push", "origin", "main"],
        &["push", "-u", "origin", "HEAD"],
        &["push", "--tags"],
        &["push", "--all", "web"],
        &["push", "--mirror", "local"],
        &["push", "out", "main"],
        &["push", "--force-with-lease", "origin", "x"],
        &["push", "--force-with-lease=x:y", "origin", "x"],
        &["push", "-fq", "origin", "main:other", "HEAD"],
        &["push", "-o", "ci.skip", "origin", "main"],
        &["push", "--push-option=ci.skip", "origin"],
        &["push", "-qoci.skip", "origin"],
        &["push", "--no-verify", "--", "origin", "late"],
        &["push", "--recurse-submodules=no", "origin"],
        &["push", "git@host.test:x/y", "main"],
        &["push", "ssh://git@host.test/x"],
        &["fetch", "https://host.test/x"],
        &["fetch", "--depth", "1", "origin", "main"],
        &["pull", "--rebase", "origin", "main"],
        &["ls-remote", "--heads", "origin"],
        &["--no-pager", "push", "origin"],
    ] {
        assert_eq!(world.why(&[&["git"], words].concat()), None, "{words:?}");
    }
    for words in [
        &["push", "late"][..],
        &["push", "-o", "origin", "late", "main:refs/heads/x"],
        &["push", "-qo", "origin", "late"],
        &["push", "--push-option", "origin", "late"],
        &["push", "--", "late"],
        &["push", "--end-of-options", "late"],
        &["push", "backup"],
        &["fetch", "out"],
        &["push", "."],
        &["push", ""],
        &["push", "./late"],
        &["push", "file:///x"],
        &["push", "FILE:///x"],
        &["push", "SSH://x/y"],
        &["push", "own://x"],
        &["push", "ext::sh -c x"],
        &["push", "/x:y"],
        &["push", "--recurse-submodules=on-demand", "origin"],
        &["push", "--recurse-submodules", "check", "origin"],
        &["push", "--repo=late"],
        &["push", "--repo", "late"],
        &["push", "--receive-pack", "x", "origin"],
        &["push", "--exec=x", "origin"],
        &["push", "--unknown", "origin"],
        &["push", "--pus", "origin", "late"],
        &["push", "-Z", "origin"],
        &["fetch", "--multiple", "origin", "late"],
        &["fetch", "-m", "origin", "late"],
        &["fetch", "--all"],
        &["fetch", "-j", "origin", "late"],
        &["pull", "-s", "origin", "late"],
        &["ls-remote", "--sort", "origin", "late"],
        &["-C", "x", "push", "origin"],
        &["-c", "a.b=c", "push", "origin"],
        &["--git-dir", "x", "push", "origin"],
        &["--exec-path=x", "push", "origin"],
        &["--config-env=a.b=C", "push", "origin"],
        &["a/b"],
    ] {
        assert!(world.why(&[&["git"], words].concat()).is_some(), "{words:?}");
    }
}

#[test]
fn the_default_repository_of_a_push_is_a_remote_as_well() {
    let world = World::new();
    for (settings, is_steered) in [
        ("[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n", false),
        ("[branch \"main\"]\n\tremote = .\n\tmerge = refs/heads/other\n", false),
        ("[branch \"main\"]\n\tremote = git@h.test:y\n\tvscode-merge-base = origin/main\n", false),
        ("[branch \"main\"]\n\tremote = late\n", true),
        ("[branch \"main\"]\n\tpushRemote = late\n", true),
        ("[remote]\n\tpushDefault = late\n", true),
        ("[remote]\n\tpushDefault = backup\n", true),
        ("[remote]\n\tpushDefault = out\n", false),
    ] {
        world.has(settings);
        assert_eq!(world.why(&["git", "push"]).is_some(), is_steered, "{settings}");
        assert_eq!(world.why(&["git", "push", "origin"]), None, "{settings}");
    }
    for settings in [
        "[remotes]\n\tgroup = late\n",
        "[remote \"backup\"]\n\tpromisor = true\n",
        "[remote \"origin\"]\n\turl =\n",
        "[remote \"origin\"]\n\turl = late\n",
        "[remote \"origin\"]\n\tpushurl = ./late\n",
        "[remote \"origin\"]\n\tpushurl = ROOT/ws/late\n",
        "[remote \"origin\"]\n\tpushurl = file://ROOT/ws/late\n",
        "[remote \"origin\"]\n\tpushurl = ext::sh\n",
        "[remote \"origin\"]\n\treceivepack = ./late\n",
    ] {
        world.has(settings);
        assert!(world.why(&["git", "push", "origin"]).is_some(), "{settings}");
    }
}

#[test]
fn the_users_settings_are_judged_like_the_repositorys() {
    const STEERED: &[&str] = &[
        "[core]\n\thooksPath = .githooks\n",
        "[core]\n\thooksPath = ROOT/ws/hooks\n",
        "[core]\n\thooksPath = ~other/hooks\n",
        "[core]\n\thooksPath = /proc/self/cwd/hooks\n",
        "[core]\n\tsshCommand = ssh -F sshconfig\n",
        "[core]\n\tsshCommand = ssh -Fsshconfig\n",
        "[core]\n\tsshCommand = ssh -4qF sshconfig\n",
        "[core]\n\tsshCommand = \"ssh -F \\\"~/.ssh\\\"/../x\"\n",
        "[core]\n\tsshCommand = ssh -o ProxyCommand=./x\n",
        "[core]\n\tsshCommand = ssh -oInclude=x\n",
        "[core]\n\tsshCommand = ssh -o 'ProxyCommand sh x'\n",
        "[core]\n\tsshCommand = ./ssh\n",
        "[core]\n\tsshCommand = tools/ssh\n",
        "[core]\n\tsshCommand = python3 tool\n",
        "[core]\n\tsshCommand = python3 -mtool\n",
        "[core]\n\tsshCommand = wrap --config=x\n",
        "[core]\n\tsshCommand = \"true; ./x\"\n",
        "[core]\n\tsshCommand = $(cat x)\n",
        "[core]\n\tsshCommand = A=x ssh\n",
        "[core]\n\tgitProxy = ./x for h.test\n",
        "[core]\n\taskPass = ./x\n",
        "[core]\n\tfsmonitor = .husky/monitor\n",
        "[credential]\n\thelper = !./x\n",
        "[credential]\n\thelper = !f() { ./x; }; f\n",
        "[credential]\n\thelper = ./x\n",
        "[credential]\n\thelper = store --file x\n",
        "[credential \"https://h.test\"]\n\thelper = !sh x\n",
        "[gpg]\n\tprogram = ./gpg\n",
        "[gpg \"ssh\"]\n\tdefaultKeyCommand = sh keys\n",
        "[http]\n\tsslCAInfo = ca.pem\n",
        "[filter \"x\"]\n\tclean = ./tool\n",
        "[diff]\n\texternal = tools/diff\n",
        "[include]\n\tpath = ROOT/ws/settings\n",
        "[include]\n\tpath = more\n",
        "[includeIf \"gitdir:/\"]\n\tpath = ~/more\n",
        "[url \"late\"]\n\tinsteadOf = gh:\n",
        "[url \"file:\"]\n\tpushInsteadOf = gh:\n",
        "[core\n",
    ];
    const PLAIN: &[&str] = &[
        "",
        "[core]\n\thooksPath = ROOT/home/hooks\n",
        "[core]\n\thooksPath = ~/hooks\n",
        "[core]\n\thooksPath = .git/hooks\n",
        "[core]\n\tsshCommand = ssh\n",
        "[core]\n\tsshCommand = ssh -i ~/.ssh/id -o IdentitiesOnly=yes -p 2222\n",
        "[core]\n\tsshCommand = ssh -F none -o BatchMode=yes -o UserKnownHostsFile=/dev/null\n",
        "[core]\n\tsshCommand = ssh -F /dev/null -oStrictHostKeyChecking=accept-new\n",
        "[core]\n\tsshCommand = /usr/bin/ssh -v\n",
        "[core]\n\tfsmonitor = true\n\teditor = code --wait\n\tpager = less -FRX\n\texcludesFile = .ignored\n",
        "[credential]\n\thelper =\n\thelper = store\n\thelper = cache --timeout=3600\n\thelper = store --file ~/.c\n",
        "[credential \"https://github.com\"]\n\thelper = !gh auth git-credential\n",
        "[credential]\n\thelper = !/usr/bin/gh auth git-credential\n\thelper = /usr/lib/git-credential-x\n",
        "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n\trequired = true\n",
        "[alias]\n\tst = status -s\n\tx = \"!f() { ./x; }; f\"\n",
        "[user]\n\tname = A / B\n\tsigningKey = ~/.ssh/id.pub\n[gpg]\n\tformat = ssh\n\tprogram = gpg2\n",
        "[commit]\n\ttemplate = .message\n[blame]\n\tignoreRevsFile = .revs\n[push]\n\tdefault = simple\n",
        "[http]\n\tproxy = socks5://h.test:1\n\textraHeader = AUTHORIZATION: basic a/b=\n",
        "[include]\n\tpath = harmless\n[safe]\n\tdirectory = *\n",
        "[url \"git@h.test:\"]\n\tinsteadOf = https://h.test/\n[url \"ssh://git@\"]\n\tpushInsteadOf = https://\n",
    ];
    let world = World::new();
    world.write("home/more", "[core]\n\thooksPath = hooks\n");
    world.write("home/harmless", "[user]\n\tname = A\n");
    for settings in STEERED {
        world.write("home/.gitconfig", settings);
        let why = world.why(&["git", "push", "origin", "main"]);
        assert!(why.is_some(), "{settings}");
    }
    for settings in PLAIN {
        world.write("home/.gitconfig", settings);
        assert_eq!(world.why(&["git", "push", "origin", "main"]), None, "{settings}");
        assert_eq!(world.why(&["git", "status"]), None, "{settings}");
    }
    // What only other commands than a push run.
    for settings in
        ["[core]\n\teditor = sh edit\n", "[filter \"x\"]\n\tclean = python3 tool.py\n", "[pager]\n\tlog = sh x\n"]
    {
        world.write("home/.gitconfig", settings);
        assert_eq!(world.why(&["git", "push", "origin", "main"]), None, "{settings}");
        assert!(world.why(&["git", "pull", "origin"]).is_some(), "{settings}");
    }
    world.write("home/.gitconfig", "[alias]\n\tst = status -s\n\tup = push late\n\trun = !./x\n");
    assert_eq!(world.why(&["git", "st"]), None);
    for alias in ["up", "run"] {
        assert!(world.why(&["git", alias]).is_some(), "{alias}");
    }
}
