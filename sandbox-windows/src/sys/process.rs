//! Processes: started suspended, with exactly the handles, the desktop and the environment they are given.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::time::Duration;

use windows::Win32::Foundation::{
    DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, INVALID_HANDLE_VALUE, WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::Win32::System::Console::{
    CONSOLE_MODE, COORD, ClosePseudoConsole, CreatePseudoConsole, GetConsoleMode, HPCON,
};
use windows::Win32::System::StationsAndDesktops::{
    CloseDesktop, CreateDesktopW, DESKTOP_CONTROL_FLAGS, GetProcessWindowStation, GetUserObjectInformationW, HDESK,
    UOI_NAME,
};
use windows::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessAsUserW,
    DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT, GetCurrentProcess, GetExitCodeProcess, INFINITE,
    InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
    PROC_THREAD_ATTRIBUTE_JOB_LIST, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, PROCESS_CREATION_FLAGS, PROCESS_INFORMATION,
    ResumeThread, STARTF_USESTDHANDLES, STARTUPINFOEXW, TerminateProcess, UpdateProcThreadAttribute,
    WaitForSingleObject,
};
use windows::core::{PCWSTR, PWSTR};

use super::{failed, owned, raw, size_of, wide};

/// A desktop of its own, on which the command's windows are alone.
#[derive(Debug)]
pub(crate) struct Desktop {
    handle: HDESK,
    /// With its window station, as a start takes it.
    name: String,
}

// SAFETY: the handle is only closed, once, and that may be done from any thread.
unsafe impl Send for Desktop {}

impl Desktop {
    /// Makes one that this self-relative descriptor says who may use.
    pub(crate) fn create(name: &str, descriptor: &[u8]) -> io::Result<Self> {
        let mut descriptor = descriptor.to_vec();
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>(),
            lpSecurityDescriptor: descriptor.as_mut_ptr().cast(),
            bInheritHandle: false.into(),
        };
        let all = 0x01ff;
        let text = wide(name);
        let flags = DESKTOP_CONTROL_FLAGS(0);
        // SAFETY: the name ends in a zero, and name and attributes outlive the call.
        let handle = unsafe {
            CreateDesktopW(PCWSTR(text.as_ptr()), PCWSTR::null(), None, flags, all, Some(&raw const attributes))
        };
        let handle = handle.map_err(failed)?;
        Ok(Self { handle, name: format!(r"{}\{name}", window_station()?) })
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `create` and is not used again.
        let closed = unsafe { CloseDesktop(self.handle) };
        // What can't be closed ends with this program.
        closed.ok();
    }
}

fn window_station() -> io::Result<String> {
    // SAFETY: the call has no preconditions; the handle is not to be closed.
    let station = unsafe { GetProcessWindowStation() }.map_err(failed)?;
    let mut text = [0_u16; 256];
    let mut length = 0;
    // SAFETY: there are as many bytes as is said.
    unsafe {
        GetUserObjectInformationW(
            HANDLE(station.0),
            UOI_NAME,
            Some(text.as_mut_ptr().cast()),
            512,
            Some(&raw mut length),
        )
    }
    .map_err(failed)?;
    Ok(String::from_utf16_lossy(text.split(|unit| *unit == 0).next().unwrap_or_default()))
}

/// A terminal between two pipes.
#[derive(Debug)]
pub(crate) struct Console(HPCON);

impl Console {
    pub(crate) fn create(input: &impl AsRawHandle, output: &impl AsRawHandle) -> io::Result<Self> {
        let size = COORD { X: 80, Y: 24 };
        // SAFETY: both pipes are open; the terminal makes copies of its own.
        unsafe { CreatePseudoConsole(size, raw(input), raw(output), 0) }.map(Self).map_err(failed)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // SAFETY: the terminal was made by `create` and is not used again.
        unsafe { ClosePseudoConsole(self.0) };
    }
}

/// Whether a handle leads to a console.
pub(crate) fn is_console(handle: &impl AsRawHandle) -> bool {
    let mut mode = CONSOLE_MODE::default();
    // SAFETY: the handle is open, and there is room for the mode; for anything but a console the call fails.
    unsafe { GetConsoleMode(raw(handle), &raw mut mode) }.is_ok()
}

/// A copy of a handle that a new process can be given.
pub(crate) fn inheritable(handle: &impl AsRawHandle) -> io::Result<OwnedHandle> {
    let mut copy = HANDLE::default();
    // SAFETY: the call has no preconditions.
    let own = unsafe { GetCurrentProcess() };
    // SAFETY: the handle is open, and there is room for the copy.
    unsafe { DuplicateHandle(own, raw(handle), own, &raw mut copy, 0, true, DUPLICATE_SAME_ACCESS) }.map_err(failed)?;
    owned(copy)
}

/// Everything that a new process is started with.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) token: &'a OwnedHandle,
    pub(crate) application: &'a str,
    pub(crate) command_line: &'a str,
    pub(crate) environment: &'a [u16],
    pub(crate) directory: &'a str,
    pub(crate) job: &'a OwnedHandle,
    pub(crate) desktop: &'a Desktop,
    pub(crate) streams: Streams<'a>,
}

/// Where the standard streams lead.
#[derive(Debug)]
pub(crate) enum Streams<'a> {
    /// To these handles, which are the only ones that the process gets. None leads to a console.
    Handles(&'a [OwnedHandle; 3]),
    /// To a terminal; no handle is passed on.
    Console(&'a Console),
}

/// A process that has not run an instruction yet.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) process: OwnedHandle,
    thread: OwnedHandle,
}

