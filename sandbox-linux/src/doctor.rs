//! The obstacles to a sandbox on this host, and the commands that remove them.
//!
//! Engines are probed ([`crate::engines::probe`]); the settings that usually explain a failure are read, and reported only if
//! they are the cause.

use std::fs;
use std::path::Path;

use stockade_sandboxing::{Backend, Diagnosis, LayerSupport, Support, SupportLevel};

use crate::engines::bwrap::Bwrap;
use crate::engines::landlock_only::LandlockOnly;
use crate::engines::native::Native;
use crate::launch::cgroup;
use crate::masks;

/// A profile that lets one program create user namespaces if AppArmor forbids it to all others.
const APPARMOR_PROFILE: &str = "abi <abi/4.0>, include <tunables/global> \
    profile stockade /usr/local/bin/stockade flags=(unconfined) { userns, }";

/// Probes every engine.
pub fn diagnose() -> Diagnosis {
    let (native, bwrap, landlock) = (Native::new(), Bwrap::new(), LandlockOnly::new());
    let all: [&dyn Backend; 3] = [&native, &bwrap, &landlock];
    let engines: Vec<Support> = all.into_iter().map(|engine| engine.support().clone()).collect();
    let chosen = engines.iter().find(|support| support.works()).map(|support| support.engine.clone());
    let complete = matches!(chosen.as_deref(), Some("native" | "bwrap"));
    Diagnosis { chosen, complete, host: host(), engines }
}

/// Whether this process is inside a sandbox of Stockade, or a similar one: filtered, and with its host name. Only for
/// messages.
pub(crate) fn is_nested() -> bool {
    let filtered = read("/proc/self/status").lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2'));
    filtered && read("/proc/sys/kernel/hostname").trim() == "stockade"
}

fn host() -> Vec<LayerSupport> {
    let kernel = read("/proc/sys/kernel/osrelease");
    vec![
        fact("kernel", SupportLevel::Full, kernel.trim(), None),
        user_namespaces(&Switches::read()),
        memory_files(&read("/proc/sys/vm/memfd_noexec")),
        cgroups(),
        masks(masks::has_device(), Path::new(masks::DEVICE).exists()),
    ]
}

/// The settings of the kernel and of distributions that forbid user namespaces.
struct Switches {
    nested: bool,
    most: String,
    unprivileged: String,
    apparmor: String,
}

