//! The prompt in a real pseudo-terminal: keys are typed at one end, and the screen is read there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::{ApprovalRequest, ReviewDecision};
use stockade_tests::screen::Screen;

use super::page::{Lifetime, Paint};
use super::person::Terminal;
use super::{person, samples};

type Reviewed = Result<Answer, Unanswered>;

/// Longer than the pause that the prompt needs before it accepts keys.
const QUIET: Duration = Duration::from_millis(600);

fn terminal(screen: &Screen) -> Terminal {
    Terminal::on(screen.inside_without_waiting(), Paint::Plain.into())
}

/// Asks in another thread.
fn ask(screen: &Screen, request: ApprovalRequest) -> JoinHandle<Reviewed> {
    let terminal = terminal(screen);
    std::thread::spawn(move || wait(terminal.review(Arc::new(request))))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn decided(decision: ReviewDecision) -> Reviewed {
    Ok(decision.into())
}

#[test]
fn each_key_gives_its_answer_and_the_terminal_back() {
    for (keys, decision) in [
        ("y", ReviewDecision::Approved),
        ("q", ReviewDecision::Abort),
        ("\u{3}", ReviewDecision::Abort),
        ("\u{4}", ReviewDecision::Abort),
    ] {
        let mut screen = Screen::open();
        let asking = ask(&screen, samples::command());
        let shown = screen.sees("[y/p/n/q]? ");
        assert!(shown.contains("may this command run?\r\n\r\n    npm test\r\n    in /repo\r\n"), "{shown}");
        assert!(shown.contains("prefix_rule(pattern=[\"npm\", \"test\"], decision=\"allow\", exact=True)"), "{shown}");
        assert!(!screen.is_as_before());
        screen.types(keys);
        assert_eq!(asking.join().unwrap(), decided(decision), "{keys:?}");
        assert!(screen.is_as_before(), "{keys:?}");
    }
}

#[test]
fn a_no_asks_why_and_shows_what_is_typed() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::line());
    let shown = screen.sees("[y/n/q]? ");
    assert!(shown.contains("WITHOUT THE SANDBOX"), "{shown}");
    screen.types("n");
    screen.sees("Why not? (Enter alone gives no reason) ");
    screen.types("use maek\u{7f}\u{7f}ke");
    screen.sees("use maek\u{8} \u{8}\u{8} \u{8}ke");
    screen.types("\r");
    let reason = Some(String::from("use make"));
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Denied { reason }));
}

#[test]
fn a_form_is_filled_in_shown_and_sent() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::form());
    let shown = screen.sees("[y/n/q]? ");
    assert!(shown.contains("The server mail asks:\r\n    Who are \\u{1b}[2Jyou?\r\n"), "{shown}");
    screen.types("y");
    let shown = screen.sees("  > ");
    assert!(shown.contains("1 of 3: Your address (address): e-mail address, needed\r\n"), "{shown}");
    assert!(shown.contains("Where to \\u{1b}[31mwrite"), "{shown}");
    screen.types("nobody\r");
    screen.sees("nobody\r\n    this is no e-mail address\r\n  > ");
    screen.types("me@a.test\r");
    screen.sees("2 of 3: age: whole number, 0 to 150, may be left empty\r\n  > ");
    screen.types("42\r");
    let shown = screen.sees("  > ");
    let choices =
        "3 of 3: colour: choice of 2, Enter alone gives \"red\"\r\n    1. red  (Red)\r\n    2. blue  (Blue)\r\n";
    assert!(shown.contains(choices), "{shown}");
    screen.types("2\r");
    let shown = screen.sees("Send it? [y/n]? ");
    let all =
        "This is sent to the server mail:\r\n    address: \"me@a.test\"\r\n    age: 42\r\n    colour: \"blue\"\r\n";
    assert!(shown.contains(all), "{shown}");
    assert!(!asking.is_finished() && !screen.is_as_before());
    screen.types("y");
    let answer = asking.join().unwrap().unwrap();
    assert_eq!(answer.decision, ReviewDecision::Approved);
    let content = serde_json::json!({ "address": "me@a.test", "age": 42, "colour": "blue" });
    assert_eq!(serde_json::to_value(answer.content).unwrap(), content);
    assert!(screen.is_as_before());
}

