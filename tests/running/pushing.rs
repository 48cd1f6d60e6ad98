//! A program of a line that pushes to a server, with what a rule gives it and its caller has not: over git's own protocol,
//! and over ssh with a signing agent.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::elsewhere::World;
use super::home::{Home, User, said};
use crate::support::{program, run};

fn git(directory: &Path, words: &[&str]) {
    let mut git = program("git");
    git.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("GIT_CONFIG_COUNT", "1");
    git.env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    run(git.args(words).current_dir(directory), 0);
}

/// A server in a process group of its own: git starts the daemon as another process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        self.0.wait().ok();
    }
}

/// One program of a line pushes to its server, and nothing else of the line reaches that.
#[test]
fn git_pushes_with_its_profile_and_the_rest_of_the_line_does_not() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let world = World::new(user, engine, "prefix_rule([\"git\", \"push\"], profile = \"git-push\")\n");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (server, ws) = (world.home.path("outside/server"), world.home.path("ws"));
        fs::create_dir(&server).unwrap();
        git(&ws, &["init", "-q", "--bare", "-b", "main", server.join("r.git").to_str().unwrap()]);
        git(&ws, &["init", "-q", "-b", "main", "."]);
        git(&ws, &["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
        git(&ws, &["remote", "add", "origin", &format!("git://127.0.0.1:{port}/r.git")]);
        let profile = format!(
            "about = \"a server\"\ntools = [\"git\"]\n[[connect]]\nhost = \"127.0.0.1:{port}\"\nreason = \"the server\"\n"
        );
        world.home.write("config/stockade/profiles/git-push.toml", &profile);
        world.home.write(
            "ws/package.json",
            "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"git ls-remote origin; test $? = 128\"}}\n",
        );
        world.home.give_to_user();
        let mut daemon = program("git");
        daemon.args([
            "daemon",
            "--export-all",
            "--enable=receive-pack",
            "--listen=127.0.0.1",
            "--verbose",
            "--log-destination=stderr",
        ]);
        daemon.arg(format!("--port={port}")).arg(format!("--base-path={}", server.display()));
        daemon.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("GIT_CONFIG_COUNT", "1");
        daemon.env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
        let mut daemon = Server(
            daemon.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap(),
        );
        let mut line = String::new();
        let mut told = BufReader::new(daemon.0.stderr.take().unwrap());
        told.read_line(&mut line).unwrap();
        let reach = format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' 2>/dev/null && exit 3"
        );
        let line = format!(
            "{reach}; npm test --silent 2>/dev/null && git push -q origin main; {reach}; git push -q origin main:other"
        );
        let said = world.runs(&[], &line, 0);
        let pushed = program("git")
            .args(["-c", "safe.directory=*", "--git-dir"])
            .arg(server.join("r.git"))
            .args(["branch", "--list"])
            .output()
            .unwrap();
        let branches = String::from_utf8_lossy(&pushed.stdout).into_owned();
        assert!(branches.contains("main") && branches.contains("other"), "{engine}: {branches}{}", said.stderr);
    }
}

