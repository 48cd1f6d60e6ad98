//! Calls that no policy allows: whether this user could make them outside, so that the sandbox is what refuses them.

use std::fs;
use std::sync::OnceLock;

use libc::{CLONE_NEWUSER, SYS_clone, SYS_ptrace, SYS_socket, SYS_unshare};
use stockade_sandboxing::{DeniedAct, is_administrator};

use crate::plan::refusals::Refusal;
use crate::sys::notify::Notification;

/// What a refused call is noted as, if the user could make it.
pub(super) fn denied(call: &Notification, refusal: Refusal) -> Option<DeniedAct> {
    let [first, ..] = call.arguments;
    let makes_users = first & u64::from(CLONE_NEWUSER.cast_unsigned()) != 0;
    let is_possible = if call.call == SYS_socket {
        return Some(DeniedAct::UnixSocket);
    } else if call.call == SYS_ptrace {
        host().tracing
    } else if makes_users && [SYS_unshare, SYS_clone].contains(&call.call) {
        host().user_namespaces
    } else {
        is_administrator()
    };
    is_possible.then_some(DeniedAct::Call(refusal.name))
}

/// What this system lets the user do.
struct HostCalls {
    /// Tracing a process that it has started.
    tracing: bool,
    /// Making a namespace of users, and in it the others.
    user_namespaces: bool,
}

fn host() -> &'static HostCalls {
    static FOUND: OnceLock<HostCalls> = OnceLock::new();
    FOUND.get_or_init(|| {
        let number = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse::<u64>().ok();
        let is = |name: &str, wanted: fn(u64) -> bool| number(name).is_none_or(wanted);
        // <https://docs.kernel.org/admin-guide/LSM/Yama.html>: with 2 the administrator traces, with 3 no user does.
        let scope = number("kernel/yama/ptrace_scope").unwrap_or_default();
        // The second is Debian's, the third Ubuntu's.
        let namespaces = is("user/max_user_namespaces", |most| most > 0)
            && (is_administrator()
                || is("kernel/unprivileged_userns_clone", |allowed| allowed != 0)
                    && is("kernel/apparmor_restrict_unprivileged_userns", |restricted| restricted == 0));
        HostCalls { tracing: scope < 2 || (scope == 2 && is_administrator()), user_namespaces: namespaces }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::refusals::refusal;

    fn noted(call: i64, first: u64) -> Option<DeniedAct> {
        let arguments = [first, 0, 0, 0, 0, 0];
        denied(&Notification { id: 0, thread: 0, call, arguments }, refusal(call, &arguments)?)
    }

    #[test]
    fn what_the_user_could_do_outside_is_noted() {
        let privileged = is_administrator();
        assert_eq!(noted(SYS_unshare, 0x1000_0000).is_some(), host().user_namespaces);
        assert_eq!(noted(SYS_clone, 0x1002_0011).is_some(), host().user_namespaces);
        assert_eq!(noted(SYS_unshare, 0x0002_0000).is_some(), privileged, "mounts alone are the administrator's");
        assert_eq!(noted(libc::SYS_mount, 0).is_some(), privileged);
        assert_eq!(noted(SYS_socket, 1), Some(DeniedAct::UnixSocket));
        assert_eq!(noted(SYS_clone, 0x0120_0011), None, "an ordinary process");
    }
}
