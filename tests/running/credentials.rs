//! Credentials that commands don't see, and what they see in their place.

use stockade_protocol::{CREDENTIAL_PATHS, CREDENTIAL_VARIABLES, PLAIN_WORDS, SECRET_NAMES};

use super::home::{Home, User, said};
use crate::support::repository;

/// Files that hold credentials, or what was typed, below a home or where a variable leads.
#[test]
fn credentials_and_histories_are_masked() {
    let home = Home::new();
    let files = [
        ".codex/auth.json",
        ".claude/.credentials.json",
        ".gemini/oauth_creds.json",
        ".vault-token",
        ".cache/huggingface/token",
        ".Xauthority",
        ".bash_history",
        ".zsh_history",
        ".local/share/fish/fish_history",
        ".python_history",
        ".psql_history",
        ".config/pip/pip.conf",
        ".config/op/config",
        ".config/rclone/rclone.conf",
    ];
    for file in files {
        home.write(&format!("home/{file}"), "hunter2\n");
    }
    for file in ["kube/a", "kube/b", "x/auth", "gh/hosts.yml", "config/hub/x"] {
        home.write(file, "hunter2\n");
    }
    home.write("home/.codex/config.toml", "open\n");
    let line = format!(
        "cd; cat {} $A/kube/a $A/kube/b $A/x/auth $A/gh/hosts.yml $A/config/hub/x .codex/config.toml",
        files.join(" ")
    );
    let mut command = home.stockade(&["run", "--", "sh", "-c", &line]);
    let at = |below: &str| home.path(below).display().to_string();
    command.env("A", home.path("")).env("KUBECONFIG", format!("{}:{}", at("kube/a"), at("kube/b")));
    command.env("XAUTHORITY", at("x/auth")).env("GH_CONFIG_DIR", at("gh")).env("HISTFILE", "/dev/null");
    let told = said(&mut command, 1);
    assert_eq!(told.stdout, "open\n", "{}", told.stderr);
    home.runs(&[], "echo x > /dev/null", 0);
}

/// A variable is followed as the kernel does, from the directory that Stockade is started in.
#[test]
fn credentials_that_variables_name_by_other_spellings_are_masked() {
    let home = Home::of(User::Ordinary);
    home.write("outside/e/k", "hunter2\n");
    home.write("home/k", "hunter2\n");
    std::os::unix::fs::symlink(home.path("outside/e"), home.path("ws/l")).unwrap();
    home.write("outside/k", "hunter2\n");
    home.give_to_user();
    let dotted = home.path("ws/../outside/e/k").display().to_string();
    let cases = [
        (dotted.as_str(), "../outside/e/k"),
        ("../outside/e/k", "../outside/e/k"),
        // By its text alone this would be `ws/k`.
        ("l/../k", "../outside/k"),
        ("~/k", "../home/k"),
    ];
    for name in ["KUBECONFIG", "NETRC", "GOOGLE_APPLICATION_CREDENTIALS", "npm_config_userconfig"] {
        for (value, file) in cases {
            let told = said(home.stockade(&["run", "--", "cat", file]).env(name, value), 1);
            assert_eq!(told.stdout, "", "{name}={value}: {}", told.stderr);
        }
    }
    let told = said(home.stockade(&["run", "--", "cat", "../outside/e/k"]).env("KUBECONFIG", ""), 0);
    assert_eq!(told.stdout, "hunter2\n");
}

#[test]
fn variables_that_hold_secrets_are_not_inherited() {
    let home = Home::new();
    let secret = ["MYSQL_PWD", "PASSPHRASE", "GH_PAT", "DATABASE_URL", "DB_CREDS", "SLACK_WEBHOOK"];
    let plain = ["KEYBOARD", "MONKEY", "SSH_AUTH_SOCK", "SSH_ASKPASS", "AUTHOR"];
    let mut command = home.stockade(&["run", "--", "env"]);
    for name in secret.iter().chain(&plain) {
        command.env(name, "some");
    }
    let told = said(command.env("SOME_URL", "https://me:hunter2@h.test/x"), 0).stdout;
    for name in secret {
        assert!(!told.contains(&format!("{name}=")), "{name}: {told}");
    }
    for name in plain {
        assert!(told.contains(&format!("{name}=some")), "{name}: {told}");
    }
    assert!(told.contains("SOME_URL=https://h.test/x\n"), "{told}");
}

