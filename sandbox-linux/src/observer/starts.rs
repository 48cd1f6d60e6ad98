//! Starts of programs: what is about to be started, read from the process that waits in `execve` or `execveat`.
//!
//! Everything is copied once, within bounds, and what was copied is judged. The kernel then goes on with the call or fails
//! it. So what a caller changes meanwhile gains it nothing beyond the sandbox. A program that is to have more is
//! started from the copy ([`elsewhere`](super::elsewhere)), and the call goes on with a stub.
//!
//! - A path that leads nowhere is not judged: the kernel says so, and a search along `PATH` goes on to the next place.
//! - What a script is started with is judged as the kernel would start it: the interpreter, its argument, the script.
//! - A caller that can't be read starts nothing: its memory is another user's, or it is not dumpable and the sandbox has
//!   no user namespace that this user made. A caller whose words are at no address gets what the kernel says to that.

mod copy;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access, FileRules, RawText};
use stockade_sandboxing::{Concern, ProgramStart, StartAnswer, StartCaller, StartKeeper, StartVerdict};

use super::chain::chain;
use super::elsewhere::Redirections;
use super::loader::{is_loader, loaded};
use super::process_links;
use super::resolve::{LastLink, Located, Tree, read_path, read_text};
use crate::supervisor::program_of;
use crate::sys::notify::{self, Notification};

/// The most words that are read: rules speak of the first ones, and what a wrapper starts is judged when it does.
const MOST_WORDS: usize = 512;
/// The most bytes of all words together, and of one. The kernel takes no longer word.
const MOST_BYTES: usize = 256 * 1024;
const LONGEST_WORD: usize = 128 * 1024;
/// As much as the kernel looks at for an interpreter, and as often.
const HEAD: usize = 256;
const MOST_INTERPRETERS: usize = 5;
/// The most starts that wait at once. Beyond them, what would have to wait is refused.
const MOST_HELD: usize = 512;

/// Judges the starts of one command.
pub(super) struct StartCalls {
    keeper: Arc<dyn StartKeeper>,
    listener: Arc<OwnedFd>,
    held: Arc<AtomicUsize>,
    redirections: Redirections,
}

/// The trees that the files of a start are looked for in.
#[derive(Clone, Copy)]
pub(super) struct Trees<'a> {
    /// The caller's, if it lets itself be looked at.
    pub(super) view: Option<&'a Tree>,
    pub(super) host: &'a Tree,
}

/// What could be read of a start.
enum Reading {
    /// Nothing of concern, or nothing that the kernel would start.
    Passes,
    Start {
        start: ProgramStart,
        /// The end of the path, which is an empty text.
        empty: u64,
        /// The caller's directory, if the start was copied.
        directory: Option<OwnedFd>,
    },
    /// Its caller does not let itself be looked at.
    Unreadable,
}

/// Whether a call starts a program.
pub(super) fn is_start(call: i64) -> bool {
    call == libc::SYS_execve || call == libc::SYS_execveat
}

impl StartCalls {
    pub(super) fn new(keeper: Arc<dyn StartKeeper>, listener: &Arc<OwnedFd>) -> Self {
        let redirections = Redirections::new(listener);
        Self { keeper, listener: Arc::clone(listener), held: Arc::default(), redirections }
    }

    /// Fails a call whose words were not looked at, if a rule might forbid it.
    pub(super) fn pass_over(&self, call: &Notification) {
        if self.keeper.restricts() { self.refuse(call) } else { self.go_on(call) }
    }

    fn refuse(&self, call: &Notification) {
        // A process that is gone has no call that waits.
        notify::answer(self.listener.as_fd(), call.id, libc::EACCES).ok();
    }

    /// Judges a call, and answers it or has it wait. Without a view of its files it can't be judged.
    pub(super) fn look(&self, call: &Notification, trees: Trees<'_>, files: &FileRules) {
        if self.redirections.takes(call) {
            return;
        }
        let Trees { view, host } = trees;
        let reader = view.map(|view| Reader { call, view, host, files, keeper: &*self.keeper });
        let reading = reader.as_ref().map_or(Reading::Unreadable, Reader::read);
        // Only now is it sure that all of this was the calling process's, and not one's with its number.
        if !notify::is_waiting(self.listener.as_fd(), call.id) {
            return;
        }
        match reading {
            Reading::Passes => self.go_on(call),
            Reading::Unreadable if !self.keeper.restricts() => self.go_on(call),
            Reading::Unreadable => {
                self.keeper.unreadable(caller(call));
                self.refuse(call);
            }
            Reading::Start { mut start, empty, directory } => match self.keeper.judge(&start) {
                Concern::None => self.go_on(call),
                Concern::Decide => self.decide(call, start, (empty, directory)),
                Concern::Escalate { variables } => {
                    if let (Some(copy), Some(reader)) = (&mut start.copy, reader) {
                        copy.variables = reader.variables(&variables);
                    }
                    self.decide(call, start, (empty, directory));
                }
            },
        }
    }

