//! Reading a plan: numbers, texts and lists, with nothing taken on trust about their lengths.

use crate::sys::{CText, EPROTO, Errno, Result};

/// What is left of a plan.
pub(crate) struct Reader(&'static [u8]);

impl Reader {
    pub(crate) fn new(bytes: &'static [u8]) -> Self {
        Self(bytes)
    }

    /// The same from here on, once more.
    pub(crate) fn again(&self) -> Self {
        Self(self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'static [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(EPROTO)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1)?.first().copied().ok_or(EPROTO)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| EPROTO)
    }

    pub(crate) fn index(&mut self) -> Result<usize> {
        self.number()?.try_into().map_err(|_| EPROTO)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'static [u8]> {
        let length = self.index()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<CText<'static>> {
        CText::new(self.bytes()?)
    }

    /// A part of the plan that is a plan of its own.
    pub(crate) fn part(&mut self) -> Result<Self> {
        self.bytes().map(Self)
    }
}

/// Fills the whole buffer, or fails: the other side is gone.
pub(crate) fn read_whole(file: i32, buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = buffer.get_mut(filled..) {
        match crate::sys::read(file, rest) {
            Ok(0) => return Err(Errno(EPROTO.0)),
            Ok(count) => filled += count,
            Err(crate::sys::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
