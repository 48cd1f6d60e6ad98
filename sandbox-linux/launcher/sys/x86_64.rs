//! What is different on each processor, for x86-64: the way into the kernel and into this program, and some of the kernel's
//! numbers and layouts.

use core::arch::{asm, global_asm};

use super::number as nr;

/// Flags of `open`: only a directory, and no symbolic link.
pub(super) const DIRECTORY: u64 = 0o200_000;
pub(super) const NO_FOLLOW: u64 = 0o400_000;

/// The words of `struct stat`, and the one that has the mode in its lower half.
pub(super) const STAT_WORDS: usize = 18;
pub(super) const STAT_MODE: usize = 3;

// The kernel enters here with the arguments on the stack, which this program does not use.
global_asm!(".globl _start", "_start:", "xor %ebp, %ebp", "and $-16, %rsp", "call {main}", "ud2",
    main = sym crate::main, options(att_syntax));

/// Makes a system call.
pub(super) fn call(number: usize, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the wrappers in this room pass only pointers to memory that is alive for the call and of the
    // size and kind that the kernel expects for this number; the clobbers are those of `syscall`.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
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
    // frame. The clobbers are those of `syscall`; the other registers are as they were in the new process, too.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            inlateout("rax") nr::CLONE => answer,
            in("rdi") flags, in("rsi") stack, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") core::ptr::from_ref(argument), in("r13") entry as usize,
            lateout("rcx") _, lateout("r11") _);
    }
    answer
}

/// # Safety
/// As for C's `memcpy`.
pub(crate) unsafe fn copy_memory(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises `count` bytes at both ends, which do not overlap.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// # Safety
/// As for C's `memset`.
pub(crate) unsafe fn fill_memory(to: *mut u8, byte: u8, count: usize) {
    // SAFETY: the caller promises `count` bytes.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte,
            options(nostack, preserves_flags));
    }
}
