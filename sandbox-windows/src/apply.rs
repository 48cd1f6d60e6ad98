//! The plan done: marks, token, job, desktop, a suspended process, a look at what holds, and only then
//! the command's first instruction.

use std::fs;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::Path;

use stockade_protocol::AbsPath;
use stockade_sandboxing::{Kind, SpawnError, Stdio};

use crate::acl::{Acl, Descriptor, Entry, Says};
use crate::check::{self, Closed, Found, LeftAlone};
use crate::job_plan::WindowLimits;
use crate::journal::Journal;
use crate::mark::{Label, Mark, Place, right};
use crate::marking::{CANARY, CONTROL, Checks, LOW_CANARY, Marks, new_id, setup};
use crate::plan::WindowsPlan;
use crate::real_disk::RealDisk;
use crate::running::{Child, RunParts};
use crate::streams::OpenStreams;
use crate::sys::file::{self, Others};
use crate::sys::process::{Desktop, Start, Suspended};
use crate::sys::{job, process as processes, token};
use crate::token_plan::{Integrity, is_powerful};
use crate::tree::{self, Put};
use crate::trial::Trial;
use crate::{Sid, environment, roots};

/// Starts a plan's command.
pub(crate) fn start(plan: &WindowsPlan, journal: &Journal, stdio: Stdio, checks: Checks) -> Result<Child, SpawnError> {
    let not_found = || SpawnError::NotFound { program: plan.program_name.clone() };
    let application = plan.application.as_ref().and_then(|path| path.as_raw().as_str()).ok_or_else(not_found)?;
    let own = token::own().map_err(setup("open this program's token"))?;
    let session = Session::of(&own).map_err(setup("read this program's token"))?;
    let roots = roots::identify(&RealDisk, &plan.marks).map_err(setup("look at the trees that can be written"))?;
    let restricting = plan.token.restricting_sids(&plan.capabilities(&roots), &session.logon);
    let token = restricted(plan, &own, &session, &restricting).map_err(setup("restrict the token"))?;
    // If it can't be told, nothing stays.
    let staying = if restricts_every_change(journal, &token).unwrap_or(false) { roots } else { Vec::new() };
    let (marks, put) = Marks::put(RealDisk, plan, journal, staying, checks)?;
    let desktop = desktop(plan, &session, marks.id()).map_err(setup("make the desktop"))?;
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

/// Whether a restricted token is checked for everything that changes an object, or for "generic write" alone, on this
/// Windows. In the second case what is open at the command's level could be removed although no entry allows it, so
/// nothing stays open longer than a command runs.
fn restricts_every_change(journal: &Journal, token: &OwnedHandle) -> io::Result<bool> {
    let real = journal.directory().join(format!("{}.tried", new_id()));
    fs::write(&real, "")?;
    let tried = (|| {
        let path = AbsPath::from_path(&real).map_err(io::Error::other)?;
        let mark = Mark { path, grant: None, label: Some(Label::Low), placeholder: false };
        let put = tree::put(&RealDisk, &mark, &[], &Sid::everyone())?;
        if !put.missing.is_empty() {
            return Err(io::Error::other("a file does not take a label"));
        }
        let changes = [right::DELETE, right::WRITE_LIST, right::WRITE_OWNER];
        token::with(token, || changes.iter().all(|rights| file::open(&real, *rights, Others::Everything).is_err()))
    })();
    fs::remove_file(&real)?;
    tried
}

/// Reads back what holds, and tries with the command's own token what must not work, and what has to.
fn look(
    plan: &WindowsPlan,
    marks: &Marks<RealDisk>,
    suspended: &Suspended,
    (job, windows): (&OwnedHandle, WindowLimits),
    put: Put,
) -> io::Result<Found> {
    let token = token::of_process(&suspended.process)?;
    let trial = Trial {
        canaries: [CANARY, LOW_CANARY].iter().filter_map(|name| marks.own_file(name)).collect(),
        control: marks.own_file(CONTROL),
        known_roots: marks.known_roots()?,
    };
    let (opened, closed) = token::with(&token, || {
        let null = fs::OpenOptions::new().write(true).open("NUL").err().map(|_| Closed::NullDevice);
        (trial.opened(plan, opens), null.into_iter().chain(trial.closed(plan, opens)).collect())
    })?;
    let job = job::found(job, &suspended.process, windows)?;
    let Put { visited: _, missing, linked, open_to_all, unreached, left_behind } = put;
    let left_alone = LeftAlone { linked, open_to_all, unreached, left_behind: left_behind.len() };
    Ok(Found { token: token::found(&token)?, job, missing_marks: missing, opened, closed, left_alone })
}

fn opens(path: &AbsPath, rights: u32) -> bool {
    let path = path.to_host_path().unwrap_or_default();
    file::open(Path::new(&path), rights, Others::Everything).is_ok()
}
