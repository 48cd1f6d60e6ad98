//! Network by host where the sandbox leaves it to a proxy, as on macOS and Windows: real programs find the proxy
//! by their variables, in an internet of the test's own. The sandbox is `native` on the network around it, so that
//! it can't be in the proxy's way.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stockade_core::{HostsThrough, ShellRuntime};
use stockade_protocol::{
    AskForApproval, AuditEvent, Decision, DecisionSource, ExecRequest, HostRule, HostRules, HttpMethods, NetworkPolicy,
    NetworkProtocol, Outcome, Permissions, RawText, ReviewDecision, Violation, ViolationTarget,
};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend, CommandSpec, Plan, Proxied, Support, Unenforceable};

use crate::world::{World, refusal, stdout};

/// A sandbox that can't tell one host from another.
#[derive(Default)]
struct Elsewhere {
    native: Native,
    proxies: Mutex<Vec<SocketAddr>>,
}

impl Backend for Elsewhere {
    fn support(&self) -> &Support {
        self.native.support()
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        if matches!(permissions.network, NetworkPolicy::Hosts(_)) {
            let [what, why, remedy] = ["hosts", "no proxy is there", "start one"].map(String::from);
            return Err(Unenforceable { what, why, remedy });
        }
        self.native.compile(command, permissions)
    }

    fn proxied(&self) -> Option<&dyn Proxied> {
        Some(self)
    }
}

impl Proxied for Elsewhere {
    fn compile_through(
        &self,
        proxy: SocketAddr,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        self.proxies.lock().unwrap().push(proxy);
        self.native.compile(command, &Permissions { network: NetworkPolicy::Full, ..permissions.clone() })
    }
}

/// `good.test` may be reached, `evil.test` never, and a program's own settings lead elsewhere.
struct Behind {
    world: World,
    sandbox: Arc<Elsewhere>,
}

impl Behind {
    fn new(ask: AskForApproval) -> Self {
        let rule =
            |host: &str, decision| HostRule { host: host.parse().unwrap(), protocol: None, port: None, decision };
        let rules = vec![rule("good.test", Decision::Allow), rule("evil.test", Decision::Forbidden)];
        let mut world = World::new(ask);
        world.session.permissions.network = NetworkPolicy::Hosts(HostRules { rules, methods: HttpMethods::Any });
        for (name, value) in [("NO_PROXY", "*"), ("no_proxy", "good.test"), ("Http_Proxy", "http://elsewhere.test:1")] {
            world.session.environment.insert(RawText::from(name), RawText::from(value));
        }
        let sandbox = Arc::new(Elsewhere::default());
        world.backend = Arc::<Elsewhere>::clone(&sandbox);
        Self { world, sandbox }
    }

    /// A command that writes down its proxy and stays until it is told to go.
    fn stays(&self) -> ExecRequest {
        self.world.shell("echo $HTTP_PROXY > proxy.new; mv proxy.new proxy; while [ ! -e go ]; do sleep 0.02; done")
    }

    /// What the running command has to know of its proxy.
    async fn proxy(&self) -> (SocketAddr, String) {
        while !self.world.exists("ws/proxy") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let text = std::fs::read_to_string(self.world.path("ws/proxy").to_host_path().unwrap()).unwrap();
        let (user, address) = text.trim().strip_prefix("http://").unwrap().rsplit_once('@').unwrap();
        (address.parse().unwrap(), user.strip_prefix("stockade:").unwrap().to_owned())
    }

    fn go(&self) {
        std::fs::write(self.world.path("ws/go").to_host_path().unwrap(), "").unwrap();
    }

    /// Every connection on record for a request.
    fn connections(&self, request: &ExecRequest) -> Vec<(String, Decision, DecisionSource)> {
        let events = self.world.audit.of(&request.id).into_iter();
        let connected = |event| {
            let AuditEvent::Connected { destination, decision, source, .. } = event else { return None };
            Some((format!("{}:{}", destination.host, destination.port), decision, source))
        };
        events.filter_map(connected).collect()
    }
}

/// Where the test is run once more, in a network with a server and names for it; then the file in which
/// the server writes what it was asked for.
fn internet(test: &str) -> Option<PathBuf> {
    const INSIDE: &str = "STOCKADE_TEST_HEARD";
    if let Some(heard) = std::env::var_os(INSIDE) {
        return Some(heard.into());
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let [hosts, heard] = ["hosts", "heard"].map(|name| directory.path().join(name));
    let is_root = rustix::process::geteuid().is_root();
    #[expect(clippy::disallowed_methods, reason = "a test starts itself again elsewhere")]
    let mut again = std::process::Command::new("unshare");
    again.args(if is_root { ["--net", "--mount"].as_slice() } else { &["--map-root-user", "--net", "--mount"] });
    again.args(["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/running/internet.py"), "a page\n"]);
    again.args([&hosts, &heard]).arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    again.env(INSIDE, &heard).env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let output = again.output().unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    None
}

