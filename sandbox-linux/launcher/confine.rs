//! Confining the command's own process, right before the command starts.

use crate::reader::Reader;
use crate::sys::{self, AT_FDCWD, EINVAL, Errno, PointerList, Result};
use crate::wire;

const PR_GET_SECCOMP: usize = 21;
const PR_CAPBSET_READ: usize = 23;
const PR_CAPBSET_DROP: usize = 24;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_GET_NO_NEW_PRIVS: usize = 39;
const PR_CAP_AMBIENT: usize = 47;
const CLEAR_ALL_AMBIENT: usize = 4;
const FILTERED: usize = 2;
/// No kernel has more capabilities than bits in their sets.
const CAPABILITIES: usize = 64;

/// Does one step; `None` if it is not one of these.
pub(crate) fn step(number: u8, plan: &mut Reader, facts: &mut u64) -> Option<Result<()>> {
    Some(match number {
        wire::STEP_WORKING_DIRECTORY => plan.text().and_then(sys::change_directory).map(drop),
        wire::STEP_SAME_DIRECTORY => same_directory(plan),
        wire::STEP_SESSION => sys::new_session().map(drop),
        wire::STEP_TAKE_TERMINAL => sys::take_terminal().map(drop),
        wire::STEP_LIMIT => limit(plan),
        wire::STEP_CALLERS_LIMIT => callers_limit(plan),
        wire::STEP_UMASK => plan.index().map(sys::umask).map(drop),
        wire::STEP_IGNORE_BROKEN_PIPES => sys::ignore_broken_pipes().map(drop),
        wire::STEP_NO_NEW_PRIVILEGES => sys::prctl(PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0]).map(drop),
        wire::STEP_DROP_CAPABILITIES => drop_capabilities(),
        wire::STEP_LANDLOCK => landlock(plan).map(|()| *facts |= wire::FACT_LANDLOCK),
        wire::STEP_LANDLOCK_FOR_FILES => landlock_for_files(plan),
        wire::STEP_SECCOMP => plan.bytes().and_then(sys::seccomp).map(drop),
        _ => return None,
    })
}

fn same_directory(plan: &mut Reader) -> Result<()> {
    let (device, number) = (plan.number()?, plan.number()?);
    sys::is_working_directory(device, number)
}

fn limit(plan: &mut Reader) -> Result<()> {
    let (resource, value) = (plan.number()?, plan.number()?);
    sys::set_limit(resource, value).map(drop)
}

fn callers_limit(plan: &mut Reader) -> Result<()> {
    let (resource, soft, hard) = (plan.number()?, plan.number()?, plan.number()?);
    sys::set_callers_limit(resource, soft, hard).map(drop)
}

/// Gives up every capability, and every way to get one back.
fn drop_capabilities() -> Result<()> {
    for capability in 0..CAPABILITIES {
        // The first number that the kernel does not know ends the list.
        if sys::prctl(PR_CAPBSET_DROP, [capability, 0, 0, 0]) == Err(EINVAL) {
            break;
        }
    }
    sys::prctl(PR_CAP_AMBIENT, [CLEAR_ALL_AMBIENT, 0, 0, 0])?;
    sys::drop_capabilities().map(drop)
}

fn landlock(plan: &mut Reader) -> Result<()> {
    let attributes = [plan.number()?, plan.number()?, plan.number()?];
    let known = attributes.get(..plan.index()?).ok_or(EINVAL)?;
    let ruleset = sys::landlock_ruleset(known)?;
    for _ in 0..plan.index()? {
        let (path, access) = (plan.text()?, plan.number()?);
        let file = sys::open_exact(AT_FDCWD, path, 0)?;
        // What has no right here is only looked at: a link that stands there now is not what was approved.
        let added = if access == 0 { Ok(0) } else { sys::landlock_path(ruleset, file, access) };
        sys::close(file);
        added?;
    }
    sys::landlock_restrict(ruleset)?;
    sys::close(ruleset);
    Ok(())
}

/// Once the standard streams are in their places. A file that can be written can be cut to nothing anyway;
/// through a socket another one may come that can't.
fn landlock_for_files(plan: &mut Reader) -> Result<()> {
    let mut rules = plan.part()?;
    let is_kept = |stream| match sys::kind(stream) {
        Ok(sys::FILE) => sys::can_be_written(stream) != Ok(true),
        Ok(kind) => kind == sys::SOCKET,
        Err(_) => true,
    };
    if (0..3).any(is_kept) { landlock(&mut rules) } else { Ok(()) }
}

/// What the kernel says of this process, now that everything has been applied.
pub(crate) fn read_back(mut facts: u64) -> u64 {
    let holds = |option, expected| sys::prctl(option, [0; 4]) == Ok(expected);
    if holds(PR_GET_NO_NEW_PRIVS, 1) {
        facts |= wire::FACT_NO_NEW_PRIVILEGES;
    }
    if holds(PR_GET_SECCOMP, FILTERED) {
        facts |= wire::FACT_SECCOMP;
    }
    if sys::has_no_capabilities() == Ok(true) {
        facts |= wire::FACT_NO_CAPABILITIES;
    }
    // The first number that the kernel does not know ends the list.
    let mut bounds = (0..CAPABILITIES).map(|capability| sys::prctl(PR_CAPBSET_READ, [capability, 0, 0, 0]));
    if bounds.find(|bound| *bound != Ok(0)).is_none_or(|bound| bound == Err(EINVAL)) {
        facts |= wire::FACT_NO_BOUNDING_SET;
    }
    facts
}

/// A command, ready to be started.
pub(crate) struct Command {
    paths: Reader,
    /// The program is named by its path, and not searched for.
    is_path: bool,
    arguments: PointerList,
    environment: PointerList,
}

impl Command {
    pub(crate) fn read(plan: &mut Reader) -> Result<Self> {
        let is_path = first(plan.again())?.contains(&b'/');
        let arguments = list(plan)?;
        let environment = list(plan)?;
        Ok(Self { paths: plan.part()?, is_path, arguments, environment })
    }

    /// Tries each path in turn, as a shell does along `PATH`, and gives the most telling error. A directory that can't be
    /// searched holds no program, and neither does one of the program's name: the search goes on behind both.
    pub(crate) fn start(mut self) -> Errno {
        const EACCES: Errno = Errno(13);
        const ENOENT: Errno = Errno(2);
        let mut result = ENOENT;
        while !self.paths.is_empty() {
            let Ok(path) = self.paths.text() else { return EINVAL };
            match sys::exec(path, &self.arguments, &self.environment) {
                errno if self.is_path => return errno,
                _ if !sys::is_no_directory(path) => {}
                ENOENT => {}
                EACCES => result = EACCES,
                other => return other,
            }
        }
        result
    }
}

/// The first text of a list.
fn first(mut list: Reader) -> Result<&'static [u8]> {
    if list.index()? == 0 { Ok(b"") } else { list.bytes() }
}

fn list(plan: &mut Reader) -> Result<PointerList> {
    let count = plan.index()?;
    let mut list = PointerList::new(count)?;
    for index in 0..count {
        list.set(index, plan.text()?)?;
    }
    Ok(list)
}
