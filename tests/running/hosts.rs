//! Network by host: real programs, real names and a real server, in an internet of the test's own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use super::home::{Home, Said, User, said};
use crate::support::{program, repository};

/// What is printed by `stockade run` with these options and line.
fn runs(home: &Home, options: &[&str], line: &str, exit_code: i32) -> Said {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = program("unshare");
    command.args(if is_root { ["--net", "--mount"].as_slice() } else { &["--map-root-user", "--net", "--mount"] });
    command.arg("python3").arg(repository().join("tests/running/internet.py")).arg("a page\n");
    command.args([home.path("hosts"), home.path("heard")]).args(["setsid", "--wait"]);
    command.args(home.words()).arg("run").args(options).args(["--", "sh", "-c", line]);
    home.surround(&mut command);
    // Where `ip` is.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
    said(&mut command, exit_code)
}

/// What the trail says of the connections of the only run, each once.
fn connections(home: &Home) -> Vec<String> {
    let listed = home.says(&["audit", "list"], 0).stdout;
    let run: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
    let request = run.get("request_id").and_then(serde_json::Value::as_str).unwrap();
    let shown = home.says(&["audit", "show", request], 0).stdout;
    shown.lines().filter_map(|line| Some(line.split_once("connection to ")?.1.to_owned())).collect()
}

/// px22: no host is allowed by itself, however many projects fetch from it; and a host can be allowed for reading alone.
#[test]
fn no_host_is_allowed_by_itself() {
    let home = Home::new();
    let hosts = ["files.example.org", "registry.example.org", "localhost", "192.0.2.1", "[2001:db8::1]"];
    for host in hosts.map(|host| format!("{host}:443")) {
        let told = home.says(&["explain", "--host", &host], 0).stdout;
        assert!(told.ends_with("is refused: no rule names it\n"), "{told}");
    }
}

#[test]
fn an_allowed_host_is_reached_and_another_is_named() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let line = "curl -s http://good.test:8080/; \
            node -e \"fetch(\\\"http://good.test:8080/\\\").then(r=>r.text()).then(console.log)\"; \
            curl -s http://evil.test:8080/";
        let options = ["--engine", engine, "--allow-host", "good.test:8080"];
        let told = runs(&home, &options, line, 7);
        assert_eq!(told.stdout, "a page\na page\n\n", "{engine}: {}", told.stderr);
        let named: Vec<&str> = told.stderr.lines().filter(|line| line.contains("evil.test:8080")).collect();
        let [message] = named.as_slice() else { panic!("{engine}: {}", told.stderr) };
        assert!(message.contains("denied") && message.contains("--allow-host evil.test:8080"), "{message}");
        assert_eq!(home.read("heard"), "good.test:8080\ngood.test:8080\n", "{engine}");
        let connections = connections(&home);
        let count = |start: &str| connections.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("good.test:8080 (tcp) allowed"), 2, "{connections:?}");
        // Each of the name's two addresses was tried.
        assert!((1..=2).contains(&count("evil.test:8080 (tcp) forbidden")), "{connections:?}");
        assert_eq!(count("good.test") + count("evil.test"), connections.len(), "{connections:?}");
    }
}

/// Two processes and both families of addresses make one message; another port is another.
#[test]
fn a_destination_that_is_tried_again_is_named_once() {
    let home = Home::new();
    let line = "for port in 8080 8080 8081; do curl -s http://evil.test:$port/; done";
    let told = runs(&home, &["--allow-host", "good.test:8080"], line, 7);
    let count = |port: &str| told.stderr.lines().filter(|line| line.contains(&format!("`evil.test:{port}`"))).count();
    assert_eq!((count("8080"), count("8081")), (1, 1), "{}", told.stderr);
    assert!(connections(&home).len() >= 3, "each attempt is on record");
}

/// Datagrams are allowed by `/udp`, and by nothing else; what is denied is named with it.
#[test]
fn datagrams_are_named_by_their_protocol() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let line = "for host in good evil; do echo $host | nc -4 -u -w 1 $host.test 8080; done; \
            curl -s http://good.test:8080/";
        let told = runs(&home, &["--engine", engine, "--allow-host", "good.test:8080/udp"], line, 7);
        assert_eq!(told.stdout, "good\n", "{engine}: {}", told.stderr);
        assert!(told.stderr.contains("--allow-host evil.test:8080/udp"), "{engine}: {}", told.stderr);
        assert!(told.stderr.contains("`--allow-host good.test:8080`"), "{engine}: {}", told.stderr);
        let connections = connections(&home);
        for wanted in
            ["good.test:8080 (udp) allowed", "evil.test:8080 (udp) forbidden", "good.test:8080 (tcp) forbidden"]
        {
            assert!(connections.iter().any(|line| line.starts_with(wanted)), "{engine}: {wanted}: {connections:?}");
        }
    }
}

