//! Unix sockets of a command's own work where its connections are decided on; those of others stay out of reach.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::home::{Home, User};

/// A service of the host in the workspace, and how many have connected to it.
fn service(home: &Home, name: &str) -> Arc<AtomicUsize> {
    let path = home.path("ws").join(name);
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    home.give_to_user();
    let visitors: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&visitors);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            stream.write_all(b"service").ok();
        }
    });
    visitors
}

/// A module for Python: `serve(address)` listens in a thread and says `own` to each client, `connect(address)` is what a
/// client hears, or the error's name.
const TALK: &str = "import errno, os, socket, threading\n\
    def serve(address):\n\
    \x20   server = socket.socket(socket.AF_UNIX); server.bind(address); server.listen()\n\
    \x20   def run():\n\
    \x20       while True:\n\
    \x20           client, _ = server.accept(); client.sendall(b'own'); client.close()\n\
    \x20   threading.Thread(target=run, daemon=True).start()\n\
    def connect(address):\n\
    \x20   client = socket.socket(socket.AF_UNIX); client.settimeout(50)\n\
    \x20   try: client.connect(address)\n\
    \x20   except OSError as error: return errno.errorcode[error.errno]\n\
    \x20   return client.recv(9).decode()\n";

/// What a script prints in the sandbox.
fn python(home: &Home, engine: &str, script: &str) -> String {
    home.write("ws/talk.py", TALK);
    home.write("ws/script.py", &format!("from talk import *\n{script}"));
    home.give_to_user();
    let line = "PYTHONDONTWRITEBYTECODE=1 python3 script.py 2>&1";
    home.runs(&["--engine", engine, "--network", "hosts", "--ask", "never"], line, 0).stdout
}

#[test]
fn a_command_connects_to_its_own_sockets() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let script = "for address in ('/tmp/x.sock', 'x.sock', os.path.abspath('y.sock'), '\\0name'):\n\
            \x20   serve(address); print(connect(address))\n\
            os.symlink('/tmp/x.sock', 'way'); print(connect('way'))\n\
            os.mkdir('d'); os.rename('x.sock', 'd/z.sock'); print(connect('d/../d/z.sock'))\n\
            os.link('d/z.sock', 'again'); print(connect('again'), connect('x.sock'), connect('\\0other'))\n";
        let told = python(&home, engine, script);
        let wanted = "own\nown\nown\nown\nown\nown\nown ENOENT ECONNREFUSED\n";
        assert_eq!(told, wanted, "{user:?} {engine}");
        let line = "node -e 'const net = require(\"net\"); const server = net.createServer(c => c.end(\"node\")).listen(\"/tmp/n.sock\", () => \
            net.connect(\"/tmp/n.sock\").on(\"data\", d => { console.log(String(d)); server.close() }))'; \
            python3 -c '\nimport multiprocessing\nif __name__ == \"__main__\":\n with multiprocessing.Manager() as m: d = m.dict(); d[1] = 2; print(dict(d))\n'";
        let told = home.runs(&["--engine", engine, "--network", "hosts", "--ask", "never"], line, 0);
        assert_eq!(told.stdout, "node\n{1: 2}\n", "{user:?} {engine}: {}", told.stderr);
    }
}

/// Whatever its path, a socket is the one that it was when it was bound.
#[test]
fn a_foreign_socket_is_not_taken_for_an_own_one() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let visitors = service(&home, "foreign.sock");
        let script = "serve('own.sock'); print(connect('own.sock'), connect('foreign.sock'))\n\
            os.rename('own.sock', 'aside'); os.rename('foreign.sock', 'own.sock'); print(connect('own.sock'), connect('aside'))\n\
            os.link('own.sock', 'other'); print(connect('other'))\n\
            os.symlink('own.sock', 'link'); print(connect('link'))\n\
            # Onto a name that was an own socket's, while paths are looked at.\n\
            stop = False\n\
            def swap():\n\
            \x20   while not stop:\n\
            \x20       for a, b in (('aside', 'now'), ('own.sock', 'new')):\n\
            \x20           os.symlink(a, b); os.rename(b, 'race')\n\
            thread = threading.Thread(target=swap); thread.start()\n\
            import time; time.sleep(0.1)\n\
            heard = {connect('race') for _ in range(400)}; stop = True; thread.join()\n\
            print(sorted(heard - {'own'}))\n";
        let told = python(&home, engine, script);
        assert!(told.starts_with("own EACCES\nEACCES own\nEACCES\nEACCES\n"), "{user:?} {engine}: {told}");
        assert!(!told.contains("service") && !told.contains("Traceback"), "{user:?} {engine}: {told}");
        assert_eq!(visitors.load(Ordering::Relaxed), 0, "{user:?} {engine}");
    }
}

/// A command that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_socket_of_another_run_is_out_of_reach() {
    let home = Home::new();
    home.write("ws/talk.py", TALK);
    let line = "PYTHONDONTWRITEBYTECODE=1 python3 -c '\nfrom talk import *\nserve(\"first.sock\"); serve(\"\\0first\")\n\
        print(connect(\"first.sock\"))\nopen(\"ready\", \"w\")\nthreading.Event().wait()'";
    let mut command = home.stockade(&["run", "--network", "hosts", "--ask", "never", "--", "sh", "-c", line]);
    let _first = Ended(command.stdout(Stdio::null()).spawn().unwrap());
    let start = Instant::now();
    while !home.exists("ws/ready") {
        assert!(start.elapsed() < Duration::from_secs(60), "the first run does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    let script = "serve('second.sock'); print(connect('second.sock'), connect('first.sock'), connect('\\0first'))\n";
    assert_eq!(python(&home, "native", script), "own EACCES ECONNREFUSED\n");
}

/// Where the network is said to be off nothing decides on connections, and there are no unix sockets but pairs.
#[test]
fn without_a_supervisor_there_are_none() {
    let home = Home::new();
    let line = "python3 -c 'import socket; socket.socketpair(); socket.socket(socket.AF_UNIX)' 2>&1 | tail -1";
    let told = home.runs(&["--network", "off", "--ask", "never"], line, 0);
    assert!(told.stdout.contains("Address family not supported"), "{}", told.stdout);
}
