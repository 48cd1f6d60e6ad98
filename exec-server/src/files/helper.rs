//! The helper: carries out one operation on files, inside the sandbox of a session.
//!
//! It checks nothing of what is allowed. The sandbox around it does, at the moment of each access, so that no link that is
//! swapped meanwhile leads anywhere else.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use stockade_protocol::AbsPath;

use super::request::{Entry, FailureKind, FileFailure, FileReply, FileRequest, Links, Metadata};
use super::walk::walk;

/// The largest file that is read or copied to the client whole.
pub(crate) const LARGEST_FILE: u64 = 8 << 20;

/// The largest block.
pub(crate) const LARGEST_BLOCK: usize = 1 << 20;

/// The most names of a directory.
const MOST_ENTRIES: usize = 50_000;

/// The words behind the program's name that start the helper; the request is the next one.
pub(crate) const HELPER: [&str; 2] = ["exec-server", "file-helper"];

/// Runs the helper, if these arguments ask for it. The first is the program's own name.
pub fn run_file_helper(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, first, second, request] = arguments else { return None };
    if *first != HELPER[0] || *second != HELPER[1] {
        return None;
    }
    let request = request.to_str().and_then(|text| serde_json::from_str::<FileRequest>(text).ok());
    let Some(request) = request else {
        eprintln!("stockade: this is for `stockade exec-server` alone, which asks for files with it");
        return Some(ExitCode::from(125));
    };
    if let FileRequest::Blocks { path } = &request {
        return Some(blocks(path));
    }
    let reply = carry_out(&request, &mut io::stdin().lock()).unwrap_or_else(failed);
    Some(answer(&request, &reply))
}

