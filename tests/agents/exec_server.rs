//! `stockade exec-server` as a client of codex's protocol speaks to it: lines that a person could type.

use std::os::unix::fs::symlink;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::running::home::Home;
use crate::serving::talk::Talk;
use crate::support::program;

/// A client that has said who it is.
pub(super) fn talk(home: &Home, arguments: &[&str]) -> Talk {
    // Whatever the shell ignores that runs the tests: a command that ignores a signal from its start can't trap it.
    let mut command = program("env");
    command.args(["--default-signal"]).arg(home.path("stockade")).arg("exec-server").args(arguments);
    home.surround(&mut command);
    let mut talk = Talk::with(&mut command);
    talk.call("initialize", &json!({"clientName": "test", "resumeSessionId": null}));
    talk.line(r#"{"method":"initialized","params":{}}"#);
    talk
}

pub(super) fn uri(path: &Path) -> String {
    format!("file://{}", path.to_str().unwrap())
}

fn start(home: &Home, id: &str, line: &str) -> Value {
    json!({
        "processId": id, "argv": ["/bin/sh", "-c", line], "cwd": uri(&home.path("ws")), "env": {"PATH": "/usr/bin:/bin"},
        "tty": false, "pipeStdin": false, "arg0": null,
    })
}

/// codex's sandbox that writes the workspace and nothing else.
fn workspace_write(home: &Home) -> Value {
    let entry = |value: Value, access: &str| json!({"path": {"type": "special", "value": value}, "access": access});
    json!({
        "permissions": {
            "type": "managed", "network": "restricted",
            "file_system": {"type": "restricted", "entries": [
                entry(json!({"kind": "root"}), "read"),
                entry(json!({"kind": "project_roots"}), "write"),
            ]},
        },
        "cwd": uri(&home.path("ws")), "workspaceRoots": [uri(&home.path("ws"))],
        "windowsSandboxLevel": "disabled", "useLegacyLandlock": false,
    })
}

/// Waits for the end of a process: its output, its exit, and whether it was denied something.
fn ended(talk: &mut Talk, id: &str) -> (String, i64, bool) {
    let mut output = Vec::new();
    let mut last = 0;
    loop {
        let message = talk.told_any();
        let params = message["params"].clone();
        if params["processId"] != id {
            continue;
        }
        assert_eq!(params["seq"].as_u64().unwrap(), last + 1, "{message}");
        last += 1;
        match message["method"].as_str().unwrap() {
            "process/output" => output.extend(STANDARD.decode(params["chunk"].as_str().unwrap()).unwrap()),
            "process/exited" => {
                let exit = (params["exitCode"].as_i64().unwrap(), params["sandboxDenied"].as_bool().unwrap());
                assert_eq!(talk.told("process/closed")["params"]["seq"], json!(last + 1));
                return (String::from_utf8(output).unwrap(), exit.0, exit.1);
            }
            other => panic!("{other}"),
        }
    }
}

fn runs(talk: &mut Talk, params: &Value) -> (String, i64, bool) {
    talk.call("process/start", params);
    ended(talk, params["processId"].as_str().unwrap())
}

#[test]
fn it_says_truly_what_is_there() {
    let home = Home::new();
    let mut talk = Talk::with(home.program().arg("exec-server"));
    assert_eq!(talk.refused("environment/info", &Value::Null)["code"], -32600);
    let said = talk.call("initialize", &json!({"clientName": "test"}));
    let info = &said["environmentInfo"];
    assert_eq!(info["cwd"], json!(uri(&home.path("ws"))));
    assert_eq!((&info["platformOs"], &info["shell"]["name"]), (&json!("linux"), &json!("bash")));
    assert_eq!(talk.refused("process/read", &json!({"processId": "x"}))["code"], -32600);
    talk.line(r#"{"method":"initialized"}"#);
    assert_eq!(talk.call("environment/info", &Value::Null), *info);
    assert_eq!(talk.call("environment/status", &Value::Null), json!({"status": "ready"}));
    assert_eq!(talk.refused("initialize", &json!({"clientName": "again"}))["code"], -32600);
    // What is not offered is not there: every capability that is said is answered, and no other.
    let offered = info["capabilities"].as_object().unwrap();
    let has = |name: &str| offered[name].as_bool().unwrap();
    for (name, method) in [
        ("environmentConfigRead", "environmentConfig/read"),
        ("fsWatchMissing", "fs/watchMissing"),
        ("capabilityDiscoveryV2", "capabilityRoots/discoverV2"),
        ("httpHeaderEnvVars", "http/request"),
        ("sandboxedFileStreaming", "fs/open"),
    ] {
        let is_there = talk.refused(method, &json!({}))["code"] != -32601;
        assert_eq!(has(name), is_there, "{name}");
    }
    let home = Home::new();
    let mut other = Talk::with(home.program().arg("exec-server"));
    let resumed = other.refused("initialize", &json!({"clientName": "test", "resumeSessionId": "gone"}));
    assert_eq!(resumed["code"], -32600);
}

#[test]
fn a_process_writes_reads_and_ends() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    assert_eq!(runs(&mut talk, &start(&home, "p1", "echo out; echo err >&2; exit 3")).1, 3);
    let read = talk.call("process/read", &json!({"processId": "p1", "afterSeq": 0, "maxBytes": null, "waitMs": 0}));
    assert_eq!((&read["exitCode"], &read["closed"], &read["failure"]), (&json!(3), &json!(true), &Value::Null));
    let streams: Vec<&str> =
        read["chunks"].as_array().unwrap().iter().map(|chunk| chunk["stream"].as_str().unwrap()).collect();
    assert!(streams.contains(&"stdout") && streams.contains(&"stderr"), "{streams:?}");

    // Input is taken in order, and a write that is sent twice is written once.
    let mut cat = start(&home, "p2", "head -c 6");
    cat["pipeStdin"] = json!(true);
    talk.call("process/start", &cat);
    let write = |text: &str, id: &str| json!({"processId": "p2", "chunk": STANDARD.encode(text), "writeId": id});
    for (text, id) in [("abc", "1"), ("abc", "1"), ("def", "2")] {
        assert_eq!(talk.call("process/write", &write(text, id)), json!({"status": "accepted"}));
    }
    assert_eq!(ended(&mut talk, "p2"), (String::from("abcdef"), 0, false));
    assert_eq!(talk.call("process/write", &write("x", "3")), json!({"status": "stdinClosed"}));
    let unknown = json!({"processId": "none", "chunk": "", "writeId": "1"});
    assert_eq!(talk.call("process/write", &unknown), json!({"status": "unknownProcess"}));

    // A signal, and an end.
    talk.call(
        "process/start",
        &start(&home, "p3", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"),
    );
    talk.told("process/output");
    talk.call("process/signal", &json!({"processId": "p3", "signal": "interrupt"}));
    talk.told("process/output");
    assert_eq!(talk.told("process/exited")["params"]["exitCode"], 5);
    talk.call("process/start", &start(&home, "p4", "echo ready; sleep 600"));
    talk.told("process/output");
    assert_eq!(talk.call("process/terminate", &json!({"processId": "p4"})), json!({"running": true}));
    assert_eq!(talk.told("process/exited")["params"]["exitCode"], 137);
    assert_eq!(talk.call("process/terminate", &json!({"processId": "p4"})), json!({"running": false}));
    assert_eq!(talk.call("process/terminate", &json!({"processId": "none"})), json!({"running": false}));

    // A terminal.
    let mut terminal = start(&home, "p5", "test -t 0 && stty size");
    terminal["tty"] = json!(true);
    let (output, code, _) = runs(&mut talk, &terminal);
    assert_eq!((output.trim(), code), ("24 80", 0));

    // What can't be started says why.
    let mut missing = start(&home, "p6", "");
    missing["argv"] = json!(["/does/not/exist"]);
    let (output, code, _) = runs(&mut talk, &missing);
    assert!(code == 127 && output.starts_with("stockade: "), "{code} {output}");
}

#[test]
fn names_of_processes_and_requests_are_not_used_twice() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    talk.call("process/start", &start(&home, "same", "sleep 600"));
    let again = talk.refused("process/start", &start(&home, "same", "echo second"));
    assert_eq!(again["code"], -32600, "{again}");
    let waiting = json!({"processId": "same", "afterSeq": null, "maxBytes": null, "waitMs": 3000});
    talk.line(&json!({"id": "twice", "method": "process/read", "params": waiting}).to_string());
    talk.line(&json!({"id": "twice", "method": "environment/status", "params": null}).to_string());
    // The second has an answer that can't be taken for the first one's.
    assert_eq!(talk.response(&json!(-1)).unwrap_err()["code"], -32600);
    assert_eq!(talk.response(&json!("twice")).unwrap()["closed"], false);
}

#[test]
fn what_codex_asks_for_and_can_not_have_is_refused() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let entries = |entries: Value| {
        json!({"permissions": {"type": "managed", "network": "restricted",
            "file_system": {"type": "restricted", "entries": entries}}, "windowsSandboxLevel": "disabled"})
    };
    let special = |value: Value, access: &str| json!([{"path": {"type": "special", "value": value}, "access": access}]);
    let glob =
        |pattern: &str, access: &str| json!([{"path": {"type": "glob_pattern", "pattern": pattern}, "access": access}]);
    let sandboxes = [
        entries(special(json!({"kind": "minimal"}), "read")),
        entries(special(json!({"kind": "unknown", "path": ":future"}), "deny")),
        entries(special(json!({"kind": "later"}), "read")),
        entries(special(json!({"kind": "project_roots", "subpath": "../.."}), "write")),
        entries(glob("**/*.rs", "write")),
        entries(json!([{"path": {"type": "path", "path": "/etc"}, "access": "write"}])),
        entries(json!([{"path": {"type": "path", "path": "file:///a/../b"}, "access": "write"}])),
        entries(
            json!([{"path": {"type": "special", "value": {"kind": "root"}}, "access": "write", "only_on": "monday"}]),
        ),
        json!({"permissions": {"type": "later"}}),
        json!({"permissions": {"type": "disabled"}, "cwd": "file:///a", "policyContext": {"cwd": "file:///b"}}),
        json!({"permissions": {"type": "disabled"}, "newRestriction": true}),
    ];
    for (number, sandbox) in sandboxes.into_iter().enumerate() {
        let mut params = start(&home, &format!("p{number}"), "touch ran");
        params["sandbox"] = sandbox.clone();
        assert_eq!(talk.refused("process/start", &params)["code"], -32602, "{sandbox}");
        let write = json!({"path": uri(&home.path("ws/ran")), "dataBase64": "", "sandbox": sandbox});
        assert_eq!(talk.refused("fs/writeFile", &write)["code"], -32602, "{sandbox}");
    }
    for (field, value) in [
        ("arg0", json!("other-name")),
        ("enforceManagedNetwork", json!(true)),
        ("networkProxy", json!({"config": {}})),
        ("shellSnapshot", json!({"scopeId": "x"})),
        ("later", json!({"restriction": 1})),
        ("argv", json!([])),
        ("cwd", json!("file://host/ws")),
        ("processId", json!("")),
        ("env", json!({"A=B": "x"})),
    ] {
        let mut params = start(&home, "p", "touch ran");
        params[field] = value;
        assert_eq!(talk.refused("process/start", &params)["code"], -32602, "{field}");
    }
    assert!(!home.exists("ws/ran"));
}

