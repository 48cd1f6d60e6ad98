//! Starts of programs: what is about to be started, read from the process that waits in `execve` or `execveat`.
//!
//! Everything is copied once, within bounds, and what was copied is judged. The kernel then goes on with the call or fails
//! it. So what a caller changes meanwhile gains it nothing beyond the sandbox. A program that is to have more is
//! started from the copy ([`elsewhere`](super::elsewhere)), and the call goes on with a stub.
//!
//! - A path that leads nowhere is not judged: the kernel says so, and a search along `PATH` goes on to the next place.
//! - A program is judged by the path that it is given and by the file that the kernel finds there ([`start_file`](super::start_file)).
//!   If that can't be known, it is not started.
//! - What a script is started with is judged as the kernel would start it: the interpreter, its argument, the script.
//! - A caller that can't be read starts nothing: its memory is another user's, or it is not dumpable and the sandbox has
//!   no user namespace that this user made. A caller whose words are at no address gets what the kernel says to that.

mod copy;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stockade_protocol::{AbsPath, Access, FileRules, RawText};
use stockade_sandboxing::{Concern, ProgramStart, StartAnswer, StartCaller, StartKeeper, StartVerdict};

use super::chain::chain;
use super::elsewhere::Redirections;
use super::loader::{is_loader, loaded};
use super::resolve::{Tree, read_path, read_text};
use super::start_file::{NotFound, StartFile};
use crate::supervisor::program_of;
use crate::sys::notify::{self, Notification};

/// The most words that are read: rules speak of the first ones, and what a wrapper starts is judged when it does.
const MOST_WORDS: usize = 512;
/// The most bytes of all words together, and of one. The kernel takes no longer word.
const MOST_BYTES: usize = 256 * 1024;
const LONGEST_WORD: usize = 128 * 1024;
/// As often as the kernel looks for an interpreter, and as much of a line that does not end, behind `#!`.
const LONGEST_LINE: usize = 253;
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
    /// It can't be known which file the kernel would start by this path.
    Unresolved { path: Vec<u8> },
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
            Reading::Unreadable | Reading::Unresolved { .. } if !self.keeper.restricts() => self.go_on(call),
            Reading::Unresolved { path } => {
                self.keeper.unresolved(caller(call), RawText::from(path));
                self.refuse(call);
            }
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
    /// The name by which it is shown: the path as it is given, from the root on, or what the kernel calls the file if that is
    /// a path by way of a process, or up by `..`.
    path: Vec<u8>,
    /// The path as it is given, where that is another.
    given: Option<Vec<u8>>,
    found: Option<StartFile>,
}

/// Why there is nothing to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotNamed {
    /// The kernel finds nothing that it could start.
    Missing,
    /// It can't be known what the kernel would start.
    Unknown,
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
    names: Names,
}

/// The names of a program, beyond the one that it is given.
#[derive(Default)]
struct Names {
    /// Those that every rule counts with.
    all: Vec<Vec<u8>>,
    /// Those that only rules count with that name a path.
    paths: Vec<Vec<u8>>,
}

impl Names {
    fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.all.iter().chain(&self.paths)
    }
}

/// The commands that a start is judged as.
#[derive(Default)]
struct Forms {
    all: Vec<Vec<RawText>>,
    paths: Vec<Vec<RawText>>,
}

