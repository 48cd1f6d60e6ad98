//! Ending everything that a command has started, and nothing else.
//!
//! `kill(-1)` reaches every process that the caller may signal, at once, so that nothing can fork its
//! way out. That is what is wanted wherever those are the sandbox's processes alone: for the first
//! process of a pid namespace, and for a process whose signals Landlock keeps inside its domain
//! (<https://docs.kernel.org/userspace-api/landlock.html#ipc-scoping>). Anywhere else it would end the
//! caller's other programs, so nothing is started there at all.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys::{self, ECHILD, EINTR, EPERM, Result, SIGKILL};

/// Whether this process's own domain keeps its signals inside.
static KEPT: AtomicBool = AtomicBool::new(false);
/// Whether the launcher is the first process of its pid namespace, as under bubblewrap.
static LAUNCHER_IS_FIRST: AtomicBool = AtomicBool::new(false);

/// The launcher looks once who it is.
pub(crate) fn look() {
    if sys::own_pid() == 1 {
        LAUNCHER_IS_FIRST.store(true, Ordering::Relaxed);
        hide();
    }
}

/// The command has the same user and sees this process: it must not look into it.
fn hide() {
    const PR_SET_DUMPABLE: usize = 4;
    drop(sys::prctl(PR_SET_DUMPABLE, [0; 4]));
}

/// A process that was forked off starts without a domain of its own: it shares its parent's.
pub(crate) fn forked() {
    KEPT.store(false, Ordering::Relaxed);
}

/// Keeps the signals of this process, and of all that it starts, inside a domain.
pub(crate) fn keep_signals() -> Result<()> {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const SCOPE_SIGNALS: u64 = 2;
    sys::prctl(PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0])?;
    let ruleset = sys::landlock_ruleset(&[0, 0, SCOPE_SIGNALS])?;
    let entered = sys::landlock_restrict(ruleset);
    sys::close(ruleset);
    entered?;
    // Asked, not assumed: the process outside that started this one must be out of reach.
    if sys::kill(sys::parent_pid(), 0) != Err(EPERM) {
        return Err(EPERM);
    }
    hide();
    KEPT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether this process has a domain of its own, and no pid namespace that would end with it.
pub(crate) fn has_domain() -> bool {
    KEPT.load(Ordering::Relaxed)
}

/// Whether ending everything ends the sandbox and nothing else.
pub(crate) fn holds() -> bool {
    has_domain() || LAUNCHER_IS_FIRST.load(Ordering::Relaxed) || sys::own_pid() == 1
}

/// Signals everything but this process.
pub(crate) fn signal_all(signal: i32) {
    if holds() {
        drop(sys::kill(-1, signal));
    }
}

/// Ends everything but this process, and waits until it is gone.
pub(crate) fn end_all() {
    if !holds() {
        return;
    }
    // In a pid namespace what nobody else waits for is a child of its first process, so that without any
    // nobody is left. Asking costs less than a signal, for which the kernel looks at the whole host.
    if sys::own_pid() == 1 && sys::reap(false) == Err(ECHILD) {
        return;
    }
    drop(sys::kill(-1, SIGKILL));
    while matches!(sys::reap(true), Ok(_) | Err(EINTR)) {}
}