    fn go_on(&self, call: &Notification) {
        notify::go_on(self.listener.as_fd(), call).ok();
    }

    fn decide(&self, call: &Notification, start: ProgramStart, place: (u64, Option<OwnedFd>)) {
        if self.held.fetch_add(1, Ordering::Relaxed) >= MOST_HELD {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return self.refuse(call);
        }
        let (listener, held, call) = (Arc::clone(&self.listener), Arc::clone(&self.held), *call);
        let redirections = self.redirections.clone();
        let give = move |verdict| {
            held.fetch_sub(1, Ordering::Relaxed);
            match verdict {
                StartVerdict::GoOn => drop(notify::go_on(listener.as_fd(), &call)),
                StartVerdict::Refused => drop(notify::answer(listener.as_fd(), call.id, libc::EACCES)),
                StartVerdict::Elsewhere(start) => redirections.begin(&call, place, start),
            }
        };
        let asked = Arc::clone(&self.listener);
        let answer = StartAnswer::new(give, move || notify::is_waiting(asked.as_fd(), call.id));
        self.keeper.decide(start, caller(&call), answer);
    }
}

fn caller(call: &Notification) -> StartCaller {
    let (pid, program) = program_of(call.thread);
    StartCaller { pid, program, chain: chain(call.thread) }
}

/// Reads one call.
struct Reader<'a> {
    call: &'a Notification,
    view: &'a Tree,
    host: &'a Tree,
    files: &'a FileRules,
    keeper: &'a dyn StartKeeper,
}

/// The file that a call names.
struct Named {
    /// The path as it is given, from the root on, or the name of a file that has no path.
    path: Vec<u8>,
    found: Option<Located>,
}

/// Words at an address.
struct Words {
    words: Vec<Vec<u8>>,
    /// Whether none was left out or cut.
    are_all: bool,
}

/// What a script is started by.
struct Interpreter {
    program: Vec<u8>,
    argument: Option<Vec<u8>>,
    /// Where a link leads that the command may have made.
    led_to: Option<Vec<u8>>,
}

