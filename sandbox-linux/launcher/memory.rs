//! What the compiler calls for copies and comparisons, which a C library would have.

#![allow(unsafe_code, reason = "these are the signatures that the compiler expects")]

use crate::sys;

/// # Safety
/// As for C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the same promise.
    unsafe { sys::copy_memory(to, from, count) };
    to
}

/// # Safety
/// As for C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: the same promise.
    unsafe { sys::fill_memory(to, byte as u8, count) };
    to
}

/// # Safety
/// As for C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: the caller promises `count` bytes at both ends.
        let (a, b) = unsafe { (a.add(index).read(), b.add(index).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As for C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    // SAFETY: the same promise.
    unsafe { memcmp(a, b, count) }
}

/// `core` refers to this, for unwinding that a program which aborts never does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
