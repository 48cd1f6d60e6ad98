use super::super::beside::is_beside;
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
            assert!(!matters(own, None, &Said::default(), &words(line)), "{line:?}");
        }
    }
    for line in [&["npm", "install"][..], &["npm"], &["sh", "-c", "npm ci && npm test"], &["node", "x.js"]] {
        assert!(matters(&logs, None, &Said::default(), &words(line)), "{line:?}");
    }
    for other in [
        violation(Operation::Write, path("/home/me/.cache/demo"), "/usr/bin/node"),
        violation(Operation::Connect, destination("api.example.org"), "/usr/bin/node"),
        violation(Operation::Write, path("/home/me/.npm"), "/usr/bin/mkdir"),
    ] {
        assert!(matters(&other, None, &Said::default(), &words(&["npm", "test"])), "{other:?}");
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

#[test]
fn histories_are_optional_in_every_form() {
    for optional in [
        "/h/.bash_history",
        "/h/.bash_history-4711.tmp",
        "/h/.zsh_history.LOCK",
        "/h/.zsh_history.new",
        "/h/.histfile",
        "/h/.lesshst",
        "/h/.lesshsQ",
        "/h/.local/state/lesshsQ",
        "/h/.viminfo.tmp",
        "/h/.viminfz.tmp",
        "/h/.psql_history-1.tmp",
        "/h/.gdb_history-gdb77~",
        "/h/.Xauthority-c",
        "/h/.local/share/fish/fish_history.x7Q",
        "/h/.npm/_logs/2026.log",
    ] {
        assert!(is_optional(&optional.parse().unwrap()), "{optional}");
    }
    for needed in ["/h/order_history.csv", "/h/history", "/h/.vimrc", "/h/.historyx", "/h/.bash_history/x", "/h/.npmrc"]
    {
        assert!(!is_optional(&needed.parse().unwrap()), "{needed}");
    }
}

#[test]
fn no_amendment_lifts_a_bound_behind_a_mask() {
    let state: AbsPath = "/h/.local/state/stockade".parse().unwrap();
    let rule = |path: &str, access, source| FileRule::path(path.parse().unwrap(), access).from_source(source);
    let mask = rule("/h/.local/state/stockade", Access::None, RuleSource::CredentialMask);
    let bound = FileRule::path(state.clone(), Access::Read).from_source(RuleSource::OwnFiles);
    let files = |rules: Vec<FileRule>| Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
    let granted = files(vec![rule("/", Access::Write, RuleSource::Policy), mask.clone(), bound.clone()]);
    let enforced = files(vec![rule("/", Access::Write, RuleSource::Policy), mask]);
    let act = DeniedAct::Create(state.join("x").unwrap());
    let observations = vec![Observation { pid: None, program: None, act, is_handled: false }];
    let seen = Seen { permissions: enforced, coverage: Coverage::default(), observations };
    let found = violations(&seen, &granted, &[], &[]);
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((&found.rule, &found.amendment), (&Some(DenyingRule::File(bound)), &None));
}

/// A look at a hidden name counts if the command or its output names it, and once beside a read.
#[test]
fn a_look_counts_if_something_names_it() {
    let path: AbsPath = "/h/.ssh/id".parse().unwrap();
    let files = FileRules::new([FileRule::path("/h/.ssh".parse().unwrap(), Access::None)]).unwrap();
    let permissions = Permissions { files, ..Permissions::default() };
    let found = |acts: &[DeniedAct], line: &[&str], said: &[AbsPath]| {
        let observation =
            |act: &DeniedAct| Observation { pid: None, program: None, act: act.clone(), is_handled: false };
        let observations = acts.iter().map(observation).collect();
        let seen = Seen { permissions: permissions.clone(), coverage: Coverage::default(), observations };
        violations(&seen, &permissions, &words(line), said).len()
    };
    let (look, read) = (DeniedAct::LookAt(path.clone()), DeniedAct::Read(path.clone()));
    assert_eq!(found(std::slice::from_ref(&look), &["ssh", "host"], &[]), 0);
    assert_eq!(found(std::slice::from_ref(&look), &["test", "-f", "/h/.ssh/id"], &[]), 1);
    assert_eq!(found(std::slice::from_ref(&look), &["./backup"], std::slice::from_ref(&path)), 1);
    assert_eq!(found(&[look, read], &["cat", "/h/.ssh/id"], &[]), 1);
}

/// The name has to be whole, and below a hidden directory that has to be named as well: tools have subcommands that are called
/// as their files are.
#[test]
fn a_look_is_not_named_by_an_ordinary_word() {
    let files = ["/h/.aws/config", "/h/.config/op/config", "/h/.netrc", "/ws/server.key", "/ws/my key"];
    let rules = files.iter().map(|path| FileRule::path(path.parse().unwrap(), Access::None));
    let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
    let counts = |path: &str, line: &[&str]| {
        let act = DeniedAct::LookAt(path.parse().unwrap());
        let observations = vec![Observation { pid: None, program: None, act, is_handled: false }];
        let seen = Seen { permissions: permissions.clone(), coverage: Coverage::default(), observations };
        !violations(&seen, &permissions, &words(line), &[]).is_empty()
    };
    for (path, line) in [
        ("/h/.aws/config", &["npm", "config", "get", "x"][..]),
        ("/h/.aws/config", &["sh", "-c", "cat ~/.aws/config.bak; ./configure"]),
        ("/h/.aws/config", &["cat", "/h/.kube/config"]),
        ("/h/.config/op/config", &["op", "config"]),
        ("/h/.netrc", &["cat", "x.netrc", ".netrc2"]),
        ("/ws/server.key", &["ls", "server.keys", "a-server.key"]),
    ] {
        assert!(!counts(path, line), "{path} {line:?}");
    }
    for (path, line) in [
        ("/h/.aws/config", &["sh", "-c", "cd ~/.aws && test -f config"][..]),
        ("/h/.aws/config", &["python3", "-c", "os.stat(os.environ['HOME'] + '/.aws/config')"]),
        ("/h/.aws/config", &["tool", "--file=/h/.aws/config"]),
        ("/h/.config/op/config", &["test", "-f", "/h/.config/op/config"]),
        ("/h/.netrc", &["test", "-f", ".netrc"]),
        ("/ws/server.key", &["ls", "-l", "server.key"]),
        ("/ws/my key", &["sh", "-c", "test -f 'my key'"]),
    ] {
        assert!(counts(path, line), "{path} {line:?}");
    }
}

/// Files of credentials that a tool reads in passing are not why it failed, unless something says so; nor is a database that
/// could be opened for reading.
#[test]
fn what_a_tool_reads_in_passing_is_beside_the_point() {
    let read = |path: &str| violation(Operation::Read, ViolationTarget::Path(path.parse().unwrap()), "/usr/bin/wget");
    let line = words(&["wget", "http://localhost/"]);
    assert!(is_beside(&read("/h/.netrc"), b"connect: Connection refused\n", &line));
    assert!(is_beside(&read("/h/.docker/config.json"), b"", &line));
    assert!(!is_beside(&read("/h/.netrc"), b"Username/Password Authentication Failed.\n", &line));
    assert!(!is_beside(&read("/h/.netrc"), b"", &words(&["sh", "-c", "cat ~/.netrc > x"])));
    assert!(!is_beside(&read("/h/.aws/credentials"), b"", &line));
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().canonicalize().unwrap().join("db");
    std::fs::write(&database, b"SQLite format 3\0...").unwrap();
    let target = ViolationTarget::Path(AbsPath::from_path(&database).unwrap());
    let write = violation(Operation::Write, target, "/usr/bin/sqlite3");
    assert!(is_beside(&write, b"Error: in prepare, no such table: t\n", &line));
    assert!(!is_beside(&write, b"attempt to write a readonly database\n", &line));
    assert!(!is_beside(&write, b"", &line), "it may have said nothing");
}
