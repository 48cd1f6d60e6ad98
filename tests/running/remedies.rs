//! A denial names the flags that would have allowed it, and with them the command works. What this user could not do
//! without the sandbox either is no denial.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::home::{Home, User, said};
use crate::support::program;

/// A workspace, a home and a directory outside, all of an ordinary user.
fn world() -> Home {
    let home = Home::of(User::Ordinary);
    home.write("ws/src/main.c", "int main(void){ return 0; }\n");
    home.write("ws/Makefile", "install:\n\tinstall -m 755 src/main.c ../outside/bin/tool\n");
    home.write("ws/secrets/p.txt", "password=x\n");
    home.write("outside/data.txt", "abc\n");
    home.write("outside/with space/data.txt", "abc\n");
    home.write("outside/bin/.keep", "");
    home.write("home/.netrc", "machine x login y password z\n");
    home.write("home/.config/app/app.conf", "a=1\n");
    home.write("home/.gitconfig", "[user]\n\tname = T\n\temail = t@example.org\n");
    said(program("git").args(["init", "-q"]).arg(home.path("ws/repository")), 0);
    let owned = program("find").arg(home.path("")).args(["-mindepth", "1"]).output().unwrap();
    for path in String::from_utf8(owned.stdout).unwrap().lines().map(Path::new) {
        if rustix::process::geteuid().is_root() && !path.ends_with("stockade") {
            lchown(path, Some(65534), Some(65534)).unwrap();
        }
    }
    home
}

/// What was said of the denials: the lines of the program itself.
fn denials(stderr: &str) -> Vec<&str> {
    stderr.lines().filter_map(|line| line.strip_prefix("stockade: ")).filter(|line| line.contains("denied")).collect()
}

/// The text in backticks behind the last semicolon: what is typed first, and the flags.
fn remedy(denial: &str) -> (Option<String>, Vec<String>) {
    let (_, remedy) = denial.rsplit_once("; ").unwrap_or_else(|| panic!("no remedy: {denial}"));
    let typed: Vec<&str> = remedy.split('`').skip(1).step_by(2).collect();
    let (first, flags) = match typed.as_slice() {
        [flags] => (None, flags),
        [first, flags] => (Some((*first).to_owned()), flags),
        other => panic!("{denial}: {other:?}"),
    };
    let words = program("sh").args(["-c", &format!("printf '%s\\n' {flags}")]).output().unwrap();
    (first, String::from_utf8(words.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// A denied line, the options it is run with, and a part of what is printed for it.
const DENIED: &[(&str, &[&str], &str)] = &[
    ("echo x > ../outside/a.txt", &[], "`--writable $T/outside` would allow it"),
    ("echo x >> ../outside/data.txt", &[], "`--writable $T/outside/data.txt` would allow it"),
    ("echo x >> '../outside/with space/data.txt'", &[], "`--writable '$T/outside/with space/data.txt'` would allow it"),
    ("cp src/main.c ../outside/", &[], "`--writable $T/outside` would allow it"),
    ("gcc -o ../outside/bin/hello src/main.c", &[], "`--writable $T/outside/bin` would allow it"),
    ("ln -s \"$PWD/src\" ../outside/link", &[], "`--writable $T/outside` would allow it"),
    ("make -s install", &[], "`--writable $T/outside/bin` would allow it"),
    ("sed -i s/abc/def/ ../outside/data.txt", &[], "`--writable $T/outside` would allow it"),
    ("dd if=/dev/zero of=../outside/dd bs=1 count=1", &[], "`--writable $T/outside` would allow it"),
    ("rm ../outside/data.txt", &[], "`--writable $T/outside` would allow it"),
    ("mv ../outside/data.txt ../outside/moved.txt", &[], "`--writable $T/outside` would allow it"),
    ("tar -czf ../outside/b.tgz src", &[], "`--writable $T/outside` would allow it"),
    ("touch ../outside/data.txt", &[], "`--writable $T/outside/data.txt` would allow it"),
    // Not all of the home directory, but what would be made in it.
    ("mkdir -p ~/.cache/go-build", &[], "after `mkdir -p $T/home/.cache`, `--writable $T/home/.cache` would allow it"),
    (
        "python3 -c \"import os; os.makedirs(os.path.expanduser('~/.local/share/app'))\"",
        &[],
        "after `mkdir -p $T/home/.local`, `--writable $T/home/.local` would allow it",
    ),
    (
        "python3 -c \"open('$HOME/.config/app/state.json', 'w')\"",
        &[],
        "`--writable $T/home/.config/app` would allow it",
    ),
    ("git config --global user.name X", &[], "`--writable $T/home` would allow it"),
    ("git init -q .", &[], "after `mkdir -p $T/ws/.git`, `--writable $T/ws/.git` would allow it"),
    ("git -C repository config core.hooksPath hooks", &[], "`--writable $T/ws/repository/.git` would allow it"),
    ("mkdir .codex", &[], "after `mkdir -p $T/ws/.codex`, `--writable $T/ws/.codex` would allow it"),
    ("touch g", &["--sandbox", "read-only"], "`--sandbox workspace-write` would allow it"),
    (
        "touch ../outside/g",
        &["--sandbox", "read-only"],
        "`--sandbox workspace-write --writable $T/outside` would allow it",
    ),
    ("cat ~/.netrc", &[], "`--readable / --readable $T/home/.netrc` would allow it"),
    ("cat ~/.config/app/app.conf", &["--readable", "."], "`--readable $T/home/.config/app/app.conf` would allow it"),
    ("cat $T/tmp-file", &[], "would allow it"),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$T/outside/agent.sock')\"",
        &[],
        "`--allow-socket $T/outside/agent.sock` would allow it",
    ),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$T/outside/agent.sock')\"",
        &["--allow-host", "good.test:1"],
        "connecting to `$T/outside/agent.sock` was denied",
    ),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$T/outside/agent.sock')\"",
        &["--allow-socket", "../outside/data.txt"],
        "connecting to `$T/outside/agent.sock` was denied: nothing grants it; `--allow-socket $T/outside/agent.sock`",
    ),
];

