//! What connections leave behind: records, however many there are, and no processes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::home::{Home, said};
use crate::support::program;

/// A shell script in a mount namespace of its own. `$0` is the home's directory, the arguments start the program.
fn mounting(home: &Home, script: &str, arguments: &[&str]) -> Command {
    let mut command = program("unshare");
    let is_root = rustix::process::geteuid().is_root();
    command.args(if is_root { ["--mount"].as_slice() } else { &["--map-root-user", "--mount"] });
    command.args(["sh", "-c", script]).arg(home.path("")).args(home.words()).args(arguments);
    home.surround(&mut command);
    command.stdin(Stdio::null());
    command
}

/// A server that counts its visitors.
fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let visitors: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&visitors);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            stream.read_exact(&mut [0; 4]).ok();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\na page\n").ok();
        }
    });
    (port, visitors)
}

/// The disk fills up while a command runs: what can't be put on record any more is not connected.
#[test]
fn a_connection_that_can_not_be_recorded_is_denied() {
    let (home, (port, visitors)) = (Home::new(), server());
    home.write("config/stockade/config.toml", "audit.required = true\n");
    let line = format!(
        "curl -s http://localhost:{port}/; touch ready; while [ ! -e go ]; do sleep 0.1; done; \
         for n in $(seq 40); do curl -s http://localhost:{port}/; done; true"
    );
    let named = format!("localhost:{port}");
    let script = "mount -t tmpfs -o size=128k,mode=0700 none \"$0/state\" && { \"$@\" & \
        while [ ! -e \"$0/ws/ready\" ]; do sleep 0.1; done; cat /dev/zero > \"$0/state/full\" 2>/dev/null; touch \"$0/ws/go\"; \
        wait; cat \"$0/state/stockade/audit.jsonl\" > \"$0/trail\"; }";
    let arguments = ["run", "--allow-host", &named, "--", "sh", "-c", &line];
    let told = said(&mut mounting(&home, script, &arguments), 0);
    let trail = home.read("trail");
    let recorded = trail.lines().filter(|line| line.contains("\"connected\"") && line.contains("\"allow\"")).count();
    let made = visitors.load(Ordering::Relaxed);
    // The last page of the file may have had room for some.
    assert!((1..41).contains(&made), "{made}: {}", told.stderr);
    assert_eq!(recorded, made, "{trail}{}", told.stderr);
    assert!(told.stderr.contains("the audit trail is required, so the connection is denied"), "{}", told.stderr);
}

/// A command that tries thousands of times leaves a few records, which count.
#[test]
fn a_flood_of_denials_is_counted() {
    let home = Home::new();
    let line = "python3 -c '\nimport socket\n\
        for n in range(3000):\n\
        \x20   for port in (4242, 10000 + n):\n\
        \x20       try: socket.create_connection((\"93.184.216.34\", port), 5)\n\
        \x20       except OSError: pass\n'";
    home.runs(&["--allow-host", "good.test:1"], line, 0);
    let listed: serde_json::Value = serde_json::from_str(home.says(&["audit", "list"], 0).stdout.trim()).unwrap();
    let records = listed["records"].as_u64().unwrap();
    assert!(records < 420, "{records} records");
    let shown = home.says(&["audit", "show", listed["request_id"].as_str().unwrap()], 0).stdout;
    assert!(shown.contains("93.184.216.34:4242 (tcp) forbidden"), "{shown}");
    assert!(shown.contains(", 3000 times so far"), "{shown}");
    assert!(shown.contains("2801 further events have no record"), "{shown}");
    let told = home.says(&["audit", "verify"], 0).stdout;
    assert!(told.contains("; the first is 0, written 20"), "{told}");
}

/// The processes that look names up, in place of `getent`.
fn look_ups() -> usize {
    let is_one =
        |entry: &fs::DirEntry| fs::read(entry.path().join("cmdline")).is_ok_and(|words| words == b"sleep\x007193\x00");
    fs::read_dir("/proc").unwrap().flatten().filter(is_one).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A resolver that never answers: few are asked at once, none for a program that has ended, and none is left of a
/// run that was killed.
#[test]
fn look_ups_are_few_and_end_with_who_waits_for_them() {
    let home = Home::new();
    home.write("slow", "#!/bin/sh\nexec sleep 7193\n");
    let line = "for n in $(seq 40); do timeout 4 curl -s http://n$n.test:8080/ & done; \
        for n in $(seq 10); do timeout 4 curl -s http://same.test:8080/ & done; wait; touch gone; \
        while [ ! -e go ]; do sleep 0.1; done; curl -s http://last.test:8080/";
    let script = "chmod 755 \"$0/slow\" && mount --bind \"$0/slow\" \"$(readlink -f /usr/bin/getent)\" && exec \"$@\"";
    let arguments = ["run", "--allow-host", "**.test:8080", "--", "sh", "-c", line];
    let mut run = mounting(&home, script, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the programs do not end", || {
        let now = look_ups();
        // Eight, and as many that are being killed.
        assert!(now <= 16, "{now} look-ups at once");
        home.exists("ws/gone")
    });
    wait_until("look-ups outlive the programs", || look_ups() == 0);
    home.write("ws/go", "");
    wait_until("nothing is looked up", || look_ups() == 1);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("a look-up outlives its run", || look_ups() == 0);
}

/// Connections that are held open and carry nothing take a bounded share of Stockade's files and memory: the next one
/// waits for one to end, and is refused if none does.
#[test]
fn idle_connections_that_are_looked_into_have_a_bound() {
    let (home, (port, visitors)) = (Home::new(), server());
    let line = format!(
        "python3 -c '\nimport socket\n\
        held = []\n\
        try:\n\
        \x20   while len(held) < 400: held.append(socket.create_connection((\"127.0.0.1\", {port})))\n\
        except PermissionError: print(\"refused\", len(held))\n\
        del held[0]\n\
        last = socket.create_connection((\"127.0.0.1\", {port}))\n\
        last.sendall(b\"GET / HTTP/1.0\\r\\n\\r\\n\")\n\
        print(last.recv(12)[9:])\n'"
    );
    let named = format!("127.0.0.1:{port}");
    let mut command = program("prlimit");
    command.arg("--nofile=256:").args(home.words());
    command.args([
        "run",
        "--network",
        "limited",
        "--allow-host",
        &named,
        "--limit",
        "files=1000",
        "--",
        "sh",
        "-c",
        &line,
    ]);
    home.surround(&mut command);
    let told = said(&mut command, 0);
    assert_eq!(told.stdout, "refused 64\nb'200'\n", "{}", told.stderr);
    assert!(told.stderr.contains("as many connections are open as Stockade can look into"), "{}", told.stderr);
    assert_eq!(visitors.load(Ordering::Relaxed), 1);
}
