//! A device node inside for a command's terminal.
//!
//! The terminal belongs to the host's devpts, and the sandbox has its own, so that no other terminal can be reached.
//! Programs that ask for the name of their terminal (`tty`, ttyname(3)) search `/dev` and would find none. The one
//! device is therefore shown as `/dev/console`, as containers do. The command has it open already, so this grants
//! nothing.

use std::os::fd::{AsFd as _, BorrowedFd};

use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{Stdio, Streams};

use crate::plan::step::{MOUNT_NO_SETUID, Slot, Step};
use crate::wire;

/// Its path inside.
pub(crate) const PLACE: &str = "/dev/console";
const NAME: &str = "console";

/// The host's path of the command's terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Console(pub(crate) AbsPath);

impl Console {
    /// The terminal of these streams. One without a path on the host has none inside either.
    pub(crate) fn of(stdio: &Stdio) -> Option<Self> {
        if !stdio.controlling_terminal {
            return None;
        }
        let name = |file: BorrowedFd<'_>| rustix::termios::ttyname(file, Vec::new()).ok();
        let stream = |stream: &Streams, own: BorrowedFd<'_>| match stream {
            Streams::Null => None,
            Streams::Inherit => name(own),
            Streams::To(terminal) => name(terminal.as_fd()),
        };
        let input = stream(&stdio.stdin, rustix::stdio::stdin());
        let output = stream(&stdio.stdout, rustix::stdio::stdout());
        let errors = stream(&stdio.stderr, rustix::stdio::stderr());
        let name = controlling(input, output, errors)?;
        // Only a pseudo-terminal: the machine's console is not for a sandbox.
        let path = AbsPath::parse(name.into_bytes()).ok()?;
        path.to_string().starts_with("/dev/pts/").then_some(Self(path))
    }

    /// The steps of a view, with the terminal beside the devices of every view. It is copied while the host's `/dev`
    /// is still visible, and attached once the sandbox's own is; pre-started steps come before both. `None` for a view
    /// without room for it.
    pub(crate) fn shown_by(&self, view: &[Step]) -> Option<Vec<Step>> {
        let mut steps = view.to_vec();
        let beside = Beside::tty(view)?;
        let slot = 1 + view.iter().filter_map(slot).max().unwrap_or(beside.slot);
        if slot >= wire::MOST_SLOTS {
            return None;
        }
        steps.insert(beside.attached + 1, Step::Attach { slot, path: beside.place });
        let copied = [
            Step::File { slot: beside.staging, path: beside.file, mode: 0o644 },
            Step::CloneTree { slot, path: self.0.clone() },
            Step::Attributes { slot, set: MOUNT_NO_SETUID },
        ];
        steps.splice(beside.sealed..beside.sealed, copied);
        Some(steps)
    }
}

/// The stream that becomes the controlling terminal. A stream that is the controlling terminal of another session can't: of
/// a program that runs elsewhere in a pipeline (ADR 0076), standard input may be its caller's, and only standard error is
/// its own.
fn controlling<T: PartialEq>(input: Option<T>, output: Option<T>, errors: Option<T>) -> Option<T> {
    if input == output { input.or(errors) } else { errors.or(input).or(output) }
}

/// The steps of a view for `/dev/tty`, and the paths for the console.
struct Beside {
    slot: Slot,
    staging: Slot,
    /// The file in the staging area that it is mounted on.
    file: RawText,
    /// The path it is attached at.
    place: AbsPath,
    /// The step that restricts the host's tree. Devices can be copied before it.
    sealed: usize,
    /// The step that attaches the device.
    attached: usize,
}

