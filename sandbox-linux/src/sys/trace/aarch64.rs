//! The general registers on AArch64, in the kernel's order (`struct user_pt_regs`).

use crate::sys::notify::Notification;

#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
}

impl Registers {
    /// Whether they are those of a thread that is about to make a call again, since it was answered with `ERESTARTNOINTR` or
    /// interrupted. Before a tracer sees it the kernel has gone back to the instruction, and has put the first argument into
    /// its place, where the result is otherwise. On x86-64 it does that afterwards.
    pub(super) fn are_behind(&self, call: &Notification) -> bool {
        let [first, second, third, _, _, _, _, _, number, ..] = self.x;
        number == call.call.cast_unsigned() && call.arguments.starts_with(&[first, second, third])
    }

    /// Has the thread make another call next.
    pub(super) fn make(&mut self, number: i64, arguments: [u64; 5]) {
        let [first, second, third, fourth, fifth, _, _, _, called, ..] = &mut self.x;
        *called = number.cast_unsigned();
        [*first, *second, *third, *fourth, *fifth] = arguments;
    }
}
