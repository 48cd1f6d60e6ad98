//! The cost of one command of codex: by codex's own exec-server, and by `stockade exec-server`.
//!
//! One driver speaks to both and has each run `bash -c true` a hundred times, in codex's usual sandbox (everything
//! readable, the workspace writable, no network), alternating, so that other load affects both alike. A command's time
//! is from the request to the notice that its output is closed. Only the ratio of the medians is meaningful.
//! `scripts/test tools` installs the codex that is measured; `STOCKADE_CODEX` names another. `scripts/build && cargo
//! bench -p stockade-cli --bench agents`.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const ROUNDS: usize = 100;
const WARM_UP: usize = 10;

fn main() {
    let Some(codex) = codex() else {
        println!("codex is not installed here: run `scripts/test tools`, or set `STOCKADE_CODEX` to its program");
        return;
    };
    // Not below `/tmp`, which is private inside.
    let directory = tempfile::Builder::new().prefix("stockade-bench").tempdir_in("/var/tmp").unwrap();
    for name in ["home", "ws/.git"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    let built = Path::new(env!("CARGO_BIN_EXE_stockade"));
    let installed = built.parent().unwrap().with_file_name("stockade");
    let program = if installed.is_file() { installed.as_path() } else { built };
    println!("{}\n{}", codex.display(), program.display());
    let mut servers = [
        ("codex exec-server", ExecServer::start(&codex, &["exec-server", "--listen", "stdio"], directory.path())),
        ("stockade exec-server", ExecServer::start(program, &["exec-server"], directory.path())),
    ];
    let mut times = [const { Vec::new() }; 2];
    for round in 0..ROUNDS + WARM_UP {
        for ((_, server), times) in servers.iter_mut().zip(&mut times) {
            let took = server.run(round);
            if round >= WARM_UP {
                times.push(took);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    let at = |times: &[Duration], part: usize| times.get(times.len() * part / 4).copied().unwrap().as_secs_f64() * 1e3;
    let codex = times.first().map(|times| at(times, 2)).unwrap();
    for ((name, _), times) in servers.iter().zip(&times) {
        let (low, median, high) = (at(times, 1), at(times, 2), at(times, 3));
        println!("{name:22} {median:7.2} ms ({low:.2} to {high:.2})  {:.2} x codex", median / codex);
    }
}

/// The program of codex's package, without the script around it.
fn codex() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("STOCKADE_CODEX") {
        return Some(PathBuf::from(named));
    }
    let (machine, host) = match cfg!(target_arch = "aarch64") {
        true => ("arm64", "aarch64"),
        false => ("x64", "x86_64"),
    };
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/clients/node_modules/@openai");
    let program = packages.join(format!("codex-linux-{machine}/vendor/{host}-unknown-linux-musl/bin/codex"));
    std::fs::canonicalize(program).ok()
}

/// A server of codex's protocol, and the connection to it.
struct ExecServer {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    workspace: String,
}

impl Drop for ExecServer {
    fn drop(&mut self) {
        // It ends with its connection.
        self.to = None;
        self.process.wait().ok();
    }
}

impl ExecServer {
    fn start(program: &Path, arguments: &[&str], directory: &Path) -> Self {
        let workspace = directory.join("ws");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&workspace).env_clear();
        command.env("HOME", directory.join("home")).env("PATH", "/usr/bin:/bin");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, from) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut server = Self { process, to, from, workspace: format!("file://{}", workspace.display()) };
        server.tell(&json!({"id": "begin", "method": "initialize", "params": {"clientName": "benchmark"}}));
        while server.hear().get("id") != Some(&json!("begin")) {}
        server.tell(&json!({"method": "initialized"}));
        server
    }

    /// Runs a command, from the request to the end of its output.
    fn run(&mut self, round: usize) -> Duration {
        let special =
            |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
        let files = json!({"type": "restricted",
            "entries": [special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write")]});
        let sandbox = json!({
            "permissions": {"type": "managed", "file_system": files, "network": "restricted"},
            "cwd": self.workspace, "workspaceRoots": [self.workspace],
            "windowsSandboxLevel": "disabled", "windowsSandboxProxySettingsMode": "reconcile", "useLegacyLandlock": false,
        });
        let params = json!({
            "processId": format!("p{round}"), "argv": ["/bin/bash", "-c", "true"], "cwd": self.workspace,
            "env": {"PATH": "/usr/bin:/bin"}, "tty": false, "pipeStdin": false, "arg0": null, "sandbox": sandbox,
            "enforceManagedNetwork": false, "managedNetwork": null,
        });
        let start = Instant::now();
        self.tell(&json!({"id": round, "method": "process/start", "params": params}));
        let mut exit_code = None;
        loop {
            let message = self.hear();
            assert!(message.get("error").is_none(), "{message}");
            match message.get("method").and_then(Value::as_str) {
                Some("process/exited") => exit_code = message.pointer("/params/exitCode").and_then(Value::as_i64),
                Some("process/closed") => break,
                _ => {}
            }
        }
        let took = start.elapsed();
        assert_eq!(exit_code, Some(0));
        took
    }

    fn tell(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the server has ended");
        serde_json::from_str(&line).unwrap()
    }
}
