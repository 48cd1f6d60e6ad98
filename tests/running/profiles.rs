//! Permission profiles: what they grant to real tools, what they never grant, and by what they are named.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use super::home::{Home, Said, User, said};
use crate::support::{program, repository};

/// A package registry on loopback.
struct Registry {
    _process: Ended,
    port: u16,
}

/// A process that ends with the test.
struct Ended(Child);

impl Registry {
    fn start() -> Self {
        let script = repository().join("tests/running/registry.py");
        let mut process = program("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { _process: Ended(process), port: line.trim().parse().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The variables by which tools find it.
    fn surround(&self, command: &mut Command) {
        command.env("NPM_CONFIG_REGISTRY", self.url("/")).env("PIP_INDEX_URL", self.url("/simple"));
        command.env("GOPROXY", self.url("")).env("GOFLAGS", "-mod=mod").env("GONOSUMDB", "*").env("GONOSUMCHECK", "1");
        command.env("CARGO_REGISTRIES_LOCAL_INDEX", format!("sparse+{}", self.url("/index/")));
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("npm_config_update_notifier", "false");
        command.env("npm_config_audit", "false").env("npm_config_fund", "false");
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn runs(home: &Home, registry: &Registry, options: &[&str], line: &str, exit_code: i32) -> Said {
    let mut command = home.stockade(&[&["run", "--timeout", "4m"], options, &["--", "sh", "-c", line]].concat());
    registry.surround(&mut command);
    said(&mut command, exit_code)
}

/// A new home, in which the tool has never run: without the profile it fails, with it it passes, also the second time.
fn passes(user: User, profile: &str, files: &[(&str, &str)], line: &str, caches: &[&str]) {
    for engine in ["native", "bwrap"] {
        let (home, registry) = (Home::of(user), Registry::start());
        for (path, text) in files {
            home.write(path, text);
        }
        home.give_to_user();
        let without =
            home.stockade(&["run", "--engine", engine, "--timeout", "30s", "--", "sh", "-c", line]).output().unwrap();
        assert!(!without.status.success(), "{profile} {engine}: passes without its profile");
        for time in ["first", "second"] {
            let told = runs(&home, &registry, &["--engine", engine, "--with", profile], line, 0);
            assert!(told.stdout.contains("leaf"), "{profile} {engine} {time}: {}{}", told.stdout, told.stderr);
        }
        for cache in caches {
            assert!(home.path(cache).is_dir(), "{profile} {engine}: `{cache}` is missing");
        }
    }
}

#[test]
fn npm_installs_with_its_profile() {
    let line =
        "npm_config_fetch_retries=0 npm install --silent --prefer-online leaf >&2 && node -p 'require(\"leaf\")'";
    let files = [("ws/package.json", "{\"name\":\"x\",\"version\":\"1.0.0\"}\n")];
    passes(User::Ordinary, "npm", &files, line, &["home/.npm/_cacache"]);
}

#[test]
fn pip_installs_with_its_profile() {
    let line = "rm -rf t; /usr/bin/python3 -m pip install --quiet --retries 0 --target t leaf >&2 && \
                PYTHONPATH=t /usr/bin/python3 -c 'import leaf; print(leaf.NAME)'";
    passes(User::Ordinary, "pip", &[], line, &["home/.cache/pip"]);
}

#[test]
fn go_builds_with_its_profile() {
    let files = [
        ("ws/go.mod", "module example.test/x\n\ngo 1.19\n\nrequire example.test/leaf v1.0.0\n"),
        (
            "ws/main.go",
            "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.test/leaf\"\n)\n\nfunc main() { fmt.Println(leaf.Name) }\n",
        ),
    ];
    passes(User::Ordinary, "go", &files, "go run .", &["home/go/pkg/mod/cache", "home/.cache/go-build"]);
}

/// Cargo takes no crates from another registry than crates.io unless that is named, so its host is allowed besides.
#[test]
fn cargo_fetches_with_its_profile() {
    let (home, registry) = (Home::new(), Registry::start());
    let manifest = "[package]\nname = \"x\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[dependencies]\n\
                    leaf = { version = \"1\", registry = \"local\" }\n";
    home.write("ws/Cargo.toml", manifest);
    home.write("ws/src/main.rs", "fn main() { println!(\"{}\", leaf::NAME) }\n");
    let cargo = std::path::PathBuf::from(env!("CARGO"));
    let tools = cargo.parent().unwrap().display();
    let line = format!("PATH={tools}:$PATH cargo run --quiet");
    let host = format!("127.0.0.1:{}", registry.port);
    for engine in ["native", "bwrap"] {
        runs(&home, &registry, &["--engine", engine, "--allow-host", &host], &line, 101);
        let told = runs(&home, &registry, &["--engine", engine, "--allow-host", &host, "--with", "cargo"], &line, 0);
        assert_eq!(told.stdout, "leaf\n", "{}", told.stderr);
        assert!(home.exists("home/.cargo/registry/index"), "{engine}");
        std::fs::remove_dir_all(home.path("home/.cargo")).unwrap();
    }
}

/// The agent signs inside, and its keys stay out of sight.
#[test]
fn agents_sign_with_their_profiles_and_show_no_key() {
    let home = Home::new();
    let socket = home.path("home/agent");
    let made =
        program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.path("home/.ssh-key")).status();
    assert!(made.unwrap().success());
    std::fs::create_dir(home.path("home/.ssh")).unwrap();
    std::fs::rename(home.path("home/.ssh-key"), home.path("home/.ssh/id")).unwrap();
    let mut agent = program("ssh-agent");
    agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
    let _agent = Ended(agent.spawn().unwrap());
    while !socket.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let added = program("ssh-add").arg("-q").arg(home.path("home/.ssh/id")).env("SSH_AUTH_SOCK", &socket).status();
    assert!(added.unwrap().success());
    let line = "ssh-add -L | grep -c ed25519; cat ~/.ssh/id";
    for engine in ["native", "bwrap"] {
        let mut command = home.stockade(&["run", "--engine", engine, "--with", "ssh-agent", "--", "sh", "-c", line]);
        let told = said(command.env("SSH_AUTH_SOCK", &socket), 1);
        assert_eq!(told.stdout, "1\n", "{engine}: {}", told.stderr);
    }
    let told = said(&mut home.stockade(&["run", "--with", "ssh-agent", "--", "true"]), 125);
    assert!(told.stderr.contains("`SSH_AUTH_SOCK` is not set"), "{}", told.stderr);
}

#[test]
fn gpg_signs_with_its_profile_and_shows_no_key() {
    let home = Home::new();
    let gnupg = home.path("home/.gnupg");
    std::fs::create_dir(&gnupg).unwrap();
    std::fs::set_permissions(&gnupg, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let gpg = |words: &[&str]| {
        let mut command = program("gpg");
        command.args(["--batch", "--quiet", "--passphrase", ""]).args(words);
        home.surround(&mut command);
        assert!(command.stdin(Stdio::null()).status().unwrap().success(), "{words:?}");
    };
    gpg(&["--quick-gen-key", "me@example.org", "ed25519", "sign", "never"]);
    let line = "echo x | gpg --batch --quiet --no-autostart --lock-never --clearsign | grep -c 'BEGIN PGP SIGNATURE'; \
                ls ~/.gnupg/private-keys-v1.d";
    for engine in ["native", "bwrap"] {
        let told = said(&mut home.stockade(&["run", "--engine", engine, "--with", "gpg", "--", "sh", "-c", line]), 2);
        assert_eq!(told.stdout, "1\n", "{engine}: {}", told.stderr);
    }
    let mut end = program("gpgconf");
    end.args(["--kill", "gpg-agent"]);
    home.surround(&mut end);
    assert!(end.status().unwrap().success());
}

/// Every built-in profile has a reason in each line, and can be granted in a new home.
#[test]
fn built_in_profiles_can_be_granted_and_give_reasons() {
    let home = Home::of(User::Ordinary);
    let listed = home.says(&["profile", "list", "--json"], 0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["npm", "pnpm", "yarn", "pip", "uv", "cargo", "go", "maven", "gradle", "chromium", "playwright"] {
        assert!(names.contains(&name), "{names:?}");
        let shown = home.says(&["profile", "show", name, "--json"], 0).stdout;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert!(shown["lines"].as_array().unwrap().iter().all(|line| line["reason"].as_str().unwrap().len() > 5));
        home.runs(&["--with", name], "true", 0);
    }
    let told = home.says(&["profile", "check"], 0).stdout;
    assert!(
        told.contains("ssh-agent: not now: the permission profile `ssh-agent` can't be granted"),
        "no agent runs: {told}"
    );
    assert!(told.contains("npm: can be granted\n"), "{told}");
    let with_all = home.says(&["explain", "--with", "gradle,maven", "--path", "../home/.m2/repository"], 0).stdout;
    assert!(with_all.contains("written"), "{with_all}");
    assert!(!home.exists("home/.gradle/init.d") && home.exists("home/.gradle/caches"));
    // A variable leads elsewhere.
    let mut moved = home.stockade(&["run", "--with", "cargo", "--", "sh", "-c", "touch $CARGO_HOME/registry/x"]);
    said(moved.env("CARGO_HOME", home.path("outside/cargo")), 0);
    assert!(home.exists("outside/cargo/registry/x"));
}

/// No profile opens a secret, Stockade's own files or protected metadata, by whatever it is led there.
#[test]
fn a_profile_opens_no_protected_place() {
    let home = Home::of(User::Ordinary);
    home.write("home/.ssh/id", "hunter2\n");
    home.write("ws/.git/config", "");
    symlink(home.path("home/.ssh"), home.path("home/innocent")).unwrap();
    symlink(home.path("outside"), home.path("ws/cache")).unwrap();
    home.give_to_user();
    let ws = home.path("ws").display().to_string();
    let state = home.path("state/stockade").display().to_string();
    let above = home.path("").display().to_string();
    let paths = [
        ("write", "~/.ssh", "masked credential"),
        ("read", "~/.ssh/id", "masked credential"),
        ("read", "~/.aws", "masked credential"),
        ("read", "~/innocent/id", "masked credential"),
        ("write", "~/.config/stockade", "Stockade's own"),
        ("write", state.as_str(), "masked credential"),
        ("write", "${LED}", "masked credential"),
        ("write", &format!("{ws}/.git"), "protected metadata"),
        ("write", &format!("{ws}/cache"), "leads out of"),
        ("write", "/", "root"),
        ("write", "/opt", "root"),
        ("write", "${HOME}", "holds a home"),
        ("write", above.as_str(), "holds a home"),
        ("read", "/proc/self", "kernel's files"),
        ("write", "${NOT_SET}", "is not set"),
        ("write", "${RELATIVE}", "not absolute"),
        ("write", "${DOTS}", "`..`"),
    ];
    for (key, path, why) in paths {
        let text = format!("about = \"x\"\n[[{key}]]\npath = {path:?}\nreason = \"because\"\n");
        home.write("config/stockade/profiles/mine.toml", &text);
        home.give_to_user();
        for arguments in [&["profile", "check", "mine"][..], &["run", "--with", "mine", "--", "true"]] {
            let mut command = home.stockade(arguments);
            command
                .env("LED", home.path("home/.ssh"))
                .env("RELATIVE", "x/y")
                .env("DOTS", home.path("home/../home/.ssh"));
            let told = said(&mut command, if arguments.contains(&"check") { 1 } else { 125 });
            assert!((told.stdout.clone() + &told.stderr).contains(why), "{path}: {}{}", told.stdout, told.stderr);
        }
    }
    let variables = [("NPM_TOKEN", "secret"), ("LD_PRELOAD", "load code")];
    for (name, why) in variables {
        let text = format!("about = \"x\"\n[[env]]\nname = {name:?}\nreason = \"because\"\n");
        home.write("config/stockade/profiles/mine.toml", &text);
        let told = home.says(&["run", "--with", "mine", "--", "true"], 125).stderr;
        assert!(told.contains(why) && told.contains("mine.toml:3"), "{told}");
    }
    // A path variable that leads a built-in profile to a secret.
    home.write("config/stockade/profiles/mine.toml", "about = \"x\"\n");
    let mut command = home.stockade(&["run", "--with", "pip", "--", "true"]);
    assert!(said(command.env("PIP_CACHE_DIR", home.path("home/.ssh/x")), 125).stderr.contains("masked credential"));
    let told = home.says(&["run", "--with", "nmp", "--", "true"], 125).stderr;
    assert!(told.contains("`nmp`") && told.contains("npm"), "{told}");
}

/// Settings and rules name profiles; a rule's holds for the command that it allows, and only inside the sandbox.
#[test]
fn settings_and_rules_name_profiles() {
    let home = Home::of(User::Ordinary);
    let cache = "about = \"x\"\n[[write]]\npath = \"~/cache\"\nreason = \"because\"\n";
    home.write("config/stockade/profiles/mine.toml", cache);
    home.write("config/stockade/rules/mine.rules", "prefix_rule([\"touch\"], profile = \"mine\")\n");
    home.give_to_user();
    let made = home.path("home/cache/made").display().to_string();
    home.says(&["run", "--", "touch", &made], 0);
    assert!(home.exists("home/cache/made"));
    home.says(&["run", "--", "mkdir", &format!("{made}-not")], 1);
    // Another command in the same line has no part in it; the program of the rule has it by itself.
    home.runs(&[], &format!("touch {made} && mkdir {made}-not"), 1);
    home.runs(&[], &format!("touch {made}; touch {made}2"), 0);
    let explained = home.says(&["explain", "--", "touch", "x"], 0).stdout;
    assert!(explained.contains("home/cache"), "{explained}");
    home.says(&["run", "--", "touch", &home.path("home/other").display().to_string()], 1);
    home.write("config/stockade/rules/mine.rules", "prefix_rule([\"touch\"], profile = \"git\")\n");
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("--with git"));
    // An agent that does not run is needed by no other command.
    home.write("config/stockade/rules/mine.rules", "prefix_rule([\"touch\"], profile = \"ssh-agent\")\n");
    home.says(&["run", "--", "true"], 0);
    assert!(home.says(&["run", "--", "touch", "x"], 0).stderr.contains("is the agent running"));
    home.write("config/stockade/rules/mine.rules", "prefix_rule([\"touch\"], profile = \"none\")\n");
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("mine.rules:1"));
    home.write("config/stockade/rules/mine.rules", "prefix_rule([\"touch\"], outside = True, profile = \"mine\")\n");
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("leave `profile` out"));
    home.write("config/stockade/rules/mine.rules", "");
    home.write("config/stockade/config.toml", "with = [\"mine\"]\n");
    home.says(&["run", "--", "mkdir", &format!("{made}-dir")], 0);
    home.says(&["run", "--sandbox", "read-only", "--", "touch", &made], 0);
    home.says(&["run", "--sandbox", "read-only", "--", "touch", "here"], 1);
}

/// What commands write by one profile is no way to what another one means.
#[test]
fn a_link_in_a_place_of_a_profile_widens_none() {
    let home = Home::of(User::Ordinary);
    home.write("home/.cache/pip/x", "");
    home.write("home/bin/mine", "");
    let caches = "about = \"x\"\n[[write]]\npath = \"~/.cache\"\nreason = \"because\"\n";
    home.write("config/stockade/profiles/caches.toml", caches);
    home.give_to_user();
    home.says(&["run", "--with", "pip", "--", "true"], 0);
    home.runs(&["--with", "caches"], "rm -r ~/.cache/pip && ln -s ~/bin ~/.cache/pip", 0);
    for profiles in ["pip", "caches,pip"] {
        let told = home.runs(&["--with", profiles], "echo x > ~/bin/planted", 125).stderr;
        assert!(told.contains("by a link that commands may change"), "{told}");
    }
    let told = home.says(&["profile", "check", "pip"], 1);
    assert!((told.stdout + &told.stderr).contains("by a link that commands may change"));
    assert!(!home.exists("home/bin/planted"));
}

/// The administrator's maximum, a network that a flag turns off, and forbidden hosts hold against a profile.
#[test]
fn what_is_denied_holds_against_a_profile() {
    let (home, registry) = (Home::new(), Registry::start());
    let line = format!("curl -sf --max-time 20 {} >&2", registry.url("/leaf"));
    runs(&home, &registry, &["--with", "npm"], &line, 0);
    runs(&home, &registry, &["--with", "npm", "--network", "off"], &line, 7);
    home.write("config/stockade/config.toml", "sandbox.deny_hosts = [\"127.0.0.1\"]\n");
    runs(&home, &registry, &["--with", "npm"], &line, 7);
}

/// A project's profiles count once it is trusted, are shown before, and change no name that is known without it.
#[test]
fn a_projects_profiles_count_once_it_is_trusted() {
    let home = Home::of(User::Ordinary);
    home.write(
        "ws/.stockade/profiles/team.toml",
        "about = \"x\"\n[[write]]\npath = \"~/team\"\nreason = \"for the team\"\n",
    );
    home.write("ws/.stockade/config.toml", "with = [\"team\"]\n");
    home.give_to_user();
    let line = "touch ~/team/x";
    home.runs(&[], line, 1);
    let shown = home.says(&["trust", "--show"], 0).stdout;
    assert!(shown.contains("write ~/team: for the team"), "{shown}");
    home.says(&["trust"], 0);
    home.runs(&[], line, 0);
    assert!(home.says(&["profile", "list"], 0).stdout.contains("team"));
    home.write("ws/.stockade/config.toml", "with = [\"ssh-agent\"]\n");
    home.says(&["trust"], 0);
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("--with ssh-agent"));
    // Under another name it is the same.
    let agent = "about = \"x\"\n[[socket]]\npath = \"${SSH_AUTH_SOCK}\"\nreason = \"for the team\"\n";
    home.write("ws/.stockade/profiles/signs.toml", agent);
    home.write("ws/.stockade/config.toml", "with = [\"signs\"]\n");
    home.says(&["trust"], 0);
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("--with signs"));
    std::fs::remove_file(home.path("ws/.stockade/profiles/signs.toml")).unwrap();
    home.write("ws/.stockade/config.toml", "");
    home.write("ws/.stockade/profiles/npm.toml", "about = \"x\"\n");
    home.says(&["trust"], 0);
    assert!(home.says(&["run", "--", "true"], 125).stderr.contains("give it another name"));
}

/// A denial of a tool names the profile that would have allowed it.
#[test]
fn a_denial_names_the_profile_that_would_help() {
    let home = Home::of(User::Ordinary);
    home.write("home/.npm/x", "");
    home.give_to_user();
    let line = "echo 'npm' > /dev/null; echo x > ~/.npm/y";
    let told = home.runs(&[], line, 2).stderr;
    assert!(told.contains("`--with npm` would allow it"), "{told}");
    home.runs(&["--with", "npm"], line, 0);
    let told = home.runs(&[], "echo x > ~/.npm/y", 2).stderr;
    assert!(!told.contains("--with"), "{told}");
}
