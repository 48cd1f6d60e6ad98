use super::*;

fn violation(operation: Operation, target: ViolationTarget, program: &str) -> Violation {
    let (evidence, program) = (Evidence::Observed, Some(program.into()));
    Violation { operation, target, evidence, pid: None, program, rule: None, amendment: None }
}

fn words(words: &[&str]) -> Vec<RawText> {
    words.iter().map(|word| RawText::from(*word)).collect()
}

fn destination(host: &str) -> ViolationTarget {
    let (host, protocol) = (host.parse().unwrap(), NetworkProtocol::Https);
    ViolationTarget::Destination(Destination { host, protocol, port: 443 })
}

/// What npm wants for itself while it runs a script is not why the script failed; what the script wants may be.
#[test]
fn npm_does_without_its_own_logs_when_it_runs_a_script() {
    let path = |path: &str| ViolationTarget::Path(path.parse().unwrap());
    let logs = violation(Operation::Write, path("/home/me/.npm"), "/usr/bin/node");
    let registry = violation(Operation::Connect, destination("registry.npmjs.org"), "/usr/bin/node");
    for line in
        [&["npm", "test"][..], &["sh", "-c", "cd a && npm --silent run build; npm t"], &["/usr/bin/npm", "start"]]
    {
        for own in [&logs, &registry] {
            assert!(!matters(own, None, &[], &words(line)), "{line:?}");
        }
    }
    for line in [&["npm", "install"][..], &["npm"], &["sh", "-c", "npm ci && npm test"], &["node", "x.js"]] {
        assert!(matters(&logs, None, &[], &words(line)), "{line:?}");
    }
    for other in [
        violation(Operation::Write, path("/home/me/.cache/demo"), "/usr/bin/node"),
        violation(Operation::Connect, destination("api.example.org"), "/usr/bin/node"),
        violation(Operation::Write, path("/home/me/.npm"), "/usr/bin/mkdir"),
    ] {
        assert!(matters(&other, None, &[], &words(&["npm", "test"])), "{other:?}");
    }
}

/// Output about a host counts as a guess only if something was done with a socket that was not understood.
#[test]
fn no_host_is_guessed_where_there_was_no_socket() {
    let coverage = Coverage { connections: true, calls: &["ptrace"], ..Coverage::default() };
    let seen = |acts: Vec<DeniedAct>| Seen {
        permissions: Permissions::default(),
        coverage,
        observations: acts
            .into_iter()
            .map(|act| Observation { pid: None, program: None, act, is_handled: false })
            .collect(),
    };
    let guess = violation(Operation::Connect, destination("packages.example.org"), "/bin/sh");
    assert!(would_be_seen(&seen(Vec::new()), &guess));
    assert!(would_be_seen(&seen(vec![DeniedAct::Write("/x".parse().unwrap())]), &guess));
    assert!(!would_be_seen(&seen(vec![DeniedAct::UnixSocket]), &guess));
    assert!(would_be_seen(&seen(vec![DeniedAct::LookUp("packages.example.org".parse().unwrap())]), &guess));
    let blind = Seen { coverage: Coverage::default(), ..seen(Vec::new()) };
    assert!(!would_be_seen(&blind, &guess));
}

/// A second name for a file can't lead into another mount, and what is granted is one.
#[test]
fn no_flag_is_advised_for_a_link_between_two_places() {
    let rules = [FileRule::path("/".parse().unwrap(), Access::Read)];
    let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
    let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| AbsPath::from_path(&directory.path().join(name)).unwrap();
    let amendment = |from: AbsPath| {
        let act = DeniedAct::Link { from, path: at("new") };
        let observation = Observation { pid: None, program: None, act, is_handled: false };
        super::violation(&permissions, &observation, &[]).unwrap().amendment
    };
    assert!(amendment(at("old")).is_some());
    assert_eq!(amendment("/ws/old".parse().unwrap()), None);
}