#[test]
fn a_bound_of_codex_takes_away_and_never_adds() {
    let home = Home::new();
    let mut talk = talk(&home, &["--deny-read", home.path("ws/secret").to_str().unwrap()]);
    home.write("ws/secret", "s3");
    home.write("ws/public", "open\n");
    // Everything is allowed by codex; the session's own denial stays.
    let open = json!({"permissions": {"type": "managed", "network": "enabled", "file_system": {"type": "unrestricted"}},
        "windowsSandboxLevel": "disabled"});
    let line = format!("cat public; cat secret; echo x > {}", home.path("outside/x").display());
    let mut params = start(&home, "open", &line);
    params["sandbox"] = open;
    let (output, code, denied) = runs(&mut talk, &params);
    assert!(output.contains("open\n") && !output.contains("s3") && code != 0 && denied, "{output}");
    assert!(!home.exists("outside/x"));
    // codex denies a file that the session would show, by a path and by a pattern.
    home.write("ws/keys/a.pem", "pem");
    for path in [
        json!({"type": "path", "path": uri(&home.path("ws/keys"))}),
        json!({"type": "glob_pattern", "pattern": "**/*.pem"}),
    ] {
        let mut sandbox = workspace_write(&home);
        sandbox["permissions"]["file_system"]["entries"]
            .as_array_mut()
            .unwrap()
            .push(json!({"path": path, "access": "deny"}));
        let mut params = start(&home, &format!("deny {path}"), "cat keys/a.pem || echo no");
        params["sandbox"] = sandbox;
        let (output, _, _) = runs(&mut talk, &params);
        assert!(output.contains("no\n") && !output.contains("pem\n"), "{path}: {output}");
    }
    let (output, ..) = runs(&mut talk, &start(&home, "free", "cat keys/a.pem"));
    assert_eq!(output, "pem");
}

