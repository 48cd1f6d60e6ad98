//! A large transfer by curl: direct, through the sandbox's supervisor, and through the proxies. Only the ratios are
//! meaningful; the variants alternate.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark that can't go on has nothing to say"
)]
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use stockade_network_proxy::{Approvals, BoxFuture, Gate, Proxy, Resolver, Rules, Transparent};
use stockade_protocol::{
    Access, Argv, Decision, FileRule, FileRules, HostName, HostRule, HostRules, HttpMethods, NetworkPolicy,
    Permissions, RawText,
};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{CommandSpec, Plan as _, Stdio, Streams};

const SIZE: usize = 2 << 30;
const ROUNDS: usize = 5;

struct Loopback;

impl Resolver for Loopback {
    fn resolve(&self, _: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

fn main() {
    let port = server();
    let policy = policy(port);
    let gate = Gate::new(Rules::new(policy.clone(), Vec::new()), Approvals::never(), Arc::new(Loopback), Arc::new(()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(Arc::clone(&gate))).unwrap();
    let variables = proxy.environment();
    let (http, socks) = (variables["HTTP_PROXY"].clone(), variables["ALL_PROXY"].clone());
    let gatekeeper = Arc::new(Transparent::new(gate, runtime.handle().clone()));
    let straight = || outside(&[&format!("http://127.0.0.1:{port}/")]);
    let named = format!("http://good.test:{port}/");
    let ways: [(&str, &dyn Fn() -> f64); 4] = [
        ("supervised", &|| inside(&policy, &gatekeeper, &named)),
        ("http", &|| outside(&["-x", &http, &named])),
        ("connect", &|| outside(&["-p", "-x", &http, &named])),
        ("socks5", &|| outside(&["-x", &socks, &named])),
    ];
    let mut ratios = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        let base = straight();
        for ((_, way), ratios) in ways.iter().zip(&mut ratios) {
            ratios.push(way() / base);
        }
    }
    for ((name, _), ratios) in ways.iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.get(ratios.len() / 2).unwrap();
        println!("{name:12} / straight: {middle:.2} ({:.2} to {:.2})", ratios.first().unwrap(), ratios.last().unwrap());
    }
}

fn policy(port: u16) -> NetworkPolicy {
    let allow = |host: &str| HostRule {
        host: host.parse().unwrap(),
        protocol: None,
        port: Some(port),
        decision: Decision::Allow,
    };
    NetworkPolicy::Hosts(HostRules { rules: vec![allow("good.test"), allow("127.0.0.1")], methods: HttpMethods::Any })
}

/// Makes curl print bytes per second.
const MEASURE: [&str; 5] = ["-s", "-o", "/dev/null", "-w", "%{speed_download}"];

fn outside(arguments: &[&str]) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "a benchmark starts what it measures")]
    let output = Command::new("curl").args(MEASURE).args(["--noproxy", ""]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

fn inside(policy: &NetworkPolicy, gatekeeper: &Arc<Transparent>, url: &str) -> f64 {
    let rule = FileRule::path("/".parse().unwrap(), Access::Read);
    let permissions =
        Permissions { files: FileRules::new([rule]).unwrap(), network: policy.clone(), ..Permissions::default() };
    let words = ["curl"].into_iter().chain(MEASURE).chain([url]);
    let environment = BTreeMap::from([(RawText::from("PATH"), RawText::from("/usr/bin:/bin"))]);
    let command = CommandSpec {
        argv: Argv::parse(words).unwrap(),
        cwd: "/".parse().unwrap(),
        environment,
        process: Default::default(),
    };
    let (mut read, write) = io::pipe().unwrap();
    let stdio = Stdio { stdout: Streams::To(OwnedFd::from(write)), ..Stdio::default() };
    let gatekeeper: Arc<Transparent> = Arc::clone(gatekeeper);
    let mut running =
        Native::new().plan(&command, &permissions).unwrap().spawn_guarded(stdio, gatekeeper.into()).unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    running.wait(None).unwrap();
    text.trim().parse().unwrap()
}

fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let block = vec![0; 1 << 18];
                let _request = stream.read(&mut [0; 4096]);
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n").ok();
                for _ in 0..SIZE / block.len() {
                    if stream.write_all(&block).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}
