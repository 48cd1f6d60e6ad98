//! Recorded attempts to read masks. A flood of them is counted, and costs no memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use stockade_protocol::RawText;

use super::fuse::{MaskReach, Touch};
use crate::plan::system_calls;
use crate::supervisor::program_of;
use crate::supervisor::waiting_call::WaitingCall;

/// Limit on names per mask and command: more than a program looks up in vain. Further ones count for the mask as a
/// whole.
const MOST_NAMES: usize = 1024;
/// Limit on attempts per command.
const MOST_KEPT: usize = 2048;
/// Limit on looks per command. They crowd out no reads, and those beyond it are left out.
const MOST_LOOKS: usize = 256;
/// Limit on commands per sandbox. An ended command has taken its own.
const MOST_COMMANDS: usize = 128;

/// The command of a sandbox: the number of its pid namespace, if there may be several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommandKey(pub(crate) u64);

/// The number of commands of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    One,
    Many,
}

/// A process's attempt to read a mask, or a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) process: Option<u32>,
    pub(super) program: Option<RawText>,
    pub(super) mask: usize,
    pub(super) name: Option<RawText>,
    pub(super) attempt: MaskReach,
}

#[derive(Debug, Default)]
pub(super) struct Sightings {
    commands: BTreeMap<CommandKey, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    known: BTreeSet<SightingKey>,
    /// The number of names read per mask.
    names: BTreeMap<usize, usize>,
    looks: usize,
    kept: Vec<Sighting>,
}

/// An attempt on a mask, or on a name in it.
type SightingKey = (MaskReach, usize, Option<RawText>);

impl Seen {
    /// The entry for an attempt, if it is new and there is room for it.
    fn place(&self, touch: &Touch<'_>) -> Option<SightingKey> {
        let exact = (touch.attempt, touch.mask, touch.name.map(|name| RawText::from(name.to_vec())));
        let is_full = match touch.attempt {
            MaskReach::Read => self.kept.len() - self.looks >= MOST_KEPT,
            MaskReach::Look => self.looks >= MOST_LOOKS,
        };
        if self.known.contains(&exact) || is_full {
            return None;
        }
        let names = self.names.get(&touch.mask).copied().unwrap_or_default();
        let is_named = touch.attempt == MaskReach::Look || names < MOST_NAMES;
        let place = if is_named { exact } else { (touch.attempt, touch.mask, None) };
        (!self.known.contains(&place)).then_some(place)
    }
}

impl Sightings {
    /// Records an attempt. The thread waits for its answer meanwhile, so its id is valid.
    pub(super) fn note(&mut self, touch: &Touch<'_>, commands: Commands) {
        let key = if commands == Commands::One { Some(CommandKey::default()) } else { command_of(touch.thread) };
        // A process that can't be inspected can't be attributed to a command.
        let Some(key) = key else { return };
        if !self.commands.contains_key(&key) && self.commands.len() >= MOST_COMMANDS {
            self.commands.pop_first();
        }
        let seen = self.commands.entry(key).or_default();
        // Most lookups are of known names.
        if [MaskReach::Read, MaskReach::Look]
            .iter()
            .all(|attempt| seen.place(&Touch { attempt: *attempt, ..*touch }).is_none())
        {
            return;
        }
        let attempt = if touch.name.is_some() { attempted(touch.thread) } else { Some(touch.attempt) };
        let Some(attempt) = attempt else { return };
        let Some(place) = seen.place(&Touch { attempt, ..*touch }) else { return };
        seen.known.insert(place.clone());
        let (_, mask, name) = place;
        match attempt {
            MaskReach::Read => *seen.names.entry(mask).or_default() += usize::from(name.is_some()),
            MaskReach::Look => seen.looks += 1,
        }
        let (process, program) = i32::try_from(touch.thread).map_or((None, None), program_of);
        seen.kept.push(Sighting { process, program, mask, name, attempt });
    }

    /// The attempts of one command, which has ended or was not seen yet.
    pub(super) fn take(&mut self, command: CommandKey) -> Vec<Sighting> {
        self.commands.remove(&command).map(|seen| seen.kept).unwrap_or_default()
    }
}

fn command_of(thread: u32) -> Option<CommandKey> {
    fs::metadata(format!("/proc/{thread}/ns/pid")).ok().map(|found| CommandKey(found.ino()))
}

/// Whether a thread that looks up a name wants to read it, or only to know whether it is there. Writing calls are
/// seen elsewhere. A thread that can't be inspected counts as reading.
fn attempted(thread: u32) -> Option<MaskReach> {
    WaitingCall::of(thread, || true).map_or(Some(MaskReach::Read), |call| attempt_of(&call))
}