#[test]
fn files_are_read_written_listed_copied_and_removed() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let sandbox = workspace_write(&home);
    let at = |name: &str| uri(&home.path(&format!("ws/{name}")));
    let bytes: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    talk.call("fs/createDirectory", &json!({"path": at("a/b"), "recursive": true, "sandbox": sandbox}));
    let write = json!({"path": at("a/b/file"), "dataBase64": STANDARD.encode(&bytes), "sandbox": sandbox});
    assert_eq!(talk.call("fs/writeFile", &write), json!({}));
    assert_eq!(std::fs::read(home.path("ws/a/b/file")).unwrap(), bytes);
    let read = talk.call("fs/readFile", &json!({"path": at("a/b/file"), "sandbox": sandbox}));
    assert_eq!(STANDARD.decode(read["dataBase64"].as_str().unwrap()).unwrap(), bytes);
    talk.call("fs/writeFile", &json!({"path": at("a/empty"), "dataBase64": "", "sandbox": sandbox}));
    let found = talk.call("fs/getMetadata", &json!({"path": at("a/empty"), "sandbox": null}));
    assert_eq!((&found["isFile"], &found["size"], &found["isSymlink"]), (&json!(true), &json!(0), &json!(false)));
    let missing = talk.refused("fs/getMetadata", &json!({"path": at("none"), "sandbox": null}));
    assert_eq!(missing["code"], -32004);
    talk.call(
        "fs/copy",
        &json!({"sourcePath": at("a"), "destinationPath": at("c"), "recursive": true, "sandbox": sandbox}),
    );
    let list = talk.call("fs/readDirectory", &json!({"path": at("c"), "sandbox": sandbox}));
    let mut names: Vec<&str> =
        list["entries"].as_array().unwrap().iter().map(|entry| entry["fileName"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "empty"]);
    let options = json!({"maxDepth": 9, "maxDirectories": 9, "maxEntries": 99, "followDirectorySymlinks": false});
    let walked = talk.call("fs/walk", &json!({"path": at("c"), "options": options, "sandbox": null}));
    let paths: Vec<&str> =
        walked["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [at("c/b"), at("c/empty"), at("c/b/file")]);
    symlink("c/b", home.path("ws/link")).unwrap();
    let canonical = talk.call("fs/canonicalize", &json!({"path": at("link/file"), "sandbox": null}));
    assert_eq!(canonical["path"], json!(at("c/b/file")));
    let not_followed = json!({"path": at("link/file"), "followSymlinks": false, "sandbox": null});
    assert_eq!(talk.refused("fs/readFile", &not_followed)["code"], -32600);
    let plain = json!({"path": at("c/b/file"), "followSymlinks": false, "sandbox": sandbox});
    talk.call("fs/readFile", &plain);
    let made = json!({"path": at("d/e"), "recursive": true, "followSymlinks": false, "sandbox": sandbox});
    talk.call("fs/createDirectory", &made);
    assert!(home.path("ws/d/e").is_dir());
    talk.call("fs/remove", &json!({"path": at("c"), "recursive": true, "force": false, "sandbox": sandbox}));
    assert!(!home.exists("ws/c"));
    let again = json!({"path": at("c"), "recursive": true, "force": false, "sandbox": sandbox});
    assert_eq!(talk.refused("fs/remove", &again)["code"], -32004);

    // In blocks.
    talk.call("fs/open", &json!({"handleId": "h", "path": at("a/b/file"), "sandbox": sandbox}));
    assert_eq!(
        talk.refused("fs/open", &json!({"handleId": "h", "path": at("a/b/file"), "sandbox": null}))["code"],
        -32600
    );
    let block = |offset: u64, len: u64| json!({"handleId": "h", "offset": offset, "len": len});
    let first = talk.call("fs/readBlock", &block(256, 1000));
    assert_eq!(STANDARD.decode(first["chunk"].as_str().unwrap()).unwrap(), &bytes[256..1256]);
    let last = talk.call("fs/readBlock", &block(699_999, 1 << 20));
    assert_eq!((last["eof"].as_bool(), last["chunk"].as_str().map(str::len)), (Some(true), Some(4)));
    assert_eq!(talk.call("fs/close", &json!({"handleId": "h"})), json!({}));
    assert_eq!(talk.refused("fs/readBlock", &block(0, 1))["code"], -32600);
}

