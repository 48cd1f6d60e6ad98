//! An administrator's maximum, in an `/etc` of the test's own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use stockade_tests::screen::Screen;

use super::home::{Home, Said, said};
use crate::support::{program, repository};

/// A home and an `/etc/stockade/maximum.toml`.
struct Administered {
    home: Home,
}

impl Administered {
    fn new(maximum: &str) -> Self {
        let home = Home::new();
        // Files of other users can be missing: nothing here reads them.
        program("cp").args(["-a", "/etc"]).arg(home.path("etc")).stderr(Stdio::null()).status().unwrap();
        fs::create_dir_all(home.path("etc/stockade")).unwrap();
        home.write("etc/stockade/maximum.toml", maximum);
        Self { home }
    }

    /// A program in a mount and network namespace with that `/etc`, and mirrors of packages.
    fn inside(&self, words: &[&str]) -> Command {
        let is_root = rustix::process::geteuid().is_root();
        let mut command = program("unshare");
        command.args(if is_root { ["--net", "--mount"].as_slice() } else { &["--map-root-user", "--net", "--mount"] });
        command.args(["sh", "-c", "mount --bind \"$0\" /etc && exec \"$@\""]).arg(self.home.path("etc"));
        command.arg("python3").arg(repository().join("tests/running/mirror.py")).arg(self.home.path("outside"));
        command.args(["env", "--default-signal", "setsid"]).args(words);
        self.home.surround(&mut command);
        // Where `ip` is.
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    fn words(&self) -> Vec<String> {
        let words: Vec<PathBuf> = self.home.words();
        words.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    /// `stockade` with these arguments, without a terminal.
    fn says(&self, arguments: &[&str], variables: &[(&str, &str)], exit_code: i32) -> Said {
        let own = self.words();
        let words: Vec<&str> =
            ["--wait"].into_iter().chain(own.iter().map(String::as_str)).chain(arguments.iter().copied()).collect();
        said(self.inside(&words).envs(variables.iter().copied()), exit_code)
    }

    /// A shell line at a terminal, in which `$PROGRAM` is `stockade`.
    fn at_terminal(&self, line: &str) -> Screen {
        let own = self.words();
        let mut words = vec!["--ctty", "--wait"];
        words.extend(own.iter().take(own.len() - 1).map(String::as_str));
        words.extend(["sh", "-c", line]);
        let mut screen = Screen::open();
        screen.start(self.inside(&words).env("PROGRAM", self.home.path("stockade")));
        screen
    }
}

fn fetch(host: &str) -> String {
    format!("curl -s -m 20 -o got http://{host}:443/leaf; echo ended $?")
}

/// No question is asked about a host beyond the maximum, so that no yes, not even an "always", exceeds it; in a session of
/// the server neither. A host within it is asked for as ever.
#[test]
fn a_yes_does_not_exceed_the_hosts_of_the_maximum() {
    let one = Administered::new("[sandbox]\nallow_hosts = [\"*.corp.example\"]\n");
    for options in ["", "--session s"] {
        let line = format!("\"$PROGRAM\" run {options} -- sh -c '{}; exit 3'", fetch("pypi.test"));
        let mut screen = one.at_terminal(&format!("{line}; code=$?; \"$PROGRAM\" session end s; exit $code"));
        let (exit_code, told) = screen.ends();
        assert!(exit_code == 3 && told.contains("ended 7") && !told.contains("]? "), "{options}: {told}");
        assert!(told.contains("the administrator's maximum does not allow it"), "{options}: {told}");
        assert!(!told.contains("--allow-host"), "{options}: {told}");
        assert_eq!(one.home.read("outside/looked-up"), "", "{options}");
    }
    let within = Administered::new("[sandbox]\nallow_hosts = [\"pypi.test\"]\n");
    let mut screen = within.at_terminal(&format!("\"$PROGRAM\" run -- sh -c '{}'", fetch("pypi.test")));
    let asked = screen.sees("]? ");
    assert!(asked.contains("pypi.test, port 443"), "{asked}");
    screen.types("y");
    let (_, told) = screen.ends();
    assert!(told.contains("ended 0"), "{told}");
}

/// A yes that is remembered for a session, or saved, does not count once an administrator has set a maximum.
#[test]
fn a_saved_yes_does_not_exceed_the_maximum() {
    let one = Administered::new("");
    let line = format!("\"$PROGRAM\" run -- sh -c '{}'", fetch("pypi.test"));
    let mut screen = one.at_terminal(&line);
    screen.sees("]? ");
    screen.types("p");
    let (_, told) = screen.ends();
    assert!(told.contains("ended 0"), "{told}");
    let (_, told) = one.at_terminal(&line).ends();
    assert!(told.contains("ended 0") && !told.contains("]? "), "it is saved: {told}");
    one.home.write("etc/stockade/maximum.toml", "[sandbox]\nallow_hosts = [\"*.corp.example\"]\n");
    let (_, told) = one.at_terminal(&line).ends();
    assert!(told.contains("ended 7") && !told.contains("]? "), "{told}");
}

#[test]
fn an_excluded_variable_is_neither_passed_nor_set() {
    let one = Administered::new("[env]\nexclude = [\"CORP_*\"]\n");
    let variables = [("CORP_REGION", "v")];
    for flag in ["CORP_REGION", "CORP_REGION=w"] {
        let told = one.says(&["run", "--env", flag, "--", "env"], &variables, 125);
        let words =
            "the variable `CORP_REGION` can't be set: the administrator's maximum in `/etc/stockade/maximum.toml`";
        assert!(told.stderr.contains(words) && told.stdout.is_empty(), "{flag}: {}", told.stderr);
    }
    one.home.write("config/stockade/config.toml", "[env]\nset = { CORP_REGION = \"w\", OTHER = \"x\" }\n");
    let told = one.says(&["run", "--", "env"], &variables, 0);
    assert!(told.stdout.contains("OTHER=x") && !told.stdout.contains("CORP_REGION"), "{}", told.stdout);
    assert!(told.stderr.contains("excludes it"), "{}", told.stderr);
    one.home.write("config/stockade/config.toml", "");
    let profile = "about = \"x\"\n[[env]]\nname = \"CORP_REGION\"\nvalue = \"w\"\nreason = \"because\"\n";
    one.home.write("config/stockade/profiles/mine.toml", profile);
    let told = one.says(&["run", "--with", "mine", "--", "env"], &variables, 0);
    assert!(told.stdout.contains("HOME=") && !told.stdout.contains("CORP_REGION"), "{}", told.stdout);
}

#[test]
fn a_flag_beyond_the_maximum_is_an_error() {
    let one = Administered::new(
        "[sandbox]\nmode = \"workspace-write\"\nallow_hosts = [\"*.corp.example\"]\n[limits]\nopen_files = 1000\nprocesses = 2000\n",
    );
    let outside = one.home.path("outside").display().to_string();
    for (flag, value) in [
        ("--limit", "files=4000"),
        ("--limit", "pids=5000"),
        ("--allow-host", "pypi.test:443"),
        ("--allow-socket", "/run/x"),
        ("--writable", &outside),
    ] {
        let told = one.says(&["run", flag, value, "--", "true"], &[], 125).stderr;
        assert!(told.contains("exceeds the administrator's maximum"), "{flag} {value}: {told}");
    }
    // Processes of root can't be limited everywhere.
    one.home.write(
        "etc/stockade/maximum.toml",
        "[sandbox]\nmode = \"workspace-write\"\nallow_hosts = [\"*.corp.example\"]\n[limits]\nopen_files = 1000\ncpu_seconds = 100\n",
    );
    one.says(
        &["run", "--limit", "files=500", "--allow-host", "git.corp.example", "--writable", ".", "--", "true"],
        &[],
        0,
    );
    let told = one.says(&["explain", "--limit", "files=500", "--", "true"], &[], 0).stdout;
    assert!(told.contains("limits.open_files comes from the command line"), "{told}");
    assert!(told.contains("limits.cpu_seconds comes from the administrator's maximum"), "{told}");
}

/// No flag is named that would be refused.
#[test]
fn a_denial_advises_nothing_that_the_maximum_forbids() {
    let one = Administered::new(
        "[sandbox]\nmode = \"workspace-write\"\nnetwork = \"off\"\n[limits]\nfile_size_bytes = 1000\n",
    );
    for (line, flag) in [
        ("echo x > ../outside/x".to_owned(), "--writable"),
        (fetch("pypi.test") + "; exit 3", "--allow-host"),
        ("head -c 5000 /dev/zero > big".to_owned(), "--limit"),
        ("unshare -Ur true".to_owned(), "danger-full-access"),
    ] {
        let mut command = one.inside(&[]);
        command.args(["--wait"]).args(one.words()).args(["run", "--", "sh", "-c", &line]);
        let told = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(!told.contains(flag) && !told.contains("would allow it"), "{line}: {told}");
        assert!(told.contains("the administrator's maximum in `/etc/stockade/maximum.toml`"), "{line}: {told}");
    }
}