#[test]
fn explain_tells_datagrams_from_streams() {
    let home = Home::new();
    let options = ["explain", "--allow-host", "a.test:443", "--allow-host", "b.test:53/udp"];
    let hosts = ["--host", "a.test:443/udp", "--host", "a.test:443", "--host", "b.test:53/udp", "--host", "b.test:53"];
    let told = home.says(&[&options[..], &hosts].concat(), 0).stdout;
    for (host, verdict) in [
        ("`a.test:443/udp`", "has to be asked for"),
        ("`a.test:443`", "may be reached"),
        ("`b.test:53/udp`", "may be reached"),
        ("`b.test:53`", "has to be asked for"),
    ] {
        assert!(told.lines().any(|line| line.starts_with(host) && line.contains(verdict)), "{host}: {told}");
    }
    let refused = home.says(&["run", "--allow-host", "a.test:443/tcp", "--", "true"], 125).stderr;
    assert!(refused.contains("only `/udp` has to be said"), "{refused}");
}

/// A flag, a settings file and a rules file mean the same by `localhost`: this machine, and `explain` says no more
/// than what happens.
#[test]
fn localhost_is_this_machine_wherever_it_is_written() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4];
            stream.read_exact(&mut request).ok();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\na page\n").ok();
        }
    });
    let home = Home::new();
    let (named, line) = (format!("localhost:{port}"), format!("curl -s http://localhost:{port}/"));
    let rule = |port: &str| format!("network_rule(host=\"localhost\", protocol=\"tcp\", decision=\"allow\"{port})\n");
    home.write("port.rules", &rule(&format!(", port={port}")));
    home.write("any.rules", &rule(""));
    home.write("config/stockade/config.toml", &format!("[profiles.local]\nsandbox.allow_hosts = [{named:?}]\n"));
    for options in [
        ["--allow-host", &named].as_slice(),
        &["--profile", "local"],
        &["--network", "hosts", "--rules", "../port.rules"],
    ] {
        assert_eq!(home.runs(options, &line, 0).stdout, "a page\n", "{options:?}");
        let hosts = [named.clone(), format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
        let asked: Vec<&str> = hosts.iter().flat_map(|host| ["--host", host]).collect();
        let told = home.says(&[&["explain"], options, &asked].concat(), 0).stdout;
        assert_eq!(told.matches("may be reached").count(), 3, "{options:?}: {told}");
    }
    for options in [
        ["--allow-host", "localhost"].as_slice(),
        &["--allow-host", "localhost:53/udp"],
        &["--network", "hosts", "--rules", "../any.rules"],
    ] {
        let told = home.runs(options, "true", 125).stderr;
        assert!(told.contains("name each port: `localhost:5432`"), "{options:?}: {told}");
    }
}

/// An open network can't enforce per-host denials, so with a host that a rule denies it is not open.
#[test]
fn a_host_that_a_rule_denies_is_not_reached_by_a_full_network() {
    let home = Home::new();
    let rule = |host: &str, decision: &str| {
        format!("network_rule(host=\"{host}.test\", protocol=\"tcp\", decision=\"{decision}\")\n")
    };
    home.write("team.rules", &(rule("good", "allow") + &rule("evil", "deny")));
    let line = "curl -s http://good.test:8080/; curl -s http://evil.test:8080/";
    let told = runs(&home, &["--network", "full", "--rules", "../team.rules"], line, 7);
    assert_eq!(told.stdout, "a page\n", "{}", told.stderr);
    assert!(told.stderr.contains("network lowered to `hosts`"), "{}", told.stderr);
    assert_eq!(home.read("heard"), "good.test:8080\n");
}

/// A server that takes no body of a GET for one reads it as the next request. Where only reading is allowed, it gets
/// none, however the request comes to it.
#[test]
fn a_request_that_reads_carries_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&heard);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    kept.lock().unwrap().extend_from_slice(&piece[..read]);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\na page\n").ok();
                }
            });
        }
    });
    let home = Home::new();
    let hidden = "POST /hidden HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n\r\n";
    home.write("ws/hidden", hidden);
    let url = format!("http://localhost:{port}/");
    let line = format!(
        "curl -s {url}; curl -s -X GET --data-binary @hidden {url}; \
         curl -s -X GET -H 'Transfer-Encoding: chunked' --data-binary @hidden {url}; \
         curl -s -H 'X-HTTP-Method-Override: DELETE' {url}"
    );
    let named = format!("localhost:{port}");
    let told = home.runs(&["--network", "limited", "--allow-host", &named], &line, 0);
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(heard.starts_with("GET / HTTP/1.1\r\n"), "{heard}");
    for unwanted in ["POST", "evil.test", "DELETE"] {
        assert!(!heard.contains(unwanted), "{heard}");
    }
    assert!(told.stdout.starts_with("a page\n"), "{}{}", told.stdout, told.stderr);
    assert_eq!(told.stdout.matches("requests that read have no body").count(), 2, "{}", told.stdout);
    assert_eq!(told.stdout.matches("taken for another method").count(), 1, "{}", told.stdout);
    let refused = connections(&home).iter().filter(|line| line.contains("forbidden")).count();
    assert_eq!(refused, 3, "each is on record: {:?}", connections(&home));
}