impl Reader<'_> {
    fn argument(&self, place: usize) -> u64 {
        self.call.arguments.get(place).copied().unwrap_or_default()
    }

    /// The directory of the call, and the place of its path among the arguments. Words and variables follow it.
    fn path_at(&self) -> (Option<i32>, usize) {
        if self.call.call == libc::SYS_execveat { (Some(self.argument(0) as i32), 1) } else { (None, 0) }
    }

    fn read(&self) -> Reading {
        let (directory, path_at) = self.path_at();
        let text = match read_path(self.call.thread, self.argument(path_at)) {
            Ok(text) => text,
            Err(error) => return unread(&error),
        };
        let Some(named) = self.named(directory, &text) else { return Reading::Passes };
        let first = match self.words(self.argument(path_at + 1), 1) {
            Ok(first) => first.words.into_iter().next(),
            Err(error) => return unread(&error),
        };
        let told = first.map(|word| word.strip_prefix(b"-").map(<[u8]>::to_vec).unwrap_or(word));
        let interpreters = self.interpreters(named.found.as_ref());
        let file = named.found.as_ref().map(|found| base_name(found.path.as_raw().as_bytes()).to_vec());
        let mut programs = vec![named.path.clone()];
        programs.extend(told.filter(|told| !told.is_empty() && base_name(told) != base_name(&named.path)));
        programs.extend(self.led_to(&named));
        let of_interpreters =
            interpreters.iter().flat_map(|found| std::iter::once(&found.program).chain(&found.led_to));
        let names = programs.iter().chain(of_interpreters).chain(&file);
        let may_concern = |name: &[u8]| self.keeper.concerns(name) || is_loader(name);
        if !names.into_iter().any(|name| may_concern(base_name(name))) {
            return Reading::Passes;
        }
        let Words { words, are_all } = match self.words(self.argument(path_at + 1), MOST_WORDS) {
            Ok(words) => words,
            Err(error) => return unread(&error),
        };
        let copied = if are_all { self.copy(&named, &words, &interpreters) } else { None };
        let (copy, directory) = copied.unzip();
        let rest = words.get(1..).unwrap_or_default();
        let plain = programs.iter().map(|program| form(std::slice::from_ref(program), rest));
        let mut forms: Vec<Vec<RawText>> = plain.collect();
        let mut script = vec![named.path.clone()];
        for Interpreter { program, argument, led_to } in interpreters {
            let before: Vec<Vec<u8>> = std::iter::once(program).chain(argument).chain(script).collect();
            forms.push(form(&before, rest));
            let others = led_to.into_iter().chain(before.iter().skip(1).cloned()).collect::<Vec<_>>();
            forms.extend((others.len() == before.len()).then(|| form(&others, rest)));
            script = before;
        }
        let file = self.load(&mut forms).or(file);
        let cwd = self.view.absolute(self.call.thread, None, b".").and_then(|path| AbsPath::parse(path).ok());
        let start = ProgramStart { forms, has_more_words: !are_all, file: file.map(RawText::from), cwd, copy };
        Reading::Start { start, empty: self.argument(path_at).wrapping_add(text.len() as u64), directory }
    }

    /// Adds what a dynamic loader among the programs is told to run, and gives the base name of that file.
    fn load(&self, forms: &mut Vec<Vec<RawText>>) -> Option<Vec<u8>> {
        let (mut more, mut file) = (Vec::new(), None);
        for form in forms.iter() {
            let Some((first, arguments)) = form.split_first() else { continue };
            let Some(loaded) = is_loader(base_name(first.as_bytes())).then(|| loaded(arguments)).flatten() else {
                continue;
            };
            let given = loaded.program.as_bytes();
            let path = self.view.absolute(self.call.thread, None, given).unwrap_or_else(|| given.to_vec());
            let found = self.view.locate(&path, LastLink::Followed).ok().filter(Located::exists);
            let named = Named { path, found };
            let found = named.found.as_ref().map(|found| base_name(found.path.as_raw().as_bytes()).to_vec());
            let names = [Some(named.path.clone()), self.led_to(&named), loaded.told.map(<[u8]>::to_vec)];
            let forms = names.into_iter().flatten().map(RawText::from);
            more.extend(forms.map(|name| std::iter::once(name).chain(loaded.rest.iter().cloned()).collect()));
            file = file.or(found);
        }
        forms.extend(more);
        file
    }

    /// The file of a call; `None` if there is none that the kernel could start.
    fn named(&self, directory: Option<i32>, text: &[u8]) -> Option<Named> {
        const EMPTY_PATH: i32 = libc::AT_EMPTY_PATH;
        let is_open_file = text.is_empty() && self.argument(4) as i32 & EMPTY_PATH != 0;
        let link = process_links::link(text).and_then(|link| self.behind(&link));
        let path = match (directory, is_open_file) {
            (Some(number), true) => self.behind(&format!("fd/{number}"))?,
            _ => match link.or_else(|| self.view.absolute(self.call.thread, directory, text)) {
                Some(path) => path,
                None if text.is_empty() => return None,
                // An open file without a path: `/dev/fd/3` of a file that was removed.
                None => text.to_vec(),
            },
        };
        if !path.starts_with(b"/") {
            return Some(Named { path, found: None });
        }
        // `/a/./b` is the same name. What `/a/../b` means depends on links: it is known by the file that it leads to.
        let normal = AbsPath::parse(path.clone()).ok().map(|parsed| parsed.as_raw().as_bytes().to_vec());
        match self.view.locate(&path, LastLink::Followed) {
            Ok(found) => {
                let path = normal.unwrap_or_else(|| found.path.as_raw().as_bytes().to_vec());
                found.exists().then_some(Named { path, found: Some(found) })
            }
            // Names below `/proc` mean other files to this process.
            Err(Errno::NOENT | Errno::NOTDIR) if !path.starts_with(b"/proc/") => None,
            Err(_) => Some(Named { path, found: None }),
        }
    }

    /// What a link of the calling process in `/proc` leads to.
    fn behind(&self, link: &str) -> Option<Vec<u8>> {
        let path = fs::read_link(format!("/proc/{}/{link}", self.call.thread)).ok()?.into_os_string().into_vec();
        let path = path.strip_suffix(b" (deleted)").map(<[u8]>::to_vec).unwrap_or(path);
        Some(self.view.inside(path.clone()).unwrap_or(path))
    }

    /// Where a link leads that the command may have made itself. The system's links are names of their own.
    fn led_to(&self, named: &Named) -> Option<Vec<u8>> {
        let found = named.found.as_ref()?;
        let given = AbsPath::parse(named.path.clone()).ok()?;
        // The sandbox has its own `/dev`, and private directories.
        let is_own = self.files.access(&given) != Access::Read || named.path.starts_with(b"/dev/");
        (is_own && found.path != given).then(|| found.path.as_raw().as_bytes().to_vec())
    }

    /// The interpreters of a script, its own first.
    fn interpreters(&self, found: Option<&Located>) -> Vec<Interpreter> {
        let mut all = Vec::new();
        let mut head = found.and_then(head_of);
        while let Some(interpreter) = head.as_deref().and_then(interpreter) {
            let path = self.view.absolute(self.call.thread, None, &interpreter.program);
            let path = path.unwrap_or_else(|| interpreter.program.clone());
            let next = self.view.locate(&path, LastLink::Followed).ok();
            let named = Named { path, found: next };
            all.push(Interpreter { led_to: self.led_to(&named), ..interpreter });
            let next = named.found;
            if all.len() >= MOST_INTERPRETERS {
                break;
            }
            head = next.as_ref().and_then(head_of);
        }
        all
    }

    /// The words at an address, up to a number and a size.
    fn words(&self, address: u64, most: usize) -> io::Result<Words> {
        const POINTER: usize = size_of::<u64>();
        if address == 0 {
            return Ok(Words { words: Vec::new(), are_all: true });
        }
        let mut pointers = vec![0; most * POINTER];
        let read = notify::read_memory(self.call.thread, address, &mut pointers)?;
        let pointers = pointers.get(..read).unwrap_or_default();
        let addresses =
            pointers.chunks_exact(POINTER).filter_map(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        let (mut words, mut left, mut are_all) = (Vec::new(), MOST_BYTES, false);
        for address in addresses {
            if address == 0 {
                are_all = true;
                break;
            }
            let most = left.min(LONGEST_WORD);
            let word = read_text(self.call.thread, address, most)?;
            let is_cut = word.len() >= most;
            left -= word.len().min(left);
            words.push(word);
            if left == 0 || is_cut {
                break;
            }
        }
        Ok(Words { words, are_all })
    }
}

