//! How much of the machine a command may use.

use stockade_protocol::ResourceLimits;
use stockade_sandboxing::Unenforceable;

use crate::step::Step;

/// Resource limits as steps of the command's own process, which it passes on to all it starts.
pub(crate) fn steps(limits: &ResourceLimits, user: u32) -> Result<Vec<Step>, Unenforceable> {
    if limits.processes.is_some() && user == 0 {
        return Err(Unenforceable {
            what: String::from("a limit on processes"),
            why: String::from("the kernel does not count the processes of root"),
            remedy: String::from("run as an ordinary user, or leave the limit out"),
        });
    }
    let pairs = [
        (libc::RLIMIT_CPU, limits.cpu_seconds),
        (libc::RLIMIT_AS, limits.memory_bytes),
        (libc::RLIMIT_NPROC, limits.processes),
        (libc::RLIMIT_FSIZE, limits.file_size_bytes),
        (libc::RLIMIT_NOFILE, limits.open_files),
    ];
    let mut steps = vec![Step::Limit { resource: libc::RLIMIT_CORE, value: 0 }];
    steps.extend(pairs.into_iter().filter_map(|(resource, value)| Some(Step::Limit { resource, value: value?.get() })));
    Ok(steps)
}
