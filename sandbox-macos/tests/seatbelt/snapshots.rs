//! The profiles of typical policies. What is the same in all of them is shown once.

use stockade_protocol::{Decision, HostRule, HostRules, HttpMethods, NetworkPolicy, Permissions};
use stockade_sandbox_macos::{ProxyPorts, Seatbelt, platform_defaults};

use crate::world::{World, command, files, path, with_network};

fn shown(permissions: &Permissions) -> String {
    shown_with(Some(&ProxyPorts::new([3128, 3129])), permissions)
}

fn shown_with(proxy: Option<&ProxyPorts>, permissions: &Permissions) -> String {
    let world = World { missing: [path("/w/.codex")].into(), found: vec![path("/w/sub/a.env")], link: None };
    let plan = Seatbelt::new().plan_on(&command(), permissions, proxy, &world);
    let told = plan.map_or_else(|error| error.to_string(), |plan| plan.to_string());
    // The rules that hold for every command, and those that end every profile, have a snapshot of their own.
    let base = include_str!("../../src/base.sbpl");
    let last = include_str!("../../src/last.sbpl");
    told.replace(base, "; … every command\n").replace(last, "; … no grant\n")
}

fn hosts() -> NetworkPolicy {
    let rule =
        HostRule { host: "*.example.com".parse().unwrap(), protocol: None, port: Some(443), decision: Decision::Allow };
    NetworkPolicy::Hosts(HostRules { rules: vec![rule], methods: HttpMethods::Any })
}

#[test]
fn typical_policies() {
    let workspace =
        &["/ read", "/w write", "/w/.git read protected", "/w/.codex read protected", "/private/tmp scratch"];
    let policies: &[(&str, Permissions)] = &[
        ("nothing", Permissions::default()),
        ("read_only", files(&["/ read"])),
        ("everything", with_network(&["/ write"], NetworkPolicy::Full)),
        ("workspace", files(workspace)),
        ("workspace_with_network", with_network(workspace, NetworkPolicy::Full)),
        ("workspace_by_host", with_network(workspace, hosts())),
        ("two_roots", files(&["/ read", "/w write", "/cache write"])),
        ("nested_repository", files(&["/ read", "/w write", "/w/sub/.git read protected"])),
        ("denied_file", files(&["/ read", "/w write", "/w/.env none"])),
        ("denied_glob", files(&["/ read", "/w write", "/w/**/*.env none"])),
        ("credentials", files(&["/ read", "/Users/me/.ssh none credential", "/Users/me/.netrc none credential"])),
        ("write_inside_denied", files(&["/ read", "/w none", "/w/sub write"])),
        (
            "unix_socket",
            Permissions { unix_sockets: [path("/private/var/run/docker.sock")].into(), ..files(&["/ read"]) },
        ),
    ];
    for (name, permissions) in policies {
        insta::assert_snapshot!(*name, shown(permissions));
    }
}

#[test]
fn restricted_reads() {
    let defaults: Vec<String> = platform_defaults().iter().map(|path| format!("{path} read")).collect();
    let lines: Vec<&str> = defaults.iter().map(String::as_str).chain(["/w write", "/w/.git read protected"]).collect();
    insta::assert_snapshot!(shown(&files(&lines)));
}

#[test]
fn the_whole_of_a_profile() {
    let plan = Seatbelt::new().plan_on(&command(), &files(&["/ read", "/w write"]), None, &World::default()).unwrap();
    insta::assert_snapshot!(plan.to_string());
}

#[test]
fn limits_are_part_of_a_plan() {
    let permissions: Permissions = stockade_protocol::parse(
        r#"{"files":[],"network":"off","limits":{"cpu_seconds":5,"file_size_bytes":1024,"open_files":64}}"#,
    )
    .unwrap();
    let told = shown_with(None, &permissions);
    let limits: Vec<&str> = told.lines().filter(|line| line.starts_with("limit")).collect();
    assert_eq!(limits.len(), 4, "{limits:?}");
}
