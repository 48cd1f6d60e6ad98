//! Programs named by a descriptor of a process: `/proc/7/fd/3`, `/proc/self/task/7/fd/3`, `/proc/7/exe`.
//!
//! Such a name has no file that could be looked up in the sandbox's view: the link is followed by the kernel. Numbers of processes are
//! those of the sandbox, so the link is read through the caller's own root directory.

/// The link that a path names, below `/proc/PID` of the calling process, as this process sees it; `None` for other paths.
pub(super) fn link(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok()?;
    let parts: Vec<&str> = text.strip_prefix('/')?.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let ["proc", process, rest @ ..] = parts.as_slice() else { return None };
    let rest = match rest {
        // All threads that are looked at have the same descriptors.
        ["task", thread, rest @ ..] if is_number(thread) => rest,
        rest => rest,
    };
    let link = match rest {
        ["fd", number] if is_number(number) => format!("fd/{number}"),
        ["exe"] => String::from("exe"),
        _ => return None,
    };
    match *process {
        "self" | "thread-self" => Some(link),
        number if is_number(number) => Some(format!("root/proc/{number}/{link}")),
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_processes_are_found() {
        for (path, expected) in [
            ("/proc/7/fd/3", Some("root/proc/7/fd/3")),
            ("//proc/./7//fd/3", Some("root/proc/7/fd/3")),
            ("/proc/7/task/8/fd/3", Some("root/proc/7/fd/3")),
            ("/proc/self/task/8/fd/3", Some("fd/3")),
            ("/proc/7/exe", Some("root/proc/7/exe")),
            ("/proc/thread-self/exe", Some("exe")),
            ("/proc/7/root/bin/rm", None),
            ("/proc/7/fd/../exe", None),
            ("/proc/x/fd/3", None),
            ("/proc/7/fd/x", None),
            ("/usr/bin/rm", None),
            ("proc/7/fd/3", None),
        ] {
            assert_eq!(link(path.as_bytes()).as_deref(), expected, "{path}");
        }
    }
}
