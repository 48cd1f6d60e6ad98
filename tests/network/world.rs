//! Servers on the host, names that lead to them, and commands in a sandbox whose connections are decided.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use stockade_network_proxy::{Approvals, Ask, BoxFuture, Gate, NotRecorded, Records, Resolver, Rules, Transparent};
use stockade_protocol::{
    AbsPath, Access, Argv, AuditEvent, Decision, Destination, FileRule, FileRules, HostName, HostRule, HostRules,
    HttpMethods, NetworkApproval, NetworkPolicy, NetworkPolicyAmendment, Permissions, RawText, ReviewDecision,
    Violation,
};
use stockade_sandbox_linux::{Bwrap, Native};
use stockade_sandboxing::{Backend as _, CommandSpec, Stdio, Streams, WaitStatus};
use tokio::runtime::Runtime;

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: Option<WaitStatus>,
}

/// What builds the sandbox.
#[derive(Clone, Copy)]
pub(crate) enum Engine {
    Native,
    Bwrap,
}

/// Who may be reached, and who answers questions.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) rules: Vec<HostRule>,
    pub(crate) methods: HttpMethods,
    pub(crate) unix_sockets: BTreeSet<AbsPath>,
    /// In place of the rules.
    pub(crate) network: Option<NetworkPolicy>,
    pub(crate) names: HashMap<&'static str, IpAddr>,
    pub(crate) person: Option<ReviewDecision>,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
    pub(crate) trail: Arc<Trail>,
}

/// What was decided, one line each.
#[derive(Default)]
pub(crate) struct Trail {
    lines: Mutex<Vec<String>>,
    pub(crate) violations: Mutex<Vec<Violation>>,
    pub(crate) questions: Mutex<Vec<NetworkApproval>>,
    remembered: Mutex<HashMap<Destination, Decision>>,
}

impl Trail {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Records for Trail {
    fn decided(&self, event: AuditEvent) -> Result<(), NotRecorded> {
        if let AuditEvent::Connected { destination, decision, .. } = event {
            let line = format!("{}:{} {decision:?}", destination.host, destination.port);
            self.lines.lock().unwrap().push(line);
        }
        Ok(())
    }

