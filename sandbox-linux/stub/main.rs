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
mod terminal;
mod wire;

use sys::{SIGCHLD, SIGINT, SIGQUIT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
use terminal::Terminal;

extern "C" fn main() -> ! {
    // What the caller has its programs ignore, such as `nohup`, this one ignores, too.
    let ignored = sys::ignored_signals() | sys::bit(SIGCHLD);
    sys::block_signals(u64::MAX);
    // The program starts once the socket is given out. Until then its terminal has the modes that the caller's had.
    let own = sys::ask_for(wire::ASKS_FOR_TERMINAL).ok().map(|own| (own, sys::modes(own)));
    let (Ok(socket), Ok(signals)) = (sys::ask_for(wire::ASKS_FOR_SOCKET), sys::signal_file(!ignored)) else {
        sys::exit(wire::LOST)
    };
    let mut terminal = own.and_then(|(own, before)| Terminal::new(own, before, socket));
    loop {
        let (ended, signalled) = match &mut terminal {
            Some(terminal) => terminal.wait_for(socket, signals),
            None => sys::wait_for(socket, signals),
        };
        if ended {
            if let Some(terminal) = &mut terminal {
                terminal.end();
            }
            end(socket);
        }
        if signalled {
            pass_on(socket, signals, &mut terminal);
        }
    }
}

/// Passes one signal on: by the program's terminal, if it came from a key of the caller's.
fn pass_on(socket: usize, signals: usize, terminal: &mut Option<Terminal>) {
    let Some((signal, is_of_kernel)) = sys::next_signal(signals) else { return };
    if let Some(terminal) = terminal {
        match signal {
            SIGWINCH => return terminal.resize(),
            SIGINT | SIGQUIT if is_of_kernel && terminal.press(signal) => return,
            // The program has just switched them off.
            SIGTSTP if is_of_kernel && !terminal.has_signals() => return,
            _ => {}
        }
    }
    let is_stop = matches!(signal, SIGTSTP | SIGTTIN | SIGTTOU);
    sys::send(socket, if is_stop { SIGTSTP } else { signal } as u8);
    if is_stop {
        if let Some(terminal) = terminal {
            terminal.restore();
        }
        sys::kill_itself(SIGSTOP);
    }
}

/// Ends as the program has ended.
fn end(socket: usize) -> ! {
    let mut message = [0; wire::END];
    if sys::read(socket, &mut message) != Ok(wire::END) {
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
