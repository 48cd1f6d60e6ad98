//! The plan done: marks, token, job, desktop, a suspended process, a look at what holds, and only then
//! the command's first instruction.

use std::fs::{self, File};
use std::io;
use std::os::windows::io::{AsHandle as _, AsRawHandle, OwnedHandle};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use stockade_protocol::AbsPath;
use stockade_sandboxing::{Kind, SpawnError, Stdio, Unenforceable};

use crate::acl::{Acl, Descriptor, Entry, Says};
use crate::check::{self, Closed, Found, Opened};
use crate::console::{Direction, Route};
use crate::job_plan::WindowLimits;
use crate::journal::{self, Journal, Record};
use crate::mark::{Grant, Label, Mark, Place, is_kept_open, right};
use crate::plan::WindowsPlan;
use crate::running::{Child, RunParts};
use crate::sys::file::{self, Others};
use crate::sys::process::{Console, Desktop, Start, Streams, Suspended};
use crate::sys::{job, process as processes, token};
use crate::token_plan::{Integrity, is_powerful};
use crate::tree::{self, Put};
use crate::{Sid, environment};

/// What to do about layers that do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Nothing runs.
    Required,
    /// They are reported. For tests of everything else where no layer can hold.
    #[cfg(test)]
    Reported,
}

impl Checks {
    /// Takes what could not be done for missing, where that is only reported.
    fn settle<T>(self, done: io::Result<T>, missing: impl FnOnce() -> T) -> io::Result<T> {
        match (self, done) {
            #[cfg(test)]
            (Self::Reported, Err(_)) => Ok(missing()),
            (_, done) => done.inspect_err(|_| drop(missing)),
        }
    }
}

fn setup(step: impl Into<String>) -> impl FnOnce(io::Error) -> SpawnError {
    let step = step.into();
    move |source| SpawnError::Setup { step, source }
}

/// Starts a plan's command.
pub(crate) fn start(plan: &WindowsPlan, journal: &Journal, stdio: Stdio, checks: Checks) -> Result<Child, SpawnError> {
    let not_found = || SpawnError::NotFound { program: plan.program_name.clone() };
    let application = plan.application.as_ref().and_then(|path| path.as_raw().as_str()).ok_or_else(not_found)?;
    let own = token::own().map_err(setup("open this program's token"))?;
    let session = Session::of(&own).map_err(setup("read this program's token"))?;
    let restricting = plan.token.restricting_sids(&plan.capabilities(), &session.logon);
    let token = restricted(plan, &own, &session, &restricting).map_err(setup("restrict the token"))?;
    let (marks, put) = Marks::put(plan, journal, &token, checks)?;
    let desktop = desktop(plan, &session, &marks.id).map_err(setup("make the desktop"))?;
    let streams = OpenStreams::new(stdio).map_err(setup("open the standard streams"))?;
    let block = environment::block(&marks.environment(plan));
    let in_job = |job: &OwnedHandle| {
        processes::start(&Start {
            token: &token,
            application,
            command_line: &plan.command_line,
            environment: &block,
            directory: plan.cwd.as_raw().as_str().unwrap_or_default(),
            job,
            desktop: &desktop,
            streams: streams.as_streams(),
        })
    };
    let (job, windows, suspended) = start_in_job(plan, in_job)?;
    let found = look(plan, &marks, &suspended, (&job, windows), put).map_err(setup("read back what holds"))?;
    let layers = check::layers(plan, &restricting, &found);
    // Dropped here, the job ends the process and the marks come off.
    if let (Checks::Required, Some(missing)) = (checks, check::missing(&layers)) {
        return Err(SpawnError::NotEnforced { missing });
    }
    let process = suspended.resume().map_err(setup("let the command run"))?;
    let parts = RunParts { marks, desktop, console: streams.console, copies: streams.copies };
    Ok(Child::new(process, job, parts, check::enforcement(plan, layers)))
}

