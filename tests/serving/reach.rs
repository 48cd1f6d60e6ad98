use serde_json::json;

use super::connections::SocketServer;
use super::talk::Talk;
use crate::running::home::{Home, User};

const ENGINES: [&str; 3] = ["native", "bwrap", "landlock"];

/// Tries to speak with the server, in every way that a path allows.
const CONNECT: &str = r#"
import os, socket, sys
path = sys.argv[1]
def attempt(name):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(name)
    print("reached", name)
for name in (path, "link", os.path.join("directory", os.path.basename(path))):
    try:
        attempt(name)
    except OSError as error:
        print("denied", error.errno)
"#;

#[test]
fn no_command_reaches_the_socket_with_any_engine_or_network() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    std::os::unix::fs::symlink(&server.path, home.path("ws/link")).unwrap();
    std::os::unix::fs::symlink(server.path.parent().unwrap(), home.path("ws/directory")).unwrap();
    home.write("ws/connect.py", CONNECT);
    let path = server.path.to_str().unwrap();
    let line = format!("python3 connect.py {path}");
    // The script works where no sandbox is.
    let free = home.says(&["run", "--sandbox", "danger-full-access", "--", "sh", "-c", &line], 0);
    assert_eq!(free.stdout.matches("reached").count(), 3, "{}", free.stdout);
    for engine in ENGINES {
        for network in ["off", "hosts", "full"] {
            if engine == "landlock" && network == "hosts" {
                // It can't decide by host, and refuses.
                continue;
            }
            let mut words = vec!["run", "--ask", "never", "--engine", engine, "--network", network];
            if engine == "landlock" {
                // Not even what can be accepted to be lost opens the socket.
                let losses = ["protected_metadata", "private_directories", "credentials", "read_only_parts"];
                words.extend(losses.iter().flat_map(|loss| ["--accept-loss", loss]));
            }
            words.extend(["--", "sh", "-c", &line]);
            let mut command = home.stockade(&words);
            let output = command.output().unwrap();
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(!stdout.contains("reached"), "{engine} {network}: {stdout}{stderr}");
            assert_eq!(stdout.matches("denied").count(), 3, "{engine} {network}: {stdout}{stderr}");
        }
    }
}

#[test]
fn the_socket_cannot_be_granted() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let path = server.path.to_str().unwrap();
    std::os::unix::fs::symlink(&server.path, home.path("outside/link")).unwrap();
    std::os::unix::fs::symlink(server.path.parent().unwrap(), home.path("outside/directory")).unwrap();
    let (link, below) = (home.path("outside/link"), home.path("outside/directory/serve.sock"));
    for engine in ENGINES {
        for granted in [path, link.to_str().unwrap(), below.to_str().unwrap()] {
            let refused = home.says(&["run", "--engine", engine, "--allow-socket", granted, "--", "true"], 125);
            assert!(refused.stderr.contains("holds Stockade's own files"), "{engine} {granted}: {}", refused.stderr);
        }
    }
    // By the settings as well, and in what `explain` says.
    home.write("config/stockade/config.toml", &format!("sandbox.unix_sockets = [\"{path}\"]\n"));
    let refused = home.says(&["run", "--", "true"], 125);
    assert!(refused.stderr.contains("holds Stockade's own files"), "{}", refused.stderr);
}

/// No command makes or uses the directory that a server would put its socket in. Stockade makes it, empty, to hide it.
#[test]
fn a_socket_in_the_runtime_directory_is_one_of_stockades_own_files() {
    let home = Home::of(User::Own);
    let runtime = home.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let mut command = home.stockade(&[
        "run",
        "--ask",
        "never",
        "--writable",
        runtime.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "mkdir ../runtime/other && echo other; mkdir ../runtime/stockade && echo made",
    ]);
    let output = command.env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, "other\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(runtime.join("stockade")).map_or(0, Iterator::count), 0);
}

/// The same from inside a session, also where the socket is in the workspace that the session's commands write.
#[test]
fn a_sessions_own_commands_do_not_reach_their_server() {
    for engine in ENGINES {
        let home = Home::new();
        let losses = "[\"protected_metadata\", \"private_directories\", \"credentials\", \"read_only_parts\"]";
        let accepted = if engine == "landlock" { format!("sandbox.accept_losses = {losses}\n") } else { String::new() };
        home.write("config/stockade/config.toml", &format!("engine = \"{engine}\"\n{accepted}"));
        let server = SocketServer::start(&home, &["run/s.sock"]);
        assert_eq!(server.path, home.path("ws/run/s.sock"));
        home.write("ws/connect.py", CONNECT);
        let mut talk = Talk::at(&server.path).initialize(true);
        let opened = talk.call("session/open", &json!({"workspace": [home.path("ws")], "ask": "never"}));
        let session = opened.get("session_id").unwrap();
        let line =
            format!("touch beside; python3 connect.py {}; rm -f run/s.sock; mv run away; true", server.path.display());
        let run = json!({"session_id": session, "command": ["sh", "-c", line], "stream": false});
        let ran = talk.call("command/run", &run).to_string();
        if engine == "landlock" {
            // It can't protect a part of what is writable, and so runs nothing there.
            assert!(ran.contains("whose protection can't be given up"), "{engine}: {ran}");
        } else {
            assert!(ran.contains("denied") && !ran.contains("reached"), "{engine}: {ran}");
            assert!(home.exists("ws/beside"), "{engine}: {ran}");
        }
        assert!(server.path.exists(), "{engine}: {ran}");
        // Nor by asking for it.
        let permissions = json!({"unix_sockets": [server.path]});
        talk.call("session/update", &json!({"session_id": session, "ask": "on-request"}));
        let params = json!({"session_id": session, "permissions": permissions});
        let refused = talk.call("permissions/request", &params);
        assert!(refused.get("refused").is_some(), "{engine}: {refused}");
    }
}
