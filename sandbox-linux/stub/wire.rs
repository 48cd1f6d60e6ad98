//! What is said between the library and the stub, in numbers that both sides compile in.
//!
//! The stub asks for the other end of the program's terminal, and then for its socket, by calls that no program makes
//! otherwise, and that the observer answers with a descriptor. Through the socket it sends the signals that it gets, one
//! byte each, and whether it has changed its caller's terminal. The library sends which streams are the program's
//! terminal, one byte, if it has one; and how the program ended.

/// The flags of the `execveat` without a file by which the stub asks for its socket, its second question.
pub(crate) const ASKS_FOR_SOCKET: usize = 0x5374_6f63;
/// The same, by which it asks for the other end of the program's terminal. It is answered with an error if there is none.
pub(crate) const ASKS_FOR_TERMINAL: usize = 0x5374_6f64;
/// Standard input and output are the program's terminal.
pub(crate) const INPUT_AND_OUTPUT: u8 = 1;
/// Only standard error is.
pub(crate) const ERRORS: u8 = 2;
/// Sent like a signal, of which there are 64: the caller's terminal has other modes now, and has its own again.
pub(crate) const MODES_CHANGED: u8 = 200;
pub(crate) const MODES_RESTORED: u8 = 201;
/// The bytes of the message that the program has ended: `kind: u32, value: u32`.
pub(crate) const END: usize = 8;
/// It ended by itself; the value is its exit code.
pub(crate) const EXITED: u32 = 1;
/// It ended by a signal, the value.
pub(crate) const SIGNALED: u32 = 2;
/// The exit code of a stub whose program could not be started, or was lost.
pub(crate) const LOST: u32 = 126;