/// A name may lead to a public address that is this machine's own, or one on its networks: no more to be reached
/// unasked than a private one.
#[test]
fn a_public_address_of_this_machine_is_this_machine() {
    for (name, address) in [("own.test", "11.22.34.1"), ("neighbour.test", "11.22.34.9")] {
        let home = Home::new();
        let line = format!("curl -s -m 5 http://{name}:8080/; curl -s -m 5 http://{address}:8080/; true");
        let told = runs(&home, &["--allow-host", &format!("{name}:8080")], &line, 0);
        let message = format!("{name} leads to {address}, on this machine, a local network or a metadata service");
        assert!(told.stderr.contains(&format!("`--allow-host {address}:8080`")), "{}", told.stderr);
        let connections = connections(&home);
        for wanted in [format!("{name}:8080 (tcp) forbidden"), format!("{address}:8080 (tcp) forbidden")] {
            assert!(connections.iter().any(|line| line.starts_with(&wanted)), "{wanted}: {connections:?}");
        }
        assert!(connections.iter().any(|line| line.contains(&message)), "{connections:?}");
    }
}

/// What is printed can be typed, and grants what was denied; what can be read in two ways is refused.
#[test]
fn an_ipv6_address_stands_in_brackets() {
    let home = Home::new();
    let told = home.runs(&["--allow-host", "good.test:1"], "curl -s -m 5 'http://[2a0b::2]:8000/'", 7);
    assert!(told.stderr.contains("`--allow-host [2a0b::2]:8000`"), "{}", told.stderr);
    assert!(!told.stderr.contains("2a0b::2:8000"), "{}", told.stderr);
    let connections = connections(&home);
    assert!(connections.iter().all(|line| line.starts_with("[2a0b::2]:8000 (tcp)")), "{connections:?}");
    let hosts = ["--host", "[2a0b::2]:8000", "--host", "[2a0b::2]:8001", "--host", "[2a0b::2:8000]:8000"];
    let told = home.says(&[&["explain", "--allow-host", "[2a0b::2]:8000"][..], &hosts].concat(), 0).stdout;
    assert!(told.contains("`[2a0b::2]:8000` may be reached"), "{told}");
    assert_eq!(told.matches("may be reached").count(), 1, "{told}");
    let refused = home.runs(&["--allow-host", "2a0b::2:8000"], "true", 125).stderr;
    assert!(refused.contains("`[2a0b::2]:8000`") && refused.contains("`[2a0b::2:8000]`"), "{refused}");
    let refused = home.runs(&["--allow-host", "https://example.com/x"], "true", 125).stderr;
    assert!(refused.contains("write `example.com:443`"), "{refused}");
}

/// What would be granted and lead nowhere is refused, with what would do.
#[test]
fn a_host_that_no_rule_can_reach_is_refused() {
    let home = Home::new();
    for (named, why) in [
        ("127.0.0.1:5353/udp", "its datagrams to this address stay"),
        ("[::1]:5353/udp", "its datagrams to this address stay"),
        ("[fe80::1]:80", "link-local"),
    ] {
        let told = home.runs(&["--allow-host", named], "true", 125);
        assert!(told.stderr.contains(why), "{named}: {}", told.stderr);
    }
    let told = home.runs(
        &["--allow-host", "good.test:1"],
        "python3 -c 'import socket; socket.create_connection((\"fe80::1%lo\", 80), 5)'",
        1,
    );
    assert!(told.stderr.contains("no host rule can name") && !told.stderr.contains("--allow-host"), "{}", told.stderr);
}

/// A grant that comes to nothing is said to.
#[test]
fn a_granted_socket_that_is_none_is_named() {
    let home = Home::new();
    home.write("outside/plain", "");
    for (path, why) in [("../outside/plain", "is no socket"), ("../outside/none", "does not exist")] {
        let told = home.runs(&["--allow-socket", path], "true", 0);
        assert!(told.stderr.contains(why), "{path}: {}", told.stderr);
    }
}
