//! The general registers on x86-64, in the kernel's order (`struct user_regs_struct`).

use crate::sys::notify::Notification;

/// The length of the instruction that makes a call (`syscall`).
const CALL_LENGTH: u64 = 2;

#[repr(transparent)]
pub(super) struct Registers(libc::user_regs_struct);

impl Registers {
    /// Whether they are those of a thread that has just left a call.
    pub(super) fn are_behind(&self, call: &Notification) -> bool {
        let given = [self.0.rdi, self.0.rsi, self.0.rdx];
        self.0.orig_rax == call.call.cast_unsigned() && call.arguments.starts_with(&given)
    }

    /// Has the thread make another call next.
    pub(super) fn make(&mut self, number: i64, arguments: [u64; 5]) {
        let registers = &mut self.0;
        registers.rip = registers.rip.wrapping_sub(CALL_LENGTH);
        registers.rax = number.cast_unsigned();
        // No call is to be made again.
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8] = arguments;
    }
}