#[test]
fn a_form_can_be_declined_and_cancelled() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::secret_form());
    let shown = screen.sees("[y/n/q]? ");
    assert!(shown.contains("looks like a secret"), "{shown}");
    screen.types("y");
    screen.sees("Your input is sent to mail.\r\n  > ");
    screen.types("hunter2\r");
    let shown = screen.sees("Send it? [y/n]? ");
    assert!(shown.contains("*******") && !shown.contains("hunter2"), "{shown}");
    screen.types("n");
    screen.sees("Why not? (Enter alone gives no reason) ");
    screen.types("\r");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Denied { reason: None }));
    assert!(screen.is_as_before());

    let asking = ask(&screen, samples::form());
    screen.sees("[y/n/q]? ");
    screen.types("y");
    screen.sees("  > ");
    screen.types("me\u{3}");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Abort));
    assert!(screen.is_as_before());
}

#[test]
fn enter_alone_asks_again() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::command());
    screen.sees("[y/p/n/q]? ");
    screen.types("\r");
    screen.sees("Please press one of these keys. [y/p/n/q]? ");
    // Something pasted, also with an arrow before it.
    screen.types("\u{1b}[Ay");
    screen.sees("Please press one of these keys. ");
    screen.types("y\ny\n");
    screen.sees("Please press one of these keys. ");
    assert!(!asking.is_finished());
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

#[test]
fn everything_is_shown_on_request() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::patch());
    let shown = screen.sees("[y/n/q]? ");
    assert!(shown.contains("and 127 more changed lines, not shown here"), "{shown}");
    screen.types("v");
    let shown = screen.sees("[y/n/q]? ");
    assert_eq!(shown.matches("    +line\r\n").count(), 200, "{shown}");
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

/// Approving a shortened question shows all of it, and has to be repeated.
#[test]
fn what_was_left_out_is_shown_before_a_yes_counts() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::hostile());
    screen.sees("]? ");
    screen.types("y");
    let shown = screen.sees("]? ");
    assert!(shown.contains("43. echo 39") && !asking.is_finished(), "{shown}");
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

#[test]
fn what_was_typed_before_the_prompt_appeared_is_no_answer() {
    let mut screen = Screen::open();
    screen.types("y");
    let asking = ask(&screen, samples::command());
    screen.sees("stockade asks: ");
    // The person is still typing while the prompt appears.
    for _ in 0..10 {
        screen.types("y");
        screen.look(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(60));
        assert!(!screen.seen.contains("]? "), "a key is waited for while somebody types: {}", screen.seen);
    }
    screen.sees("[y/p/n/q]? ");
    std::thread::sleep(QUIET);
    assert!(!asking.is_finished(), "type-ahead has approved");
    screen.types("q");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Abort));
}

/// Terminal reports end in any letter, and may arrive in any chunks, at any time.
#[test]
fn what_a_terminal_answers_is_no_answer() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::command());
    screen.sees("[y/p/n/q]? ");
    // One byte more than is read at once.
    screen.types(&format!("\u{1b}[?{}$y", "1".repeat(60)));
    std::thread::sleep(QUIET);
    for piece in ["\u{1b}[?1;2", "$", "y", "\u{1b}P1+r", "y", "\u{1b}\\", "\u{1b}O", "y", "\u{9b}0$", "y"] {
        screen.types(piece);
        std::thread::sleep(Duration::from_millis(100));
    }
    // The answerback of some terminals, in plain letters.
    screen.types("PuTTY");
    screen.sees("Please press one of these keys. ");
    assert!(!asking.is_finished(), "the terminal has approved");
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

