//! Killed callers, launchers and first processes; commands that use up everything; names that are
//! hard to handle; many sandboxes at once; callers with low limits.

/// Eight sandboxes on one workspace.
mod crowds;
/// The caller, the launcher or the first process is killed at any moment.
mod kills;
/// Processes, memory, output, files without end.
mod loads;
/// A caller with low limits of its own.
mod low_limits;
/// Workspaces whose names are hard to handle.
mod names;
