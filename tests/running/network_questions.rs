//! A network that is off because nothing was said about it: at a terminal a person is asked for each destination the
//! moment that a program connects, and the program goes on.

use std::path::PathBuf;

use stockade_tests::screen::Screen;

use super::home::{Home, User};
use crate::support::{program, repository};

/// Starts `stockade run` with these options in a terminal, in a network of the test's own.
fn start(home: &Home, options: &[&str], line: &str) -> Screen {
    start_with(home, options, line, &[])
}

/// The same, with further variables.
pub(super) fn start_with(home: &Home, options: &[&str], line: &str, variables: &[(&str, &str)]) -> Screen {
    let words: Vec<PathBuf> = home.words();
    let words = words.iter().map(|word| word.to_str().unwrap());
    let words: Vec<&str> =
        words.chain(["run"]).chain(options.iter().copied()).chain(["--", "sh", "-c", line]).collect();
    start_words(home, &words, variables)
}

/// Starts any program in a terminal, in a network of the test's own.
fn start_words(home: &Home, words: &[&str], variables: &[(&str, &str)]) -> Screen {
    let is_root = rustix::process::geteuid().is_root();
    let mut screen = Screen::open();
    let mut command = program("unshare");
    command.args(if is_root { ["--net", "--mount"].as_slice() } else { &["--map-root-user", "--net", "--mount"] });
    command.arg("python3").arg(repository().join("tests/running/mirror.py")).arg(home.path("outside"));
    command.args(["env", "--default-signal", "setsid", "--ctty", "--wait"]);
    command.args(words);
    home.surround(&mut command);
    command.envs(variables.iter().copied());
    // Where `ip` is.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("NO_COLOR", "1");
    screen.start(&mut command);
    screen
}

/// The names that were looked up outside so far.
fn looked_up(home: &Home) -> String {
    home.read("outside/looked-up")
}

fn pip(host: &str) -> String {
    format!(
        "/usr/bin/python3 -m pip install --quiet --no-cache-dir --no-compile --retries 0 --disable-pip-version-check \
         --trusted-host {host} --index-url http://{host}:443/simple --target t leaf && \
         PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=t /usr/bin/python3 -c 'import leaf; print(\"have\", leaf.NAME)'"
    )
}

fn fetch(host: &str) -> String {
    format!("curl -s -m 50 -o got http://{host}:443/leaf; echo ended $?")
}

#[test]
fn pip_asks_for_its_host_once_and_goes_on() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let mut screen = start(&home, &["--engine", engine], &pip("pypi.test"));
        let asked = screen.sees("]? ");
        assert!(asked.contains("may this destination be reached?"), "{engine}: {asked}");
        assert!(asked.contains("pypi.test, port 443") && asked.contains("python3"), "{engine}: {asked}");
        assert_eq!(looked_up(&home), "", "{engine}: a name is looked up before it was approved");
        screen.types("y");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && rest.contains("have leaf"), "{engine}: {exit_code} {rest}");
        assert!(!rest.contains("asks:"), "{engine}: it asks again: {rest}");
        let told = home.says(&["audit", "list"], 0).stdout;
        assert!(told.contains("\"asked\":1") && told.contains("\"result\":\"exited\""), "{engine}: {told}");
    }
}

/// Commands of a session are asked about as well, each for itself, in the sandbox that they share; and have unix sockets of
/// their own there.
#[test]
fn commands_in_a_kept_sandbox_are_asked_about() {
    let home = Home::of(User::Ordinary);
    let one = |line: &str| format!("\"$PROGRAM\" run --session s -- sh -c '{line}'");
    let listen = "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind(\\\"/tmp/own\\\"); s.listen(); \
                  c = socket.socket(socket.AF_UNIX); c.connect(\\\"/tmp/own\\\"); print(\\\"connected\\\")\"";
    let script = [
        one(&format!("echo mine > /tmp/shared; {}", fetch("pypi.test"))),
        one(&format!("cat /tmp/shared; {}", fetch("pypi.test"))),
        one(&fetch("pypi.test")),
        one(listen),
        String::from("\"$PROGRAM\" session end s"),
    ];
    let program = home.path("stockade").display().to_string();
    let words: Vec<PathBuf> = home.words();
    let mut words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    words.pop();
    let script = script.join("; ");
    words.extend(["sh", "-c", &script]);
    let mut screen = start_words(&home, &words, &[("PROGRAM", &program)]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("pypi.test, port 443") && looked_up(&home).is_empty(), "{asked}");
    screen.types("y");
    let second = screen.sees("]? ");
    assert!(second.contains("ended 0") && second.contains("mine"), "a yes is for one run: {second}");
    screen.types("s");
    let (_, rest) = screen.ends();
    assert!(rest.matches("ended 0").count() == 2 && !rest.contains("]? "), "{rest}");
    assert!(rest.contains("connected") && rest.contains("ended s"), "{rest}");
    let told = home.says(&["audit", "list"], 0).stdout;
    let asked: Vec<usize> = told.lines().map(|line| line.matches("\"asked\":1").count()).collect();
    assert_eq!(asked.iter().sum::<usize>(), 2, "each question is on record with its command: {told}");
}