/// The kernel reads the same words, and fails as this process did where there are none. Any other failure says that the
/// caller can't be looked at.
fn unread(error: &io::Error) -> Reading {
    match error.raw_os_error() {
        Some(libc::EFAULT) | None => Reading::Passes,
        Some(_) => Reading::Unreadable,
    }
}

fn form(before: &[Vec<u8>], rest: &[Vec<u8>]) -> Vec<RawText> {
    before.iter().chain(rest).cloned().map(RawText::from).collect()
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The first bytes of a regular file that this user may read.
fn head_of(found: &Located) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = found.open(flags, Mode::empty()).ok()?;
    let is_file = rustix::fs::fstat(&file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
    let mut head = Vec::with_capacity(HEAD);
    File::from(file).take(HEAD as u64).read_to_end(&mut head).ok().filter(|_| is_file)?;
    Some(head)
}

/// The interpreter that a file names, as the kernel reads it.
fn interpreter(head: &[u8]) -> Option<Interpreter> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = line.trim_ascii();
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (program, argument) = line.split_at_checked(end)?;
    let argument = argument.trim_ascii();
    let argument = (!argument.is_empty()).then(|| argument.to_vec());
    (!program.is_empty()).then(|| Interpreter { program: program.to_vec(), argument, led_to: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_read_as_the_kernel_reads_them() {
        let read = |head: &str| {
            interpreter(head.as_bytes()).map(|found| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                (text(found.program), found.argument.map(text))
            })
        };
        let of = |program: &str, argument: Option<&str>| Some((program.to_owned(), argument.map(str::to_owned)));
        assert_eq!(read("#!/bin/sh\necho"), of("/bin/sh", None));
        assert_eq!(read("#! /usr/bin/env  -S python3 -u \nx"), of("/usr/bin/env", Some("-S python3 -u")));
        assert_eq!(read("#!\t/bin/bash\t-e"), of("/bin/bash", Some("-e")));
        for nothing in ["", "#!", "#!\n/bin/sh", "\x7fELF", " #!/bin/sh"] {
            assert_eq!(read(nothing), None, "{nothing:?}");
        }
    }
}
