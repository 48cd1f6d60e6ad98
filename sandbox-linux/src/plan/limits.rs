//! Resource limits of a command.

use std::num::NonZeroU64;

use stockade_protocol::{Permissions, ResourceLimits, RlimitResource};
use stockade_sandboxing::{ProcessSettings, Unenforceable};

use crate::launch::cgroup::Group;
use crate::plan::step::Step;

/// Adds the caller's limits, which replace the policy's if they are lower. The soft limit on processor time is a
/// second below the hard one, if a policy sets both.
pub(crate) fn with_callers(policy: &[Step], caller: &ProcessSettings) -> Result<Vec<Step>, Unenforceable> {
    caller.check()?;
    let mut steps = policy.to_vec();
    for (resource, limit) in &caller.rlimits {
        let resource = number(*resource);
        let own = steps.iter().position(|step| matches!(step, Step::Limit { resource: own, .. } if *own == resource));
        let bound =
            own.and_then(|index| if let Step::Limit { value, .. } = steps.remove(index) { Some(value) } else { None });
        let grace = u64::from(resource == libc::RLIMIT_CPU);
        let lower = |limit: Option<u64>, bound: Option<u64>| limit.unwrap_or(u64::MAX).min(bound.unwrap_or(u64::MAX));
        let hard = lower(limit.hard, bound.map(|bound| bound.saturating_add(grace)));
        steps.push(Step::CallersLimit { resource, soft: lower(limit.soft, bound).min(hard), hard });
    }
    Ok(steps)
}

fn number(resource: RlimitResource) -> u32 {
    match resource {
        RlimitResource::As => libc::RLIMIT_AS,
        RlimitResource::Core => libc::RLIMIT_CORE,
        RlimitResource::Cpu => libc::RLIMIT_CPU,
        RlimitResource::Data => libc::RLIMIT_DATA,
        RlimitResource::Fsize => libc::RLIMIT_FSIZE,
        RlimitResource::Memlock => libc::RLIMIT_MEMLOCK,
        RlimitResource::Nofile => libc::RLIMIT_NOFILE,
        RlimitResource::Nproc => libc::RLIMIT_NPROC,
        RlimitResource::Stack => libc::RLIMIT_STACK,
    }
}

/// Resource limits, by the mechanism that enforces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Steps of the command's own process, inherited by its children.
    pub(crate) steps: Vec<Step>,
    /// A control group for the whole process tree, if the host delegates one.
    pub(crate) group: Option<Group>,
    /// The gaps on this host.
    pub(crate) warnings: Vec<String>,
}

const MEMORY_BY_PROCESS: &str = "the limit on memory holds for each process alone, and not for files in memory \
    (`memfd_create`, `/dev/shm`): no control group can be made out of the command's reach; `stockade doctor` says whether \
    one can be made at all";

impl Limits {
    /// The limits of a policy, for a user.
    pub(crate) fn of(permissions: &Permissions, user: u32) -> Result<Self, Unenforceable> {
        let limits = &permissions.limits;
        let too_small = |what: &str, given: Option<NonZeroU64>, least: NonZeroU64| match given {
            Some(given) if given < least => Err(Unenforceable {
                what: format!("a limit of {given} {what}"),
                why: String::from("no command can be started with so little"),
                remedy: format!("the least is {least}"),
            }),
            Some(_) | None => Ok(()),
        };
        too_small("open files (`open_files`)", limits.open_files, ResourceLimits::FEWEST_OPEN_FILES)?;
        too_small("bytes of memory (`memory_bytes`)", limits.memory_bytes, ResourceLimits::LEAST_MEMORY_BYTES)?;
        let group = Group::for_limits(permissions);
        if group.is_none() && limits.processes.is_some() && user == 0 {
            return Err(Unenforceable {
                what: String::from("a limit on processes"),
                why: String::from("the kernel does not count the processes of root, and no control group can be made"),
                remedy: String::from(
                    "run as an ordinary user, or in a control group of version 2 that is delegated, or leave the limit out",
                ),
            });
        }
        let without_group = |limit| if group.is_some() { None } else { limit };
        let pairs = [
            (libc::RLIMIT_CPU, limits.cpu_seconds),
            (libc::RLIMIT_AS, without_group(limits.memory_bytes)),
            (libc::RLIMIT_NPROC, without_group(limits.processes)),
            (libc::RLIMIT_FSIZE, limits.file_size_bytes),
            (libc::RLIMIT_NOFILE, limits.open_files),
        ];
        let mut steps = vec![Step::Limit { resource: libc::RLIMIT_CORE, value: 0 }];
        let given =
            pairs.into_iter().filter_map(|(resource, value)| Some(Step::Limit { resource, value: value?.get() }));
        steps.extend(given);
        let is_by_process = group.is_none() && limits.memory_bytes.is_some();
        let warnings = is_by_process.then(|| String::from(MEMORY_BY_PROCESS)).into_iter().collect();
        Ok(Self { steps, group, warnings })
    }
}
