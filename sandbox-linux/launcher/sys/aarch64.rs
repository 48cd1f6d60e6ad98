//! What is different on each processor, for AArch64: the way into the kernel and into this program, and some of the kernel's
//! numbers and layouts.

use core::arch::{asm, global_asm};

use super::number as nr;

/// Flags of `open`: only a directory, and no symbolic link.
pub(super) const DIRECTORY: u64 = 0o40_000;
pub(super) const NO_FOLLOW: u64 = 0o100_000;

/// The words of `struct stat`, and the one that has the mode in its lower half.
pub(super) const STAT_WORDS: usize = 16;
pub(super) const STAT_MODE: usize = 2;

// The kernel enters here with an aligned stack and the arguments on it, which this program does not use.
global_asm!(".globl _start", "_start:", "mov x29, xzr", "mov x30, xzr", "bl {main}", "brk #1", main = sym crate::main);

/// Makes a system call.
pub(super) fn call(number: usize, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the wrappers in this room pass only pointers to memory that is alive for the call and of the
    // size and kind that the kernel expects for this number; the kernel changes no other register.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") args[0] => answer,
            in("x1") args[1], in("x2") args[2], in("x3") args[3], in("x4") args[4], in("x5") args[5],
            options(nostack));
    }
    answer
}

/// Starts a process in this one's memory that calls a function on a stack of its own.
///
/// # Safety
/// `stack` has to be the end of memory that nobody else uses, and has to be aligned for a stack. The argument has to live until
/// the process has ended or called `exec`.
pub(super) unsafe fn clone_on_stack<T>(
    flags: u64,
    stack: *mut u8,
    entry: extern "C" fn(&T) -> !,
    argument: &T,
) -> isize {
    let answer: isize;
    // SAFETY: the new process runs on memory of its own, calls a function that never returns, and so never sees this
    // frame. The kernel changes no register but the answer's; the others are as they were in the new process, too.
    unsafe {
        asm!("svc #0", "cbnz x0, 2f", "mov x29, xzr", "mov x30, xzr", "mov x0, x20", "blr x21", "brk #1", "2:",
            in("x8") nr::CLONE, inlateout("x0") flags => answer,
            in("x1") stack, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x20") core::ptr::from_ref(argument), in("x21") entry as usize);
    }
    answer
}

/// # Safety
/// As for C's `memcpy`.
pub(crate) unsafe fn copy_memory(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises `count` bytes at both ends, which do not overlap. A loop in Rust would be made a call of
    // `memcpy` again.
    unsafe {
        asm!("2:", "cmp {count}, #16", "b.lo 3f", "ldp {one}, {other}, [{from}], #16", "stp {one}, {other}, [{to}], #16",
            "sub {count}, {count}, #16", "b 2b",
            "3:", "cbz {count}, 4f", "ldrb {one:w}, [{from}], #1", "strb {one:w}, [{to}], #1",
            "sub {count}, {count}, #1", "b 3b", "4:",
            count = inout(reg) count => _, to = inout(reg) to => _, from = inout(reg) from => _,
            one = out(reg) _, other = out(reg) _, options(nostack));
    }
}

/// # Safety
/// As for C's `memset`.
pub(crate) unsafe fn fill_memory(to: *mut u8, byte: u8, count: usize) {
    let bytes = u64::from(byte).wrapping_mul(0x0101_0101_0101_0101);
    // SAFETY: the caller promises `count` bytes.
    unsafe {
        asm!("2:", "cmp {count}, #16", "b.lo 3f", "stp {bytes}, {bytes}, [{to}], #16", "sub {count}, {count}, #16", "b 2b",
            "3:", "cbz {count}, 4f", "strb {bytes:w}, [{to}], #1", "sub {count}, {count}, #1", "b 3b", "4:",
            count = inout(reg) count => _, to = inout(reg) to => _, bytes = in(reg) bytes, options(nostack));
    }
}