#[test]
fn a_no_is_for_every_try_of_the_run_and_is_not_asked_again_at_its_end() {
    let home = Home::new();
    let line = format!("{0}; {0}; exit 3", fetch("pypi.test"));
    let mut screen = start(&home, &[], &line);
    screen.sees("]? ");
    screen.types("n");
    screen.sees("gives no reason) ");
    screen.types("\r");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, rest.matches("ended 7").count()), (3, 2), "{rest}");
    assert!(!rest.contains("]? ") && rest.contains("--allow-host pypi.test:443"), "{rest}");
    assert_eq!(looked_up(&home), "");
}

#[test]
fn everything_else_can_be_declined_at_once() {
    let home = Home::new();
    let line = [fetch("pypi.test"), fetch("mirror.test"), fetch("other.test")].join("; ");
    let mut screen = start(&home, &[], &line);
    let asked = screen.sees("]? ");
    assert!(asked.contains("x  no, and to everything else that this run asks"), "{asked}");
    screen.types("x");
    let (_, rest) = screen.ends();
    assert_eq!(rest.matches("ended 7").count(), 3, "{rest}");
    assert!(!rest.contains("]? "), "{rest}");
}

/// A name that was approved may lead to a private network after a second question, and to a metadata service never.
#[test]
fn an_address_on_a_private_network_is_a_second_question() {
    let home = Home::new();
    let line = format!("{0}; {0}; {1}", fetch("mirror.test"), fetch("meta.test"));
    let mut screen = start(&home, &[], &line);
    let first = screen.sees("]? ");
    assert!(first.contains("mirror.test") && !first.contains("10.1.2.3"), "{first}");
    screen.types("y");
    let second = screen.sees("]? ");
    assert!(second.contains("may this address on a local network be reached?"), "{second}");
    assert!(second.contains("leads to 10.1.2.3"), "{second}");
    screen.types("y");
    let meta = screen.sees("]? ");
    assert!(meta.contains("meta.test") && meta.matches("ended 0").count() == 2, "{meta}");
    screen.types("y");
    let (_, rest) = screen.ends();
    assert!(rest.contains("ended 7") && !rest.contains("]? "), "{rest}");
    assert!(home.read("ws/got").contains("leaf"));
}

/// A network of addresses covers the names that are allowed and lead there, and no others.
#[test]
fn a_network_can_be_allowed() {
    let home = Home::new();
    let (line, options) = (format!("{}; {}", fetch("mirror.test"), fetch("10.1.2.3")), ["--ask", "never"]);
    let allowed = ["--allow-host", "10.0.0.0/8:443", "--allow-host", "mirror.test"];
    let (_, seen) = start(&home, &[&options[..], &allowed].concat(), &line).ends();
    assert_eq!(seen.matches("ended 0").count(), 2, "{seen}");
    let (_, seen) = start(&home, &[&options[..], &["--allow-host", "10.0.0.0/8:443"]].concat(), &line).ends();
    assert_eq!((seen.matches("ended 7").count(), seen.matches("ended 0").count()), (1, 1), "{seen}");
    let words = ["explain", "--allow-host", "10.0.0.0/8", "--host", "10.9.9.9:22", "--host", "11.0.0.1:22"];
    let told = home.says(&words, 0).stdout;
    assert!(told.contains("`10.9.9.9:22` may be reached") && told.contains("`11.0.0.1:22` has to be asked"), "{told}");
    for (wrong, why) in [
        ("10.0.0.1/8", "the bits behind the prefix"),
        ("0.0.0.0/0", "`full`"),
        ("127.0.0.0/8", "`localhost:5432`"),
        ("[fd00::]/8:443", "`[fd00::/8]`"),
        ("[fe80::/10]:80", "link-local"),
    ] {
        let told = home.runs(&["--allow-host", wrong], "true", 125).stderr;
        assert!(told.contains(why), "{wrong}: {told}");
    }
}

#[test]
fn explain_says_that_hosts_are_asked_for() {
    let home = Home::new();
    let explain = |options: &[&str]| {
        let words = [&["explain"], options, &["--host", "pypi.test:443", "--", "true"]].concat();
        super::terminal::start(&home, &words).ends().1
    };
    let told = explain(&[]);
    assert!(told.contains("the network is off; you are asked for each host when a program connects to it"), "{told}");
    assert!(told.contains("`pypi.test:443` has to be asked for"), "{told}");
    for options in [["--network", "off"], ["--ask", "never"], ["--engine", "landlock"]] {
        let told = explain(&options);
        assert!(told.contains("the network is off\r\n"), "{options:?}: {told}");
        assert!(told.contains("`pypi.test:443` is refused"), "{options:?}: {told}");
    }
}

/// Off by a flag or a setting, and policies that do not ask after a denial: reported at the end, as everywhere.
#[test]
fn a_network_that_is_said_to_be_off_is_off() {
    for options in [["--network", "off"], ["--ask", "on-request"], ["--ask", "never"]] {
        let home = Home::new();
        let line = format!("{}; exit 3", fetch("pypi.test"));
        let mut screen = start(&home, &options, &line);
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 3 && rest.contains("--allow-host pypi.test:443"), "{options:?}: {exit_code} {rest}");
        assert!(!rest.contains("]? "), "{options:?}: {rest}");
        assert_eq!(looked_up(&home), "", "{options:?}");
    }
    let home = Home::new();
    home.write("config/stockade/config.toml", "[sandbox]\nnetwork = \"off\"\n");
    let mut screen = start(&home, &[], &fetch("pypi.test"));
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && rest.contains("ended 6") && !rest.contains("]? "), "{rest}");
}