fn attempt_of(call: &WaitingCall) -> Option<MaskReach> {
    let [_, second, third, ..] = call.arguments;
    let for_reading = |flags: u64| (flags & libc::O_ACCMODE as u64 != libc::O_WRONLY as u64).then_some(MaskReach::Read);
    match call.number {
        system_calls::SYS_open => for_reading(second),
        libc::SYS_openat => for_reading(third),
        libc::SYS_openat2 | libc::SYS_execve | libc::SYS_execveat | libc::SYS_chdir => Some(MaskReach::Read),
        system_calls::SYS_stat
        | system_calls::SYS_lstat
        | system_calls::SYS_access
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2 => Some(MaskReach::Look),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sightings: &mut Sightings) -> Vec<(usize, Option<String>)> {
        let taken = sightings.take(CommandKey::default());
        taken.into_iter().map(|seen| (seen.mask, seen.name.map(|name| name.to_string()))).collect()
    }

    fn note(sightings: &mut Sightings, mask: usize, name: Option<&[u8]>) {
        // A thread that can't be inspected counts as reading.
        let thread = if name.is_some() { 0 } else { std::process::id() };
        sightings.note(&Touch { thread, mask, name, attempt: MaskReach::Read }, Commands::One);
    }

    #[test]
    fn a_sighting_names_process_and_program_and_is_kept_once() {
        let mut sightings = Sightings::default();
        note(&mut sightings, 0, Some(b"key"));
        note(&mut sightings, 0, Some(b"key"));
        note(&mut sightings, 0, None);
        let taken = sightings.take(CommandKey::default());
        assert_eq!(taken.len(), 2);
        assert_eq!((taken[0].process, &taken[0].program), (None, &None));
        assert_eq!(taken[1].process, Some(std::process::id()));
        let own = std::env::current_exe().unwrap();
        assert_eq!(taken[1].program.as_ref().unwrap().to_string(), own.to_str().unwrap());
        assert!(sightings.take(CommandKey::default()).is_empty(), "they are taken once");
    }

    /// Many names hide neither their mask nor other masks.
    #[test]
    fn a_flood_of_names_counts_for_the_mask() {
        let mut sightings = Sightings::default();
        for number in 0..100_000_u32 {
            note(&mut sightings, 0, Some(&number.to_string().into_bytes()));
        }
        note(&mut sightings, 1, None);
        let names = names(&mut sightings);
        assert_eq!(names.len(), MOST_NAMES + 2);
        assert!(names.contains(&(0, None)) && names.contains(&(1, None)));
    }

    /// A look hides no read of the same mask, and a flood of looks no read of any.
    #[test]
    fn looks_are_kept_apart_from_reads() {
        let mut sightings = Sightings::default();
        for mask in 0..10_000 {
            let touch = Touch { thread: std::process::id(), mask, name: None, attempt: MaskReach::Look };
            sightings.note(&touch, Commands::One);
        }
        note(&mut sightings, 0, None);
        note(&mut sightings, 9_999, None);
        let taken = sightings.take(CommandKey::default());
        assert_eq!(taken.iter().filter(|seen| seen.attempt == MaskReach::Look).count(), MOST_LOOKS);
        let reads: Vec<usize> =
            taken.iter().filter(|seen| seen.attempt == MaskReach::Read).map(|seen| seen.mask).collect();
        assert_eq!(reads, [0, 9_999]);
    }

    #[test]
    fn looking_around_is_not_reading() {
        for (number, arguments, attempt) in [
            (libc::SYS_openat, [0xffff_ff9c, 0x7ffc, 0x80000], Some(MaskReach::Read)),
            (libc::SYS_openat, [0xffff_ff9c, 0x7ffc, 0x241], None),
            (libc::SYS_openat, [0xffff_ff9c, 0x7ffc, 0x2], Some(MaskReach::Read)),
            (system_calls::SYS_open, [0x7ffc, 0, 0], Some(MaskReach::Read)),
            (system_calls::SYS_open, [0x7ffc, 0x241, 0], None),
            (libc::SYS_newfstatat, [0xffff_ff9c, 0x7ffc, 0x7ffd], Some(MaskReach::Look)),
            (libc::SYS_statx, [0xffff_ff9c, 0x7ffc, 0], Some(MaskReach::Look)),
            (libc::SYS_faccessat2, [0xffff_ff9c, 0x7ffc, 4], Some(MaskReach::Look)),
            (libc::SYS_unlinkat, [0xffff_ff9c, 0x7ffc, 0], None),
            (libc::SYS_chdir, [0x7ffc, 0, 0], Some(MaskReach::Read)),
        ] {
            let [first, second, third] = arguments;
            let call = WaitingCall { number, arguments: [first, second, third, 0, 0, 0], stack_pointer: 0 };
            assert_eq!(attempt_of(&call), attempt, "{call:?}");
        }
    }

    #[test]
    fn commands_of_a_session_are_told_apart_and_bounded() {
        let mut sightings = Sightings::default();
        let touch = Touch { thread: std::process::id(), mask: 0, name: None, attempt: MaskReach::Read };
        sightings.note(&touch, Commands::Many);
        let own = command_of(std::process::id()).unwrap();
        assert!(sightings.take(CommandKey::default()).is_empty());
        assert_eq!(sightings.take(own).len(), 1);
        sightings.note(&Touch { thread: 0, ..touch }, Commands::Many);
        assert!(sightings.commands.is_empty(), "a process that can't be seen is no command's");
    }
}
