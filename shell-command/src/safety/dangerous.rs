//! Commands that destroy a system, a disk or a home directory, and are never meant to run unattended.
//!
//! This is not a defence against an attacker, which the sandbox is: it prevents accidents. Options are parsed loosely,
//! since a false alarm here only refuses nonsense.

use stockade_protocol::{ParsedCommand, Word};

/// Top-level directories that a system can't lose.
const SYSTEM: [&str; 24] = [
    "applications",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "library",
    "mnt",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "system",
    "users",
    "usr",
    "var",
    "volumes",
];

/// Prefixes of disk names below `/dev`.
const DISKS: [&str; 12] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "mem"];

/// What `command` destroys, if it is destructive.
pub(super) fn reason(command: &ParsedCommand) -> Option<String> {
    if let Some(disk) = command.writes.iter().filter_map(Word::as_str).find(|file| is_disk(file)) {
        return Some(format!("writes over the disk `{disk}`"));
    }
    let mut words = command.words.iter().map(|word| word.as_str().unwrap_or_default());
    let program = words.next()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let arguments: Vec<&str> = words.collect();
    match name {
        "rm" => remove(&arguments),
        "chmod" | "chown" | "chgrp" if is_recursive(&arguments) => {
            place(&arguments).map(|place| format!("changes the rights of everything below `{place}`"))
        }
        "find" if arguments.contains(&"-delete") => {
            place(&arguments).map(|place| format!("removes everything below `{place}`"))
        }
        "dd" => {
            let target = arguments.iter().find_map(|word| word.strip_prefix("of=").filter(|path| is_disk(path)))?;
            Some(format!("writes over the disk `{target}`"))
        }
        "shred" | "tee" | "cp" | "truncate" | "wipefs" | "blkdiscard" => {
            let target = arguments.last().filter(|path| is_disk(path))?;
            Some(format!("writes over the disk `{target}`"))
        }
        "mkfs" | "mke2fs" | "mkswap" | "newfs" => Some("makes a file system over what is there".into()),
        _ if name.starts_with("mkfs.") || name.starts_with("newfs_") => {
            Some("makes a file system over what is there".into())
        }
        "kill" if arguments.len() > 1 && arguments.last() == Some(&"-1") => Some("ends every process".into()),
        _ => None,
    }
}

fn remove(arguments: &[&str]) -> Option<String> {
    if arguments.iter().any(|word| word.len() > 6 && "--no-preserve-root".starts_with(word)) {
        return Some("lifts the protection of `/`".into());
    }
    let place = place(arguments).filter(|_| is_recursive(arguments))?;
    Some(format!("removes everything below `{place}`"))
}

fn is_recursive(arguments: &[&str]) -> bool {
    arguments.iter().any(|word| match word.strip_prefix("--") {
        Some(long) => !long.is_empty() && "recursive".starts_with(long),
        None => word.starts_with('-') && word.contains(['r', 'R']),
    })
}

/// The first argument that is a path which must not be lost.
fn place<'w>(arguments: &[&'w str]) -> Option<&'w str> {
    arguments.iter().copied().find(|word| is_vital(word))
}

fn is_vital(path: &str) -> bool {
    if matches!(path.trim_end_matches('/'), "~" | "$HOME") {
        return true;
    }
    if !path.starts_with('/') {
        return false;
    }
    let lower = path.to_lowercase();
    let mut components: Vec<&str> = Vec::new();
    for component in lower.split('/') {
        match component {
            "" | "." | "*" => {}
            ".." => drop(components.pop()),
            name => components.push(name),
        }
    }
    match components.as_slice() {
        [] => true,
        [top] => SYSTEM.contains(top),
        ["home" | "users", _] => true,
        [..] => false,
    }
}

fn is_disk(path: &str) -> bool {
    path.strip_prefix("/dev/").is_some_and(|device| DISKS.iter().any(|disk| device.starts_with(disk)))
}