/// Prints the answer. What the sandbox may have denied is said on standard error, where a denial is looked for.
fn answer(request: &FileRequest, reply: &FileReply) -> ExitCode {
    if print(reply).is_err() {
        return ExitCode::from(1);
    }
    if let FileReply::Failed(failure) = reply
        && failure.kind == FailureKind::Denied
    {
        eprintln!("stockade: {}: {}", subject(request), failure.message);
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

fn print(reply: &FileReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The path that an operation is about.
pub(crate) fn subject(request: &FileRequest) -> &AbsPath {
    match request {
        FileRequest::Metadata { path, .. }
        | FileRequest::Read { path, .. }
        | FileRequest::Blocks { path }
        | FileRequest::Write { path, .. }
        | FileRequest::MakeDirectory { path, .. }
        | FileRequest::Canonicalize { path }
        | FileRequest::List { path }
        | FileRequest::Walk { path, .. }
        | FileRequest::Remove { path, .. } => path,
        FileRequest::Copy { to, .. } => to,
    }
}

fn failed(error: io::Error) -> FileReply {
    use io::ErrorKind as Kind;
    let is_one_of = |kinds: &[Kind]| kinds.contains(&error.kind());
    let invalid =
        [Kind::InvalidInput, Kind::AlreadyExists, Kind::NotADirectory, Kind::IsADirectory, Kind::DirectoryNotEmpty];
    let kind = if is_one_of(&[Kind::NotFound]) {
        FailureKind::NotFound
    } else if is_one_of(&[Kind::PermissionDenied, Kind::ReadOnlyFilesystem]) {
        FailureKind::Denied
    } else if is_one_of(&invalid) {
        FailureKind::Invalid
    } else {
        FailureKind::Other
    };
    FileReply::Failed(FileFailure { kind, message: error.to_string() })
}

pub(super) fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message.into())
}

/// One operation.
pub(super) fn carry_out(request: &FileRequest, input: &mut dyn Read) -> io::Result<FileReply> {
    match request {
        FileRequest::Metadata { path, links } => {
            metadata(&located(path, *links)?.path, *links).map(FileReply::Metadata)
        }
        FileRequest::Read { path, links } => {
            read(&located(path, *links)?.path, *links).map(|bytes| FileReply::Content { bytes })
        }
        FileRequest::Blocks { path } => {
            opened(&host_path(path)?, Links::Follow)?;
            Ok(FileReply::Done {})
        }
        FileRequest::Write { path, links } => write(&located(path, *links)?.path, *links, input).map(done),
        FileRequest::MakeDirectory { path, recursive, links } => make_directory(path, *recursive, *links).map(done),
        FileRequest::Canonicalize { path } => absolute(&fs::canonicalize(host_path(path)?)?).map(FileReply::Path),
        FileRequest::List { path } => list(&host_path(path)?).map(FileReply::Entries),
        FileRequest::Walk { path, options } => walk(&host_path(path)?, options).map(FileReply::Walk),
        FileRequest::Remove { path, recursive, force, links } => {
            match remove(&located(path, *links)?.path, *recursive) {
                Err(error) if *force && error.kind() == io::ErrorKind::NotFound => Ok(FileReply::Done {}),
                removed => removed.map(done),
            }
        }
        FileRequest::Copy { from, to, recursive } => copy(&host_path(from)?, &host_path(to)?, *recursive).map(done),
    }
}

fn done((): ()) -> FileReply {
    FileReply::Done {}
}

pub(super) fn host_path(path: &AbsPath) -> io::Result<PathBuf> {
    path.to_host_path().ok_or_else(|| invalid("this is no path of this system"))
}

pub(super) fn absolute(path: &Path) -> io::Result<AbsPath> {
    AbsPath::from_path(path).map_err(|error| invalid(error.to_string()))
}

/// A path that an operation can use, and what it is found through.
struct Located {
    path: PathBuf,
    /// Kept open: the path leads through it.
    #[cfg(target_os = "linux")]
    _parent: Option<File>,
}

/// Where a path is. Where links are refused, its directory is opened name by name, without following any, and held. A
/// sandboxed command has no `openat2`, which would do that in one step.
#[cfg(target_os = "linux")]
fn located(path: &AbsPath, links: Links) -> io::Result<Located> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{Mode, OFlags};
    let whole = host_path(path)?;
    let (Links::Refuse, Some(name)) = (links, whole.file_name()) else {
        return Ok(Located { path: whole, _parent: None });
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut parent = rustix::fs::open("/", flags, Mode::empty())?;
    let depth = path.components().count().saturating_sub(1);
    for component in path.components().take(depth) {
        let component = std::ffi::OsStr::from_bytes(component);
        parent = rustix::fs::openat(&parent, component, flags, Mode::empty()).map_err(|error| {
            let is_link = rustix::fs::readlinkat(&parent, component, Vec::new()).is_ok();
            if is_link { through_link() } else { error.into() }
        })?;
    }
    let parent = File::from(parent);
    let path = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name);
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        return Err(through_link());
    }
    Ok(Located { path, _parent: Some(parent) })
}

#[cfg(target_os = "linux")]
fn through_link() -> io::Error {
    invalid("the path leads through a symbolic link")
}

#[cfg(not(target_os = "linux"))]
fn located(path: &AbsPath, links: Links) -> io::Result<Located> {
    match links {
        Links::Follow => Ok(Located { path: host_path(path)? }),
        Links::Refuse => Err(invalid("links can't be refused on this system")),
    }
}

/// A regular file, opened to be read. Nothing is waited for, as opening a pipe would.
fn opened(path: &Path, links: Links) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    without_waiting(&mut options, links);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(invalid("this is no regular file"));
    }
    Ok(file)
}

#[cfg(unix)]
fn without_waiting(options: &mut fs::OpenOptions, links: Links) {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
}

#[cfg(not(unix))]
fn without_waiting(_: &mut fs::OpenOptions, _: Links) {}

fn metadata(path: &Path, links: Links) -> io::Result<Metadata> {
    let own = fs::symlink_metadata(path)?;
    let found = if links == Links::Follow { fs::metadata(path)? } else { own.clone() };
    Ok(Metadata {
        is_directory: found.is_dir(),
        is_file: found.is_file(),
        is_symlink: own.is_symlink(),
        size: found.len(),
        created_at_ms: found.created().map(milliseconds).unwrap_or_default(),
        modified_at_ms: found.modified().map(milliseconds).unwrap_or_default(),
    })
}

