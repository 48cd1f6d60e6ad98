//! `stockade serve`: sessions for other programs, in JSON-RPC 2.0.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stockade_server::wire::Methods;
use stockade_server::{Server, Sessions, SessionsOptions};

use crate::args::Serve;
use crate::exit::Failure;

/// Worker threads for requests. Commands have their own threads.
const WORKERS: usize = 4;

/// The time limit for commands to end with the server. The rest ends with this process.
const TIME_TO_CLOSE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Serve) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let result = runtime.block_on(serve(args));
    // Standard input may be read by a thread that can't be woken.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

async fn serve(args: &Serve) -> Result<(), Failure> {
    let ending = ending_signal()?;
    match &args.socket {
        #[cfg(unix)]
        Some(path) => serve_socket(args, path.as_deref(), ending).await,
        #[cfg(not(unix))]
        Some(_) => Err(NoSockets.into()),
        None => serve_stdio(args, ending).await,
    }
}

async fn serve_stdio(args: &Serve, ending: impl Future<Output = ()>) -> Result<(), Failure> {
    let sessions = Sessions::new(SessionsOptions { linger: args.linger, ..SessionsOptions::default() });
    let server = Server::new(Arc::new(sessions.clone()));
    let own = server.clone();
    // It continues until its last line is written.
    let mut serving = tokio::spawn(async move { own.serve_stdio().await });
    tokio::select! {
        _ = &mut serving => {}
        () = sessions.shutdown_requested() => {}
        () = ending => {}
    }
    end(&server, &sessions).await;
    Ok(())
}

/// Closes the sessions and their commands, and notifies the clients.
async fn end<M: Methods>(server: &Server<M>, sessions: &Sessions) {
    tokio::time::timeout(TIME_TO_CLOSE, sessions.close_all("the server ends")).await.ok();
    server.stop();
    server.ended().await;
}

#[cfg(not(unix))]
#[derive(Debug, thiserror::Error)]
#[error("there are no unix sockets on this system: leave --socket out, and speak over standard input and output")]
struct NoSockets;

#[cfg(unix)]
#[derive(Debug, thiserror::Error)]
#[error("there is no place for the socket: set XDG_RUNTIME_DIR or HOME, or name one with --socket PATH")]
struct NoPlace;

#[cfg(unix)]
async fn serve_socket(
    args: &Serve,
    path: Option<&std::path::Path>,
    ending: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let path = match path {
        Some(path) => std::path::absolute(path)?,
        None => stockade_server::standard_socket(stockade_config::user_variable).ok_or(NoPlace)?,
    };
    let directory = path.parent().map(std::path::Path::to_owned);
    // First, so that no command of any run ever sees it.
    if let Some(directory) = &directory {
        stockade_config::ConfigLoader::standard()?.record_server(directory)?;
    }
    let socket = stockade_server::BoundSocket::bind(&path)?;
    let options = SessionsOptions {
        linger: args.linger,
        own_files: directory.into_iter().collect(),
        ..SessionsOptions::default()
    };
    let sessions = Sessions::new(options);
    let server = Server::new(Arc::new(sessions.clone()));
    crate::exit::note(&format!("serving on {}", socket.path().display()));
    let (own, open, after) = (server.clone(), sessions.clone(), args.idle);
    // A task of the workers: otherwise this thread would be woken for every connection, only to wake a worker.
    let mut serving = tokio::spawn(async move {
        tokio::select! {
            () = own.serve_socket(&socket, crate::exit::note) => {}
            () = idle(after, &own, &open) => {}
        }
    });
    tokio::select! {
        _ = &mut serving => {}
        () = ending => serving.abort(),
    }
    // The socket is removed with its task: no new client can connect.
    if !serving.is_finished() {
        serving.await.ok();
    }
    end(&server, &sessions).await;
    Ok(())
}

/// Returns once there has been neither a session nor a connection for this time; never if `after` is `None`.
#[cfg(unix)]
async fn idle<M: Methods>(after: Option<Duration>, server: &Server<M>, sessions: &Sessions) {
    let Some(after) = after else { return std::future::pending().await };
    let (mut connections, mut open) = (server.connections(), sessions.open_sessions());
    loop {
        let is_idle = *connections.borrow_and_update() == 0 && *open.borrow_and_update() == 0;
        tokio::select! {
            changed = connections.changed() => if changed.is_err() { return },
            changed = open.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(after), if is_idle => return,
        }
    }
}

/// Returns at a terminating signal. A signal that was ignored at the start stays ignored.
#[cfg(unix)]
pub(crate) fn ending_signal() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    let mut signals: Vec<Signal> = Vec::new();
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !crate::sys::is_ignored(number) {
            signals.push(signal(SignalKind::from_raw(number))?);
        }
    }
    Ok(std::future::poll_fn(move |context| {
        let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    }))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "watching signals can fail on other systems")]
fn ending_signal() -> Result<impl Future<Output = ()>, Failure> {
    Ok(async {
        tokio::signal::ctrl_c().await.ok();
    })
}
