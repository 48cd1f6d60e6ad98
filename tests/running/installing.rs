//! Package managers in an empty home, with a person at the terminal: the cache and the registry are asked for once each,
//! and the installation passes in that one run.

use stockade_tests::screen::Screen;

use super::home::{Home, User};
use super::network_questions::start_with;
use crate::support::program;

/// The registry of the mirrors' network, by the variables that tools read.
const REGISTRY: &[(&str, &str)] = &[
    ("NPM_CONFIG_REGISTRY", "http://pypi.test:443/"),
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("npm_config_update_notifier", "false"),
    ("PIP_INDEX_URL", "http://pypi.test:443/simple"),
    ("PIP_TRUSTED_HOST", "pypi.test"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("GOPROXY", "http://pypi.test:443"),
    ("GOFLAGS", "-mod=mod"),
    ("GONOSUMDB", "*"),
    ("GONOSUMCHECK", "1"),
    ("CARGO_REGISTRIES_LOCAL_INDEX", "sparse+http://pypi.test:443/index/"),
];

/// Answers every question with a yes that lasts for the run, and returns what they asked for, in order, and how it ended.
fn approved(mut screen: Screen, most: usize) -> (Vec<String>, i32, String) {
    let mut asked = Vec::new();
    let mut seen = String::new();
    while asked.len() <= most {
        let Some(question) = screen.sees_or_ends("]? ") else {
            let (exit_code, rest) = screen.ends();
            return (asked, exit_code, seen + &rest);
        };
        let about = question.rsplit("stockade asks: ").next().unwrap_or_default();
        let line = about.lines().map(str::trim).filter(|line| !line.is_empty()).nth(1).unwrap_or_default();
        screen.types(if about.starts_with("may this destination") { "y" } else { "r" });
        asked.push(line.to_owned());
        seen += &question;
    }
    panic!("it asks and asks: {asked:?}");
}

fn passes(home: &Home, options: &[&str], line: &str, wanted: &[&str]) {
    for engine in ["native", "bwrap"] {
        let options = [&["--engine", engine], options].concat();
        let screen = start_with(home, &options, line, REGISTRY);
        let (asked, exit_code, seen) = approved(screen, wanted.len());
        assert!(exit_code == 0 && seen.contains("have leaf"), "{engine}: {exit_code} {seen}");
        // In any order: some tools make their caches side by side.
        let fits =
            asked.len() == wanted.len() && wanted.iter().all(|part| asked.iter().any(|asked| asked.contains(part)));
        assert!(fits, "{engine}: {asked:?} instead of {wanted:?}");
        // The second engine begins where the first did: archives are made anew, with other checksums.
        for left in ["home/.npm", "home/.cache", "home/go", "home/.cargo", "ws/t", "ws/node_modules", "ws/target"] {
            program("chmod").args(["-R", "u+w"]).arg(home.path(left)).output().unwrap();
            std::fs::remove_dir_all(home.path(left)).ok();
        }
        for left in ["ws/Cargo.lock", "ws/go.sum", "ws/package-lock.json"] {
            std::fs::remove_file(home.path(left)).ok();
        }
    }
}

#[test]
fn npm_asks_for_its_cache_and_its_registry() {
    let home = Home::of(User::Ordinary);
    home.write("ws/package.json", "{\"name\":\"x\",\"version\":\"1.0.0\"}\n");
    home.give_to_user();
    let line = "npm install --silent leaf && node -p '\"have \" + require(\"leaf\")'";
    passes(&home, &[], line, &["/home/.npm", "pypi.test, port 443"]);
}

/// pip looks whether it may write its cache, and goes on without one.
#[test]
fn pip_asks_for_its_registry() {
    let home = Home::of(User::Ordinary);
    let line = "/usr/bin/python3 -m pip install --quiet --no-compile --target t leaf && \
                PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=t /usr/bin/python3 -c 'import leaf; print(\"have\", leaf.NAME)'";
    passes(&home, &[], line, &["pypi.test, port 443"]);
}

/// go has a cache for what it builds, and one for what it fetches.
#[test]
fn go_asks_for_its_caches_and_its_registry() {
    let home = Home::of(User::Ordinary);
    home.write("ws/go.mod", "module example.test/x\n\ngo 1.19\n\nrequire example.test/leaf v1.0.0\n");
    let main = "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.test/leaf\"\n)\n\nfunc main() { fmt.Println(\"have\", leaf.Name) }\n";
    home.write("ws/main.go", main);
    home.give_to_user();
    let line = "go build -o program . && ./program";
    passes(&home, &[], line, &["/home/.cache", "/home/go", "pypi.test, port 443"]);
}

#[test]
fn cargo_asks_for_its_home_and_its_registry() {
    let home = Home::new();
    let manifest = "[package]\nname = \"x\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[dependencies]\n\
                    leaf = { version = \"1\", registry = \"local\" }\n";
    home.write("ws/Cargo.toml", manifest);
    home.write("ws/src/main.rs", "fn main() { println!(\"have {}\", leaf::NAME) }\n");
    let cargo = std::path::PathBuf::from(env!("CARGO"));
    let line = format!("PATH={}:$PATH cargo build --quiet && target/debug/x", cargo.parent().unwrap().display());
    passes(&home, &[], &line, &["/home/.cargo", "pypi.test, port 443"]);
}

/// With its profile git commits without a question.
#[test]
fn git_commits_with_its_profile() {
    let home = Home::of(User::Ordinary);
    home.write("home/.gitconfig", "[user]\n\tname = T\n\temail = t@example.org\n");
    home.write("ws/f", "leaf\n");
    super::home::said(program("git").args(["init", "-q"]).arg(home.path("ws")), 0);
    home.give_to_user();
    let line = "echo more >> f && git add f && git commit -qam x && echo have $(git show HEAD:f | head -1)";
    passes(&home, &["--with", "git"], line, &[]);
}
