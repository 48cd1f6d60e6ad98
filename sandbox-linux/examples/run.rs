//! Runs a command in a sandbox that may write the working directory and reach no network:
//! `cargo run -p stockade-sandbox-linux --example run -- sh -c 'echo hi > inside; echo x > /etc/x'`
//! `ENGINE=native`, `bwrap` or `landlock` chooses one; otherwise the strongest that works is taken.

use std::process::ExitCode;

use stockade_protocol::{AbsPath, Argv, EnvironmentPolicy, HostPaths, RawText, SandboxPolicy};
use stockade_sandbox_linux::{Auto, Bwrap, LandlockOnly, Loss, Native};
use stockade_sandboxing::{Backend, CommandSpec, Stdio, WaitStatus};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let cwd = AbsPath::from_path(&std::env::current_dir()?)?;
    let home = std::env::var("HOME")?.parse()?;
    let permissions = SandboxPolicy::workspace_write().resolve(&HostPaths::new([cwd.clone()], &home)?)?;
    let bytes = |text: std::ffi::OsString| RawText::from(text.into_encoded_bytes());
    let inherited = std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value)));
    let environment = EnvironmentPolicy::default().apply(inherited);
    let command = CommandSpec {
        argv: Argv::from_os(std::env::args_os().skip(1))?,
        cwd,
        environment,
        process: Default::default(),
    };

    let engine: Box<dyn Backend> = match std::env::var("ENGINE").as_deref() {
        Ok("native") => Box::new(Native::new()),
        Ok("bwrap") => Box::new(Bwrap::new()),
        Ok("landlock") => Box::new(
            LandlockOnly::new()
                .accepting(Loss::ProtectedMetadata)
                .accepting(Loss::Credentials)
                .accepting(Loss::PrivateDirectories),
        ),
        Ok(_) | Err(_) => Box::new(Auto::new()),
    };
    let plan = engine.compile(&command, &permissions)?;
    let mut running = plan.spawn(Stdio::inherit())?;
    let status = running.wait(None)?;
    for layer in &running.enforcement().layers {
        eprintln!("{:?} {}", layer.status, layer.layer);
    }
    Ok(match status {
        Some(WaitStatus::Exited(code)) => ExitCode::from(u8::try_from(code)?),
        Some(WaitStatus::Signaled(signal)) => ExitCode::from(u8::try_from(128 + signal)?),
        None => ExitCode::FAILURE,
    })
}
