//! What is said between the library and the launcher, in numbers that both sides compile in.
//!
//! The library sends frames: a head (`kind`, `length`), descriptors with it, then a body. The
//! launcher answers with reports of a fixed size. Numbers are little-endian; texts and lists have
//! their length in front.

/// A frame that says how to build the sandbox, and names the placeholders which are going to stand
/// in the workspace, before they do. Comes once. Its descriptors are the directories that hold them.
pub(crate) const FRAME_SETUP: u32 = 1;
/// A frame that starts a command. Its descriptors are standard input, output and error, and, unless
/// it comes through that itself, the socket for the reports about this command.
pub(crate) const FRAME_RUN: u32 = 2;
/// A frame that says that the placeholders are there. Comes once. They are its descriptors.
pub(crate) const FRAME_HELD: u32 = 3;
/// A frame that asks for another process to be parked: see `REPORT_PARKED`.
pub(crate) const FRAME_PARK: u32 = 4;
/// A frame with the first steps of a sandbox, before it is known what else belongs to it. Comes before
/// the one that says so, or not at all.
pub(crate) const FRAME_BEGIN: u32 = 5;
/// A frame with the socket of the program outside that answers for masks. Comes before the one that says how to
/// build the sandbox, or not at all.
pub(crate) const FRAME_MASKS: u32 = 6;
/// How long a launcher that has begun waits to be told how to go on, in milliseconds.
pub(crate) const LONGEST_UNUSED_MS: u64 = 2_000;
/// The mode that tells a placeholder from any other directory.
pub(crate) const PLACEHOLDER_MODE: u32 = 0o1500;
/// The bytes of a frame's head.
pub(crate) const HEAD: usize = 8;
/// The most descriptors that the kernel passes at once.
pub(crate) const MOST_FILES: usize = 253;
/// The most commands that one launcher runs at once.
pub(crate) const MOST_RUNS: usize = 64;
/// The most mounts that a sandbox may be built from.
pub(crate) const MOST_SLOTS: usize = 4096;

/// A report's bytes: `kind: u32, a: i32, b: u64`.
pub(crate) const REPORT: usize = 16;
/// The command is about to start; `b` holds the facts that were read back, and `a` the number of its namespace of
/// processes if there may be several.
pub(crate) const REPORT_READY: u32 = 1;
/// A step failed; `a` is the error number, `b` the phase and the number of the step.
pub(crate) const REPORT_FAILED: u32 = 2;
/// The command and everything it started are gone, and so are the placeholders if it was the only
/// one; `a` is its wait status.
pub(crate) const REPORT_ENDED: u32 = 3;
/// With the report of an end: the caller has to look at the names that were held.
pub(crate) const NAMES_ARE_LEFT: u64 = 1;

/// A process waits for a command, confined as that is going to be. Its socket, which comes along, takes
/// the frame that starts the command and gives the reports about it.
pub(crate) const REPORT_PARKED: u32 = 4;

/// The socket that the commands' resolver asks, which comes along.
pub(crate) const REPORT_RESOLVER: u32 = 5;
/// Where the calls come out that are decided outside; it comes along.
pub(crate) const REPORT_LISTENER: u32 = 6;
/// Where the commands' datagrams come out, and where answers to them go in; it comes along.
pub(crate) const REPORT_DATAGRAMS: u32 = 7;
/// Comes before that one: a socket to be closed after it, which tells the launcher that it is closed.
pub(crate) const REPORT_LEASE: u32 = 8;
/// In place of those two: there is no way for datagrams here; `a` is the error number.
pub(crate) const REPORT_NO_DATAGRAMS: u32 = 9;

/// The caller has let the sandbox go while commands still run in it. Once they have ended, the launcher
/// cleans up.
pub(crate) const REPORT_BUSY: u32 = 10;

/// The sandbox is built. Said in answer to a frame that asks for a process, where none is ever parked.
pub(crate) const REPORT_BUILT: u32 = 11;
/// Where masks ask what to answer; it comes along, to the socket that came with `FRAME_MASKS`. Without it `a` says
/// why there is none.
pub(crate) const REPORT_MASKS: u32 = 12;

