//! Restores the terminal when a signal ends the program: the only module with `unsafe`.
//!
//! A terminal outlives the program. If the program dies during a prompt, by a signal or by a panic (which ends in
//! `SIGABRT`), the shell would be left without echo. So while a prompt is open, terminating signals first restore the
//! terminal, and are then raised again.

#![expect(unsafe_code, reason = "a signal handler has no safe form")]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The common terminating signals.
const SIGNALS: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGABRT];

const NONE: RawFd = -1;

/// The terminal to restore, or `NONE`. The thread or handler that takes it restores it.
static TERMINAL: AtomicI32 = AtomicI32::new(NONE);
/// The saved modes. Written only by the holder of `TURN`, while no handler is installed.
static MODES: Kept<libc::termios> = Kept::new();
/// The previous action of each signal. Written likewise.
static BEFORE: [Kept<libc::sigaction>; 5] = [const { Kept::new() }; 5];
/// Only one prompt at a time changes the terminal.
static TURN: Mutex<()> = Mutex::new(());

struct Kept<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: the value is written only by the holder of `TURN` while no handler that reads it is
// installed, and is plain data.
unsafe impl<T> Sync for Kept<T> {}

impl<T> Kept<T> {
    const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    fn place(&self) -> *mut T {
        self.0.get().cast()
    }
}

/// While this exists, a terminating signal restores the terminal first. Other prompts wait for it.
pub(super) struct RestoredBySignals {
    _turn: MutexGuard<'static, ()>,
}

impl RestoredBySignals {
    /// Saves the terminal's modes. The descriptor has to stay open as long as this exists.
    pub(super) fn arm(terminal: BorrowedFd<'_>) -> io::Result<Self> {
        // The data is rewritten each time, so a panicked holder is harmless.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the place is large enough, and not shared: this thread holds `TURN`, and no handler is installed.
        if unsafe { libc::tcgetattr(terminal.as_raw_fd(), MODES.place()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        TERMINAL.store(terminal.as_raw_fd(), Ordering::SeqCst);
        for (signal, before) in SIGNALS.iter().zip(&BEFORE) {
            install(*signal, before);
        }
        Ok(Self { _turn: turn })
    }
}

impl Drop for RestoredBySignals {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.iter().zip(&BEFORE) {
            // SAFETY: `install` has filled the place, and the kernel only reads it.
            unsafe { libc::sigaction(*signal, before.place(), std::ptr::null_mut()) };
        }
        TERMINAL.store(NONE, Ordering::SeqCst);
    }
}

fn install(signal: i32, before: &Kept<libc::sigaction>) {
    // SAFETY: all-zero bytes are a valid action: the default one, without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = restore as extern "C" fn(i32) as usize;
    // SAFETY: the set is ours.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    // SAFETY: with no new action this only reads the present one into a place of the right size.
    unsafe { libc::sigaction(signal, std::ptr::null(), before.place()) };
    // SAFETY: the call above has filled the place.
    let ignored = unsafe { (*before.place()).sa_sigaction } == libc::SIG_IGN;
    if !ignored {
        // SAFETY: the action is complete and its handler does only what a handler may.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

/// Runs inside a signal: only async-signal-safe calls (signal-safety(7)) and atomics.
extern "C" fn restore(signal: i32) {
    let terminal = TERMINAL.swap(NONE, Ordering::SeqCst);
    if terminal != NONE {
        // SAFETY: `arm` filled the place before it installed this handler, and the descriptor is open
        // as long as the handler is installed.
        unsafe { libc::tcsetattr(terminal, libc::TCSANOW, MODES.place()) };
    }
    for (own, before) in SIGNALS.iter().zip(&BEFORE) {
        if *own == signal {
            // SAFETY: `install` filled the place before it installed this handler.
            unsafe { libc::sigaction(signal, before.place(), std::ptr::null_mut()) };
        }
    }
    // SAFETY: raising a signal has no preconditions. It is delivered once this handler returns.
    unsafe { libc::raise(signal) };
}