impl Beside {
    fn tty(view: &[Step]) -> Option<Self> {
        let slot = &view.iter().find_map(|step| {
            let Step::CloneTree { slot, path } = step else { return None };
            is_tty(path).then_some(*slot)
        })?;
        let sealed = view.iter().position(|step| matches!(step, Step::RootAttributes { .. }))?;
        let attached = view.iter().position(|step| matches!(step, Step::Attach { slot: own, .. } if own == slot))?;
        let Step::Attach { path, .. } = view.get(attached)? else { return None };
        let (staging, file) = view.iter().find_map(|step| {
            let Step::File { slot, path, .. } = step else { return None };
            Some((*slot, path.as_bytes().strip_suffix(b"/tty")?))
        })?;
        let file = [file, b"/", NAME.as_bytes()].concat().into();
        Some(Self { slot: *slot, staging, file, place: path.parent()?.join(NAME).ok()?, sealed, attached })
    }
}

fn is_tty(path: &AbsPath) -> bool {
    path.as_raw().as_bytes() == b"/dev/tty"
}

/// The slot that a step fills.
fn slot(step: &Step) -> Option<Slot> {
    let (Step::CloneTree { slot, .. } | Step::ClonePart { slot, .. }) = step else { return None };
    Some(*slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::view;
    use stockade_sandboxing::{FakeHost, rules};

    #[test]
    fn it_is_the_terminal_that_the_program_can_control() {
        let own = Some("own");
        for streams in [[own, own, own], [own, own, None], [own, own, Some("other")], [None, None, own]] {
            let [input, output, errors] = streams;
            assert_eq!(controlling(input, output, errors), own, "{streams:?}");
        }
        for streams in
            [[Some("callers"), None, own], [None, Some("callers"), own], [own, None, None], [None, own, None]]
        {
            let [input, output, errors] = streams;
            assert_eq!(controlling(input, output, errors), own, "{streams:?}");
        }
        assert_eq!(controlling::<&str>(None, None, None), None);
    }

    /// On the host's root and on an empty one, every step finds what it needs.
    #[test]
    fn it_is_copied_before_dev_is_covered_and_attached_after() {
        let host = FakeHost::new(&["/dev/", "/dev/tty", "/dev/null", "/w/", "/proc/"]);
        for (files, place) in [("/ read", "/dev/console"), ("/w read", "/proc/dev/console")] {
            let view = view::compile(&rules(&[files]), &host, &[]).unwrap().steps;
            let console = Console("/dev/pts/7".parse().unwrap());
            let steps = console.shown_by(&view).unwrap();
            assert_eq!(steps.len(), view.len() + 4);
            let added: Vec<String> =
                steps.iter().filter(|step| !view.contains(step)).map(|step| format!("{step:?}")).collect();
            assert!(added[0].starts_with("File") && added[0].contains("/console`"), "{added:?}");
            assert!(added[1].starts_with("CloneTree") && added[1].contains("`/dev/pts/7`"), "{added:?}");
            assert!(added[3].starts_with("Attach") && added[3].contains(&format!("`{place}`")), "{added:?}");
            let position = |wanted: &str| steps.iter().position(|step| format!("{step:?}").contains(wanted)).unwrap();
            let dev = format!("path: `{}` }}", place.trim_end_matches("/console"));
            let begun = view::beginning(&host).unwrap().len();
            assert!(files != "/ read" || steps[..begun] == view[..begun], "what was done ahead is of use");
            assert!(position("`/dev/pts/7`") < position("RootAttributes"));
            assert!(position("`/dev/pts/7`") < position(&dev) && position(&dev) < position(&format!("`{place}`")));
        }
        let view = view::compile(&rules(&["/ read"]), &host, &[]).unwrap().steps;
        // A view without `/dev/tty` has no place for it.
        assert_eq!(Console("/dev/pts/7".parse().unwrap()).shown_by(&[Step::Proc]), None);
        let full: Vec<Step> = view
            .iter()
            .cloned()
            .chain([Step::CloneTree { slot: wire::MOST_SLOTS - 1, path: "/w".parse().unwrap() }])
            .collect();
        assert_eq!(Console("/dev/pts/7".parse().unwrap()).shown_by(&full), None);
    }
}
