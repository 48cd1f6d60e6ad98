//! The stub: stands in the place of a program that runs elsewhere, and ends as that ends.
//!
//! It is executed in its caller's sandbox by the call that was to start the program, so it is the child that the
//! caller waits for. It has no rights that its caller lacks: what it holds is a socket, through which it passes signals
//! on and hears of the end. Where the program runs, with what, and whether at all, is decided outside, before.
//!
//! A stop that the terminal asks for (`SIGTSTP` and the like) stops the program and then the stub; `SIGSTOP` can't be
//! passed on, and stops only the stub.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

#[path = "../launcher/memory.rs"]
mod memory;
mod sys;
mod wire;

use sys::{SIGCHLD, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};

extern "C" fn main() -> ! {
    // What the caller has its programs ignore, such as `nohup`, this one ignores, too.
    let ignored = sys::ignored_signals() | sys::bit(SIGCHLD);
    sys::block_signals(u64::MAX);
    let (Ok(socket), Ok(signals)) = (sys::ask_for_socket(wire::ASKS_FOR_SOCKET), sys::signal_file(!ignored)) else {
        sys::exit(wire::LOST)
    };
    loop {
        let (ended, signalled) = sys::wait_for(socket, signals);
        if ended {
            end(socket);
        }
        if signalled {
            pass_on(socket, signals);
        }
    }
}

/// Passes one signal on.
fn pass_on(socket: usize, signals: usize) {
    let Some(signal) = sys::next_signal(signals) else { return };
    sys::write(socket, &[if matches!(signal, SIGTTIN | SIGTTOU) { SIGTSTP } else { signal } as u8]);
    if matches!(signal, SIGTSTP | SIGTTIN | SIGTTOU) {
        sys::kill_itself(SIGSTOP);
    }
}

/// Ends as the program has ended.
fn end(socket: usize) -> ! {
    let mut message = [0; wire::END];
    if sys::read(socket, &mut message) != Some(wire::END) {
        sys::exit(wire::LOST);
    }
    let [a, b, c, d, e, f, g, h] = message;
    let (kind, value) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    match kind {
        wire::EXITED => sys::exit(value),
        wire::SIGNALED => {
            // A dump of this process says nothing about the program.
            sys::dump_nothing();
            sys::end_by(value);
            sys::exit(128 + value)
        }
        _ => sys::exit(wire::LOST),
    }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(wire::LOST)
}
