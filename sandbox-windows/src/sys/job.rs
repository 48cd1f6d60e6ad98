//! Job objects: what holds a whole tree of processes.

use std::io;
use std::os::windows::io::OwnedHandle;

use windows::Win32::System::JobObjects::{
    CreateJobObjectW, IsProcessInJob, JOB_OBJECT_LIMIT, JOB_OBJECT_UILIMIT, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JOBOBJECT_BASIC_UI_RESTRICTIONS, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectBasicAccountingInformation, JobObjectBasicUIRestrictions, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows::Win32::System::Threading::GetCurrentProcess;
use windows::core::{BOOL, PCWSTR};

use super::{failed, owned, raw, size_of};
use crate::check::JobFound;
use crate::job_plan::{ALL_UI_LIMITS, JobPlan, WindowLimits};

/// A job object with these limits and nothing in it.
pub(crate) fn create(plan: &JobPlan, windows: WindowLimits) -> io::Result<OwnedHandle> {
    // SAFETY: neither attributes nor a name are given.
    let job = owned(unsafe { CreateJobObjectW(None, PCWSTR::null()) }.map_err(failed)?)?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT(plan.flags());
    limits.BasicLimitInformation.ActiveProcessLimit = plan.processes.unwrap_or_default();
    // In units of 100 nanoseconds.
    let time = plan.cpu_seconds.map_or(0, |seconds| seconds.get().saturating_mul(10_000_000));
    limits.BasicLimitInformation.PerProcessUserTimeLimit = i64::try_from(time).unwrap_or(i64::MAX);
    limits.JobMemoryLimit = plan.memory_bytes.map_or(0, |bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX));
    set(&job, JobObjectExtendedLimitInformation, &limits)?;
    if windows == WindowLimits::All {
        let windows = JOBOBJECT_BASIC_UI_RESTRICTIONS { UIRestrictionsClass: JOB_OBJECT_UILIMIT(ALL_UI_LIMITS) };
        set(&job, JobObjectBasicUIRestrictions, &windows)?;
    }
    Ok(job)
}

fn set<T>(job: &OwnedHandle, class: JOBOBJECTINFOCLASS, value: &T) -> io::Result<()> {
    // SAFETY: the value is the structure that this class has, and outlives the call.
    unsafe { SetInformationJobObject(raw(job), class, std::ptr::from_ref(value).cast(), size_of::<T>()) }
        .map_err(failed)
}

fn query<T: Default>(job: &OwnedHandle, class: JOBOBJECTINFOCLASS) -> io::Result<T> {
    let mut value = T::default();
    let start = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is the structure that this class has.
    unsafe { QueryInformationJobObject(Some(raw(job)), class, start, size_of::<T>(), None) }.map_err(failed)?;
    Ok(value)
}

/// What a job object says of itself and of a process.
pub(crate) fn found(job: &OwnedHandle, process: &OwnedHandle, limits_on: WindowLimits) -> io::Result<JobFound> {
    // Limits that can't be read are taken for none.
    let limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION =
        query(job, JobObjectExtendedLimitInformation).unwrap_or_default();
    let windows: JOBOBJECT_BASIC_UI_RESTRICTIONS = query(job, JobObjectBasicUIRestrictions).unwrap_or_default();
    let mut inside = BOOL::default();
    // SAFETY: both handles are open, and there is room for the answer.
    unsafe { IsProcessInJob(raw(process), Some(raw(job)), &raw mut inside) }.map_err(failed)?;
    Ok(JobFound {
        holds_the_process: inside.as_bool(),
        flags: limits.BasicLimitInformation.LimitFlags.0,
        processes: limits.BasicLimitInformation.ActiveProcessLimit,
        memory_bytes: u64::try_from(limits.JobMemoryLimit).unwrap_or(u64::MAX),
        ui: windows.UIRestrictionsClass.0,
        windows_left_out: limits_on == WindowLimits::LeftOut,
    })
}

/// Whether this program is in a job of another program's.
pub(crate) fn is_this_program_in_one() -> bool {
    let mut inside = BOOL::default();
    // SAFETY: the handle of this process is always open; without a job every one is meant.
    let asked = unsafe { IsProcessInJob(GetCurrentProcess(), None, &raw mut inside) };
    asked.is_ok() && inside.as_bool()
}

/// How many processes are in it.
pub(crate) fn active_processes(job: &OwnedHandle) -> io::Result<u32> {
    let accounting: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION = query(job, JobObjectBasicAccountingInformation)?;
    Ok(accounting.ActiveProcesses)
}

/// Ends everything in it.
pub(crate) fn terminate(job: &OwnedHandle, code: u32) -> io::Result<()> {
    // SAFETY: the job is open.
    unsafe { TerminateJobObject(raw(job), code) }.map_err(failed)
}