/// What the kernel's list of sockets says: who listens in this network.
fn listeners() -> usize {
    let listens = |line: &&str| line.split_whitespace().nth(3) == Some("0A");
    std::fs::read_to_string("/proc/net/tcp").unwrap().lines().filter(listens).count()
}

fn speaks(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether the other side is gone; one that is only silent is not.
fn is_cut(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn authorization(secret: &str) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(format!("stockade:{secret}")))
}

/// The whole of it: allowed, asked for, and denied with a message that names the host; by each kind of proxy.
#[tokio::test]
async fn hosts_are_decided_for_programs_that_look_at_their_variables() {
    let Some(heard) = internet("proxied::hosts_are_decided_for_programs_that_look_at_their_variables") else { return };
    let behind = Behind::new(AskForApproval::OnFailure);
    let run = behind.world.orchestrator();
    behind.world.script.say(ReviewDecision::Approved);
    let request = behind.world.shell(
        "curl -sS http://good.test:8080/; curl -sSp http://good.test:8080/; \
         env -u http_proxy -u HTTP_PROXY curl -sS http://good.test:8080/; \
         curl -sS http://new.test:8080/; curl -sS http://evil.test:8080/; curl -sS http://127.0.0.1:8080/; \
         curl -sSp http://evil.test:8080/",
    );
    let outcome = run.run(&request).await.unwrap();
    let told = stdout(&outcome);
    let (pages, denials) = told.split_at(told.rfind("a page").unwrap() + r"a page\n".len());
    assert_eq!(pages, r"a page\n".repeat(4), "{outcome:?}");
    assert!(denials.contains("stockade: the connection to `evil.test:8080` is not allowed"), "{denials}");
    assert!(denials.contains("`127.0.0.1:8080`"), "loopback is no way around: {denials}");
    assert_eq!(std::fs::read_to_string(heard).unwrap(), "good.test:8080\n".repeat(3) + "new.test:8080\n");

    let questions = behind.world.script.questions();
    assert_eq!(questions.len(), 1, "{questions:?}");
    let connections = behind.connections(&request);
    let rule = |connection: &(String, Decision, DecisionSource)| matches!(connection.2, DecisionSource::Rule(_));
    let [good @ .., new, evil, loopback, again] = connections.as_slice() else { panic!("{connections:?}") };
    assert!(good.iter().all(|one| one.0 == "good.test:8080" && one.1 == Decision::Allow && rule(one)), "{good:?}");
    assert_eq!(good.len(), 3);
    assert_eq!(*new, (String::from("new.test:8080"), Decision::Allow, DecisionSource::Reviewer));
    for (denied, host) in [(evil, "evil.test:8080"), (loopback, "127.0.0.1:8080"), (again, "evil.test:8080")] {
        assert!(denied.0 == host && denied.1 == Decision::Forbidden && rule(denied), "{denied:?}");
    }
    // The last one failed, so the run is one that was denied something: each destination once, and a stream
    // that is not looked into is another than a request.
    let Outcome::Denied { execution, .. } = &outcome else { panic!("{outcome:?}") };
    let target = |violation: &Violation| {
        let ViolationTarget::Destination(to) = &violation.target else { return None };
        Some(to.host.to_string())
    };
    let hosts: Vec<String> = execution.violations.iter().filter_map(target).collect();
    assert_eq!(hosts, ["evil.test", "127.0.0.1", "evil.test"]);
}

/// Another process on this machine finds the port, but not the secret; after the run there is no port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_is_the_commands_own_and_ends_with_it() {
    let Some(heard) = internet("proxied::the_proxy_is_the_commands_own_and_ends_with_it") else { return };
    let behind = Behind::new(AskForApproval::Never);
    let (before, request) = (listeners(), behind.stays());
    let run = behind.world.orchestrator();
    let meanwhile = async {
        let (address, secret) = behind.proxy().await;
        assert_eq!(behind.sandbox.proxies.lock().unwrap().as_slice(), [address], "the sandbox knows where");
        assert_eq!(listeners(), before + 1);
        tokio::task::spawn_blocking(move || {
            let ask = |authorization: &str| {
                let line = "GET http://good.test:8080/ HTTP/1.1\r\nConnection: close\r\n";
                speaks(address, &format!("{line}{authorization}\r\n"))
            };
            assert!(ask("").starts_with("HTTP/1.1 407 "));
            assert!(ask(&authorization("guess")).starts_with("HTTP/1.1 407 "));
            assert!(!heard.exists(), "nothing was passed on");
            assert!(ask(&authorization(&secret)).ends_with("\r\n\r\na page\n"), "it is the secret that counts");
        })
        .await
        .unwrap();
        behind.go();
        address
    };
    let (outcome, address) = tokio::join!(run.run(&request), meanwhile);
    assert!(matches!(outcome, Ok(Outcome::Exited { exit_code: 0, .. })), "{outcome:?}");
    assert_eq!(listeners(), before, "nothing listens once the run has ended");
    assert!(TcpStream::connect(address).is_err());
}