#[test]
fn no_file_outside_is_written_or_shown_whatever_leads_there() {
    let home = Home::new();
    home.write("outside/file", "theirs");
    home.write("home/.ssh/id_ed25519", "key");
    symlink(home.path("outside"), home.path("ws/way")).unwrap();
    symlink(home.path("home/.ssh"), home.path("ws/ssh")).unwrap();
    let mut talk = talk(&home, &[]);
    let data = STANDARD.encode("mine");
    for sandbox in [Value::Null, workspace_write(&home)] {
        for path in
            [home.path("outside/file"), home.path("ws/way/file"), home.path("ws/way/new"), home.path("ws/.git/x")]
        {
            let refused =
                talk.refused("fs/writeFile", &json!({"path": uri(&path), "dataBase64": data, "sandbox": sandbox}));
            assert!([-32600, -32004].contains(&refused["code"].as_i64().unwrap()), "{path:?} {refused}");
        }
        for (method, path) in [
            ("fs/remove", home.path("ws/way/file")),
            ("fs/createDirectory", home.path("ws/way/directory")),
            ("fs/readFile", home.path("ws/ssh/id_ed25519")),
            ("fs/readFile", home.path("home/.ssh/id_ed25519")),
            ("fs/readFile", home.path("state/stockade")),
        ] {
            talk.refused(method, &json!({"path": uri(&path), "sandbox": sandbox}));
        }
        let copy = json!({"sourcePath": uri(&home.path("home/.ssh")), "destinationPath": uri(&home.path("ws/stolen")),
            "recursive": true, "sandbox": sandbox});
        let id = talk.send("fs/copy", &copy);
        talk.response(&id).ok();
        assert!(!home.exists("ws/stolen/id_ed25519"));
    }
    assert_eq!(home.read("outside/file"), "theirs");
    assert!(!home.exists("outside/new") && !home.exists("outside/directory"));
    // It is said why, as it is of a command.
    let refused = talk.refused(
        "fs/writeFile",
        &json!({"path": uri(&home.path("outside/file")), "dataBase64": data, "sandbox": null}),
    );
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("stockade: writing `") && message.contains("`--writable "), "{message}");
    // And what was done is on record, by its path.
    assert!(talk.end().success());
    let trail = home.says(&["audit", "list"], 0).stdout;
    assert!(trail.contains("file-helper") && trail.contains("outside/file"), "{trail}");
}