/// A masked file does not lead to another registry in silence.
#[test]
fn the_users_registries_stay_in_use() {
    let home = Home::new();
    home.write("home/.npmrc", "registry=https://me:hunter2@npm.test/\n//npm.test/:_authToken=hunter2\n");
    home.write("home/.config/pip/pip.conf", "[global]\nindex-url = https://me:hunter2@pip.test/simple\n");
    let line = "echo $NPM_CONFIG_REGISTRY $PIP_INDEX_URL; cat ~/.npmrc";
    let told = home.runs(&[], line, 1);
    assert_eq!(told.stdout, "https://npm.test/ https://pip.test/simple\n", "{}", told.stderr);
    let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $NPM_CONFIG_REGISTRY"]);
    assert_eq!(said(command.env("NPM_CONFIG_REGISTRY", "https://own.test/"), 0).stdout, "https://own.test/\n");
    // A project's own file, and that of an active virtual environment, count over the user's.
    home.write("ws/.npmrc", "registry=https://project.test/\n");
    home.write("outside/venv/pip.conf", "[global]\nindex-url = https://venv.test/simple\n");
    let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $NPM_CONFIG_REGISTRY $PIP_INDEX_URL"]);
    assert_eq!(said(command.env("VIRTUAL_ENV", home.path("outside/venv")), 0).stdout, "\n");
    std::fs::remove_file(home.path("ws/.npmrc")).unwrap();
    // A variable that names the user's file, in either case, and one that sets the registry in another case.
    home.write("outside/npmrc", "registry=https://other.test/ ; ours\n_auth=hunter2\n");
    for name in ["NPM_CONFIG_USERCONFIG", "npm_config_userconfig"] {
        let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $NPM_CONFIG_REGISTRY"]);
        assert_eq!(said(command.env(name, home.path("outside/npmrc")), 0).stdout, "https://other.test/\n", "{name}");
    }
    let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $npm_config_registry,$NPM_CONFIG_REGISTRY"]);
    let told = said(command.env("npm_config_registry", "https://u:hunter2@own.test/"), 0).stdout;
    assert_eq!(told, "https://own.test/,\n");
    let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $PIP_INDEX_URL"]);
    assert_eq!(said(command.env("PIP_CONFIG_FILE", "/dev/null"), 0).stdout, "\n");
    home.write("home/.npmrc", "registry=https://${COMPANY}/npm/\n");
    let mut command = home.stockade(&["run", "--", "sh", "-c", "echo $NPM_CONFIG_REGISTRY"]);
    assert_eq!(said(command.env("COMPANY", "npm.test"), 0).stdout, "https://npm.test/npm/\n");
    let told = home.runs(&[], "echo $NPM_CONFIG_REGISTRY npm", 0);
    assert!(
        told.stdout == "npm\n" && told.stderr.contains("its registry's address can't be handed on"),
        "{}",
        told.stderr
    );
    std::fs::write(home.path("home/.npmrc"), b"registry=https://\xff/\n").unwrap();
    let told = home.runs(&[], "true npm", 0);
    assert!(told.stderr.contains("its contents, which can't be read, can't be handed on"), "{}", told.stderr);
    // What no variable can say is told to those whom it concerns.
    home.write("home/.m2/settings.xml", "<mirrors><mirror><password>hunter2</password></mirror></mirrors>\n");
    assert!(home.runs(&[], "true mvn", 0).stderr.contains(".m2/settings.xml` is masked"));
    assert!(!home.runs(&[], "true", 0).stderr.contains("settings.xml"));
    // A file that may be read is read.
    let told = home.runs(&["--sandbox", "danger-full-access"], "echo $NPM_CONFIG_REGISTRY", 0);
    assert_eq!(told.stdout, "\n", "{}", told.stderr);
}

#[test]
fn the_documented_lists_are_whole() {
    let text = std::fs::read_to_string(repository().join("docs/config.md")).unwrap();
    let paths = CREDENTIAL_PATHS.iter().map(|path| format!("`~/{path}`"));
    let variables = CREDENTIAL_VARIABLES.iter().map(|(name, _)| format!("`{name}`"));
    let names = SECRET_NAMES.iter().chain(PLAIN_WORDS).map(|name| format!("`{name}`"));
    let missing: Vec<String> = paths.chain(variables).chain(names).filter(|name| !text.contains(name)).collect();
    assert!(missing.is_empty(), "docs/config.md does not name {missing:?}");
}

/// A variable that is set by hand names credentials as an inherited one does.
#[test]
fn what_a_set_variable_names_is_masked() {
    let home = Home::new();
    home.write("outside/kube", "hunter2\n");
    let file = home.path("outside/kube").display().to_string();
    let set = format!("KUBECONFIG={file}");
    let told = home.runs(&["--env", &set], "cat $KUBECONFIG", 1);
    assert!(!told.stdout.contains("hunter2"), "{}", told.stdout);
    assert_eq!(
        home.runs(&["--env", &set, "--readable", "/", "--readable", &file], "cat $KUBECONFIG", 0).stdout,
        "hunter2\n"
    );
}

/// A secret is known by its looks, too, and an ordinary name is no reason to drop a variable.
#[test]
fn variables_are_judged_by_name_and_by_value() {
    let home = Home::new();
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut command = home.stockade(&["run", "--", "env"]);
    for (name, value) in [
        ("SSHPASS", "hunter2"),
        ("DBPASS", "hunter2"),
        ("GHPAT", "hunter2"),
        ("DBPWD", "hunter2"),
        ("SOMETHING", token),
        ("SERVICE", "https://h.test/?password=hunter2&page=1"),
        ("WHISKEY", "kept"),
        ("JOCKEY", "kept"),
        ("PRIMARY_KEY", "kept"),
        ("KEYS", "kept"),
        ("SECRETARY", "kept"),
    ] {
        command.env(name, value);
    }
    let told = said(&mut command, 0).stdout;
    assert!(!told.contains("hunter2") && !told.contains(token), "{told}");
    assert_eq!(told.matches("=kept\n").count(), 5, "{told}");
    assert!(told.contains("SERVICE=https://h.test/?password=&page=1\n"), "{told}");
}