impl Switches {
    fn read() -> Self {
        Self {
            nested: is_nested(),
            most: read("/proc/sys/user/max_user_namespaces"),
            unprivileged: read("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        }
    }
}

fn user_namespaces(switches: &Switches) -> LayerSupport {
    let name = "user_namespaces";
    let missing = |why: &str, remedy: &str| fact(name, SupportLevel::Missing, why, Some(remedy));
    match () {
        () if switches.nested => missing(
            "this process is inside a Stockade sandbox, which forbids them",
            "run it outside, or use the policy `external-sandbox`",
        ),
        () if switches.most.trim() == "0" => {
            missing("`user.max_user_namespaces` is 0", "sysctl -w user.max_user_namespaces=65536")
        }
        () if switches.unprivileged.trim() == "0" => {
            missing("`kernel.unprivileged_userns_clone` is 0", "sysctl -w kernel.unprivileged_userns_clone=1")
        }
        () if switches.apparmor.trim() == "1" => fact(
            name,
            SupportLevel::Partial,
            "AppArmor allows them only to programs with a profile",
            Some(&format!(
                "write `{APPARMOR_PROFILE}` to /etc/apparmor.d/stockade and run `apparmor_parser -r \
                 /etc/apparmor.d/stockade`, or install bubblewrap, which has one"
            )),
        ),
        () => fact(name, SupportLevel::Full, "not restricted by any switch", None),
    }
}

/// The remedy if namespaces can't be created.
pub(crate) fn namespaces_remedy() -> String {
    user_namespaces(&Switches::read()).remedy.unwrap_or_else(|| {
        String::from(
            "let this program make user namespaces and mount `/proc`: in a container, start it with \
             `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`",
        )
    })
}

/// The launcher is a file in memory.
fn memory_files(noexec: &str) -> LayerSupport {
    let name = "memory_files";
    match noexec.trim() {
        "2" => fact(
            name,
            SupportLevel::Missing,
            "`vm.memfd_noexec` is 2, so the launcher can't be run from memory",
            Some("sysctl -w vm.memfd_noexec=1"),
        ),
        _ => fact(name, SupportLevel::Full, "can be run", None),
    }
}

/// Limits on whole process trees need a delegated control group.
fn cgroups() -> LayerSupport {
    let name = "control_groups";
    if let Some(group) = cgroup::delegated() {
        return fact(name, SupportLevel::Full, &format!("can be made in `{}`", group.display()), None);
    }
    fact(
        name,
        SupportLevel::Partial,
        "none can be made by this user: limits on memory hold for each process, not for all together, and limits on \
         processes not for root",
        Some("systemd-run --user --scope -p Delegate=yes stockade …"),
    )
}

/// The process that reads a masked path is known only if this user may use FUSE.
fn masks(is_usable: bool, is_there: bool) -> LayerSupport {
    let (name, guessed) = ("masks", "a read of what is denied is guessed from the command's output, not observed");
    match (is_usable, is_there) {
        (true, _) => {
            fact(name, SupportLevel::Full, "`/dev/fuse` can be used: reads of what is denied are observed", None)
        }
        (false, true) => {
            let detail = format!("this user may not open `/dev/fuse`: {guessed}");
            fact(name, SupportLevel::Partial, &detail, Some("as root: chmod 666 /dev/fuse"))
        }
        (false, false) => fact(
            name,
            SupportLevel::Partial,
            &format!("there is no `/dev/fuse`: {guessed}"),
            Some("as root: modprobe fuse"),
        ),
    }
}

fn fact(name: &str, level: SupportLevel, detail: &str, remedy: Option<&str>) -> LayerSupport {
    LayerSupport { layer: name.to_owned(), level, detail: Some(detail.to_owned()), remedy: remedy.map(String::from) }
}

/// The content of a kernel file; empty if it is missing.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_is_in_the_way_is_named_with_its_remedy() {
        let switches = |nested, most: &str, unprivileged: &str, apparmor: &str| Switches {
            nested,
            most: most.to_owned(),
            unprivileged: unprivileged.to_owned(),
            apparmor: apparmor.to_owned(),
        };
        for (switches, level, remedy) in [
            (switches(false, "0\n", "", ""), SupportLevel::Missing, "sysctl -w user.max_user_namespaces=65536"),
            (switches(false, "9\n", "0\n", ""), SupportLevel::Missing, "kernel.unprivileged_userns_clone=1"),
            (switches(false, "9\n", "1\n", "1\n"), SupportLevel::Partial, "userns,"),
            (switches(true, "9\n", "1\n", "0\n"), SupportLevel::Missing, "external-sandbox"),
        ] {
            let found = user_namespaces(&switches);
            assert_eq!(found.level, level);
            assert!(found.remedy.unwrap().contains(remedy), "{remedy}");
        }
        let free = user_namespaces(&switches(false, "9\n", "1\n", "0\n"));
        assert_eq!((free.level, free.remedy), (SupportLevel::Full, None));
        assert_eq!(memory_files("2\n").level, SupportLevel::Missing);
    }

    #[test]
    fn what_is_known_of_reads_is_said() {
        assert_eq!((masks(true, true).level, masks(true, true).remedy), (SupportLevel::Full, None));
        for (is_there, remedy) in [(true, "as root: chmod 666 /dev/fuse"), (false, "as root: modprobe fuse")] {
            let found = masks(false, is_there);
            assert_eq!((found.level, found.remedy.as_deref()), (SupportLevel::Partial, Some(remedy)));
            assert!(found.detail.unwrap().contains("guessed"));
        }
    }
}