impl Suspended {
    /// Lets it run.
    pub(crate) fn resume(self) -> io::Result<OwnedHandle> {
        // SAFETY: the thread is open.
        if unsafe { ResumeThread(raw(&self.thread)) } == u32::MAX {
            return Err(io::Error::last_os_error());
        }
        Ok(self.process)
    }
}

/// The list of attributes of a new process, in memory of this program's.
struct Attributes {
    memory: Vec<u64>,
}

impl Attributes {
    fn new(count: u32) -> io::Result<Self> {
        let mut length = 0;
        // SAFETY: no memory is given, only the length is written. That fails, and is told below.
        let _ = unsafe { InitializeProcThreadAttributeList(None, count, None, &raw mut length) };
        let mut list = Self { memory: vec![0; length.div_ceil(8)] };
        // SAFETY: the memory is as long as was asked for.
        unsafe { InitializeProcThreadAttributeList(Some(list.start()), count, None, &raw mut length) }
            .map_err(failed)?;
        Ok(list)
    }

    fn start(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        LPPROC_THREAD_ATTRIBUTE_LIST(self.memory.as_mut_ptr().cast())
    }

    /// The value has to outlive the list.
    fn add(&mut self, attribute: u32, value: *const c_void, size: usize) -> io::Result<()> {
        let attribute = usize::try_from(attribute).unwrap_or_default();
        // SAFETY: the list was initialised with room for this, and the callers keep the value.
        unsafe { UpdateProcThreadAttribute(self.start(), 0, attribute, Some(value), size, None, None) }.map_err(failed)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the list was initialised and is not used again.
        unsafe { DeleteProcThreadAttributeList(self.start()) };
    }
}

/// Starts a process in its job, suspended.
pub(crate) fn start(start: &Start<'_>) -> io::Result<Suspended> {
    let mut attributes = Attributes::new(2)?;
    let jobs = [raw(start.job)];
    attributes.add(PROC_THREAD_ATTRIBUTE_JOB_LIST, jobs.as_ptr().cast(), size_of_val(&jobs))?;
    let handles = match start.streams {
        Streams::Handles(handles) => handles.each_ref().map(raw),
        // Neither this program's own streams nor any other: the terminal's.
        Streams::Console(_) => [INVALID_HANDLE_VALUE; 3],
    };
    let mut desktop = wide(&start.desktop.name);
    let mut startup = STARTUPINFOEXW::default();
    startup.StartupInfo.cb = size_of::<STARTUPINFOEXW>();
    startup.StartupInfo.lpDesktop = PWSTR(desktop.as_mut_ptr());
    startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
    let [input, output, error] = handles;
    startup.StartupInfo.hStdInput = input;
    startup.StartupInfo.hStdOutput = output;
    startup.StartupInfo.hStdError = error;
    let mut flags = CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT;
    match start.streams {
        Streams::Handles(_) => {
            attributes.add(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles.as_ptr().cast(), size_of_val(&handles))?;
            // A console of its own, in which no handle of another one would work: none is among these.
            flags |= CREATE_NO_WINDOW;
        }
        Streams::Console(console) => {
            // This attribute is the terminal itself, not a place where it stands.
            let value = console.0.0 as *const c_void;
            attributes.add(PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, value, std::mem::size_of::<HPCON>())?;
        }
    }
    startup.lpAttributeList = attributes.start();
    create(start, &startup, flags)
}

fn create(start: &Start<'_>, startup: &STARTUPINFOEXW, flags: PROCESS_CREATION_FLAGS) -> io::Result<Suspended> {
    let (application, mut line) = (wide(start.application), wide(start.command_line));
    let directory = wide(start.directory);
    let passes_handles = matches!(start.streams, Streams::Handles(_));
    let mut made = PROCESS_INFORMATION::default();
    // SAFETY: all texts end in a zero, the block in two, and everything outlives the call; with the flag
    // for it the longer form of the start's information is expected.
    unsafe {
        CreateProcessAsUserW(
            Some(raw(start.token)),
            PCWSTR(application.as_ptr()),
            Some(PWSTR(line.as_mut_ptr())),
            None,
            None,
            passes_handles,
            flags,
            Some(start.environment.as_ptr().cast()),
            PCWSTR(directory.as_ptr()),
            &raw const startup.StartupInfo,
            &raw mut made,
        )
    }
    .map_err(failed)?;
    Ok(Suspended { process: owned(made.hProcess)?, thread: owned(made.hThread)? })
}

/// Waits for a process. Whether it has ended.
pub(crate) fn wait(process: &OwnedHandle, limit: Option<Duration>) -> io::Result<bool> {
    let milliseconds = limit.map_or(INFINITE, |limit| u32::try_from(limit.as_millis()).unwrap_or(INFINITE - 1));
    // SAFETY: the process is open.
    match unsafe { WaitForSingleObject(raw(process), milliseconds) } {
        WAIT_OBJECT_0 => Ok(true),
        WAIT_TIMEOUT => Ok(false),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a process has ended.
pub(crate) fn exit_code(process: &OwnedHandle) -> io::Result<u32> {
    let mut code = 0;
    // SAFETY: the process is open, and there is room for its code.
    unsafe { GetExitCodeProcess(raw(process), &raw mut code) }.map_err(failed)?;
    Ok(code)
}

/// Ends one process.
pub(crate) fn terminate(process: &OwnedHandle, code: u32) -> io::Result<()> {
    // SAFETY: the process is open.
    unsafe { TerminateProcess(raw(process), code) }.map_err(failed)
}