#[test]
fn what_is_printed_works() {
    let mut checked = 0;
    for (line, options, words) in DENIED {
        let home = world();
        let _listening = UnixListener::bind(home.path("outside/agent.sock")).unwrap();
        fs::set_permissions(home.path("outside/agent.sock"), fs::Permissions::from_mode(0o777)).unwrap();
        let top = home.path("");
        let top = top.to_str().unwrap().trim_end_matches('/');
        // A file of the host's in a directory that is private inside.
        let private = tempfile::Builder::new().prefix("stockade-private").tempfile_in("/tmp").unwrap();
        fs::set_permissions(private.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let line = line.replace("$T/tmp-file", private.path().to_str().unwrap()).replace("$T", top);
        let words = words.replace("$T", top);
        let mut command = home.stockade(&[&["run"], *options, &["--", "sh", "-c", &line]].concat());
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{line} was not denied");
        let found = denials(&stderr);
        assert!(found.iter().any(|denial| denial.contains(&words)), "{line}: {words}\n{stderr}");
        // Everything that was denied, with everything that is advised.
        let (mut flags, mut first) = (Vec::new(), Vec::new());
        for denial in found {
            let (before, more) = remedy(denial);
            first.extend(before);
            flags.extend(more);
        }
        for typed in first {
            let mut shell = home.words();
            shell.pop();
            let mut command = program(if shell.is_empty() { "sh" } else { shell.first().unwrap().to_str().unwrap() });
            command.args(shell.iter().skip(1)).args(if shell.is_empty() { &[][..] } else { &["sh"][..] });
            said(command.args(["-c", &typed]), 0);
        }
        let kept: Vec<&str> = if options.first() == Some(&"--sandbox") { Vec::new() } else { options.to_vec() };
        let flags: Vec<&str> = kept.into_iter().chain(flags.iter().map(String::as_str)).collect();
        // What was made before it was denied stays.
        let line = line.replace("mkdir .codex", "mkdir .codex/below");
        home.says(&[&["run"], &flags[..], &["--", "sh", "-c", &line]].concat(), 0);
        checked += 1;
    }
    assert_eq!(checked, DENIED.len());
}

/// Names that rules speak of can be written, and stay where they are: nothing is advised that would not help, or would
/// destroy a repository.
#[test]
fn nothing_is_advised_that_would_not_help() {
    for (line, words) in [
        ("rm ~/.netrc", "$T/home/.netrc` was denied"),
        ("mv ~/.netrc ~/.netrc.old", "$T/home/.netrc` was denied"),
        ("mv src/main.c ~/.netrc", "$T/home/.netrc` was denied"),
        ("mv repository/.git repository/git", "$T/ws/repository/.git` was denied"),
        ("mv repository elsewhere", "$T/ws/repository/.git` was denied"),
        ("rm -rf repository/.git", "$T/ws/repository/.git"),
        ("touch .codex", "$T/ws/.codex` was denied"),
    ] {
        let home = world();
        let top = home.path("");
        let words = words.replace("$T", top.to_str().unwrap().trim_end_matches('/'));
        let output = home.stockade(&["run", "--ask", "never", "--", "sh", "-c", line]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let found = denials(&stderr);
        assert!(found.iter().any(|denial| denial.contains(&words)), "{line}: {stderr}");
        assert!(found.iter().all(|denial| !denial.contains("would allow it")), "{line}: {stderr}");
    }
}

/// Failures that the sandbox has no part in.
#[test]
fn what_the_user_could_not_do_anyway_is_no_denial() {
    let home = world();
    fs::write(home.path("locked"), "x").unwrap();
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o600)).unwrap();
    for line in [
        "mkdir -p /usr/local/truth && cp src/main.c /usr/local/truth/",
        "touch /etc/passwd",
        "rm /etc/hostname",
        "cat ../locked",
        "echo x > ../locked",
        "kill -9 1",
        "mount -t tmpfs none src",
        "chroot / true",
        "curl -sS http://127.0.0.1:9/",
        "python3 -c \"import socket; socket.create_connection(('localhost', 9))\"",
        "curl -sS https://no-such-host.invalid/",
        "python3 -c \"raise __import__('socket').gaierror(-3, 'Temporary failure in name resolution')\"",
        "bash -c \"diff <(echo 'cp: cannot create ../outside/x: Read-only file system') <(echo ok) >&2\"",
        "echo 'configure: error: landlock headers not found' >&2; exit 1",
        "grep -r zzzqq /etc/ssl",
    ] {
        let output = home.stockade(&["run", "--", "sh", "-c", line]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{line}");
        assert_eq!(denials(&stderr), Vec::<&str>::new(), "{line}: {stderr}");
    }
}

/// A command's URL says which host it was, where the message does not.
#[test]
fn hosts_are_named_where_the_message_has_none() {
    let home = world();
    let line = "python3 -c \"import urllib.request as u; u.urlopen('https://packages.example.org/simple/six/')\"";
    let told = home.runs(&[], line, 1);
    let expected = "connecting to `packages.example.org:443` was denied: nothing grants it; \
                    `--allow-host packages.example.org:443` would allow it";
    assert_eq!(denials(&told.stderr), [expected]);
}

/// What is granted by hand is granted, or refused with what to type.
#[test]
fn nothing_is_granted_in_vain() {
    let home = world();
    let told = home.runs(&["--sandbox", "read-only", "--writable", "../outside"], "true", 125);
    assert!(told.stderr.contains("`--writable` has no effect in a `read-only` sandbox"), "{}", told.stderr);
    assert!(told.stderr.contains("pass `--sandbox workspace-write` as well"), "{}", told.stderr);
    home.write("config/stockade/config.toml", "sandbox.mode = \"read-only\"\n");
    let told = home.runs(&["--writable", "../outside"], "true", 125);
    assert!(told.stderr.contains("config.toml"), "{}", told.stderr);
    home.runs(&["--sandbox", "workspace-write", "--writable", "../outside"], "touch ../outside/x", 0);
    // A file can be granted alone: it is written in place, and nothing else is.
    fs::remove_file(home.path("config/stockade/config.toml")).unwrap();
    for engine in ["native", "bwrap"] {
        let options = ["--engine", engine, "--writable", "../outside/data.txt"];
        home.runs(&options, "echo more >> ../outside/data.txt && ! touch ../outside/y", 0);
        assert!(home.read("outside/data.txt").ends_with("more\n") && !home.exists("outside/y"), "{engine}");
    }
}

/// No flag is advised that would not help: for Stockade's own files, also where a mask covers them, and for kinds of
/// sockets that no flag grants.
#[test]
fn no_flag_is_advised_that_would_not_help() {
    let home = world();
    home.runs(&[], "true", 0);
    let state = home.path("home/.local/state/stockade");
    fs::create_dir_all(&state).unwrap();
    home.give_to_user();
    let home_directory = home.path("home").display().to_string();
    for engine in ["native", "bwrap"] {
        let told =
            home.runs(&["--engine", engine, "--workspace", &home_directory], "touch $HOME/.local/state/stockade/x", 1);
        let [denial] = denials(&told.stderr)[..] else { panic!("{}", told.stderr) };
        assert!(denial.ends_with("holds Stockade's own files, which no sandboxed command may write"), "{denial}");
        // AF_VSOCK, with a unix socket in the environment.
        let agent = UnixListener::bind(home.path(&format!("outside/{engine}.sock"))).unwrap();
        home.give_to_user();
        let mut command =
            home.stockade(&["run", "--engine", engine, "--", "python3", "-c", "import socket; socket.socket(40, 1)"]);
        let told = said(command.env("SSH_AUTH_SOCK", home.path(&format!("outside/{engine}.sock"))), 1);
        let [denial] = denials(&told.stderr)[..] else { panic!("{}", told.stderr) };
        assert!(
            denial.contains("no policy allows this kind of socket") && !denial.contains("--allow-socket"),
            "{denial}"
        );
        drop(agent);
    }
}

/// A file that a denied link leads to is a denied read.
#[test]
fn the_target_of_a_denied_link_is_named() {
    let home = world();
    home.write("ws/real", "secret\n");
    std::os::unix::fs::symlink("real", home.path("ws/link.pem")).unwrap();
    home.give_to_user();
    let told = home.runs(&["--deny-read", "**/*.pem"], "cat real", 1);
    let [denial] = denials(&told.stderr)[..] else { panic!("{}", told.stderr) };
    assert!(denial.contains("/ws/real` was denied") && denial.contains("no approval lifts that"), "{denial}");
}

/// The state of an agent that this user can't write is told with what to type, and not said to be readable.
#[test]
fn a_closed_state_of_an_agent_is_told() {
    let home = world();
    let told = home.runs(&["--with", "codex"], "chmod 0 $CODEX_HOME", 0);
    assert!(told.stderr.contains("every command that it starts can read and change them"), "{}", told.stderr);
    let told = home.runs(&["--with", "codex"], "true", 0);
    assert!(told.stderr.contains("type `chmod u+rwx "), "{}", told.stderr);
    assert!(!told.stderr.contains("can read and change"), "{}", told.stderr);
}
