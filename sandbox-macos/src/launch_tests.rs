//! The plumbing around `sandbox-exec`, with a stand-in that takes the same arguments and confines nothing.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;

use rustix::fs::OFlags;
use rustix::process::Signal;
use stockade_protocol::{Access, Argv, FileRule, FileRules, Permissions, ResourceLimits};
use stockade_sandboxing::{CommandSpec, RealFiles, Running as _};

use super::*;
use crate::seatbelt::Seatbelt;

/// Notes its arguments, one a line, and becomes the command.
const STAND_IN: &str = r#"#!/bin/sh
for word; do printf '%s\n' "$word"; done > "${0%/*}/arguments"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"#;

struct Host {
    directory: TempDir,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("sandbox-exec");
        fs::write(&program, STAND_IN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["T", "C", "w"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn plan(&self, words: &[&str], permissions: Permissions) -> SeatbeltPlan {
        let command = CommandSpec {
            argv: Argv::parse(words.iter().copied()).unwrap(),
            cwd: AbsPath::from_path(&self.path("w")).unwrap(),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "1 2".into())]),
            process: Default::default(),
        };
        Seatbelt::new().plan_on(&command, &permissions, None, &RealFiles).unwrap()
    }

    fn start(&self, plan: &SeatbeltPlan, stdio: Stdio) -> Result<RunningCommand, SpawnError> {
        let (temporary, cache) = (self.path("T"), self.path("C"));
        let places = Places { temporary: &temporary, cache: &cache };
        start_with(&self.path("sandbox-exec"), places, plan, stdio)
    }

    /// Runs a shell line to its end, and gives what it wrote.
    fn shell(&self, line: &str, permissions: Permissions) -> (String, Option<WaitStatus>) {
        let (mut output, theirs) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(theirs.into()), ..Stdio::default() };
        let mut running = self.start(&self.plan(&["sh", "-c", line], permissions), stdio).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        (text, running.wait(None).unwrap())
    }
}

fn rules(list: &[(&Path, Access)]) -> Permissions {
    let rules = list.iter().map(|(path, access)| FileRule::path(AbsPath::from_path(path).unwrap(), *access));
    Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() }
}

#[test]
fn a_command_is_told_nothing_but_its_own_environment() {
    let host = Host::new();
    let (text, status) = host.shell("/usr/bin/env; pwd -P; exit 7", Permissions::default());
    let mut lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("_=") && !line.starts_with("SHLVL=")).collect();
    lines.sort_unstable();
    let cwd = host.path("w").display().to_string();
    assert_eq!(lines, [cwd.as_str(), "A=1 2", "PATH=/usr/bin:/bin", &format!("PWD={cwd}")]);
    assert_eq!(status, Some(WaitStatus::Exited(7)));
}

#[test]
fn paths_are_arguments_and_the_command_comes_last() {
    let host = Host::new();
    let odd = host.path("w/-p (allow default) \"x\" $(id)");
    fs::create_dir(&odd).unwrap();
    host.shell("true", rules(&[(&odd, Access::Read)]));
    let arguments = fs::read_to_string(host.path("arguments")).unwrap();
    let value = format!("PATH_0={}", odd.display());
    assert!(arguments.starts_with("-p\n; What every command may do"), "{arguments}");
    assert!(arguments.lines().any(|line| line == value), "{arguments}");
    assert_eq!(arguments.matches("$(id)").count(), 1, "a path stands in its parameter alone");
    assert!(arguments.ends_with("--\nsh\n-c\ntrue\n"), "{arguments}");
}

