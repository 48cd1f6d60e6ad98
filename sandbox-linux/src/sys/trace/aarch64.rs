//! The general registers on AArch64, in the kernel's order (`struct user_pt_regs`).

use crate::sys::notify::Notification;

/// The length of every instruction.
const CALL_LENGTH: u64 = 4;
/// The error by which the call that waits is answered, as a result.
const INTERRUPTED: u64 = (-(libc::EINTR as i64)).cast_unsigned();

#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
}

impl Registers {
    /// Whether they are those of a thread that has just left a call, by the error that it was answered with or to make it
    /// again (see [`has_gone_back`](Self::has_gone_back)). A first argument that is this error could be either.
    pub(super) fn are_behind(&self, call: &Notification) -> bool {
        let [first, second, third, _, _, _, _, _, number, ..] = self.x;
        let [given_first, given_second, given_third, ..] = call.arguments;
        number == call.call.cast_unsigned()
            && given_first != INTERRUPTED
            && [INTERRUPTED, given_first].contains(&first)
            && (second, third) == (given_second, given_third)
    }

    /// Whether the thread makes its call again. Before a tracer sees it the kernel has then put the first argument into
    /// its place, where the result is otherwise, and gone back to the instruction. On x86-64 it does that afterwards.
    fn has_gone_back(&self) -> bool {
        let [first, ..] = self.x;
        first != INTERRUPTED
    }

    /// Has the thread make another call next.
    pub(super) fn make(&mut self, number: i64, arguments: [u64; 5]) {
        if !self.has_gone_back() {
            self.pc = self.pc.wrapping_sub(CALL_LENGTH);
        }
        let [first, second, third, fourth, fifth, _, _, _, called, ..] = &mut self.x;
        *called = number.cast_unsigned();
        [*first, *second, *third, *fourth, *fifth] = arguments;
    }
}
