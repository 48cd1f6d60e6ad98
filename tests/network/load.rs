//! Many connections through each front: nothing is lost, and the process that runs the front does not grow with
//! them. That process is one of its own: the server stays in the test, and the client is a program.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use stockade_network_proxy::{Approvals, BoxFuture, Gate, Proxy, Resolver, Rules, Transparent};
use stockade_protocol::{Argv, HostName, HostRules, HttpMethods, NetworkPolicy, RawText};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend as _, Bare, CommandSpec, Stdio, Streams, WaitStatus};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::world::{World, allow};

const AT_ONCE: u64 = 1000;
/// Where the process that runs the front finds the server.
const SERVER: &str = "STOCKADE_TEST_SERVER";
const STAGES: [&str; 4] = ["warm", "at_once", "two_thousand", "ten_thousand"];

/// What a front may need, in kilobytes.
struct Bounds {
    /// For each of the connections that are open at once, each of which has carried 64 kB both ways.
    connection: u64,
    /// In all, between the 2,000th and the 10,000th short connection.
    growth: u64,
}

#[test]
fn supervised() {
    load("supervised", &Bounds { connection: 4, growth: 1024 });
}

#[test]
fn connect() {
    load("connect", &Bounds { connection: 32, growth: 1024 });
}

#[test]
fn socks5() {
    load("socks5", &Bounds { connection: 32, growth: 1024 });
}

#[test]
fn http() {
    // Requests that were answered, on connections that are kept: those have buffers for what comes next.
    load("http", &Bounds { connection: 80, growth: 1024 });
}

fn load(way: &str, bounds: &Bounds) {
    if let Ok(port) = std::env::var(SERVER) {
        return front(way, port.parse().unwrap());
    }
    raise_limit();
    let runtime = runtime();
    let port = runtime.block_on(server());
    #[expect(clippy::disallowed_methods, reason = "a test starts itself again, for a process that only runs a front")]
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args([&format!("load::{way}"), "--exact", "--nocapture"]).env(SERVER, port.to_string());
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let measured: BTreeMap<&str, [u64; 2]> = told.lines().filter_map(measured).collect();
    let [warm, at_once, early, late] = STAGES.map(|stage| measured[stage]);
    let each = at_once[0].saturating_sub(warm[0]) / AT_ONCE;
    println!("{way}: {each} kB each, peak {} kB, then {} kB and {} kB", at_once[1], early[0], late[0]);
    assert!(each <= bounds.connection, "{each} kB for each connection: {measured:?}");
    assert!(late[0] <= early[0] + bounds.growth, "it grows: {measured:?}");
}

/// `stage RESIDENT PEAK`, in kilobytes.
fn measured(line: &str) -> Option<(&str, [u64; 2])> {
    let mut words = line.strip_prefix("measured ")?.split(' ');
    let stage = words.next()?;
    Some((stage, [words.next()?.parse().ok()?, words.next()?.parse().ok()?]))
}

/// The memory of this process that is its own, and the most that it ever had in memory.
fn memory() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    [of("RssAnon:"), of("VmHWM:")]
}

/// Two sockets for each connection may be more than a process starts with.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

struct Loopback;

impl Resolver for Loopback {
    fn resolve(&self, _: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

/// Runs the front and the client, and says how large this process is at each stage.
fn front(way: &str, port: u16) {
    raise_limit();
    let runtime = runtime();
    let world = World::good(port);
    let rules =
        HostRules { rules: vec![allow("good.test", port), allow("127.0.0.1", port)], methods: HttpMethods::Any };
    let rules = Rules::new(NetworkPolicy::Hosts(rules), Vec::new());
    let gate = Gate::new(rules, Approvals::never(), Arc::new(Loopback), Arc::new(()));
    let (ours, stdin) = io::pipe().map(|(read, write)| (write, read)).unwrap();
    let (stdout, theirs) = io::pipe().unwrap();
    let stdio = Stdio {
        stdin: Streams::To(OwnedFd::from(stdin)),
        stdout: Streams::To(OwnedFd::from(theirs)),
        stderr: Streams::Inherit,
        controlling_terminal: false,
    };
    let (mut running, proxy) = if way == "supervised" {
        let gatekeeper = Arc::new(Transparent::new(gate, runtime.handle().clone()));
        let plan = Native::new().compile(&client(&[way, "", &port.to_string(), ""]), &world.permissions()).unwrap();
        (plan.spawn_guarded(stdio, gatekeeper.into()).unwrap(), None)
    } else {
        let proxy = runtime.block_on(Proxy::start(gate)).unwrap();
        let words = [way, &proxy.address().to_string(), &port.to_string(), proxy.secret().expose()];
        let plan = Bare.compile(&client(&words), &stockade_protocol::Permissions::default()).unwrap();
        (plan.spawn(stdio).unwrap(), Some(proxy))
    };
    measure(BufReader::new(stdout), ours);
    assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
    drop(proxy);
}

fn measure(stages: impl io::BufRead, mut client: impl io::Write) {
    let mut reached = Vec::new();
    for stage in stages.lines() {
        let stage = stage.unwrap();
        let [resident, peak] = memory();
        println!("measured {stage} {resident} {peak}");
        reached.push(stage);
        writeln!(client, "go on").unwrap();
    }
    assert_eq!(reached, STAGES);
}

fn client(words: &[&str]) -> CommandSpec {
    // As text: the file may lie below a directory that is private inside.
    let words = ["python3", "-c", include_str!("load.py")].into_iter().chain(words.iter().copied());
    CommandSpec {
        argv: Argv::parse(words).unwrap(),
        cwd: "/".parse().unwrap(),
        environment: [(RawText::from("PATH"), RawText::from("/usr/local/bin:/usr/bin:/bin"))].into(),
        process: Default::default(),
    }
}

/// Gives every byte back, and the body of a request.
async fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut heard = Vec::new();
    stream.read_buf(&mut heard).await?;
    if heard.starts_with(b"POST") {
        return answer(stream, heard).await;
    }
    stream.write_all(&heard).await?;
    let (mut read, mut write) = stream.split();
    tokio::io::copy(&mut read, &mut write).await.map(drop)
}

async fn answer(mut stream: TcpStream, mut heard: Vec<u8>) -> io::Result<()> {
    loop {
        let text = String::from_utf8_lossy(&heard).to_ascii_lowercase();
        let length = text.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        if let (Some((length, _)), Some(end)) = (length, text.find("\r\n\r\n")) {
            let (length, body) = (length.parse::<usize>().unwrap(), end + 4);
            if heard.len() >= body + length {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                return stream.write_all(&heard[body..]).await;
            }
        }
        if stream.read_buf(&mut heard).await? == 0 {
            return Ok(());
        }
    }
}