#[test]
fn a_rule_that_forbids_is_told_and_one_that_asks_is_declined() {
    let home = Home::new();
    let rules = "prefix_rule(pattern = [\"make\", \"deploy\"], decision = \"forbidden\", justification = \"ask the team\")\n\
                 prefix_rule(pattern = [\"make\", \"test\"], decision = \"prompt\")\n";
    home.write("config/stockade/rules/mine.rules", rules);
    let mut talk = talk(&home, &[]);
    let mut params = start(&home, "p1", "");
    params["argv"] = json!(["make", "deploy"]);
    let (output, code, denied) = runs(&mut talk, &params);
    assert!(code == 126 && !denied && output.contains("ask the team"), "{code} {output}");
    params["processId"] = json!("p2");
    params["argv"] = json!(["make", "test"]);
    let (output, code, _) = runs(&mut talk, &params);
    assert!(code == 126 && output.contains("allow the command with a rule"), "{code} {output}");
    // Files are looked at all the same where everything is asked about, and not written.
    let mut asking = self::talk(&home, &["--ask", "untrusted"]);
    asking.call("fs/getMetadata", &json!({"path": uri(&home.path("ws")), "sandbox": null}));
    let write = json!({"path": uri(&home.path("ws/x")), "dataBase64": "", "sandbox": null});
    asking.refused("fs/writeFile", &write);
    assert!(!home.exists("ws/x"));
}