/// Until the terminal has answered the barrier, it may still answer the command.
#[test]
fn keys_count_only_once_the_terminal_has_answered_everything() {
    let mut screen = Screen::open();
    screen.answers_after = Some(Duration::from_millis(1200));
    let start = Instant::now();
    let asking = ask(&screen, samples::command());
    screen.sees("stockade asks: ");
    while start.elapsed() < Duration::from_millis(1000) {
        screen.look(Duration::from_millis(20));
        assert!(!screen.seen.contains("]? "), "nothing was waited for");
    }
    screen.sees("[y/p/n/q]? ");
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

/// One that never answers is waited for a moment only.
#[test]
fn a_terminal_that_does_not_answer_is_asked_at_all_the_same() {
    let mut screen = Screen::open();
    screen.answers_after = None;
    let asking = ask(&screen, samples::command());
    screen.sees("stockade asks: ");
    screen.types("y");
    screen.sees("[y/p/n/q]? ");
    assert!(!asking.is_finished(), "typed before it counted");
    screen.types("y");
    assert_eq!(asking.join().unwrap(), decided(ReviewDecision::Approved));
}

#[test]
fn a_hangup_is_no_answer() {
    let mut screen = Screen::open();
    let asking = ask(&screen, samples::command());
    screen.sees("[y/p/n/q]? ");
    drop(screen);
    let result = asking.join().unwrap();
    assert!(matches!(&result, Err(Unanswered::Gone { why }) if why.contains("hung up")), "{result:?}");
}

#[test]
fn a_question_that_is_called_off_goes_away_at_once() {
    let mut screen = Screen::open();
    let terminal = terminal(&screen);
    let asking = std::thread::spawn(move || {
        wait(async {
            let limit = Duration::from_secs(2);
            let result = tokio::time::timeout(limit, terminal.review(Arc::new(samples::command()))).await;
            assert!(result.is_err());
            Instant::now()
        })
    });
    screen.sees("[y/p/n/q]? ");
    let ended = asking.join().unwrap();
    assert!(screen.is_as_before());
    assert!(ended.elapsed() < Duration::from_secs(1));
    screen.sees("The question was called off.");
}

#[test]
fn questions_are_asked_one_after_the_other() {
    let mut screen = Screen::open();
    let terminal = terminal(&screen);
    let asking = std::thread::spawn(move || {
        wait(async {
            let (first, second) = (Arc::new(samples::command()), Arc::new(samples::network()));
            tokio::join!(terminal.review(first), terminal.review(second))
        })
    });
    let shown = screen.sees("[y/p/n/q]? ");
    std::thread::sleep(QUIET);
    screen.look(Duration::ZERO);
    assert!(!shown.contains("registry.npmjs.org") && screen.seen.is_empty(), "{shown}{}", screen.seen);
    screen.types("y");
    screen.sees("[y/p/2/d/n/x/q]? ");
    screen.types("d");
    let (first, second) = asking.join().unwrap();
    assert_eq!(first, decided(ReviewDecision::Approved));
    assert!(matches!(second.unwrap().decision, ReviewDecision::NetworkPolicyAmendment { .. }));
}

/// Asks on the terminal of its process and prints the result. Other tests start it.
#[test]
#[ignore = "a role that other tests start in a process of its own"]
fn role() {
    let Some(person) = person(Vec::new(), Lifetime::Run) else { return println!("no terminal") };
    println!("answered: {:?}", wait(person.review(Arc::new(samples::command()))));
}

/// Starts the role in its own session with this terminal, by a shell command in which `"$@"` stands for it.
fn start(screen: &Screen, shell: &str) -> Child {
    start_session(&["--ctty"], Stdio::from(screen.inside.try_clone().unwrap()), shell)
}

#[expect(clippy::disallowed_methods, reason = "the test harness starts processes")]
fn start_session(options: &[&str], input: Stdio, shell: &str) -> Child {
    let role = ["--ignored", "--exact", "--nocapture", "terminal::pty_tests::role"];
    // Resets signals that the shell of the test run ignores.
    Command::new("env")
        .args(["--default-signal", "setsid"])
        .args(options)
        .args(["--wait", "bash", "-c", shell, "bash"])
        .arg(std::env::current_exe().unwrap())
        .args(role)
        .stdin(input)
        .stdout(Stdio::piped())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .spawn()
        .unwrap()
}

fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_terminal_of_the_process_is_asked_in_colour() {
    let mut screen = Screen::open();
    let child = start(&screen, r#"exec "$@" </dev/null"#);
    let shown = screen.sees("[y/p/n/q]? ");
    assert!(shown.contains("\u{1b}[1mstockade asks: may this command run?\u{1b}[0m"), "{shown}");
    screen.types("y");
    let said = said(child);
    assert!(said.contains("answered: Ok(Answer { decision: Approved,"), "{said}");
    assert!(screen.is_as_before());
}

#[test]
fn without_a_terminal_nobody_is_waited_for() {
    let child = start_session(&[], Stdio::null(), r#"exec "$@""#);
    let said = said(child);
    assert!(said.contains("no terminal"), "{said}");
}

#[test]
fn in_the_background_nobody_is_waited_for() {
    let screen = Screen::open();
    let child = start(&screen, r#"set -m; "$@" & wait"#);
    let said = said(child);
    assert!(said.contains("bring it to the foreground"), "{said}");
    assert!(screen.is_as_before());
}

#[test]
fn signals_give_the_terminal_back_and_still_end_the_program() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::HUP, 1), (Signal::ABORT, 6)] {
        let mut screen = Screen::open();
        let child = start(&screen, r#"echo $$ >/dev/tty; exec "$@""#);
        let first = screen.sees("\n");
        let pid = Pid::from_raw(first.trim().parse().unwrap()).unwrap();
        screen.sees("[y/p/n/q]? ");
        assert!(!screen.is_as_before());
        kill_process(pid, signal).unwrap();
        let status = child.wait_with_output().unwrap().status;
        assert!(screen.is_as_before(), "{signal:?}");
        assert_eq!(status.signal(), Some(number), "{signal:?}");
    }
}
