//! Programs of all kinds: an allowed host works, another host or port is denied.

use std::process::{Command, Stdio};

use stockade_sandboxing::WaitStatus;

use crate::world::{Engine, World, server};

fn tried(line: &str) {
    tried_in(Engine::Native, line);
}

/// Runs a line for the allowed host, for another host and for another port, with `HOST` and `PORT` set.
pub(crate) fn tried_in(engine: Engine, line: &str) {
    let (port, heard) = server("a page");
    let world = World { engine, ..World::good(port) };
    let with = |host: &str, port: u16| world.run(&format!("HOST={host} PORT={port}; {line}"));
    let good = with("good.test", port);
    assert!(good.stdout.contains("a page"), "{line}: {good:?}");
    let heard_before = heard.lock().unwrap().len();
    assert!(heard_before > 0);
    for (host, port) in [("evil.test", port), ("good.test", port + 1), ("127.0.0.1", port - 1), ("192.0.2.1", port)] {
        let denied = with(host, port);
        assert!(!denied.stdout.contains("a page"), "{line}: {denied:?}");
        assert_ne!(denied.status, Some(WaitStatus::Exited(0)), "{line}: {denied:?}");
    }
    assert_eq!(heard.lock().unwrap().len(), heard_before, "something reached the server");
    let lines = world.trail.lines();
    assert!(lines.contains(&format!("good.test:{port} Allow")), "{lines:?}");
    assert!(lines.contains(&format!("evil.test:{port} Forbidden")), "{lines:?}");
    assert!(lines.contains(&format!("good.test:{} Forbidden", port + 1)), "{lines:?}");
}

#[test]
fn curl() {
    tried("curl -sS -m 10 http://$HOST:$PORT/");
}

#[test]
fn wget() {
    tried("wget -q -t 1 -T 10 -O - http://$HOST:$PORT/");
}

#[test]
fn python_urllib() {
    tried(
        r#"python3 -c "import urllib.request as u; print(u.urlopen('http://$HOST:$PORT/', timeout=10).read().decode())""#,
    );
}

#[test]
fn python_asyncio() {
    tried(
        r#"python3 -c "
import asyncio
async def main():
    r, w = await asyncio.wait_for(asyncio.open_connection('$HOST', $PORT), 10)
    w.write(b'GET / HTTP/1.0\r\n\r\n'); await w.drain()
    print((await r.read()).decode())
asyncio.run(main())""#,
    );
}

/// Whose connections are pooled and kept.
#[test]
fn python_requests() {
    let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(".tools/venv/lib");
    // The repository may lie where the sandbox has a directory of its own.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test copies the library that it uses in the sandbox")]
    let mut copy = Command::new("bash");
    copy.args(["-c", "cp -r python3*/site-packages/{requests,urllib3,idna,certifi,charset_normalizer} \"$0\""]);
    let copied = copy.arg(directory.path()).current_dir(&tools).status();
    assert!(
        copied.is_ok_and(|copied| copied.success()),
        "no requests in {}: run `scripts/test tools`",
        tools.display()
    );
    tried(&format!(
        r#"PYTHONPATH={} python3 -c "import requests; print(requests.get('http://$HOST:$PORT/', timeout=10).text)""#,
        directory.path().display()
    ));
}

#[test]
fn node_fetch() {
    tried(
        r#"node -e "fetch('http://$HOST:$PORT/').then(r => r.text()).then(console.log).catch(e => { console.error(e); process.exit(1) })""#,
    );
}

