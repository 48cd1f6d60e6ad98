//! Streams that a caller gives: a pipe that it writes to, open files, a terminal of its own, and a sink that blocks.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use stockade_core::{Input, InputPipe, Output, OutputSink, ShellRuntime, StreamName, Streaming};
use stockade_protocol::{AskForApproval, ExecExpiration, Outcome, ReviewDecision, TerminalSize};
use stockade_sandboxing::Terminal;

use crate::world::World;

fn with(streaming: Streaming) -> ShellRuntime {
    ShellRuntime { streaming, ..ShellRuntime::default() }
}

fn exit_code(outcome: &Outcome) -> i32 {
    match outcome {
        Outcome::Exited { exit_code, .. } => *exit_code,
        Outcome::Denied { .. }
        | Outcome::Refused(_)
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled { .. }
        | Outcome::Signaled { .. } => {
            panic!("{outcome:?}")
        }
    }
}

fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(outcome.execution().unwrap().stdout.head.as_bytes()).into_owned()
}

#[tokio::test]
async fn a_caller_writes_to_a_running_command() {
    let world = World::new(AskForApproval::Never);
    let (pipe, writer) = InputPipe::new();
    let tool = with(Streaming { stdin: Input::Pipe(pipe), ..Streaming::default() });
    let (run, request) = (world.orchestrator(), world.shell("read first; echo got $first; cat"));
    let write = async {
        writer.write(b"one\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // More than a pipe holds.
        writer.write(&[b'x'; 300_000]).await.unwrap();
        writer.close();
    };
    let (outcome, ()) = tokio::join!(run.run_with(&tool, &request), write);
    let outcome = outcome.unwrap();
    assert_eq!(exit_code(&outcome), 0);
    assert!(printed(&outcome).starts_with("got one\nxxx"));
    assert_eq!(writer.write(b"late").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

/// The one who writes hears of the end, also of a command that never ran.
#[tokio::test]
async fn writing_to_a_command_that_has_ended_or_was_refused_fails() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    for (line, answer) in [("exit 3", ReviewDecision::Approved), ("cat", ReviewDecision::Denied { reason: None })] {
        world.script.say(answer);
        let (pipe, writer) = InputPipe::new();
        let tool = with(Streaming { stdin: Input::Pipe(pipe), ..Streaming::default() });
        let write = tokio::spawn(async move { writer.write(&[b'x'; 1_000_000]).await });
        run.run_with(&tool, &world.shell(&format!("{line}; touch x"))).await.unwrap();
        let written = tokio::time::timeout(Duration::from_secs(10), write).await.unwrap().unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe, "{line}");
    }
}

#[tokio::test]
async fn a_second_run_reads_the_same_input_again() {
    let world = World::new(AskForApproval::OnFailure);
    let outside = world.path("outside/made");
    let (pipe, writer) = InputPipe::new();
    writer.write(b"all of it").await.unwrap();
    writer.close();
    let tool = with(Streaming { stdin: Input::Pipe(pipe), ..Streaming::default() });
    world.script.say(ReviewDecision::Approved);
    let request = world.shell(&format!("cat > read; cat read > {outside}"));
    let outcome = world.orchestrator().run_with(&tool, &request).await.unwrap();
    assert_eq!(exit_code(&outcome), 0);
    assert!(outcome.execution().unwrap().first_attempt.is_some());
    assert_eq!(std::fs::read_to_string(outside.to_host_path().unwrap()).unwrap(), "all of it");
}

/// As with a shell's redirection, what the first run has read is gone.
#[tokio::test]
async fn streams_can_be_files_of_the_callers() {
    let world = World::new(AskForApproval::OnFailure);
    let [input, output, more] = ["outside/in", "outside/out", "outside/more"].map(|name| world.path(name));
    let host = |path: &stockade_protocol::AbsPath| path.to_host_path().unwrap();
    std::fs::write(host(&input), "first\nsecond\n").unwrap();
    let streaming = Streaming {
        stdin: Input::From(Arc::new(File::open(host(&input)).unwrap())),
        stdout: Output::To(Arc::new(File::create(host(&output)).unwrap())),
        ..Streaming::default()
    };
    world.script.say(ReviewDecision::Approved);
    let request = world.shell(&format!("head -n 1; touch {more}"));
    let outcome = world.orchestrator().run_with(&with(streaming), &request).await.unwrap();
    assert_eq!(exit_code(&outcome), 0);
    assert_eq!(printed(&outcome), "", "nothing of it is kept");
    assert_eq!(std::fs::read_to_string(host(&output)).unwrap(), "first\nsecond\n");
}

/// The caller has the one side of a pseudo-terminal, and the command, twice, the other.
#[tokio::test]
async fn a_terminal_of_the_callers_becomes_the_commands_own() {
    let world = World::new(AskForApproval::OnFailure);
    let outside = world.path("outside/made");
    let terminal = Terminal::open(TerminalSize { rows: 11, columns: 77 }).unwrap();
    let theirs = Arc::new(File::from(terminal.theirs));
    let streaming = Streaming {
        stdin: Input::From(Arc::clone(&theirs)),
        stdout: Output::To(Arc::clone(&theirs)),
        stderr: Output::Capture,
        controlling_terminal: true,
        ..Streaming::default()
    };
    world.script.say(ReviewDecision::Approved);
    let request = world.shell(&format!("stty size < /dev/tty > /dev/tty && touch {outside}"));
    let outcome = world.orchestrator().run_with(&with(streaming), &request).await.unwrap();
    assert_eq!(exit_code(&outcome), 0);
    let mut shown = [0; 64];
    let count = File::from(terminal.ours).read(&mut shown).unwrap();
    assert_eq!(String::from_utf8_lossy(&shown[..count]), "11 77\r\n11 77\r\n");
}

/// Takes nothing until it is let go.
#[derive(Debug, Default)]
struct Stuck {
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl OutputSink for Stuck {
    fn write(&self, _: StreamName, _: &[u8]) -> io::Result<()> {
        drop(self.changed.wait_while(self.let_go.lock().unwrap(), |let_go| !*let_go).unwrap());
        Ok(())
    }
}

impl Stuck {
    fn let_go(&self) {
        *self.let_go.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

fn stuck() -> (Arc<Stuck>, ShellRuntime) {
    let sink = Arc::new(Stuck::default());
    let stdout = Output::Tee(Arc::clone(&sink) as Arc<dyn OutputSink>);
    (sink, with(Streaming { stdout, ..Streaming::default() }))
}

/// On one thread: a reader that shared it would hold everything up.
#[tokio::test(flavor = "current_thread")]
async fn a_sink_that_blocks_holds_up_its_own_command_alone() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    let (sink, tool) = stuck();
    let request = world.shell("yes | head -c 1000000; echo done > made");
    let blocked = run.run_with(&tool, &request);
    tokio::pin!(blocked);
    let others = async {
        for _ in 0..3 {
            let outcome = run.run(&world.shell("seq 1 100")).await.unwrap();
            assert!(printed(&outcome).starts_with("1\n2\n"));
        }
    };
    tokio::select! {
        _ = &mut blocked => panic!("it can't have ended"),
        () = others => {}
    }
    assert!(!world.exists("ws/made"), "it waits until its output is taken");
    sink.let_go();
    assert_eq!(exit_code(&blocked.await.unwrap()), 0);
    assert!(world.exists("ws/made"));
}

/// Whether it still runs, or has ended and its output waits.
#[tokio::test(flavor = "current_thread")]
async fn a_command_whose_sink_blocks_for_ever_can_be_ended() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    for line in ["yes", "echo one"] {
        let (sink, tool) = stuck();
        let request = world.shell(line);
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            tool.cancellation.cancel();
        };
        let started = Instant::now();
        let (outcome, ()) = tokio::join!(run.run_with(&tool, &request), cancel);
        assert_eq!(matches!(outcome.unwrap(), Outcome::Cancelled { .. }), line == "yes", "cancelled {line}");

        let (second, tool) = stuck();
        let timeout = ExecExpiration::Timeout { milliseconds: std::num::NonZeroU64::new(300).unwrap() };
        let request = stockade_protocol::ExecRequest { expiration: timeout, ..world.shell(line) };
        let outcome = run.run_with(&tool, &request).await.unwrap();
        assert_eq!(matches!(outcome, Outcome::TimedOut { .. }), line == "yes", "timed out {line}");
        assert!(started.elapsed() < Duration::from_secs(10), "{line}");
        [sink, second].iter().for_each(|sink| sink.let_go());
    }
}
