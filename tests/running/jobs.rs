//! The program among others: in a shell's job, in a pipeline, with streams that are redirected or take nothing.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, tcflow};
use stockade_tests::screen::Screen;

use super::home::{Home, said};
use crate::support::program;

/// Longer than anything takes that must not be held up.
const SOON: Duration = Duration::from_secs(20);

/// A shell line in a terminal. `stockade` is this program.
fn shell(home: &Home, options: &[&str], line: &[&str]) -> Screen {
    let mut screen = Screen::open();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait", "bash", "--norc"]).args(options).args(line);
    home.surround(&mut command);
    command.env("NO_COLOR", "1").env("PS1", "prompt: ").env("PATH", path(home));
    screen.start(&mut command);
    screen
}

fn path(home: &Home) -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", home.path("").display())
}

fn line(home: &Home, line: &str) -> Screen {
    shell(home, &["-c"], &[line])
}

/// A shell line without a terminal, whose standard error is not read.
fn unread(home: &Home, line: &str) -> Child {
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--wait", "bash", "--norc", "-c", line]);
    home.surround(&mut command);
    command.env("PATH", path(home)).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ends_soon(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > SOON {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid(screen: &mut Screen) -> Pid {
    screen.sees("pid:");
    Pid::from_raw(screen.sees("\r\n").trim().parse().unwrap()).unwrap()
}

/// Whichever streams are redirected, the person's terminal is not the command's.
#[test]
fn a_redirected_stream_does_not_hand_out_the_terminal() {
    let command = "stockade run -- sh -c 'for n in 0 1 2; do test -t $n && readlink /proc/self/fd/$n >> names; done; \
        test -t 0 && stty -echo -icanon -isig; stty -echo -icanon -isig </dev/tty; echo done'";
    for redirected in ["2>log", ">file", "| cat", "</dev/null", ">file 2>log", "2>&1 </dev/null | cat", ""] {
        let home = Home::new();
        let mut screen = line(&home, &format!("tty > own; {command} {redirected}"));
        // The terminal has to be as it was.
        let (exit_code, shown) = screen.ends();
        assert_eq!(exit_code, 0, "{redirected}: {shown}");
        let own = home.read("ws/own");
        let names = if home.exists("ws/names") { home.read("ws/names") } else { String::new() };
        assert!(!names.contains(own.trim()), "{redirected}: {names} {own}");
        assert!(!shown.contains("\n\n") && !shown.contains("\r\r"), "{redirected}: {shown:?}");
    }
}

/// Keys are the command's, also in a pipeline, unless another program of it wants them.
#[test]
fn keys_go_to_the_program_that_wants_them() {
    let home = Home::new();
    let mut screen = line(&home, "stockade run -- sh -c 'echo ready >&2; exec cat' | sed -u s/^/got:/");
    screen.sees("ready");
    std::thread::sleep(Duration::from_millis(200));
    screen.types("word\r");
    screen.sees("got:word");
    screen.types("\u{4}");
    let (exit_code, shown) = screen.ends();
    assert_eq!(exit_code, 0, "{shown}");

    let pager = "sh -c 'stty -icanon -echo </dev/tty; echo pager; key=$(head -c1 </dev/tty); stty icanon echo </dev/tty; \
        echo key:$key'";
    let mut screen = line(&home, &format!("stockade run -- sleep 3 | {pager}"));
    screen.sees("pager");
    std::thread::sleep(Duration::from_millis(500));
    screen.types("k");
    screen.sees("key:k");
    assert_eq!(screen.ends().0, 0);

    // Another one reads what stands before the command.
    let mut screen = line(&home, "(read word; echo $word) | stockade run -- sh -c 'echo ready >&2; cat'");
    screen.sees("ready");
    std::thread::sleep(Duration::from_millis(300));
    screen.types("mine\r");
    screen.sees("mine\r\nmine");
    assert_eq!(screen.ends().0, 0);
}

/// With its input from elsewhere a command finds a terminal all the same, as a pager has to.
#[test]
fn a_command_with_piped_input_finds_its_terminal() {
    let home = Home::new();
    let asks =
        "stty -icanon -echo </dev/tty; echo ready >/dev/tty; key=$(head -c1 </dev/tty); echo got:$key; cat; exit 4";
    let mut screen = line(&home, &format!("echo fed | stockade run -- sh -c '{asks}'"));
    screen.sees("ready");
    std::thread::sleep(Duration::from_millis(300));
    screen.types("k");
    screen.sees("got:k");
    screen.sees("fed");
    assert_eq!(screen.ends().0, 4);
}

/// A command may close its terminal before it ends, and open it again.
#[test]
fn a_terminal_that_was_closed_is_not_hung_up() {
    let home = Home::new();
    for _ in 0..10 {
        let closes = "stockade run -- sh -c 'exec <&- >&- 2>&-; sleep 0.1; echo again >/dev/tty; exit 7'";
        let (exit_code, shown) = line(&home, closes).ends();
        assert_eq!((exit_code, shown.as_str()), (7, "again\r\n"));
    }
}

#[test]
fn ctrl_c_three_times_ends_what_ignores_it() {
    let home = Home::new();
    let stubborn = "stockade run -- sh -c 'trap \"\" INT; echo ready >&2; while :; do sleep 0.05; done'";
    for redirected in ["", "| cat", "2>&1 </dev/null"] {
        let mut screen = line(&home, &format!("{stubborn} {redirected}"));
        screen.sees("ready");
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            screen.types("\u{3}");
        }
        let (exit_code, shown) = screen.ends();
        assert_eq!(exit_code, 130, "{redirected}: {shown}");
        assert!(!shown.contains("too long"), "{redirected}: {shown}");
    }
}

/// What waits for single keys makes its own use of Ctrl-C.
#[test]
fn ctrl_c_is_a_key_where_keys_are_waited_for() {
    let home = Home::new();
    let reads = "stty -icanon; trap \"echo told\" INT; echo ready; while ! read -t 1 word; do :; done; exit 6";
    let mut screen = line(&home, &format!("stockade run -- bash -c '{reads}'"));
    screen.sees("ready");
    for _ in 0..4 {
        screen.types("\u{3}");
        screen.sees("told");
    }
    screen.types("word\n");
    assert_eq!(screen.ends().0, 6);
}

/// Ctrl-Z stops the command and all that it has started, and `fg` has it go on.
#[test]
fn ctrl_z_suspends_the_whole_job() {
    let home = Home::new();
    let counts = "sh -c 'echo started; (while :; do echo x >> f; sleep 0.02; done) & wait'";
    for redirected in ["", "2>log", "| cat"] {
        let mut screen = shell(&home, &["-i"], &[]);
        screen.sees("prompt: ");
        screen.types(&format!("stockade run -- {counts} {redirected}\r"));
        screen.sees("started\r\n");
        std::thread::sleep(Duration::from_millis(300));
        screen.types("\u{1a}");
        screen.sees("Stopped");
        screen.sees("prompt: ");
        let lines = || home.read("ws/f").lines().count();
        let before = lines();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(lines(), before, "{redirected}: it goes on");
        screen.types("fg\r");
        let start = Instant::now();
        while lines() == before {
            assert!(start.elapsed() < SOON, "{redirected}: it does not go on");
        }
        screen.types("\u{3}");
        screen.sees("prompt: ");
        screen.types("exit 0\r");
        screen.ends();
        std::fs::remove_file(home.path("ws/f")).unwrap();
    }
}

/// In the background nothing is read from the terminal, and nothing is stopped for trying to.
#[test]
fn a_job_in_the_background_runs() {
    let home = Home::new();
    let mut screen = shell(&home, &["-i"], &[]);
    screen.sees("prompt: ");
    screen.types("stockade run -- sh -c 'sleep 0.5; echo made > f' & wait; cat f\r");
    screen.sees("made\r\n");
    screen.types("exit 0\r");
    assert_eq!(screen.ends().0, 0);
}

/// What was ignored when the program was started stays ignored, by it and by the command.
#[test]
fn what_was_ignored_stays_ignored() {
    let home = Home::new();
    let line = "trap '' HUP INT; stockade run -- sh -c 'echo $$ > started; while ! test -e go; do sleep 0.05; done; \
        kill -HUP $$; kill -INT $$; echo alive' & echo pid:$!; wait $!; echo ended:$?";
    let mut screen = self::line(&home, line);
    let pid = pid(&mut screen);
    let start = Instant::now();
    while !home.exists("ws/started") {
        assert!(start.elapsed() < SOON, "it never started");
    }
    for signal in [Signal::HUP, Signal::INT, Signal::INT, Signal::INT, Signal::INT] {
        kill_process(pid, signal).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    home.write("ws/go", "");
    screen.sees("alive");
    screen.sees("ended:0");
    screen.ends();
}

/// The signal of a broken pipe is ignored by the command if the program's caller ignores it, and not otherwise.
#[test]
fn broken_pipes_do_what_they_do_for_the_caller() {
    const SIGPIPE: u64 = 1 << 12;
    let home = Home::new();
    for (ignored, option) in [(false, "--default-signal=PIPE"), (true, "--ignore-signal=PIPE")] {
        for options in [&["--engine", "native"][..], &["--engine", "bwrap"], &["--sandbox", "danger-full-access"]] {
            let mut command = crate::support::program("env");
            home.surround(&mut command);
            command.arg(option).args(home.words()).arg("run").args(options);
            command.args(["--", "grep", "SigIgn:", "/proc/self/status"]).stdin(Stdio::null());
            let output = command.output().unwrap();
            let said = crate::support::text(&output.stdout);
            let mask = said.trim().rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok());
            let mask = mask.unwrap_or_else(|| panic!("{options:?}: {said} {}", crate::support::text(&output.stderr)));
            assert_eq!(mask & SIGPIPE != 0, ignored, "{options:?}");
        }
    }
}

/// A question is ended by a signal, and leaves the terminal as it was.
#[test]
fn a_signal_ends_a_question() {
    for (signal, exit_code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let home = Home::new();
        let mut screen = line(&home, "echo pid:$$; exec stockade run --ask untrusted -- mkdir made");
        let pid = pid(&mut screen);
        screen.sees("]? ");
        kill_process(pid, signal).unwrap();
        let (found, shown) = screen.ends();
        assert_eq!(found, exit_code, "{shown}");
        assert!(!home.exists("ws/made"));
    }
}

/// Standard error that is not read holds up neither a limit nor a signal.
#[test]
fn an_unread_stream_holds_nothing_up() {
    let home = Home::new();
    let mut child = unread(&home, "exec stockade run --timeout 1s -- sh -c 'yes >&2'");
    assert_eq!(ends_soon(&mut child), Some(124));
    let mut child = unread(&home, "exec stockade run -- sh -c 'yes >&2'");
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(ends_soon(&mut child), Some(143));
    // What is in the pipe already leaves no room for a message.
    let mut child = unread(&home, "head -c 65536 /dev/zero >&2; exec stockade run --unsandboxed -- true");
    assert_eq!(ends_soon(&mut child), Some(126));
    let mut child = unread(&home, "exec 2>&-; exec stockade run -- sh -c 'echo x >&2; exit 3'");
    assert_eq!(ends_soon(&mut child), Some(3));
}

/// A reader that has seen enough ends the command, whichever stream it read.
#[test]
fn a_reader_of_messages_that_goes_away_ends_the_command() {
    let home = Home::new();
    let mut child = unread(&home, "stockade run -- sh -c 'yes >&2' 2>&1 | head -1; exit ${PIPESTATUS[0]}");
    assert_eq!(ends_soon(&mut child), Some(141));
}

/// Nothing is lost for a reader that takes its time.
#[test]
fn a_slow_reader_gets_everything() {
    let home = Home::new();
    let mut child = unread(&home, "stockade run -- sh -c 'seq 100000 >&2'");
    std::thread::sleep(Duration::from_secs(2));
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 100_000);
    assert_eq!(ends_soon(&mut child), Some(0));
}

/// A terminal that was stopped holds up neither a limit nor a signal, and is given back.
#[test]
fn a_stopped_terminal_holds_nothing_up() {
    for signal in [None, Some(Signal::TERM)] {
        let home = Home::new();
        let limit = if signal.is_none() { "--timeout 2s" } else { "" };
        let mut screen = line(&home, &format!("echo pid:$$; exec stockade run {limit} -- sh -c 'yes >&2'"));
        let pid = pid(&mut screen);
        screen.sees("y\r\ny");
        tcflow(&screen.inside, Action::OOff).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        if let Some(signal) = signal {
            kill_process(pid, signal).unwrap();
        }
        let start = Instant::now();
        while std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
            .is_ok_and(|stat| !stat.contains(") Z "))
        {
            assert!(start.elapsed() < SOON, "{signal:?}: it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        tcflow(&screen.inside, Action::OOn).unwrap();
        assert_eq!(screen.ends().0, if signal.is_some() { 143 } else { 124 });
    }
}

/// A file that may not grow is an error of the call, not the end of the program; the command is ended by the signal.
#[test]
fn a_file_limit_is_an_error() {
    let home = Home::new();
    let run = |line: &str, exit_code: i32| {
        let mut command = program("env");
        command.args(["--default-signal", "setsid", "--wait", "bash", "-c", line]);
        home.surround(&mut command);
        said(command.env("PATH", path(&home)).stdin(Stdio::null()), exit_code).stderr
    };
    let told = run("ulimit -f 1; stockade run -- true", 125);
    assert!(told.contains("raise it (`ulimit -f`)"), "{told}");
    let told = run("ulimit -f 100; exec stockade run -- sh -c 'head -c 999999 /dev/zero > f; exit 3'", 3);
    assert!(!told.contains("audit trail"), "{told}");
    run("ulimit -f 100; exec stockade run -- head -c 999999 /dev/zero", 0);
    run("ulimit -f 100; exec stockade run -- sh -c 'exec head -c 999999 /dev/zero > f'", 128 + 25);
    // A trail that can't grow is treated as the settings say.
    home.write("state/stockade/audit.jsonl", &"\n".repeat(200 * 1024));
    let told = run("ulimit -f 100; exec stockade run -- sh -c 'exit 3'", 3);
    assert!(told.contains("audit trail"), "{told}");
    home.write("config/stockade/config.toml", "[audit]\nrequired = true\n");
    run("ulimit -f 100; exec stockade run -- sh -c 'exit 3'", 125);
}
