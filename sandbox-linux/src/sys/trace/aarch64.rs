//! The general registers on AArch64, in the kernel's order (`struct user_pt_regs`).

use crate::sys::notify::Notification;

/// The length of every instruction.
const CALL_LENGTH: u64 = 4;

#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
}

impl Registers {
    /// Whether they are those of a thread that has just left a call. Its first argument has made room for its result.
    pub(super) fn are_behind(&self, call: &Notification) -> bool {
        let [_, second, third, _, _, _, _, _, number, ..] = self.x;
        let [_, given_second, given_third, ..] = call.arguments;
        number == call.call.cast_unsigned() && (second, third) == (given_second, given_third)
    }

    /// Has the thread make another call next.
    pub(super) fn make(&mut self, number: i64, arguments: [u64; 5]) {
        self.pc = self.pc.wrapping_sub(CALL_LENGTH);
        let [first, second, third, fourth, fifth, _, _, _, called, ..] = &mut self.x;
        *called = number.cast_unsigned();
        [*first, *second, *third, *fourth, *fifth] = arguments;
    }
}
