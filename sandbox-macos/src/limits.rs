//! How much of the machine a command may use, as far as macOS counts it.

use stockade_protocol::ResourceLimits;
use stockade_sandboxing::Unenforceable;

/// What is limited, for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    CoreFile,
    ProcessorSeconds,
    FileSize,
    OpenFiles,
}

/// One limit that the command's process sets for itself and all it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) counted: Counted,
    pub(crate) most: u64,
}

/// The limits that can be set; those that macOS takes and ignores are refused.
pub(crate) fn limits(limits: &ResourceLimits) -> Result<Vec<Limit>, Unenforceable> {
    let refuse = |what: &str, why: &str| {
        Err(Unenforceable { what: what.to_owned(), why: why.to_owned(), remedy: String::from("leave the limit out") })
    };
    if limits.memory_bytes.is_some() {
        return refuse("a limit on memory", "macOS accepts one for a process and does not enforce it");
    }
    if limits.processes.is_some() {
        return refuse("a limit on processes", "macOS counts all processes of the user, not those of one command");
    }
    let set = [
        (Counted::ProcessorSeconds, limits.cpu_seconds),
        (Counted::FileSize, limits.file_size_bytes),
        (Counted::OpenFiles, limits.open_files),
    ];
    let set = set.into_iter().filter_map(|(counted, most)| Some(Limit { counted, most: most?.get() }));
    // A core file would be a copy of the command's memory in a place of the system's choice.
    Ok([Limit { counted: Counted::CoreFile, most: 0 }].into_iter().chain(set).collect())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn what_macos_does_not_count_is_refused() {
        let some = NonZeroU64::new(7);
        let default = ResourceLimits::default();
        for refused in [ResourceLimits { memory_bytes: some, ..default }, ResourceLimits { processes: some, ..default }]
        {
            assert!(limits(&refused).unwrap_err().to_string().contains("leave the limit out"));
        }
        let held = ResourceLimits { cpu_seconds: some, file_size_bytes: some, open_files: some, ..default };
        assert_eq!(limits(&held).unwrap().iter().map(|limit| limit.most).collect::<Vec<_>>(), [0, 7, 7, 7]);
    }
}