#[test]
fn bash_dev_tcp() {
    tried(r#"exec 3<>/dev/tcp/$HOST/$PORT && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3"#);
}

#[test]
fn netcat() {
    tried(r#"printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 10 $HOST $PORT | grep page"#);
}

/// Go has a resolver and an event loop of its own, in a program that is linked to nothing.
#[test]
fn a_static_go_program() {
    // On a machine without a compiler it was built before.
    if let Some(built) = std::env::var_os("STOCKADE_GO_PROGRAM") {
        return tried(&format!("{} $HOST:$PORT", built.display()));
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("network/get.go");
    let program = directory.path().join("get");
    #[expect(clippy::disallowed_methods, reason = "a test compiles the program that it starts in the sandbox")]
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&program).arg(&source).env("CGO_ENABLED", "0").env("HOME", directory.path());
    assert!(compiler.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").status().unwrap().success());
    tried(&format!("{} $HOST:$PORT", program.display()));
}

/// Git's own HTTP, with a repository that is served as files.
#[test]
fn git_over_http() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let run = |line: &str| {
        #[expect(clippy::disallowed_methods, reason = "a test prepares what it serves")]
        let mut shell = Command::new("bash");
        let done = shell.args(["-c", line]).current_dir(directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(done.status().unwrap().success(), "{line}");
    };
    run("git init -q -b main a && cd a && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 'a page' \
         && cd .. && git clone -q --bare a a.git && cd a.git && git update-server-info");
    #[expect(clippy::disallowed_methods, reason = "a test starts the server that it reaches")]
    let mut serving = Command::new("python3");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    serving.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]).current_dir(directory.path());
    let mut server = serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let up = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(up);
    let world = World::good(port);
    let good =
        world.run(&format!("git clone -q http://good.test:{port}/a.git /tmp/c && git -C /tmp/c log --format=%s"));
    let denied = world.run(&format!("git clone -q http://evil.test:{port}/a.git /tmp/c"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(good.stdout.trim(), "a page", "{good:?}");
    assert!(denied.stderr.contains("evil.test"), "{denied:?}");
    assert!(world.trail.lines().contains(&format!("evil.test:{port} Forbidden")));
}

/// Git over ssh, to a real server with keys that are made for it.
#[test]
fn git_over_ssh() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = directory.path().display();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shell = |line: &str| {
        #[expect(clippy::disallowed_methods, reason = "a test prepares what it serves, and serves it")]
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
        shell
    };
    let prepare = "git init -q -b main a && git -C a -c user.name=a -c user.email=a@b commit -q --allow-empty \
        -m 'a page' && git clone -q --bare a a.git && for key in host key; do ssh-keygen -q -t ed25519 -N '' -f $key; \
        done && if [ $(id -u) = 0 ]; then mkdir -p /run/sshd; fi";
    assert!(shell(prepare).status().unwrap().success());
    let serve = format!(
        "exec /usr/sbin/sshd -f /dev/null -D -p {port} -h {place}/host -o ListenAddress=127.0.0.1 -o UsePAM=no \
         -o AuthorizedKeysFile={place}/key.pub -o StrictModes=no -o PidFile=none"
    );
    let mut server = shell(&serve).spawn().unwrap();
    let up = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let world = World::good(port);
    let clone = |host: &str| {
        world.run(&format!(
            "export GIT_SSH_COMMAND='ssh -F none -i {place}/key -o StrictHostKeyChecking=no -o BatchMode=yes \
             -o UserKnownHostsFile=/dev/null'; \
             git clone -q ssh://$(id -un)@{host}:{port}{place}/a.git /tmp/c && git -C /tmp/c log --format=%s"
        ))
    };
    let (good, denied) = (clone("good.test"), clone("evil.test"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(up);
    assert_eq!(good.stdout.trim(), "a page", "{good:?}");
    assert!(denied.stdout.is_empty() && denied.stderr.contains("evil.test"), "{denied:?}");
    let lines = world.trail.lines();
    assert!(lines.contains(&format!("good.test:{port} Allow")), "{lines:?}");
    assert!(lines.contains(&format!("evil.test:{port} Forbidden")), "{lines:?}");
}

/// A server that speaks something else than HTTP.
#[test]
fn redis() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "a test starts the server that it reaches")]
    let mut serving = Command::new("redis-server");
    let text = port.to_string();
    serving.args(["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/var/tmp"]);
    let mut server = serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let up = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let world = World::good(port);
    let good = world
        .run(&format!("redis-cli -h good.test -p {port} set key 'a page'; redis-cli -h good.test -p {port} get key"));
    let denied = world.run(&format!("redis-cli -h evil.test -p {port} get key"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(up);
    assert_eq!(good.stdout, "OK\na page\n", "{good:?}");
    assert!(!denied.stdout.contains("page") && denied.status != Some(WaitStatus::Exited(0)), "{denied:?}");
}