/// Starts a program in a process group of its own.
fn serve(command: &mut Command) -> Server {
    Server(command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn is_soon(holds: impl Fn() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < Duration::from_secs(30), "it does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server that takes pushes from the holder of one key, and an agent that has it. The key is in no file.
struct Ssh {
    port: u16,
    agent: String,
    _running: [Server; 2],
}

impl Ssh {
    fn new(world: &World) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = world.home.path("").display().to_string();
        let place = place.trim_end_matches('/');
        for key in ["host", "key"] {
            run(program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(world.home.path(key)), 0);
        }
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let public = |key: &str| world.home.read(&format!("{key}.pub"));
        world.home.write("authorized", &format!("restrict {}", public("key")));
        world.home.write("known", &format!("[127.0.0.1]:{port} {}", public("host")));
        let mut server = program("/usr/sbin/sshd");
        server.args(["-f", "/dev/null", "-D", "-p", &port.to_string(), "-h", &format!("{place}/host")]);
        for option in ["ListenAddress=127.0.0.1", "UsePAM=no", "StrictModes=no", "PidFile=none"] {
            server.args(["-o", option]);
        }
        server.arg("-o").arg(format!("AuthorizedKeysFile={place}/authorized"));
        let server = serve(&mut server);
        let agent = world.home.path("home/agent").display().to_string();
        let mut daemon = world.home.other("ssh-agent");
        let daemon = serve(daemon.args(["-D", "-a", &agent]));
        is_soon(|| TcpStream::connect(("127.0.0.1", port)).is_ok() && fs::metadata(&agent).is_ok());
        run(program("chmod").args(["644"]).arg(world.home.path("key")), 0);
        let mut add = world.home.other("sh");
        run(
            add.args([
                "-c",
                &format!(
                    "umask 077; cp {place}/key {place}/home/key && ssh-add -q {place}/home/key; rm {place}/home/key"
                ),
            ])
            .env("SSH_AUTH_SOCK", &agent),
            0,
        );
        fs::remove_file(world.home.path("key")).unwrap();
        Self { port, agent, _running: [server, daemon] }
    }
}

/// The user's own rule gives one program of a line its host and the signing agent; nothing else of the line reaches either.
#[test]
fn git_pushes_over_ssh_with_the_agent_and_nothing_else_reaches_it() {
    let user = String::from_utf8(program("id").arg("-un").output().unwrap().stdout).unwrap();
    for (owner, engine) in
        [(User::Own, "native"), (User::Ordinary, "native"), (User::Own, "bwrap"), (User::Ordinary, "bwrap")]
    {
        let world = World::new(owner, engine, "prefix_rule([\"git\", \"push\"], profile = \"git-push\")\n");
        let (server, ws) = (world.home.path("r.git"), world.home.path("ws"));
        git(&ws, &["init", "-q", "--bare", "-b", "main", server.to_str().unwrap()]);
        git(&ws, &["init", "-q", "-b", "main", "."]);
        git(&ws, &["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
        let ssh = Ssh::new(&world);
        let (port, known) = (ssh.port, world.home.path("known").display().to_string());
        let address = format!("ssh://{}@127.0.0.1:{port}{}", user.trim(), server.display());
        git(&ws, &["remote", "add", "origin", &address]);
        let settings = format!(
            "[core]\n\tsshCommand = ssh -F none -o BatchMode=yes -o UserKnownHostsFile={known}\n[safe]\n\tdirectory = *\n"
        );
        world.home.write("home/.gitconfig", &settings);
        let profile = format!(
            "about = \"a server, and the agent\"\ntools = [\"git\"]\n[[connect]]\nhost = \"127.0.0.1:{port}\"\nreason = \"the server\"\n\
             [[socket]]\npath = \"${{SSH_AUTH_SOCK}}\"\nreason = \"signs\"\n"
        );
        world.home.write("config/stockade/profiles/git-push.toml", &profile);
        world.home.write(
            "ws/package.json",
            "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"ssh-add -L; test $? = 2\"}}\n",
        );
        world.home.give_to_user();
        let reach = format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' 2>/dev/null && exit 3; ssh-add -L 2>/dev/null && exit 4"
        );
        let line = format!(
            "{reach}; npm test --silent >/dev/null 2>&1 && git push -q origin main; {reach}; GIT_SSH_COMMAND='ssh-add -L > leaked;' git push -q origin main:other; \
             git ls-remote origin 2>/dev/null && exit 5; {reach}; true"
        );
        let said = said(world.command(&[], &["sh", "-c", &line]).env("SSH_AUTH_SOCK", &ssh.agent), 0);
        // The command itself is a program like any other.
        let direct = said_of_push(&world, &ssh, "main:direct");
        let branches =
            program("git").args(["-c", "safe.directory=*", "--git-dir"]).arg(&server).arg("branch").output().unwrap();
        let branches = String::from_utf8_lossy(&branches.stdout).into_owned();
        for branch in ["main", "other", "direct"] {
            assert!(branches.contains(branch), "{engine}: {branch} in {branches}{}{direct}", said.stderr);
        }
        assert!(!world.home.exists("ws/leaked"), "{engine}: the caller chose the program that connects");
        // Without the agent the rest goes on, and it is told.
        let told = said_without_agent(&world);
        assert!(
            told.contains("could not be given the profile `git-push`") && told.contains("is the agent running"),
            "{told}"
        );
    }
}

fn said_of_push(world: &World, ssh: &Ssh, branch: &str) -> String {
    let mut command = world.command(&[], &["git", "push", "-q", "origin", branch]);
    String::from_utf8_lossy(&command.env("SSH_AUTH_SOCK", &ssh.agent).output().unwrap().stderr).into_owned()
}

fn said_without_agent(world: &World) -> String {
    said(&mut world.command(&[], &["sh", "-c", "ls > listed; git push -q origin main:none; test $? = 128"]), 0).stderr
}

/// A project's rule names no profile with a socket: neither one of the user's nor a built-in one, nor beside a rule of
/// the user's.
#[test]
fn no_rule_of_a_project_names_a_socket() {
    let signs = "about = \"x\"\n[[socket]]\npath = \"${SSH_AUTH_SOCK}\"\nreason = \"signs\"\n";
    for (name, own) in [("signs", ""), ("ssh-agent", ""), ("signs", "prefix_rule([\"git\"], profile = \"signs\")\n")] {
        let home = Home::new();
        home.write("config/stockade/profiles/signs.toml", signs);
        home.write("config/stockade/rules/mine.rules", own);
        home.says(&["run", "--", "true"], 0);
        home.write("ws/.stockade/rules/theirs.rules", &format!("prefix_rule([\"touch\"], profile = \"{name}\")\n"));
        home.says(&["trust"], 0);
        let told = home.says(&["run", "--", "true"], 125).stderr;
        assert!(told.contains(&format!("--with {name}")) && told.contains("theirs.rules"), "{told}");
        // A file that commands may write is no better than a project's.
        home.says(&["trust", "--revoke"], 0);
        home.write("ws/late.rules", &format!("prefix_rule([\"touch\"], profile = \"{name}\")\n"));
        let told = home.says(&["run", "--rules", "late.rules", "--", "true"], 125).stderr;
        assert!(told.contains(&format!("--with {name}")), "{told}");
    }
}
