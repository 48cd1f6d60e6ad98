//! The decision without the deed.

use super::home::Home;

#[test]
fn a_command_is_explained_and_not_run() {
    let home = Home::new();
    let told = home.says(&["explain", "--", "git", "push"], 0).stdout;
    let told = told.replace(&home.path("ws").display().to_string(), "WS");
    // Their number depends on whether the user has another home on record.
    let shown: String = told
        .lines()
        .map(|line| {
            line.split_once(" places of ").map_or(line.to_owned(), |(_, rest)| format!("         … places of {rest}"))
        })
        .map(|line| line + "\n")
        .collect();
    insta::assert_snapshot!(shown);
    home.says(&["explain", "--", "touch", "made"], 0);
    assert!(!home.exists("ws/made") && !home.exists("state/stockade"), "explaining leaves nothing behind");
}

#[test]
fn the_exit_code_says_whether_it_would_run() {
    let home = Home::new();
    home.write("team.rules", "prefix_rule(pattern=[\"rm\"], decision=\"forbidden\", justification=\"use trash\")\n");
    let told = home.says(&["explain", "--rules", "../team.rules", "--", "sh", "-c", "ls; rm x"], 126).stdout;
    assert!(told.starts_with("command  is refused: a rule (") && told.contains("use trash"), "{told}");
    assert!(told.contains("runs     ls  (in sh -c)\n") && told.contains("runs     rm x  (in sh -c)\n"), "{told}");
    assert!(!told.contains("where"), "{told}");
    let told = home.says(&["explain", "--ask", "untrusted", "--", "npm", "install"], 1).stdout;
    assert!(told.starts_with("command  asks first: "), "{told}");
    let told = home.says(&["explain", "--engine", "landlock", "--", "true"], 125).stdout;
    assert!(told.contains("this host can't enforce that, so it does not run"), "{told}");
}

#[test]
fn a_path_is_explained() {
    let home = Home::new();
    home.write("ws/f", "");
    std::os::unix::fs::symlink(home.path("home/.ssh"), home.path("ws/link")).unwrap();
    for (path, words) in [
        ("f", "ws/f` may be read and written: "),
        ("../outside/x", "outside/x` may be read: `/` may only be read"),
        (".git/config", ".git/config` may be read: "),
        ("link/id", ".ssh/id`) is out of reach: "),
        ("/tmp/x", "`/tmp/x` is an empty private directory"),
    ] {
        let told = home.says(&["explain", "--path", path], 0).stdout;
        assert!(told.contains(words), "{path}: {told}");
    }
    let told = home.says(&["explain", "--deny-read", "f", "--path", "f"], 0).stdout;
    assert!(told.contains("no approval lifts that"), "{told}");
}

/// Whatever `HOME` says, the credentials below the home on record are masked too.
#[test]
fn another_home_hides_no_credentials() {
    let home = Home::new();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let own = format!(":x:{}:", rustix::process::geteuid().as_raw());
    let recorded = users.lines().find(|line| line.contains(&own)).and_then(|line| line.split(':').nth(5)).unwrap();
    let key = format!("{recorded}/.ssh/id_ed25519");
    for without in [false, true] {
        let mut command = home.stockade(&["explain", "--path", &key]);
        if without {
            command.env_remove("HOME");
        }
        let told = super::home::said(&mut command, 0).stdout;
        assert!(told.contains("holds credentials, which are masked"), "{without}: {told}");
    }
}

#[test]
fn the_same_is_said_as_json() {
    let home = Home::new();
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&home.says(&[&["explain", "--json"], arguments].concat(), 0).stdout).unwrap()
    };
    let found = json(&["--", "git", "push"]);
    assert_eq!((&found["sandboxed"], &found["asks_after_denial"]), (&true.into(), &false.into()));
    assert!(found["requirement"]["skip"].is_object(), "{found}");
    let found = json(&["--deny-read", "f", "--path", "f"]);
    assert_eq!((&found["paths"][0]["access"], &found["paths"][0]["hard"]), (&"none".into(), &true.into()));
}