/// However a run ends, every connection through its proxy ends with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cancelled_or_dropped_cuts_its_connections() {
    if internet("proxied::a_run_that_is_cancelled_or_dropped_cuts_its_connections").is_none() {
        return;
    }
    for is_dropped in [false, true] {
        let behind = Behind::new(AskForApproval::Never);
        let (before, request, tool) = (listeners(), behind.stays(), ShellRuntime::default());
        let run = behind.world.orchestrator();
        let server = TcpListener::bind("11.22.33.44:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let tunnel = async {
            let (address, secret) = behind.proxy().await;
            let mut stream = TcpStream::connect(address).unwrap();
            let head = format!("CONNECT good.test:{port} HTTP/1.1\r\n{}\r\n", authorization(&secret));
            stream.write_all(head.as_bytes()).unwrap();
            let (mut served, _) = tokio::task::spawn_blocking(move || server.accept()).await.unwrap().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            // The answer to CONNECT, then what the server says: the tunnel is open.
            served.write_all(b"hello").unwrap();
            let (mut heard, mut bytes) = (String::new(), [0; 256]);
            while !heard.ends_with("hello") {
                let read = stream.read(&mut bytes).unwrap();
                heard.push_str(std::str::from_utf8(bytes.get(..read).unwrap_or_default()).unwrap());
            }
            (address, stream, served)
        };
        let mut running = Box::pin(run.run_with(&tool, &request));
        let (address, mut stream, mut served) = tokio::select! {
            open = tunnel => open,
            outcome = &mut running => panic!("{outcome:?}"),
        };
        if is_dropped {
            drop(running);
        } else {
            tool.cancellation.cancel();
            assert!(matches!(running.await, Ok(Outcome::Cancelled { .. })));
            assert_eq!(listeners(), before);
        }
        served.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(is_cut(&mut stream), "on this side");
        assert!(is_cut(&mut served), "and on the other");
        let since = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(is_dropped && since.elapsed() < Duration::from_secs(5), "it still listens");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Where hosts are not what is decided, there is no proxy, no socket and no variable.
#[tokio::test]
async fn a_run_without_single_hosts_has_no_proxy() {
    if internet("proxied::a_run_without_single_hosts_has_no_proxy").is_none() {
        return;
    }
    for network in [NetworkPolicy::Off, NetworkPolicy::Full] {
        let mut behind = Behind::new(AskForApproval::Never);
        behind.world.session.permissions.network = network.clone();
        let request = behind.world.shell("env | grep -ci _proxy; echo $NO_PROXY > go; touch proxy; sleep 0.2");
        let before = listeners();
        let run = behind.world.orchestrator();
        let count = async {
            while !behind.world.exists("ws/proxy") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            listeners()
        };
        let (outcome, during) = tokio::join!(run.run(&request), count);
        assert_eq!(during, before, "{network:?}");
        assert_eq!(stdout(&outcome.unwrap()), r"3\n", "the three that were there before: {network:?}");
        assert!(behind.sandbox.proxies.lock().unwrap().is_empty());
    }
}

/// What would happen is told without a proxy being started, and says that there would be one.
#[test]
fn an_explanation_says_that_hosts_go_through_a_proxy() {
    let behind = Behind::new(AskForApproval::Never);
    let run = behind.world.orchestrator();
    // No runtime is there to start anything on.
    let explanation = run.explain(&behind.world.shell("true")).unwrap();
    assert_eq!((explanation.hosts_through, explanation.unenforceable), (Some(HostsThrough::Proxy), None));
    let mut seen = Behind::new(AskForApproval::Never);
    seen.world.backend = Arc::new(stockade_sandbox_linux::Auto::new());
    let explanation = seen.world.orchestrator().explain(&seen.world.shell("true")).unwrap();
    assert_eq!(explanation.hosts_through, Some(HostsThrough::Sandbox));
}

/// What no proxy carries is refused before anything is started.
#[tokio::test]
async fn datagrams_are_refused() {
    let mut behind = Behind::new(AskForApproval::Never);
    if let NetworkPolicy::Hosts(hosts) = &mut behind.world.session.permissions.network {
        let (host, protocol) = ("time.test".parse().unwrap(), Some(NetworkProtocol::Udp));
        hosts.rules.push(HostRule { host, protocol, port: None, decision: Decision::Allow });
    }
    let outcome = behind.world.orchestrator().run(&behind.world.shell("touch made")).await.unwrap();
    assert!(refusal(&outcome).contains("a grant of datagrams to `time.test` can't be enforced"), "{outcome:?}");
    assert!(!behind.world.exists("ws/made"));
}
