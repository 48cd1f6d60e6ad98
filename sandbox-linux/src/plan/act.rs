//! Descriptions of steps, for error messages.

use crate::plan::step::Step;

impl Step {
    pub(crate) fn act(&self) -> String {
        let text = match self {
            Self::Namespaces { .. } => "make namespaces",
            Self::WriteFile { path, .. } => return format!("write `{path}`"),
            Self::BeginNetwork => "make a network namespace",
            Self::HostName { .. } => "set the host name",
            Self::CloneTree { path, .. } => return format!("copy the mount of `{path}`"),
            Self::ClonePart { path, .. } => return format!("copy the mount of the sandbox's own `{path}`"),
            Self::Masks { .. } => "make a file system for masks",
            Self::CloneMask { path, .. } => return format!("copy the mount of the sandbox's own `{path}`"),
            Self::Tmpfs { .. } => "make a file system in memory",
            Self::Attributes { .. } | Self::RootAttributes { .. } => "set the attributes of a mount",
            Self::Attach { path, .. } => return format!("mount on `{path}`"),
            Self::Directory { path, .. } => return format!("make the directory `{path}` of the sandbox's own"),
            Self::File { path, .. } => return format!("make the file `{path}` of the sandbox's own"),
            Self::Symlink { path, .. } => return format!("make the link `{path}` of the sandbox's own"),
            Self::Proc => "mount `/proc`",
            Self::Terminals { .. } => "make a file system for terminals",
            Self::EnterRoot { path } => return format!("make `{path}` the root"),
            Self::Keyring => "make a session keyring",
            Self::AwaitNames => "wait for the names that are held",
            Self::JoinNetwork => "enter the sandbox's network",
            Self::WorkingDirectory { path } => return format!("enter the working directory `{path}`"),
            Self::SameDirectory { .. } => "find the caller's directory at its path",
            Self::Session => "start a session",
            Self::TakeTerminal => "take the terminal",
            Self::Limit { resource, value } => return format!("set the limit {} to {value}", limit(*resource)),
            Self::CallersLimit { resource, soft, hard } => {
                return format!("set the caller's limit {} to {soft}, and at most {hard}", limit(*resource));
            }
            Self::Umask { mask } => return format!("set the umask to {mask:03o}"),
            Self::IgnoreBrokenPipes => "ignore `SIGPIPE`",
            Self::NoNewPrivileges => "give up new privileges",
            Self::DropCapabilities => "drop capabilities",
            Self::Landlock { .. } | Self::LandlockForFiles { .. } => "restrict files with Landlock",
            Self::Resolver => "make the resolver's socket",
            Self::Datagrams { .. } => "make the way for datagrams",
            Self::Supervise { .. } => "install the supervisor's system call filter",
            Self::Observe { .. } => "install the observer's system call filter",
            Self::Seccomp { .. } => "install the system call filter",
            Self::Exec { .. } => "read the command",
            Self::AdoptOrphans => "adopt orphaned processes",
            Self::KeepSignals => "keep signals inside with Landlock",
            Self::MountPoint { path } => return format!("find the mount on `{path}`"),
            Self::EnterNetwork { path } => return format!("enter the network `{path}`"),
            Self::EnterMounts { path } => return format!("enter the mounts `{path}`"),
            Self::Detach { path } => return format!("take away the mount on `{path}`"),
        };
        text.to_owned()
    }
}

fn limit(resource: u32) -> String {
    match resource {
        libc::RLIMIT_CORE => String::from("RLIMIT_CORE"),
        libc::RLIMIT_CPU => String::from("RLIMIT_CPU"),
        libc::RLIMIT_AS => String::from("RLIMIT_AS"),
        libc::RLIMIT_NPROC => String::from("RLIMIT_NPROC"),
        libc::RLIMIT_FSIZE => String::from("RLIMIT_FSIZE"),
        libc::RLIMIT_NOFILE => String::from("RLIMIT_NOFILE"),
        libc::RLIMIT_DATA => String::from("RLIMIT_DATA"),
        libc::RLIMIT_MEMLOCK => String::from("RLIMIT_MEMLOCK"),
        libc::RLIMIT_STACK => String::from("RLIMIT_STACK"),
        other => other.to_string(),
    }
}