/// Starts the process in a job with limits on windows, or without them if Windows refuses that inside another job.
fn start_in_job(
    plan: &WindowsPlan,
    start: impl Fn(&OwnedHandle) -> io::Result<Suspended>,
) -> Result<(OwnedHandle, WindowLimits, Suspended), SpawnError> {
    let mut windows = WindowLimits::All;
    loop {
        let job = job::create(&plan.job, windows).map_err(setup("make the job object"))?;
        let source = match start(&job) {
            Ok(suspended) => return Ok((job, windows, suspended)),
            Err(source) => source,
        };
        match windows.after(&source, job::is_this_program_in_one()) {
            Some(next) => windows = next,
            None if source.kind() == io::ErrorKind::NotFound => {
                return Err(SpawnError::NotFound { program: plan.program_name.clone() });
            }
            None => return Err(SpawnError::NotExecutable { program: plan.program_name.clone(), source }),
        }
    }
}

/// Who this program runs as, and in which logon session.
struct Session {
    user: Sid,
    logon: Sid,
    powerful: Vec<Sid>,
}

impl Session {
    fn of(token: &OwnedHandle) -> io::Result<Self> {
        let groups = token::all_groups(token)?;
        let user = token::user(token)?;
        // A service has no session of its own; then its user stands for it, which opens nothing more.
        let logon = groups.iter().find(|group| group.is_logon()).unwrap_or(&Sid::nt([5, 0, 0])).clone();
        Ok(Self { user, logon, powerful: groups.into_iter().filter(is_powerful).collect() })
    }
}

fn restricted(
    plan: &WindowsPlan,
    own: &OwnedHandle,
    session: &Session,
    restricting: &[Sid],
) -> io::Result<OwnedHandle> {
    let token = token::restrict(own, &session.powerful, restricting)?;
    let list = everything_for(&own_objects(plan, session));
    token::set_default_list(&token, &list.to_bytes().unwrap_or_default())?;
    if plan.token.integrity == Integrity::Low {
        token::set_integrity(&token, &plan.token.integrity.sid())?;
    }
    Ok(token)
}

/// Who may use what the command makes for itself: without the capability it could not write to that.
fn own_objects(plan: &WindowsPlan, session: &Session) -> Vec<Sid> {
    vec![session.user.clone(), Sid::nt([18]), plan.capability.clone()]
}

fn everything_for(whom: &[Sid]) -> Acl {
    let all = 0x1000_0000;
    let entry = |sid: &Sid| Entry::Known { says: Says::Allow, flags: 0, mask: all, sid: sid.clone() };
    Acl(whom.iter().map(entry).collect())
}

fn desktop(plan: &WindowsPlan, session: &Session, id: &str) -> io::Result<Desktop> {
    let label = match plan.token.integrity {
        Integrity::Low => Label::Low,
        Integrity::Medium => Label::Plain,
    };
    let descriptor = Descriptor {
        control: 0,
        dacl: Some(everything_for(&own_objects(plan, session))),
        sacl: Some(Acl(vec![label.entry(Place::Top, Kind::File)])),
    };
    Desktop::create(&format!("stockade-{id}"), &descriptor.to_bytes().unwrap_or_default())
}

/// The standard streams, as a start takes them.
struct OpenStreams {
    handles: [OwnedHandle; 3],
    console: Option<Console>,
    /// Threads that copy to this program's console.
    copies: Vec<JoinHandle<()>>,
}

impl OpenStreams {
    fn new(stdio: Stdio) -> io::Result<Self> {
        let mut copies = Vec::new();
        let handles = [
            stream(stdio.stdin, &io::stdin(), Direction::In, &mut copies)?,
            stream(stdio.stdout, &io::stdout(), Direction::Out, &mut copies)?,
            stream(stdio.stderr, &io::stderr(), Direction::Out, &mut copies)?,
        ];
        let [input, output, _] = &handles;
        let console = stdio.controlling_terminal.then(|| Console::create(input, output)).transpose()?;
        Ok(Self { handles, console, copies })
    }

    fn as_streams(&self) -> Streams<'_> {
        match &self.console {
            Some(console) => Streams::Console(console),
            None => Streams::Handles(&self.handles),
        }
    }
}

fn stream(
    stream: stockade_sandboxing::Streams,
    own: &impl AsRawHandle,
    direction: Direction,
    copies: &mut Vec<JoinHandle<()>>,
) -> io::Result<OwnedHandle> {
    match stream {
        stockade_sandboxing::Streams::Null => null(),
        stockade_sandboxing::Streams::Inherit => match Route::of(direction, processes::is_console(own)) {
            Route::Handle => processes::inheritable(own),
            Route::Empty => null(),
            Route::Copied => {
                let (handle, copy) = copied(own)?;
                copies.push(copy);
                Ok(handle)
            }
        },
        stockade_sandboxing::Streams::To(handle) => processes::inheritable(&handle),
    }
}