#[test]
fn private_directories_are_there_while_the_command_runs() {
    let host = Host::new();
    let tmp = host.path("tmp");
    fs::create_dir(&tmp).unwrap();
    let line = "echo $TMPDIR; echo x > $TMPDIR/x; ls -ld $TMPDIR; ls -ld ../C/$DIRHELPER_USER_DIR_SUFFIX";
    let (text, _) = host.shell(line, rules(&[(&tmp, Access::Scratch)]));
    let path = Path::new(text.lines().next().unwrap());
    assert_eq!(path.parent().unwrap(), host.path("T"));
    assert!(text.lines().skip(1).all(|line| line.starts_with("drwx------")), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    let arguments = fs::read_to_string(host.path("arguments")).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    for (parameter, place) in [("SCRATCH", "T"), ("CACHE", "C")] {
        let value = format!("{parameter}={}", host.path(place).join(name).display());
        assert!(arguments.lines().any(|line| line == value), "{value} in {arguments}");
        assert!(fs::read_dir(host.path(place)).unwrap().next().is_none(), "{place} is empty again");
    }
}

/// `mktemp`, Foundation and Java follow the suffix, the others a variable of their own.
#[test]
fn programs_that_ignore_the_temporary_directory_are_led_to_it() {
    let host = Host::new();
    let tmp = host.path("tmp");
    fs::create_dir(&tmp).unwrap();
    let line = "for name in TMPDIR DIRHELPER_USER_DIR_SUFFIX xcrun_db CLANG_MODULE_CACHE_PATH TMPPREFIX; do \
                eval echo $name=\\$$name; done";
    let (text, _) = host.shell(line, rules(&[(&tmp, Access::Scratch)]));
    let found: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let suffix = found["DIRHELPER_USER_DIR_SUFFIX"];
    let (temporary, cache) = (host.path("T").join(suffix), host.path("C").join(suffix));
    assert!(!suffix.is_empty() && !suffix.contains('/'), "{text}");
    assert_eq!(Path::new(found["TMPDIR"]), temporary);
    assert_eq!(Path::new(found["TMPPREFIX"]).parent(), Some(temporary.as_path()));
    for name in ["xcrun_db", "CLANG_MODULE_CACHE_PATH"] {
        assert_eq!(Path::new(found[name]).parent(), Some(cache.as_path()), "{name}");
    }
    // What the command's environment says of its own caches stays.
    let mut plan = host.plan(&["sh", "-c", "echo $CLANG_MODULE_CACHE_PATH > seen"], rules(&[(&tmp, Access::Scratch)]));
    plan.command.environment.insert("CLANG_MODULE_CACHE_PATH".into(), "/w/modules".into());
    host.start(&plan, Stdio::default()).unwrap().wait(None).unwrap();
    assert_eq!(fs::read_to_string(host.path("w/seen")).unwrap(), "/w/modules\n");
}

/// Python's multiprocessing puts a socket two names below the temporary directory. Its address holds 104 bytes with a
/// final zero, of which the system's part of the path takes 56.
#[test]
fn a_socket_of_python_fits_below_a_private_directory() {
    let host = Host::new();
    let (temporary, cache) = (host.path("T"), host.path("C"));
    let private = private_directories(Places { temporary: &temporary, cache: &cache }).unwrap();
    let system = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T";
    let name = private.temporary.path().file_name().unwrap().to_str().unwrap();
    let socket = format!("{system}/{name}/pymp-abcdefgh/listener-abcdefgh");
    assert!(socket.len() < 104, "{} bytes", socket.len());
}

/// Waits until a process has ended, and leaves it to be waited for.
fn until_ended(leader: Pid) -> WaitStatus {
    loop {
        match sys::peek(leader) {
            Some(status) => return status,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// 64, 65, 71 and 77 are codes of commands as well: of `sandbox-exec` only as long as it has not become the command.
#[test]
#[expect(clippy::disallowed_methods, reason = "the stand-in is started without what waits for it")]
fn a_command_may_end_with_the_codes_of_the_launcher() {
    let host = Host::new();
    let judge = |program: &Path, line: &str| {
        let mut child = Command::new(program).args(["-p", "", "--", "sh", "-c", line]).spawn().unwrap();
        let judged = ended(leader(&child).unwrap(), until_ended(leader(&child).unwrap()));
        child.wait().unwrap();
        judged
    };
    let fails = host.path("w/sandbox-exec");
    fs::write(&fails, "#!/bin/sh\nexit 65\n").unwrap();
    fs::set_permissions(&fails, fs::Permissions::from_mode(0o755)).unwrap();
    for code in [0, 1, 64, 65, 71, 77] {
        let report = judge(&host.path("sandbox-exec"), &format!("exit {code}")).unwrap();
        assert_eq!(report.status, LayerStatus::FullyEnforced, "{code}");
    }
    let error = judge(&fails, "exit 0").unwrap_err().to_string();
    assert!(error.contains("apply the profile"), "{error}");
}

#[test]
fn nothing_of_the_callers_is_open_in_the_command() {
    let host = Host::new();
    let leaked = rustix::fs::open(host.path("w"), OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    assert!(!rustix::io::fcntl_getfd(&leaked).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let number = leaked.as_raw_fd();
    let (text, _) = host
        .shell(&format!("[ -e /dev/fd/{number} ] && echo open; [ -e /dev/fd/1 ] && echo out"), Permissions::default());
    assert_eq!(text, "out\n");
}

#[test]
fn a_directory_is_no_standard_stream() {
    let host = Host::new();
    let directory =
        rustix::fs::open(host.path("w"), OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap();
    let stdio = Stdio { stdin: Streams::To(directory), ..Stdio::default() };
    let error = host.start(&host.plan(&["true"], Permissions::default()), stdio).unwrap_err();
    assert!(matches!(error, SpawnError::Setup { .. }), "{error}");
}

#[test]
fn limits_hold_and_the_session_is_new() {
    let host = Host::new();
    let limits: ResourceLimits = stockade_protocol::parse(r#"{"open_files":33,"cpu_seconds":44}"#).unwrap();
    let permissions = Permissions { limits, ..Permissions::default() };
    let (text, _) = host.shell("ulimit -n; ulimit -t; ulimit -c; ps -o sid=,pgid= -p $$; echo $$", permissions);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[..3], ["33", "44", "0"]);
    assert_eq!(words[3..5], [words[5], words[5]], "it leads its own session and group");
}

#[test]
fn signals_that_the_caller_ignores_work_in_the_command() {
    let host = Host::new();
    let (_, status) = host.shell("kill -PIPE $$; exit 3", Permissions::default());
    assert_eq!(status, Some(WaitStatus::Signaled(Signal::PIPE.as_raw())));
}

#[test]
fn a_program_that_is_missing_is_told_apart_from_one_that_fails() {
    let host = Host::new();
    fs::write(host.path("w/data"), "").unwrap();
    let start =
        |word: &str| host.start(&host.plan(&[word], Permissions::default()), Stdio::default()).map(drop).unwrap_err();
    assert!(matches!(start("no-such-program"), SpawnError::NotFound { .. }));
    assert!(matches!(start("./no-such-program"), SpawnError::NotFound { .. }));
    assert!(matches!(start("./data"), SpawnError::NotExecutable { .. }));
}

#[test]
fn everything_in_the_group_ends_with_the_command() {
    let host = Host::new();
    let file = host.path("pid");
    let line = format!("sleep 600 & echo $! > '{}'; exit 0", file.display());
    let (_, status) = host.shell(&line, Permissions::default());
    assert_eq!(status, Some(WaitStatus::Exited(0)));
    assert!(!is_running(&fs::read_to_string(file).unwrap()));
}

#[test]
fn dropping_a_command_kills_it() {
    let host = Host::new();
    let file = host.path("pid");
    let line = format!("echo $$ > '{}'; sleep 600; :", file.display());
    let mut running = host.start(&host.plan(&["sh", "-c", &line], Permissions::default()), Stdio::default()).unwrap();
    assert_eq!(running.wait(Some(Duration::from_millis(20))).unwrap(), None);
    let pid = loop {
        match fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => break text,
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(is_running(&pid));
    drop(running);
    assert!(!is_running(&pid));
}

#[test]
fn killing_and_signalling_reach_the_command() {
    let host = Host::new();
    for (signal, expected) in [(15, Signal::TERM), (9, Signal::KILL)] {
        let plan = host.plan(&["sleep", "600"], Permissions::default());
        let mut running = host.start(&plan, Stdio::default()).unwrap();
        running.signal(signal).unwrap();
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Signaled(expected.as_raw())));
        running.signal(signal).unwrap();
        running.kill().unwrap();
    }
}

#[test]
fn what_was_not_read_back_is_not_called_enforced() {
    let host = Host::new();
    let running = host.start(&host.plan(&["true"], Permissions::default()), Stdio::default()).unwrap();
    let layer = running.enforcement().layers.first().unwrap();
    assert_eq!((layer.layer.as_str(), layer.status), ("seatbelt", LayerStatus::NotEnforced));
}

#[test]
fn the_streams_lead_where_they_were_told() {
    let host = Host::new();
    let (input, mut ours) = io::pipe().unwrap();
    let (mut errors, theirs) = io::pipe().unwrap();
    let stdio = Stdio { stdin: Streams::To(input.into()), stderr: Streams::To(theirs.into()), ..Stdio::default() };
    let mut running = host.start(&host.plan(&["sh", "-c", "cat >&2"], Permissions::default()), stdio).unwrap();
    ours.write_all(b"through").unwrap();
    drop(ours);
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), running.wait(None).unwrap()), ("through", Some(WaitStatus::Exited(0))));
}

fn is_running(pid: &str) -> bool {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    // A process that has ended and waits for a parent that does not look is not running.
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    let is_zombie = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
    rustix::process::test_kill_process(pid).is_ok() && !is_zombie
}
