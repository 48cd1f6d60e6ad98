//! Plans of typical policies for each engine. The host and the user are made up, so the plans are the same on every
//! machine.

use std::collections::BTreeMap;

use stockade_protocol::{Argv, HostRules, HttpMethods, NetworkPolicy, Permissions};
use stockade_sandboxing::{CommandSpec, FakeHost, rules};

use crate::engines::bwrap::Bwrap;
use crate::engines::landlock_only::LandlockOnly;
use crate::engines::native::Native;

const HOST: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/proc/",
    "/usr/bin/",
    "/lib/",
    "/bin -> usr/bin",
    "/etc/passwd",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/tmp/",
    "/home/me/.ssh/id",
    "/home/me/.netrc",
    "/w/.git/config",
    "/w/sub/.git/config",
    "/w/sub/a.env",
    "/w/.env",
    "/w/vendor -> /home/me",
    "/cache/",
];

/// A name, the rules, and the network.
const POLICIES: &[(&str, &[&str], NetworkPolicy)] = &[
    ("read_only", &["/ read"], NetworkPolicy::Off),
    ("everything", &["/ write"], NetworkPolicy::Full),
    (
        "workspace",
        &["/ read", "/w write", "/w/.git read protected", "/w/.codex read protected", "/tmp scratch"],
        NetworkPolicy::Off,
    ),
    ("workspace_with_network", &["/ read", "/w write"], NetworkPolicy::Full),
    ("two_roots", &["/ read", "/w write", "/cache write"], NetworkPolicy::Off),
    ("nested_repository", &["/ read", "/w write", "/w/sub/.git read protected"], NetworkPolicy::Off),
    ("denied_file", &["/ read", "/w write", "/w/.env none"], NetworkPolicy::Off),
    ("denied_directory", &["/ read", "/home/me none", "/home/me/.ssh/id read"], NetworkPolicy::Off),
    ("denied_glob", &["/ read", "/w write", "/w/**/*.env none"], NetworkPolicy::Off),
    (
        "credentials",
        &[
            "/ read",
            "/home/me/.ssh none credential",
            "/home/me/.netrc none credential",
            "/home/me/.config/gh none credential",
        ],
        NetworkPolicy::Off,
    ),
    (
        "restricted_reads",
        &["/usr read", "/lib read", "/bin read", "/w write", "/w/.git read protected", "/tmp scratch"],
        NetworkPolicy::Off,
    ),
    ("write_inside_denied", &["/ read", "/w none", "/w/sub write"], NetworkPolicy::Off),
    (
        "by_host",
        &["/ read", "/w write"],
        NetworkPolicy::Hosts(HostRules { rules: Vec::new(), methods: HttpMethods::Any }),
    ),
    ("protected_link", &["/ read", "/w write", "/w/vendor read"], NetworkPolicy::Off),
];

fn command() -> CommandSpec {
    CommandSpec {
        argv: Argv::parse(["make", "test"]).unwrap(),
        cwd: "/w".parse().unwrap(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        process: Default::default(),
    }
}

fn plans(name: &str, plan: impl Fn(&CommandSpec, &Permissions, &FakeHost) -> String) {
    let host = FakeHost::new(HOST);
    for (policy, lines, network) in POLICIES {
        let permissions = Permissions { files: rules(lines), network: network.clone(), ..Permissions::default() };
        insta::assert_snapshot!(format!("{name}_{policy}"), plan(&command(), &permissions, &host));
    }
}

/// A plan, or its error.
fn told<P: ToString, E: ToString>(plan: Result<P, E>) -> String {
    plan.map_or_else(|error| error.to_string(), |plan| plan.to_string())
}

#[test]
fn native() {
    plans("native", |command, permissions, host| told(Native::fixed().plan_on(command, permissions, host)));
}

/// Pre-started steps begin every such plan, or they would be useless.
#[test]
fn what_is_done_ahead_begins_every_plan_that_shows_the_root() {
    let host = FakeHost::new(HOST);
    let ahead = crate::plan::view::beginning(&host).unwrap();
    for (policy, lines, _) in POLICIES {
        let view = crate::plan::view::compile(&rules(lines), &host, &[]);
        let shows_root = lines.iter().any(|line| line.starts_with("/ "));
        assert_eq!(view.unwrap().steps.starts_with(&ahead), shows_root, "{policy}");
    }
}

#[test]
fn bwrap() {
    plans("bwrap", |command, permissions, host| told(Bwrap::fixed().plan_on(command, permissions, host)));
}

#[test]
fn landlock() {
    plans("landlock", |command, permissions, host| told(LandlockOnly::fixed().plan_on(command, permissions, host)));
}
