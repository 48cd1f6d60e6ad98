//! The classic BPF instructions for filters of system calls and of packets.
//! <https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html>,
//! <https://docs.kernel.org/networking/filter.html>

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
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

/// The verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Fail(u16),
    /// The supervisor decides.
    Notify,
    /// Left to another filter that notifies; fails (`ENOSYS`) if there is none. `SECCOMP_RET_TRACE`, which a process without a tracer
    /// takes as a refusal.
    LeaveToListener,
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

    /// Loads a part of a packet. The filter rejects packets without it.
    pub(crate) fn load_packet(part: Part) -> Self {
        const EXTENSIONS: u32 = 0xffff_f000;
        let (code, value) = match part {
            Part::Direction => (LOAD, EXTENSIONS + 4),
            Part::Byte(at) => (LOAD_BYTE, at),
            Part::Half(at) => (LOAD_HALF, at),
            Part::Word(at) => (LOAD, at),
        };
        Self { code, if_true: 0, if_false: 0, value }
    }

    /// Accepts or rejects the whole packet.
    pub(crate) fn take(take: Take) -> Self {
        let value = match take {
            Take::All => u32::MAX,
            Take::Nothing => 0,
        };
        Self { code: RETURN, if_true: 0, if_false: 0, value }
    }

    pub(crate) fn jump(test: Test, if_true: u8, if_false: u8) -> Self {
        let (code, value) = match test {
            Test::Equal(value) => (JUMP_EQUAL, value),
            Test::AtLeast(value) => (JUMP_AT_LEAST, value),
            Test::AnyBit(value) => (JUMP_ANY_BIT, value),
        };
        Self { code, if_true, if_false, value }
    }

    /// Skips that many instructions.
    pub(crate) fn skip(count: usize) -> Self {
        // The kernel refuses a count that is too large.
        Self { code: JUMP, if_true: 0, if_false: 0, value: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    pub(crate) fn answer(action: Action) -> Self {
        let value = match action {
            Action::Allow => 0x7fff_0000,
            Action::Fail(errno) => 0x0005_0000 | u32::from(errno),
            Action::Notify => 0x7fc0_0000,
            Action::LeaveToListener => 0x7ff0_0000,
            Action::Kill => 0x8000_0000,
        };
        Self { code: RETURN, if_true: 0, if_false: 0, value }
    }
}

/// The fields of a call that a filter can load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Number,
    Architecture,
    Argument(u8),
}

/// The fields of a packet that a filter can load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Whether it is sent or received.
    Direction,
    Byte(u32),
    Half(u32),
    Word(u32),
}

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    All,
    Nothing,
}

/// A test of the loaded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal(u32),
    AtLeast(u32),
    AnyBit(u32),
}

/// Interprets a filter as the kernel would, for tests.
#[cfg(test)]
pub(crate) fn run(filter: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    trace(filter, architecture, number, arguments).0
}

/// The number of instructions that the kernel executes for a call.
#[cfg(test)]
pub(crate) fn steps(filter: &[Instruction], architecture: u32, number: u32) -> usize {
    trace(filter, architecture, number, [0; 6]).1
}

#[cfg(test)]
fn trace(filter: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
    interpret(filter, |_, at| {
        Some(match at {
            0 => number,
            4 => architecture,
            offset => (arguments[(offset as usize - 16) / 8] >> (8 * (offset % 8))) as u32,
        })
    })
}

/// Whether a filter accepts a packet.
#[cfg(test)]
pub(crate) fn takes(filter: &[Instruction], direction: u32, packet: &[u8]) -> bool {
    let load = |code, at: u32| {
        if at == 0xffff_f004 {
            return Some(direction);
        }
        let (at, length) = (
            at as usize,
            match code {
                LOAD => 4,
                LOAD_HALF => 2,
                _ => 1,
            },
        );
        Some(packet.get(at..at + length)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    interpret(filter, load).0 != 0
}

/// A failed load ends the filter with zero.
#[cfg(test)]
fn interpret(filter: &[Instruction], load: impl Fn(u16, u32) -> Option<u32>) -> (u32, usize) {
    let mut at = 0;
    let mut loaded = 0;
    for steps in 1.. {
        let instruction = filter[at];
        at += 1;
        match instruction.code {
            code @ (LOAD | LOAD_HALF | LOAD_BYTE) => match load(code, instruction.value) {
                Some(found) => loaded = found,
                None => return (0, steps),
            },
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