fn milliseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
}

fn read(path: &Path, links: Links) -> io::Result<Vec<u8>> {
    let file = opened(path, links)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(invalid(format!("the file is larger than {LARGEST_FILE} bytes: read it in blocks")));
    }
    Ok(bytes)
}

fn write(path: &Path, links: Links, input: &mut dyn Read) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    without_waiting(&mut options, links);
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("this is no regular file"));
    }
    io::copy(input, &mut file)?;
    Ok(())
}

fn make_directory(path: &AbsPath, recursive: bool, links: Links) -> io::Result<()> {
    if !recursive {
        return fs::create_dir(located(path, links)?.path);
    }
    if links == Links::Follow {
        return fs::create_dir_all(host_path(path)?);
    }
    // From the top, so that each is made below one without links.
    let mut all: Vec<AbsPath> = path.ancestors().collect();
    all.reverse();
    for directory in &all {
        let located = located(directory, links)?;
        match fs::create_dir(&located.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&located.path)?.is_dir() {
                    return Err(error);
                }
            }
            // One that is there and can't be made need not be.
            Err(_) if fs::symlink_metadata(&located.path).is_ok_and(|found| found.is_dir()) => {}
            made => made?,
        }
    }
    Ok(())
}

fn list(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A link that leads nowhere is left out.
        let Ok(found) = fs::metadata(entry.path()) else { continue };
        if entries.len() >= MOST_ENTRIES {
            return Err(invalid(format!("the directory has more than {MOST_ENTRIES} names")));
        }
        let file_name = entry.file_name().to_string_lossy().into_owned();
        entries.push(Entry { file_name, is_directory: found.is_dir(), is_file: found.is_file() });
    }
    Ok(entries)
}

fn remove(path: &Path, recursive: bool) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true if recursive => fs::remove_dir_all(path),
        true => fs::remove_dir(path),
        false => fs::remove_file(path),
    }
}

fn copy(from: &Path, to: &Path, recursive: bool) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return copy_link(from, to);
    }
    if found.is_file() {
        return fs::copy(from, to).map(drop);
    }
    if !found.is_dir() {
        return Err(invalid("only files, directories and links are copied"));
    }
    if !recursive {
        return Err(invalid("a directory is copied with `recursive`"));
    }
    if to.starts_with(from) {
        return Err(invalid("a directory can't be copied into itself"));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_file() || kind.is_symlink() {
            copy(&entry.path(), &to.join(entry.file_name()), true)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(from)?, to)
}

#[cfg(not(unix))]
fn copy_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(invalid("links are not copied on this system"))
}

/// Answers each line of standard input with a block of the file, until that ends.
fn blocks(path: &AbsPath) -> ExitCode {
    let request = FileRequest::Blocks { path: path.clone() };
    let file = match host_path(path).and_then(|path| opened(&path, Links::Follow)) {
        Ok(file) => file,
        Err(error) => return answer(&request, &failed(error)),
    };
    if print(&FileReply::Done {}).is_err() {
        return ExitCode::from(1);
    }
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::from(1) };
        let reply = block(&file, &line).unwrap_or_else(failed);
        if print(&reply).is_err() {
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}

fn block(mut file: &File, line: &str) -> io::Result<FileReply> {
    use std::io::{Seek as _, SeekFrom};
    let (offset, length) = line.split_once(' ').ok_or_else(|| invalid("a block has an offset and a length"))?;
    let offset: u64 = offset.parse().map_err(|_| invalid("the offset is no number"))?;
    let length: usize = length.parse().map_err(|_| invalid("the length is no number"))?;
    if !(1..=LARGEST_BLOCK).contains(&length) {
        return Err(invalid(format!("a block has 1 to {LARGEST_BLOCK} bytes")));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length as u64).read_to_end(&mut bytes)?;
    let eof = bytes.len() < length;
    Ok(FileReply::Block { bytes, eof })
}
