//! What the caller says: a head, descriptors with it, and a body.

use crate::reader::{Reader, read_whole};
use crate::sys::{self, EPROTO, Result};
use crate::wire;

pub(crate) struct Frame {
    pub(crate) kind: u32,
    pub(crate) body: Reader,
    pub(crate) files: [i32; wire::MOST_FILES],
    /// How many descriptors came.
    pub(crate) count: usize,
}

impl Frame {
    /// Takes the next one; fails when there are no more.
    pub(crate) fn receive(socket: i32) -> Result<Self> {
        let mut head = [0; wire::HEAD];
        let mut files = [-1; wire::MOST_FILES];
        let (received, count) = sys::receive(socket, &mut head, &mut files)?;
        if received == 0 {
            return Err(EPROTO);
        }
        read_whole(socket, head.get_mut(received..).ok_or(EPROTO)?)?;
        let head = u64::from_le_bytes(head);
        let body = sys::allocate((head >> 32) as usize)?;
        read_whole(socket, body)?;
        Ok(Self { kind: head as u32, body: Reader::new(body), files, count })
    }
}
