//! The few instructions of classic BPF that a system call filter needs.
//! <https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html>

use serde::Serialize;

/// One instruction, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Fail(u16),
    /// Whoever supervises the command decides.
    Notify,
    Kill,
}

impl Instruction {
    pub(crate) fn bytes(self) -> [u8; 8] {
        let [a, b] = self.code.to_ne_bytes();
        let [c, d, e, f] = self.value.to_ne_bytes();
        [a, b, self.if_true, self.if_false, c, d, e, f]
    }

    pub(crate) fn load(field: Field) -> Self {
        let offset = match field {
            Field::Number => 0,
            Field::Architecture => 4,
            // The low half of a 64-bit argument, on a little-endian machine.
            Field::Argument(index) => 16 + 8 * u32::from(index),
        };
        Self { code: LOAD, if_true: 0, if_false: 0, value: offset }
    }

    pub(crate) fn jump(test: Test, if_true: u8, if_false: u8) -> Self {
        let (code, value) = match test {
            Test::Equal(value) => (JUMP_EQUAL, value),
            Test::AtLeast(value) => (JUMP_AT_LEAST, value),
            Test::AnyBit(value) => (JUMP_ANY_BIT, value),
        };
        Self { code, if_true, if_false, value }
    }

    /// Leaves out that many instructions.
    pub(crate) fn skip(count: usize) -> Self {
        // More than the kernel takes is refused by it.
        Self { code: JUMP, if_true: 0, if_false: 0, value: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    pub(crate) fn answer(action: Action) -> Self {
        let value = match action {
            Action::Allow => 0x7fff_0000,
            Action::Fail(errno) => 0x0005_0000 | u32::from(errno),
            Action::Notify => 0x7fc0_0000,
            Action::Kill => 0x8000_0000,
        };
        Self { code: RETURN, if_true: 0, if_false: 0, value }
    }
}

/// What a filter can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Number,
    Architecture,
    Argument(u8),
}

/// A test of what was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal(u32),
    AtLeast(u32),
    AnyBit(u32),
}

/// Runs a filter as the kernel would, so that it can be tested without one.
#[cfg(test)]
pub(crate) fn run(filter: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    trace(filter, architecture, number, arguments).0
}

/// How many instructions the kernel looks at for a call.
#[cfg(test)]
pub(crate) fn steps(filter: &[Instruction], architecture: u32, number: u32) -> usize {
    trace(filter, architecture, number, [0; 6]).1
}

#[cfg(test)]
fn trace(filter: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
    let mut at = 0;
    let mut loaded = 0;
    for steps in 1.. {
        let instruction = filter[at];
        at += 1;
        match instruction.code {
            LOAD => {
                loaded = match instruction.value {
                    0 => number,
                    4 => architecture,
                    offset => (arguments[(offset as usize - 16) / 8] >> (8 * (offset % 8))) as u32,
                };
            }
            JUMP => at += instruction.value as usize,
            RETURN => return (instruction.value, steps),
            code => {
                let holds = match code {
                    JUMP_EQUAL => loaded == instruction.value,
                    JUMP_AT_LEAST => loaded >= instruction.value,
                    JUMP_ANY_BIT => loaded & instruction.value != 0,
                    other => panic!("the filter has an instruction {other:#x}"),
                };
                at += usize::from(if holds { instruction.if_true } else { instruction.if_false });
            }
        }
    }
    unreachable!("a filter without an end");
}
