//! What is on record afterwards.

use std::fs;

use super::home::{Home, said};

fn trail(home: &Home) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(home.path("state/stockade")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

#[test]
fn a_run_is_listed_shown_and_verified() {
    let home = Home::new();
    home.runs(&[], "exit 3", 3);
    home.runs(&["--unsandboxed"], "true", 126);
    let listed = home.says(&["audit", "list"], 0).stdout;
    let runs: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<_> = runs.iter().map(|run| (&run["result"], &run["exit_code"])).collect();
    assert_eq!(results, [(&"exited".into(), &3.into()), (&"refused".into(), &serde_json::Value::Null)]);
    let shown = home.says(&["audit", "show", runs[0]["request_id"].as_str().unwrap()], 0).stdout;
    assert!(shown.contains("asked to run  sh -c 'exit 3'") && shown.contains("exited with 3 after"), "{shown}");
    assert!(shown.contains("engine native: ") && !shown.contains("not enforced"), "{shown}");
    let told = home.says(&["audit", "verify"], 0).stdout;
    assert!(told.starts_with("6 records are whole"), "{told}");
}

/// or18: one byte of the trail is changed, and the record that it is in is named.
#[test]
fn one_changed_byte_is_found() {
    let home = Home::new();
    home.runs(&[], "exit 3", 3);
    let file = trail(&home).pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"exit_code\":3"), "{text}");
    fs::write(&file, text.replace("\"exit_code\":3", "\"exit_code\":0")).unwrap();
    let told = home.says(&["audit", "verify"], 1);
    assert!((told.stdout + &told.stderr).contains("record 2"), "the last of three is bad");
}

/// or19: what looks like a secret is in no record.
#[test]
fn secrets_are_not_on_record() {
    let home = Home::new();
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let words = ["run", "--env", "DEPLOY_PASSWORD=hunter2", "--", "echo", "--token", "hunter3", token];
    let mut command = home.stockade(&words);
    said(command.env("API_KEY", "hunter4"), 0);
    let files = fs::read_dir(home.path("state/stockade")).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        let text = fs::read_to_string(file).unwrap();
        for secret in ["hunter2", "hunter3", "hunter4", token] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let records: String = trail(&home).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(records.contains("--token"), "{records}");
}

/// or17: where the trail is required and can't be written, nothing runs.
#[test]
fn without_a_trail_that_is_required_nothing_runs() {
    let home = Home::new();
    home.write("config/stockade/config.toml", "[audit]\nrequired = true\npath = \"/proc/stockade\"\n");
    let told = home.runs(&[], "touch made", 125);
    assert!(told.stderr.contains("/proc/stockade") && !home.exists("ws/made"), "{}", told.stderr);
    home.write("config/stockade/config.toml", "[audit]\npath = \"/proc/stockade\"\n");
    let told = home.runs(&[], "touch made", 0);
    assert!(told.stderr.contains("audit trail disabled: ") && home.exists("ws/made"), "{}", told.stderr);
}

/// The trail is its owner's alone, and out of the command's reach.
#[test]
fn a_command_can_not_change_the_trail() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    home.runs(&[], "true", 0);
    let file = trail(&home).pop().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    home.runs(&[], &format!("echo x >> {}", file.display()), 2);
    home.says(&["audit", "verify"], 0);
}

/// A long beginning hides no end: both are shown, with what tells the whole command.
#[test]
fn both_ends_of_a_long_command_are_on_record() {
    let home = Home::new();
    home.runs(&[], &format!(": {}; exit 3", "a".repeat(100_000)), 3);
    let listed = home.says(&["audit", "list"], 0).stdout;
    let run: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
    let shown = home.says(&["audit", "show", run["request_id"].as_str().unwrap()], 0).stdout;
    assert!(shown.contains("asked to run  sh -c ': aaaa") && shown.contains("aaaa; exit 3'"), "{shown}");
    assert!(shown.contains("shortened: 100014 bytes in 3 words, SHA-256 "), "{shown}");
}

/// A command that makes many records fills no file with them, and the run's own stay.
#[test]
fn a_run_has_a_bounded_number_of_records() {
    let home = Home::new();
    let line = "import socket\nfor port in range(1, 3001):\n  s = socket.socket()\n  s.settimeout(0.1)\n  \
                s.connect_ex(('192.0.2.1', port))\n  s.close()\n";
    home.says(&["run", "--allow-host", "good.test:80", "--", "python3", "-c", line], 0);
    let records: String = trail(&home).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let count = records.lines().count();
    assert!((200..220).contains(&count), "{count}");
    let events: u64 = records
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["event"]["unrecorded"]["events"].as_u64()
        })
        .sum();
    assert!((2780..=2800).contains(&events), "{events}");
    assert!(records.lines().last().unwrap().contains("\"ended\""), "{records}");
    home.says(&["audit", "verify"], 0);
}

/// The trail is where the settings have it: there it is read, and there it is masked.
#[test]
fn a_trail_elsewhere_is_read_and_masked() {
    let home = Home::new();
    home.runs(&[], "true", 0);
    home.write("config/stockade/config.toml", &format!("audit.path = {:?}\n", home.path("outside/trail")));
    assert_eq!(home.says(&["audit", "list"], 0).stdout, "");
    home.runs(&[], "exit 3", 3);
    assert!(home.exists("outside/trail/audit.jsonl"));
    let listed = home.says(&["audit", "list"], 0).stdout;
    assert!(listed.lines().count() == 1 && listed.contains("exit 3"), "{listed}");
    assert!(home.says(&["audit", "verify"], 0).stdout.contains(" records are whole"));
    let told = home.runs(&[], "cat ../outside/trail/audit.jsonl", 1);
    assert_eq!(told.stdout, "", "{}", told.stderr);
    home.write("config/stockade/config.toml", "audit.path = 3\n");
    for command in ["list", "verify"] {
        home.says(&["audit", command], 125);
    }
}