fn null() -> io::Result<OwnedHandle> {
    let null = fs::OpenOptions::new().read(true).write(true).open("NUL")?;
    processes::inheritable(&null.as_handle())
}

/// A pipe whose content a thread copies to a stream of this program's, until nobody holds its other end.
pub(crate) fn copied(own: &impl AsRawHandle) -> io::Result<(OwnedHandle, JoinHandle<()>)> {
    let (mut reader, writer) = io::pipe()?;
    let mut target = File::from(processes::inheritable(own)?);
    let thread = thread::Builder::new().name(String::from("stockade-copy")).spawn(move || {
        // What can't be written there is lost, as it would be for the command itself.
        io::copy(&mut reader, &mut target).ok();
    })?;
    Ok((processes::inheritable(&writer)?, thread))
}

/// What is on files for a run. Dropping it takes everything off.
#[derive(Debug)]
pub(crate) struct Marks {
    journal: Journal,
    entry: Option<journal::Entry>,
    record: Record,
    id: String,
    /// The command's own directories, and the two files that it must not be able to write.
    private: Option<AbsPath>,
    kept_open: Vec<File>,
}

impl Marks {
    fn put(
        plan: &WindowsPlan,
        journal: &Journal,
        token: &OwnedHandle,
        checks: Checks,
    ) -> Result<(Self, Put), SpawnError> {
        let id = new_id();
        let confined = !plan.token.restricting.is_empty();
        // If it can't be told, nothing stays.
        let keeps_roots = confined && restricts_every_change(journal, &id, token).unwrap_or(false);
        // Trees are walked before the lock over all runs is taken: others need not wait for that.
        let roots = if keeps_roots { open_roots(plan, journal, checks)? } else { Put::default() };
        let locked = journal.lock().map_err(setup("lock the record of runs"))?;
        let living = locked.recover(tree::take_off).map_err(setup("take off what an earlier run has left"))?;
        let private = journal.directory().join(&id);
        let private = AbsPath::from_path(&private).map_err(io::Error::other).map_err(setup("name a directory"))?;
        let coming_off: Vec<Mark> = plan.marks.iter().filter(|mark| !(keeps_roots && mark.opens())).cloned().collect();
        let mut record = Record {
            capability: plan.capability.clone(),
            marks: plan.marks.clone(),
            keeps_roots,
            earlier_labels: checks
                .settle(tree::earlier_labels(&coming_off, &plan.marks), Vec::new)
                .map_err(setup("read labels"))?,
            private: Some(private.clone()),
        };
        record.join(&living);
        if let Some(path) = living.iter().find_map(|other| record.conflict(other)) {
            return Err(SpawnError::Unenforceable(Unenforceable {
                what: format!("the rule for `{path}`"),
                why: String::from("a sandbox that is running needs it to be otherwise"),
                remedy: String::from("wait until that command has ended"),
            }));
        }
        let entry = locked.begin(&id, &record).map_err(setup("write the record of this run"))?;
        let mut marks =
            Self { journal: journal.clone(), entry: None, record, id, private: Some(private), kept_open: Vec::new() };
        let put = marks.put_all(plan, checks);
        // On failure they come off under the same lock, so that nobody sees half of them.
        match put {
            Ok(mut put) => {
                marks.entry = Some(entry);
                put.add(roots);
                Ok((marks, put))
            }
            Err(error) => {
                marks.kept_open.clear();
                locked.finish(entry, &marks.record, tree::take_off).map_err(setup("take the marks off again"))?;
                Err(error)
            }
        }
    }

    fn put_all(&mut self, plan: &WindowsPlan, checks: Checks) -> Result<Put, SpawnError> {
        let mut all = Put::default();
        let marks = self.record.marks.clone();
        for mark in marks.iter().filter(|mark| !(self.record.keeps_roots && mark.opens())) {
            let put = tree::put(mark, &marks, &plan.capability);
            all.add(checks.settle(put, || Put::missing(mark.path.clone())).map_err(not_marked(mark))?);
        }
        for mark in marks.iter().filter(|mark| is_kept_open(mark, &marks)) {
            let open = tree::keep_open(&mark.path).map_err(setup(format!("keep `{}` open", mark.path)))?;
            self.kept_open.push(open);
        }
        all.add(self.private_directories(plan, checks)?);
        Ok(all)
    }