impl Forms {
    /// Adds the command under each of these names.
    fn extend(&mut self, names: &Names, rest: &[Vec<u8>]) {
        let under = |names: &[Vec<u8>]| -> Vec<Vec<RawText>> {
            names.iter().map(|name| form(std::slice::from_ref(name), rest)).collect()
        };
        self.all.extend(under(&names.all));
        self.paths.extend(under(&names.paths));
    }
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
        self.judged(directory, path_at, &text).unwrap_or_else(|not_named| match not_named {
            NotNamed::Missing => Reading::Passes,
            NotNamed::Unknown => Reading::Unresolved { path: text },
        })
    }

    fn judged(&self, directory: Option<i32>, path_at: usize, text: &[u8]) -> Result<Reading, NotNamed> {
        let named = self.named(directory, text)?;
        let first = match self.words(self.argument(path_at + 1), 1) {
            Ok(first) => first.words.into_iter().next(),
            Err(error) => return Ok(unread(&error)),
        };
        let told = first.map(|word| word.strip_prefix(b"-").map(<[u8]>::to_vec).unwrap_or(word));
        let interpreters = self.interpreters(named.found.as_ref())?;
        let file = named.found.as_ref().and_then(|found| found.names.last()).map(|name| base_name(name).to_vec());
        let mut programs = self.names(&named);
        let told = told.filter(|told| !told.is_empty() && base_name(told) != base_name(&named.path));
        programs.all.splice(1..1, told);
        let of_interpreters =
            interpreters.iter().flat_map(|found| std::iter::once(&found.program).chain(found.names.iter()));
        let names = programs.iter().chain(of_interpreters).chain(&file);
        let may_concern = |name: &[u8]| self.keeper.concerns(name) || is_loader(name);
        if !names.into_iter().any(|name| may_concern(base_name(name))) {
            return Ok(Reading::Passes);
        }
        let Words { words, are_all } = match self.words(self.argument(path_at + 1), MOST_WORDS) {
            Ok(words) => words,
            Err(error) => return Ok(unread(&error)),
        };
        let copied = if are_all { self.copy(&named, &words, &interpreters) } else { None };
        let (copy, directory) = copied.unzip();
        let mut rest = words.get(1..).unwrap_or_default().to_vec();
        let mut forms = Forms::default();
        forms.extend(&programs, &rest);
        let mut script = named.path.clone();
        for Interpreter { program, argument, mut names } in interpreters {
            rest.splice(0..0, argument.into_iter().chain([script]));
            names.all.insert(0, program.clone());
            forms.extend(&names, &rest);
            script = program;
        }
        let file = self.load(&mut forms)?.or(file);
        let cwd = self.view.absolute(self.call.thread, None, b".").and_then(|path| AbsPath::parse(path).ok());
        let file = file.map(RawText::from);
        let Forms { all: forms, paths: path_forms } = forms;
        let start = ProgramStart { forms, path_forms, has_more_words: !are_all, file, cwd, copy };
        Ok(Reading::Start { start, empty: self.argument(path_at).wrapping_add(text.len() as u64), directory })
    }

    /// Adds what a dynamic loader among the programs is told to run, and gives the base name of that file.
    fn load(&self, forms: &mut Forms) -> Result<Option<Vec<u8>>, NotNamed> {
        let mut file = None;
        let loaders: Vec<Vec<RawText>> = forms.all.iter().filter(|form| is_form_of_loader(form)).cloned().collect();
        for form in loaders {
            let Some(loaded) = form.get(1..).and_then(loaded) else { continue };
            let given = loaded.program.as_bytes();
            let named = match self.named(None, given) {
                Ok(named) => named,
                // The loader looks for a name without `/` among the libraries.
                Err(NotNamed::Missing) => Named { path: given.to_vec(), given: None, found: None },
                Err(NotNamed::Unknown) => return Err(NotNamed::Unknown),
            };
            let mut names = self.names(&named);
            names.all.extend(loaded.told.map(<[u8]>::to_vec));
            if !given.contains(&b'/') {
                // It may be any file of this name.
                names.paths.push(given.to_vec());
            }
            let rest: Vec<Vec<u8>> = loaded.rest.iter().map(|word| word.as_bytes().to_vec()).collect();
            forms.extend(&names, &rest);
            let found = named.found.as_ref().and_then(|found| found.names.last());
            file = file.or_else(|| found.map(|name| base_name(name).to_vec()));
        }
        Ok(file)
    }

    /// The file of a call.
    fn named(&self, directory: Option<i32>, text: &[u8]) -> Result<Named, NotNamed> {
        let (thread, view) = (self.call.thread, self.view);
        let is_open_file = text.is_empty() && self.argument(4) as i32 & libc::AT_EMPTY_PATH != 0;
        let found = match directory {
            Some(number) if is_open_file => StartFile::of_descriptor(view, thread, number),
            _ if text.is_empty() => return Err(NotNamed::Missing),
            _ => StartFile::find(view, thread, directory, text),
        };
        let given = if is_open_file { None } else { from_root(view, thread, directory, text) };
        // `/a/./b` is the same name. What `/a/../b` and `/proc/self/cwd/b` mean is known by the file that they lead to.
        let normal = given.clone().and_then(|given| AbsPath::parse(given).ok());
        let normal = normal.map(|normal| normal.as_raw().as_bytes().to_vec());
        let found = match found {
            Ok(found) => Some(found),
            Err(NotFound::Barred) => None,
            Err(NotFound::Missing) => return Err(NotNamed::Missing),
            Err(NotFound::Unknown) => return Err(NotNamed::Unknown),
        };
        let own = found.as_ref().and_then(|found| found.names.first()).cloned();
        let is_by_process = found.as_ref().is_some_and(|found| found.is_by_process);
        let path = match normal.clone().filter(|_| !is_by_process).or(own) {
            Some(path) => path,
            None => text.to_vec(),
        };
        let given = normal.or(given).filter(|given| *given != path);
        Ok(Named { path, given, found })
    }

    /// The names by which a program is judged, the one that is shown first. Where a link leads that the command may have made
    /// itself is a name for every rule. The system's links are names of their own: only a rule that names a path is
    /// about the file.
    fn names(&self, named: &Named) -> Names {
        // The sandbox has its own `/dev`, and private directories.
        let is_made = |path: AbsPath| self.files.access(&path) != Access::Read || named.path.starts_with(b"/dev/");
        let is_own = AbsPath::parse(named.path.clone()).is_ok_and(is_made);
        let mut all = vec![named.path.clone()];
        all.extend(named.given.clone());
        let others = named.found.iter().flat_map(|found| &found.names).filter(|name| **name != named.path);
        let others: Vec<Vec<u8>> = others.cloned().collect();
        match is_own {
            true => Names { all: [all, others].concat(), paths: Vec::new() },
            false => Names { all, paths: others },
        }
    }

    /// The interpreters of a script, its own first.
    fn interpreters(&self, found: Option<&StartFile>) -> Result<Vec<Interpreter>, NotNamed> {
        let mut all = Vec::new();
        let mut head = found.and_then(StartFile::head);
        while let Some((program, argument)) = head.as_deref().and_then(interpreter) {
            let named = match self.named(None, &program) {
                Ok(named) => named,
                Err(NotNamed::Missing) => Named { path: program.clone(), given: None, found: None },
                Err(NotNamed::Unknown) => return Err(NotNamed::Unknown),
            };
            let mut names = self.names(&named);
            names.all.retain(|name| *name != program);
            all.push(Interpreter { program, argument, names });
            if all.len() >= MOST_INTERPRETERS {
                break;
            }
            head = named.found.as_ref().and_then(StartFile::head);
        }
        Ok(all)
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

/// A path as it is given, from the root on.
fn from_root(view: &Tree, thread: i32, directory: Option<i32>, text: &[u8]) -> Option<Vec<u8>> {
    if text.starts_with(b"/") { Some(text.to_vec()) } else { view.absolute(thread, directory, text) }
}

fn is_form_of_loader(form: &[RawText]) -> bool {
    form.first().is_some_and(|program| is_loader(base_name(program.as_bytes())))
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The interpreter that a file names, and its argument, as the kernel reads them: only blanks and tabs separate, and a NUL ends
/// the line like a newline.
///
/// <https://github.com/torvalds/linux/blob/v6.12/fs/binfmt_script.c>
fn interpreter(head: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = head.strip_prefix(b"#!")?;
    let end = line.iter().position(|byte| matches!(byte, b'\n' | b'\0')).unwrap_or(line.len().min(LONGEST_LINE));
    let line = trimmed(line.get(..end)?);
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (program, argument) = line.split_at_checked(end)?;
    let argument = trimmed(argument);
    let argument = (!argument.is_empty()).then(|| argument.to_vec());
    (!program.is_empty()).then(|| (program.to_vec(), argument))
}

/// A text without blanks and tabs around it.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_read_as_the_kernel_reads_them() {
        let read = |head: &str| {
            interpreter(head.as_bytes()).map(|(program, argument)| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                (text(program), argument.map(text))
            })
        };
        let of = |program: &str, argument: Option<&str>| Some((program.to_owned(), argument.map(str::to_owned)));
        assert_eq!(read("#!/bin/sh\necho"), of("/bin/sh", None));
        assert_eq!(read("#! /usr/bin/env  -S python3 -u \nx"), of("/usr/bin/env", Some("-S python3 -u")));
        assert_eq!(read("#!\t/bin/bash\t-e"), of("/bin/bash", Some("-e")));
        assert_eq!(read("#!/bin/sh\0x\n"), of("/bin/sh", None));
        assert_eq!(read("#! /bin/sh -e\0-x y\n"), of("/bin/sh", Some("-e")));
        assert_eq!(read("#!t\r\n"), of("t\r", None));
        assert_eq!(read("#!\u{b}t\u{c} \u{c}\n"), of("\u{b}t\u{c}", Some("\u{c}")));
        for nothing in ["", "#!", "#!\n/bin/sh", "#!\0/bin/sh", "#! \t", "\x7fELF", " #!/bin/sh"] {
            assert_eq!(read(nothing), None, "{nothing:?}");
        }
    }
}