/// Where a step failed: while the sandbox was built, in its first process, or in the command's own.
pub(crate) const PHASE_SETUP: u64 = 0;
pub(crate) const PHASE_INIT: u64 = 1;
pub(crate) const PHASE_COMMAND: u64 = 2;

/// What the command's process read back about itself before it started the command.
pub(crate) const FACT_NO_NEW_PRIVILEGES: u64 = 1;
pub(crate) const FACT_SECCOMP: u64 = 2;
pub(crate) const FACT_NO_CAPABILITIES: u64 = 4;
pub(crate) const FACT_NO_BOUNDING_SET: u64 = 8;
pub(crate) const FACT_LANDLOCK: u64 = 16;
pub(crate) const FACT_OWN_PIDS: u64 = 32;
/// What its first process ends with it is this sandbox's alone, whatever the command has started.
pub(crate) const FACT_CONTAINED: u64 = 64;

// Steps, in the order in which a plan usually has them.
pub(crate) const STEP_NAMESPACES: u8 = 1;
pub(crate) const STEP_WRITE_FILE: u8 = 2;
pub(crate) const STEP_BEGIN_NETWORK: u8 = 3;
pub(crate) const STEP_HOST_NAME: u8 = 4;
pub(crate) const STEP_CLONE_TREE: u8 = 5;
pub(crate) const STEP_CLONE_PART: u8 = 6;
pub(crate) const STEP_TMPFS: u8 = 7;
pub(crate) const STEP_ATTRIBUTES: u8 = 8;
pub(crate) const STEP_ROOT_ATTRIBUTES: u8 = 9;
pub(crate) const STEP_ATTACH: u8 = 10;
pub(crate) const STEP_DIRECTORY: u8 = 11;
pub(crate) const STEP_FILE: u8 = 12;
pub(crate) const STEP_SYMLINK: u8 = 13;
pub(crate) const STEP_PROC: u8 = 14;
pub(crate) const STEP_TERMINALS: u8 = 15;
pub(crate) const STEP_ENTER_ROOT: u8 = 16;
pub(crate) const STEP_KEYRING: u8 = 17;
pub(crate) const STEP_AWAIT_NAMES: u8 = 18;
pub(crate) const STEP_JOIN_NETWORK: u8 = 19;
pub(crate) const STEP_WORKING_DIRECTORY: u8 = 20;
pub(crate) const STEP_SAME_DIRECTORY: u8 = 46;
pub(crate) const STEP_SESSION: u8 = 21;
pub(crate) const STEP_TAKE_TERMINAL: u8 = 22;
pub(crate) const STEP_LIMIT: u8 = 23;
pub(crate) const STEP_NO_NEW_PRIVILEGES: u8 = 24;
pub(crate) const STEP_DROP_CAPABILITIES: u8 = 25;
pub(crate) const STEP_LANDLOCK: u8 = 26;
pub(crate) const STEP_SECCOMP: u8 = 27;
pub(crate) const STEP_RESOLVER: u8 = 28;
pub(crate) const STEP_SUPERVISE: u8 = 29;
pub(crate) const STEP_EXEC: u8 = 30;
pub(crate) const STEP_DATAGRAMS: u8 = 31;
pub(crate) const STEP_LANDLOCK_FOR_FILES: u8 = 32;
pub(crate) const STEP_UMASK: u8 = 33;
pub(crate) const STEP_CALLERS_LIMIT: u8 = 34;
pub(crate) const STEP_IGNORE_BROKEN_PIPES: u8 = 39;
pub(crate) const STEP_OBSERVE: u8 = 35;
pub(crate) const STEP_MASKS: u8 = 36;
pub(crate) const STEP_CLONE_MASK: u8 = 37;
// For engines that do without namespaces of the launcher's own.
pub(crate) const STEP_ADOPT_ORPHANS: u8 = 40;
pub(crate) const STEP_KEEP_SIGNALS: u8 = 41;
pub(crate) const STEP_MOUNT_POINT: u8 = 42;
pub(crate) const STEP_ENTER_NETWORK: u8 = 43;
pub(crate) const STEP_ENTER_MOUNTS: u8 = 44;
pub(crate) const STEP_DETACH: u8 = 45;