    /// What lies in this run's own directory: a directory for each private one, and the canaries.
    fn private_directories(&self, plan: &WindowsPlan, checks: Checks) -> Result<Put, SpawnError> {
        let Some(private) = &self.private else { return Ok(Put::default()) };
        let failed = || setup(format!("make `{private}`"));
        let base = private.to_host_path().unwrap_or_default();
        fs::create_dir_all(&base).map_err(failed())?;
        let mut all = Put::default();
        for (name, grant, is_file) in canaries(plan) {
            let path = private.join(name.as_str()).map_err(io::Error::other).map_err(failed())?;
            let real = base.join(&name);
            if is_file { fs::write(&real, "") } else { fs::create_dir(&real) }.map_err(failed())?;
            let Some(label) = grant.1 else { continue };
            let mark = Mark { path: path.clone(), grant: grant.0, label: Some(label), placeholder: false };
            // They go with the run, and so do their entries: they name its policy and no tree.
            let put = tree::put_for(&mark, &plan.capability);
            all.add(checks.settle(put, || Put::missing(path.clone())).map_err(failed())?);
        }
        Ok(all)
    }

    /// The environment, with the private directories in the place of those they stand for.
    fn environment(&self, plan: &WindowsPlan) -> Vec<(String, String)> {
        let mut variables = plan.environment.clone();
        for (number, scratch) in plan.scratch.iter().enumerate() {
            let path = self.private.as_ref().and_then(|private| private.join(scratch_name(number)).ok());
            let text = path.as_ref().and_then(|path| path.as_raw().as_str()).unwrap_or_default();
            for (name, value) in &mut variables {
                if scratch.variables.contains(name) {
                    text.clone_into(value);
                }
            }
        }
        variables
    }

    /// Files in this run's own directory that the command must not be able to write.
    fn canaries(&self) -> Vec<AbsPath> {
        ["canary", "low-canary"].iter().filter_map(|name| self.own_file(name)).collect()
    }

    fn own_file(&self, name: &str) -> Option<AbsPath> {
        self.private.as_ref()?.join(name).ok()
    }

    /// Takes everything off.
    pub(crate) fn take_off(&mut self) -> io::Result<()> {
        self.kept_open.clear();
        let Some(entry) = self.entry.take() else { return Ok(()) };
        self.journal.lock()?.finish(entry, &self.record, tree::take_off)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // What can't be taken off now stays in the journal, and the next start does it.
        self.take_off().ok();
    }
}

fn scratch_name(number: usize) -> String {
    format!("tmp-{number}")
}

/// A file in a run's own directory that the command has to be able to write.
const CONTROL: &str = "control";

type Content = (String, (Option<Grant>, Option<Label>), bool);

/// Opens the trees that can be written, for this command and all that follow.
fn open_roots(plan: &WindowsPlan, journal: &Journal, checks: Checks) -> Result<Put, SpawnError> {
    let mut all = Put::default();
    for mark in plan.marks.iter().filter(|mark| mark.opens()) {
        let put = tree::open_root(mark, &plan.marks, journal);
        all.add(checks.settle(put, || Put::missing(mark.path.clone())).map_err(not_marked(mark))?);
    }
    Ok(all)
}

fn not_marked(mark: &Mark) -> impl FnOnce(io::Error) -> SpawnError {
    let path = mark.path.clone();
    move |source| {
        if source.kind() != io::ErrorKind::PermissionDenied {
            return setup(format!("mark `{path}`"))(source);
        }
        SpawnError::Unenforceable(Unenforceable {
            what: format!("the rule for `{path}`"),
            why: String::from("you may not change the access control list of it, or of something that lies in it"),
            remedy: format!("use a directory of your own, or take this one over: `takeown /f \"{path}\" /r`"),
        })
    }
}

