//! Messages with descriptors, between the launcher and whoever started it.

use super::number as nr;
use super::{CLOEXEC, EMFILE, EPROTO, Result, call};

/// Receives bytes and the descriptors that come with them. Fails if not all of those could be taken: the
/// limit on open files is too low.
pub(crate) fn receive(socket: i32, bytes: &mut [u8], files: &mut [i32]) -> Result<(usize, usize)> {
    #[repr(C, align(8))]
    struct Control([u8; 1040]);
    const CLOSE_ON_EXEC: usize = 0x4000_0000;
    const HEADER: usize = 16;
    const CONTROL_CUT_SHORT: usize = 8;
    let mut control = Control([0; 1040]);
    let mut vector = [bytes.as_mut_ptr() as usize, bytes.len()];
    // `struct msghdr` on a 64-bit machine.
    let mut header = [0, 0, vector.as_mut_ptr() as usize, 1, control.0.as_mut_ptr() as usize, control.0.len(), 0];
    let length = call(nr::RECVMSG, [socket as usize, header.as_mut_ptr() as usize, CLOSE_ON_EXEC, 0, 0, 0])?;
    if header[6] & CONTROL_CUT_SHORT != 0 {
        return Err(EMFILE);
    }
    let received = header[5].min(control.0.len());
    if received < HEADER {
        return Ok((length, 0));
    }
    // `struct cmsghdr`: its length with header, then level and type; nothing else is ever sent here.
    let word = |at: usize| control.0.get(at..at + 4).and_then(|word| word.try_into().ok()).map(i32::from_ne_bytes);
    let count = (word(0).unwrap_or(0) as usize).saturating_sub(HEADER) / 4;
    for (index, file) in files.iter_mut().enumerate().take(count) {
        *file = word(HEADER + 4 * index).ok_or(EPROTO)?;
    }
    if count > files.len() { Err(EPROTO) } else { Ok((length, count)) }
}

/// Two sockets that are connected to each other.
pub(crate) fn socket_pair() -> Result<[i32; 2]> {
    const UNIX: usize = 1;
    const STREAM: usize = 1 | CLOEXEC as usize;
    let mut pair = [-1; 2];
    call(nr::SOCKETPAIR, [UNIX, STREAM, 0, pair.as_mut_ptr() as usize, 0, 0]).map(|_| pair)
}

/// Sends bytes with a descriptor.
pub(crate) fn send_with(socket: i32, bytes: &[u8], file: i32) -> Result<usize> {
    const LENGTH: u64 = 20;
    // Of the level and type for descriptors, which are both 1.
    const RIGHTS: u64 = 1 | 1 << 32;
    const NO_SIGNAL: usize = 0x4000;
    // `struct cmsghdr`, then the descriptor.
    let control = [LENGTH, RIGHTS, u64::from(file as u32)];
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    // `struct msghdr` on a 64-bit machine.
    let header = [0, 0, vector.as_ptr() as usize, 1, control.as_ptr() as usize, size_of_val(&control), 0];
    call(nr::SENDMSG, [socket as usize, header.as_ptr() as usize, NO_SIGNAL, 0, 0, 0])
}