    fn denied(&self, violation: Violation) {
        self.violations.lock().unwrap().push(violation);
    }
}

struct Names(HashMap<&'static str, IpAddr>);

impl Resolver for Names {
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let found = self.0.get(name.as_str()).copied();
        Box::pin(async move { found.map(|address| vec![address]).ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

struct Person(ReviewDecision, Arc<Trail>);

impl Ask for Person {
    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision> {
        self.1.questions.lock().unwrap().push(question);
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.0.clone()
        })
    }

    fn recall(&self, destination: &Destination) -> Option<Decision> {
        self.1.remembered.lock().unwrap().get(destination).copied()
    }

    fn remember(&self, destination: &Destination, decision: Decision) {
        self.1.remembered.lock().unwrap().insert(destination.clone(), decision);
    }

    fn save(&self, _: &NetworkPolicyAmendment) {}
}

pub(crate) fn allow(host: &str, port: u16) -> HostRule {
    HostRule { host: host.parse().unwrap(), protocol: None, port: Some(port), decision: Decision::Allow }
}

impl World {
    /// `good.test` may be reached at this port, and leads to loopback; so does `evil.test`, which may not.
    pub(crate) fn good(port: u16) -> Self {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        Self {
            engine: Engine::Native,
            rules: vec![allow("good.test", port), allow("127.0.0.1", port)],
            methods: HttpMethods::Any,
            unix_sockets: BTreeSet::new(),
            network: None,
            names: HashMap::from([("good.test", local), ("evil.test", local), ("new.test", local)]),
            person: None,
            patience: Duration::from_secs(30),
            trail: Arc::default(),
        }
    }

    fn policy(&self) -> NetworkPolicy {
        let hosts = || NetworkPolicy::Hosts(HostRules { rules: self.rules.clone(), methods: self.methods });
        self.network.clone().unwrap_or_else(hosts)
    }

    fn gatekeeper(&self) -> Arc<Transparent> {
        let policy = self.policy();
        let approvals = match &self.person {
            None => Approvals::never(),
            Some(answer) => {
                let person = Person(answer.clone(), Arc::clone(&self.trail));
                Approvals::asking(Arc::new(person), self.patience)
            }
        };
        let names = Arc::new(Names(self.names.clone()));
        let trail: Arc<dyn Records> = Arc::<Trail>::clone(&self.trail);
        let gate = Gate::new(Rules::new(policy, Vec::new()), approvals, names, trail);
        Arc::new(Transparent::new(gate, runtime().handle().clone()))
    }

    pub(crate) fn permissions(&self) -> Permissions {
        let rules = [("/", Access::Read), ("/tmp", Access::Scratch)];
        let rules = rules.map(|(path, access)| FileRule::path(path.parse().unwrap(), access));
        Permissions {
            files: FileRules::new(rules).unwrap(),
            network: self.policy(),
            unix_sockets: self.unix_sockets.clone(),
            ..Permissions::default()
        }
    }

    /// Runs a line of bash in the sandbox.
    pub(crate) fn run(&self, line: &str) -> Ended {
        let (command, permissions) = (command(line), self.permissions());
        let plan = match self.engine {
            Engine::Native => Native::new().compile(&command, &permissions),
            Engine::Bwrap => Bwrap::new().compile(&command, &permissions),
        };
        let plan = plan.unwrap();
        let (stdio, outputs) = pipes();
        let mut running = plan.spawn_guarded(stdio, self.gatekeeper().into()).unwrap();
        let [stdout, stderr] = outputs.map(|output| output.join().unwrap());
        Ended { stdout, stderr, status: running.wait(Some(Duration::from_secs(120))).unwrap() }
    }

    /// Runs several lines, one after the other, in one session.
    pub(crate) fn session(
        &self,
    ) -> (stockade_sandbox_linux::Session, impl Fn(&stockade_sandbox_linux::Session, &str) -> Ended) {
        let session = Native::new().guarded_session(&self.permissions(), self.gatekeeper()).unwrap();
        (session, |session, line| {
            let (stdio, outputs) = pipes();
            let mut running = session.spawn(&command(line), stdio).unwrap();
            let [stdout, stderr] = outputs.map(|output| output.join().unwrap());
            Ended { stdout, stderr, status: running.wait(Some(Duration::from_secs(120))).unwrap() }
        })
    }
}

fn command(line: &str) -> CommandSpec {
    let path = std::env::var("PATH").unwrap();
    let variables = [("PATH", path.as_str()), ("HOME", "/tmp"), ("LC_ALL", "C")];
    CommandSpec {
        argv: Argv::parse(["bash", "-c", line]).unwrap(),
        cwd: "/tmp".parse().unwrap(),
        environment: BTreeMap::from(variables.map(|(name, value)| (RawText::from(name), RawText::from(value)))),
        process: Default::default(),
    }
}

fn pipes() -> (Stdio, [thread::JoinHandle<String>; 2]) {
    let pipe = || {
        let (mut read, write) = io::pipe().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            read.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        (Streams::To(OwnedFd::from(write)), reader)
    };
    let ((stdout, out), (stderr, err)) = (pipe(), pipe());
    (Stdio { stdin: Streams::Null, stdout, stderr, controlling_terminal: false }, [out, err])
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

/// A web server that answers each request with this page, and what it heard.
pub(crate) fn server(page: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&heard);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                let mut request = [0; 8192];
                let read = stream.read(&mut request).unwrap_or(0);
                kept.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}", page.len());
                stream.write_all(head.as_bytes()).ok();
            });
        }
    });
    (port, heard)
}

/// Runs the tests of a file once more as a user who is not root, and makes sure that it were so many. For
/// a user who is not root, they have just run as that.
pub(crate) fn again_as_nobody(file: &str, tests: usize) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::chown(directory.path(), Some(65534), Some(65534)).unwrap();
    let copy = directory.path().join("network");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test becomes another user by starting itself again")]
    let mut again = std::process::Command::new("setpriv");
    again.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    again.args([file, "--skip", "for_an_ordinary_user"]).current_dir("/");
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains(&format!("ok. {tests} passed")), "{told}");
}
