//! What typical policies become. The machine and its files are made up, so the plans are the same
//! everywhere. Snapshots are compared where the sources are.
#![cfg(not(windows))]

use std::collections::BTreeMap;

use stockade_protocol::{Argv, HostRules, NetworkPolicy, Permissions, ResourceLimits};
use stockade_sandboxing::{CommandSpec, FakeHost, rules};

use crate::host::machine;
use crate::{Drive, DriveKind, Host, Loss, WindowsPlan};

const HOST: &[&str] = &[
    r"C:\Windows\System32\cmd.exe",
    r"C:\tools\make.exe",
    r"C:\tools\npm.cmd",
    r"C:\Users\me\.ssh\id",
    r"C:\Users\me\.netrc",
    r"C:\Users\me\Temp\",
    r"C:\w\.git\config",
    r"C:\w\sub\.git\config",
    r"C:\w\sub\a.env",
    r"C:\w\.env",
    r"C:\w\vendor -> C:\Users\me",
    r"C:\cache\",
];

fn command(words: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: Argv::parse(words.iter().copied()).unwrap(),
        cwd: r"C:\w".parse().unwrap(),
        environment: BTreeMap::from([
            ("Path".into(), r"C:\tools".into()),
            ("TEMP".into(), r"C:\Users\me\Temp".into()),
            ("tmp".into(), r"c:\users\me\temp".into()),
        ]),
        process: Default::default(),
    }
}

fn told(command: &CommandSpec, permissions: &Permissions, machine: &Host, accepted: &[Loss]) -> String {
    let plan = WindowsPlan::compile(command, permissions, machine, &FakeHost::new(HOST), accepted);
    // A plan, or the reason for a refusal: both are printed.
    plan.map_or_else(|error| error.to_string(), |plan| plan.to_string())
}

fn files(lines: &[&str]) -> Permissions {
    Permissions { files: rules(lines), network: NetworkPolicy::Full, ..Permissions::default() }
}

#[test]
fn files_of_typical_policies() {
    for (name, lines) in [
        ("read_only", &[r"C:\ read"][..]),
        ("everything", &[r"C:\ write"]),
        (
            "workspace",
            &[
                r"C:\ read",
                r"C:\w write",
                r"C:\w\.git read protected",
                r"C:\w\.codex read protected",
                r"C:\Users\me\Temp scratch",
            ],
        ),
        ("two_roots", &[r"C:\ read", r"C:\w write", r"C:\cache write"]),
        ("nested_repository", &[r"C:\ read", r"C:\w write", r"C:\w\sub\.git read protected"]),
        ("denied_file", &[r"C:\ read", r"C:\w write", r"C:\w\.env none"]),
        ("denied_directory", &[r"C:\ read", r"C:\Users\me none", r"C:\Users\me\.ssh\id read"]),
        ("denied_glob", &[r"C:\ read", r"C:\w write", r"C:\w\**\*.env none"]),
        (
            "credentials",
            &[
                r"C:\ read",
                r"C:\Users\me\.ssh none credential",
                r"C:\Users\me\.netrc none credential",
                r"C:\Users\me\.config\gh none credential",
            ],
        ),
        ("restricted_reads", &[r"C:\Windows read", r"C:\w write"]),
        ("write_inside_denied", &[r"C:\ read", r"C:\w none", r"C:\w\sub write"]),
        ("protected_link", &[r"C:\ read", r"C:\w write", r"C:\w\vendor read"]),
        ("whole_drive_but_one", &[r"C:\ write", r"C:\Windows read"]),
        ("missing_root", &[r"C:\ read", r"C:\new write"]),
        ("share", &[r"C:\ read", r"\\srv\share\w write"]),
    ] {
        insta::assert_snapshot!(name, told(&command(&["make", "all tests"]), &files(lines), &machine(), &[]));
    }
}

#[test]
fn the_rest_of_a_policy() {
    let make = command(&["make", "test"]);
    let read_only = || files(&[r"C:\ read"]);
    let off = Permissions { network: NetworkPolicy::Off, ..read_only() };
    insta::assert_snapshot!("network_off", told(&make, &off, &machine(), &[]));
    insta::assert_snapshot!("network_off_accepted", told(&make, &off, &machine(), &[Loss::DirectConnections]));
    let hosts = Permissions { network: NetworkPolicy::Hosts(HostRules::default()), ..read_only() };
    insta::assert_snapshot!("network_by_host", told(&make, &hosts, &machine(), &[Loss::DirectConnections]));
    let mut led = command(&["make", "test"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        led.environment.insert(name.into(), "http://127.0.0.1:3128".into());
    }
    let (proxy, accepted) = ("127.0.0.1:3128".parse().ok(), [Loss::DirectConnections]);
    let through = WindowsPlan::compile_through(proxy, &led, &hosts, &machine(), &FakeHost::new(HOST), &accepted);
    let through = through.unwrap();
    assert!(through.warnings.iter().any(|warning| warning.contains("proxy")), "{:?}", through.warnings);
    insta::assert_snapshot!("network_through_a_proxy", through.to_string());
    let limit = |count: u64| count.try_into().ok();
    let limits = ResourceLimits {
        processes: limit(64),
        memory_bytes: limit(1 << 30),
        cpu_seconds: limit(60),
        ..ResourceLimits::default()
    };
    insta::assert_snapshot!("limits", told(&make, &Permissions { limits, ..read_only() }, &machine(), &[]));
    let limits = ResourceLimits { open_files: limit(64), ..ResourceLimits::default() };
    insta::assert_snapshot!("limit_on_files", told(&make, &Permissions { limits, ..read_only() }, &machine(), &[]));
    insta::assert_snapshot!("batch_file", told(&command(&["npm", "run", "a&b"]), &read_only(), &machine(), &[]));
    insta::assert_snapshot!("batch_file_refused", told(&command(&["npm", "%PATH%"]), &read_only(), &machine(), &[]));
    insta::assert_snapshot!("not_found", told(&command(&["nothing"]), &read_only(), &machine(), &[]));
}

#[test]
fn drives_that_have_no_lists() {
    let drive = |letter: &str, kind| Drive { root: format!(r"{letter}:\").parse().unwrap(), kind };
    let make = command(&["make"]);
    let mut host = machine();
    host.drives.push(drive("E", DriveKind::WithoutLists));
    host.drives.push(drive("H", DriveKind::Remote));
    host.drives.push(drive("R", DriveKind::ReadOnly));
    let reads = [r"C:\ read", r"E:\ read", r"H:\ read", r"R:\ read"];
    insta::assert_snapshot!("stick", told(&make, &files(&reads), &host, &[]));
    let writes = [r"C:\ read", r"E:\ write", r"H:\ read", r"R:\ read"];
    let plan = WindowsPlan::compile(&make, &files(&writes), &host, &FakeHost::new(HOST), &[]).unwrap();
    assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
    assert!(plan.warnings.iter().all(|warning| warning.contains(r"`H:\` is on a server")));
}

#[test]
fn the_capability_stands_for_the_marks() {
    let compile = |lines: &[&str]| {
        WindowsPlan::compile(&command(&["make"]), &files(lines), &machine(), &FakeHost::new(HOST), &[]).unwrap()
    };
    let workspace = compile(&[r"C:\ read", r"C:\w write"]);
    assert_eq!(workspace.capability, compile(&[r"C:\ read", r"C:\w write"]).capability);
    assert_ne!(workspace.capability, compile(&[r"C:\ read", r"C:\w write", r"C:\w\.env none"]).capability);
}
