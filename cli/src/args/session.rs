//! What `run` and `explain` have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Arguments;
use stockade_config::LossName;
use stockade_protocol::{AskForApproval, HostRule, ResourceLimits};

use crate::flags;

/// What a command may do, and when to ask.
#[derive(Debug, Default, Arguments)]
pub(crate) struct SessionArgs {
    /// What the command may write; a sandbox that is named here holds against every rule
    /// [default: workspace-write]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) sandbox: Option<flags::Policy>,

    /// When to ask: untrusted, on-failure, on-request, never or reject=CATEGORY,… [default: on-failure
    /// with a terminal, never without]
    #[arg(long, value_name = "WHEN", value_parser = flags::ask)]
    pub(crate) ask: Option<AskForApproval>,

    /// The working directory of the command; it is not made writable
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// A directory that is the workspace, in place of the one you are in; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Vec<PathBuf>,

    /// A directory that may be written besides the workspace; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,

    /// A directory that may be read: nothing else may, but for what programs need to start; may be given
    /// several times
    #[arg(long, value_name = "DIR")]
    pub(crate) readable: Vec<PathBuf>,

    /// A path or glob that can't be read, and that no approval opens; may be given several times
    #[arg(long, value_name = "PATH|GLOB")]
    pub(crate) deny_read: Vec<String>,

    /// The network of the command [default: off; with `untrusted` and `on-failure` each host is asked for]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) network: Option<flags::Network>,

    /// A host that may be reached, such as api.example.com:443 or *.example.com, a network, such as
    /// 10.0.0.0/8:443, or with datagrams, such as time.example.com:123/udp; may be given several times
    #[arg(long, value_name = "HOST[:PORT][/udp]", value_parser = flags::allowed_host)]
    pub(crate) allow_host: Vec<HostRule>,

    /// A unix socket that may be connected to, such as an SSH agent's; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_socket: Vec<PathBuf>,

    /// A device that may be used, by its node below /dev, such as /dev/dri/renderD128; may be given several times
    #[arg(long, value_name = "NODE")]
    pub(crate) device: Vec<PathBuf>,

    /// Pass a variable on that is dropped by default, or set it; may be given several times
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<flags::Variable>,

    /// Limits: cpu=TIME, memory=SIZE (at least 4M), pids=N, fsize=SIZE, files=N (at least 4), separated by
    /// commas; sizes such as 256M, 256MiB or 256MB, times such as 30s
    #[arg(long, value_name = "NAME=VALUE,…", value_parser = flags::limits)]
    pub(crate) limit: Option<ResourceLimits>,

    /// End the command after this time, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = flags::timeout)]
    pub(crate) timeout: Option<Duration>,

    /// Read this rules file instead of the system's, the user's and the project's; may be given several
    /// times. It counts as your own, or as a project's where commands may write it
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,

    /// What builds the sandbox [default: auto]
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) engine: Option<flags::Engine>,

    /// Run the command without a protection that the engine can't enforce, instead of refusing it; may be given
    /// several times
    #[arg(long, value_name = "NAME", value_parser = flags::losses())]
    pub(crate) accept_loss: Vec<LossName>,

    /// Give the command what these permission profiles grant, such as npm or cargo: caches and registries, never
    /// secrets. `stockade profile list` has all of them; may be given several times
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    /// Use this profile of the configuration
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Why the command is run, in words that a question shows; nothing is decided by them
    #[arg(long, value_name = "TEXT")]
    pub(crate) justification: Option<String>,

    /// Ask to run without the sandbox
    #[arg(long)]
    pub(crate) unsandboxed: bool,
}
