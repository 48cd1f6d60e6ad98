use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::connections::SocketServer;
use super::talk::Talk;
use crate::running::home::Home;
use crate::support::program;

/// Connects, says `initialize` and prints what comes back.
const CLIENT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
line = b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol_version\":1,\"client\":{\"name\":\"x\"}}}\\n'
try:
    s.sendall(line)
    answer = s.recv(4096)
except OSError:
    answer = b''
print('answered' if answer else 'closed')
";

fn client(words: &[&str], socket: &Path) -> String {
    let (first, rest) = words.split_first().unwrap();
    let output = program(first).args(rest).args(["/usr/bin/python3", "-c", CLIENT]).arg(socket).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned() + &String::from_utf8(output.stderr).unwrap()
}

fn open_to_all(socket: &Path) {
    for path in socket.ancestors().take_while(|path| *path != Path::new("/")) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap_or_default();
    }
}

const OTHER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Another user reaches neither the socket nor, where its mode lets it, the server.
#[test]
fn another_users_connection_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can connect as a second user.
        return;
    }
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    assert_eq!(client(&["env"], &server.path), "answered");
    let refused = client(&OTHER, &server.path);
    assert!(refused.contains("PermissionError"), "{refused}");
    open_to_all(&server.path);
    assert_eq!(client(&OTHER, &server.path), "closed");
    Talk::at(&server.path).initialize(false).call("session/list", &json!({}));
}

/// The superuser reaches every socket, and is another user all the same.
#[test]
fn the_superuser_is_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::of(crate::running::home::User::Ordinary);
    let directory = home.path("home/run");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    home.give_to_user();
    let socket = directory.join("serve.sock");
    let words = home.words();
    let (first, rest) = words.split_first().unwrap();
    let mut command: Command = program(first);
    command.args(rest).args(["serve", "--socket"]).arg(&socket);
    home.surround(&mut command);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 32];
    server.stderr.as_mut().unwrap().read_exact(&mut line).unwrap();
    let found = (client(&["env"], &socket), client(&OTHER, &socket));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(found, (String::from("closed"), String::from("answered")));
}