#[test]
fn everything_ends_with_the_client() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let line = "echo $$ > pid; while :; do date +%N > alive; sleep 0.05; done";
    talk.call("process/start", &start(&home, "p", line));
    while !home.exists("ws/alive") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(talk.end().success());
    let before = home.read("ws/alive");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(home.read("ws/alive"), before);
}

/// The file helper is a program like any other, and what it sees of itself can be read: nothing of the server's environment.
#[test]
fn the_file_helper_has_no_environment() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let read = talk.call("fs/readFile", &json!({"path": "file:///proc/self/environ"}));
    assert_eq!(read["dataBase64"], json!(""));
    let (output, ..) = runs(&mut talk, &start(&home, "p", "echo $HOME; env | grep -c ^XDG"));
    assert_eq!(output, "\n0\n", "codex says which variables a process has");
}

/// What can't be started, or means something else in the server's own process, is said in words that help.
#[test]
fn advice_is_about_the_command_and_not_about_the_server() {
    let home = Home::new();
    let mut talk = talk(&home, &["--ask", "never"]);
    let long = format!("true #{}", "x".repeat(150_000));
    let refused = talk.refused("process/start", &start(&home, "long", &long));
    assert_eq!(refused["code"], -32602);
    assert!(refused["message"].as_str().unwrap().contains("write a long text into a file"), "{refused}");
    // The server's own open files are none of the command's.
    let words: Vec<String> = (3..40).map(|fd| format!("/dev/fd/{fd}")).collect();
    let (output, ..) = runs(&mut talk, &start(&home, "fd", &format!("cat {}", words.join(" "))));
    assert!(!output.contains("stockade:"), "{output}");
    let mut other = start(&home, "home", "true");
    other["env"]["HOME"] = json!(home.path("outside"));
    let (output, code, _) = runs(&mut talk, &other);
    assert!(output.contains("open another session") && !output.contains("NAME"), "{output}");
    assert_eq!(code, 125);
    let help = home.says(&["exec-server", "--help"], 0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("[default: on-request]") && !help.contains("on-failure with a terminal"), "{help}");
}