/// Whether a restricted token is checked for everything that changes an object, or for "generic write" alone, on this
/// Windows. In the second case what is open at the command's level could be removed although no entry allows it, so
/// nothing stays open longer than a command runs.
fn restricts_every_change(journal: &Journal, id: &str, token: &OwnedHandle) -> io::Result<bool> {
    let real = journal.directory().join(format!("{id}.tried"));
    fs::write(&real, "")?;
    let tried = (|| {
        let path = AbsPath::from_path(&real).map_err(io::Error::other)?;
        let mark = Mark { path, grant: None, label: Some(Label::Low), placeholder: false };
        let put = tree::put(&mark, &[], &Sid::everyone())?;
        if !put.missing.is_empty() {
            return Err(io::Error::other("a file does not take a label"));
        }
        let changes = [right::DELETE, right::WRITE_LIST, right::WRITE_OWNER];
        token::with(token, || changes.iter().all(|rights| file::open(&real, *rights, Others::Everything).is_err()))
    })();
    fs::remove_file(&real)?;
    tried
}

/// The first canary is out of reach by its level and by its list, the second by its list alone. The control can be
/// written.
fn canaries(plan: &WindowsPlan) -> Vec<Content> {
    if plan.token.restricting.is_empty() {
        return Vec::new();
    }
    let scratch =
        (0..plan.scratch.len()).map(|number| (scratch_name(number), (Some(Grant::Write), Some(Label::Low)), false));
    let canaries = [
        (String::from("canary"), (None, None), true),
        (String::from("low-canary"), (None, Some(Label::Low)), true),
        (String::from(CONTROL), (Some(Grant::Write), Some(Label::Low)), true),
    ];
    canaries.into_iter().chain(scratch).collect()
}

/// Unlike that of any other run, also of other programs.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{now}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Reads back what holds, and tries with the command's own token what must not work, and what has to.
fn look(
    plan: &WindowsPlan,
    marks: &Marks,
    suspended: &Suspended,
    (job, windows): (&OwnedHandle, WindowLimits),
    put: Put,
) -> io::Result<Found> {
    let token = token::of_process(&suspended.process)?;
    let (opened, closed) = token::with(&token, || (tried(plan, marks), controls(plan, marks)))?;
    let job = job::found(job, &suspended.process, windows)?;
    Ok(Found { token: token::found(&token)?, job, missing_marks: put.missing, opened, closed, linked: put.linked })
}

fn opens(path: &AbsPath, rights: u32) -> bool {
    let path = path.to_host_path().unwrap_or_default();
    file::open(Path::new(&path), rights, Others::Everything).is_ok()
}

/// What could not be opened and has to: without these a token that can do nothing would pass for one that is confined.
fn controls(plan: &WindowsPlan, marks: &Marks) -> Vec<Closed> {
    let mut closed = Vec::new();
    if fs::OpenOptions::new().write(true).open("NUL").is_err() {
        closed.push(Closed::NullDevice);
    }
    if plan.token.restricting.is_empty() {
        return closed;
    }
    let unread = marks.own_file("canary").filter(|path| !opens(path, right::READ_DATA));
    closed.extend(unread.map(Closed::ForReading));
    let granted = plan.marks.iter().filter(|mark| mark.opens()).map(|mark| mark.path.clone());
    let unwritten = marks.own_file(CONTROL).into_iter().chain(granted).filter(|path| !opens(path, right::WRITE_DATA));
    closed.extend(unwritten.map(Closed::ForWriting));
    closed
}

/// What could be opened and must not: denied things for reading, protected ones and canaries for writing.
fn tried(plan: &WindowsPlan, marks: &Marks) -> Vec<Opened> {
    let mut opened = Vec::new();
    for mark in &plan.marks {
        if mark.label == Some(Label::Sealed) && opens(&mark.path, right::READ_DATA) {
            opened.push(Opened::ForReading(mark.path.clone()));
        }
        let writes = match mark.grant {
            Some(Grant::Protect | Grant::Deny) => &[right::WRITE_DATA, right::APPEND, right::DELETE][..],
            Some(Grant::Pin) => &[right::DELETE],
            Some(Grant::Write) | None => &[],
        };
        if writes.iter().any(|rights| opens(&mark.path, *rights)) {
            opened.push(Opened::ForWriting(mark.path.clone()));
        }
    }
    if !plan.token.restricting.is_empty() {
        let canaries = marks.canaries().into_iter().filter(|path| opens(path, right::WRITE_DATA));
        opened.extend(canaries.map(Opened::ForWriting));
    }
    opened
}
