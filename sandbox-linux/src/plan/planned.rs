//! A cache of recent plans.
//!
//! A plan depends on permissions and on the host's files, mostly paths of credentials that do not exist. Compiling one
//! takes far longer than checking these paths again. So each command is still planned for the current host, but if
//! permissions and all paths are unchanged, the earlier plan is reused. Repositories below writable directories and
//! matches of denied globs are searched anew each time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_protocol::Permissions;
use stockade_sandboxing::{
    CommandSpec, RealFiles, SeenOnce, Starts, Unenforceable, protect_repositories, resolve_links,
};

use crate::engines::native::{Native, NativePlan, Sandbox};
use crate::plan::view::OwnFile;
use crate::supervisor::supervision::Supervision;

/// Limit on kept plans, most recently used first.
const MOST_KEPT: usize = 4;

/// Plans of one backend.
#[derive(Debug, Default)]
pub(crate) struct Planned(Mutex<VecDeque<KnownPlan>>);

#[derive(Debug)]
struct KnownPlan {
    starts: Starts,
    permissions: Permissions,
    /// The paths it depends on.
    files: SeenOnce,
    /// With links resolved.
    resolved: Permissions,
    /// Also with repositories protected.
    protected: Arc<Permissions>,
    sandbox: Arc<Sandbox>,
    /// Where the supervisor's own files stand in, if connections are supervised.
    own_files: Vec<OwnFile>,
}

impl Planned {
    /// The plan for a command, equal to that of [`Native::plan`].
    pub(crate) fn plan(
        &self,
        native: &Native,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<NativePlan, Unenforceable> {
        let starts = command.process.starts;
        let known = match self.take(permissions, starts) {
            Some(known) if known.still_holds(native)? => known,
            Some(_) | None => KnownPlan::make(native, permissions, starts)?,
        };
        let plan = NativePlan::new(Arc::clone(&known.sandbox), Arc::clone(&known.protected), command)?;
        let mut kept = self.kept();
        kept.push_front(known);
        kept.truncate(MOST_KEPT);
        Ok(plan)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<KnownPlan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a plan out, so that the host is looked at without a lock.
    fn take(&self, permissions: &Permissions, starts: Starts) -> Option<KnownPlan> {
        let mut kept = self.kept();
        let found = kept.iter().position(|known| known.starts == starts && known.permissions == *permissions)?;
        kept.remove(found)
    }
}

impl KnownPlan {
    fn make(native: &Native, permissions: &Permissions, starts: Starts) -> Result<Self, Unenforceable> {
        let files = SeenOnce::default();
        let resolved = resolve_links(permissions, &files)?;
        let protected = Arc::new(protect_repositories(&resolved)?);
        let sandbox = Arc::new(native.sandbox(&protected, &files, starts)?);
        let own_files = own_files(&sandbox);
        Ok(Self { starts, permissions: permissions.clone(), files, resolved, protected, sandbox, own_files })
    }

    /// Whether the same plan would be compiled again.
    fn still_holds(&self, native: &Native) -> Result<bool, Unenforceable> {
        Ok(self.files.is_unchanged()
            && protect_repositories(&self.resolved)? == *self.protected
            && native.has_same_limits(&self.sandbox, &self.protected)?
            && own_files(&self.sandbox) == self.own_files)
    }
}

fn own_files(sandbox: &Sandbox) -> Vec<OwnFile> {
    if sandbox.is_supervised() { Supervision::files(&RealFiles) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules};

    use super::*;

    /// For any change of the host's files the plan equals one without the cache.
    #[test]
    fn a_kept_plan_is_what_would_be_planned_now() {
        let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let root = directory.path().canonicalize().unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        std::fs::create_dir_all(root.join("ws/a/b")).unwrap();
        std::fs::create_dir_all(root.join("home/.ssh")).unwrap();
        std::fs::create_dir_all(root.join("elsewhere")).unwrap();
        let at = |path: &str, access| FileRule::path(base.join(path).unwrap(), access);
        let denied = ["home/.ssh", "home/.aws", "home/.config/gh", "home/.netrc", "home/.docker/config.json"];
        let rules = [FileRule::path("/".parse().unwrap(), Access::Read), at("ws", Access::Write)];
        let rules = rules.into_iter().chain(denied.map(|path| at(path, Access::None)));
        let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
        let command = CommandSpec {
            argv: Argv::parse(["/bin/true"]).unwrap(),
            cwd: base.join("ws").unwrap(),
            environment: std::collections::BTreeMap::new(),
            process: Default::default(),
        };
        let (native, planned) = (Native::new(), Planned::default());
        let check = |what: &str| {
            let plan = planned.plan(&native, &command, &permissions).unwrap();
            assert_eq!(plan, native.plan(&command, &permissions).unwrap(), "{what}");
            plan
        };
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        let first = check("at first");
        assert!(first.is_in_same_sandbox(&check("unchanged")), "a plan is kept");
        std::fs::create_dir(root.join("home/.aws")).unwrap();
        assert!(!first.is_in_same_sandbox(&check("a place of credentials is there")));
        link("../elsewhere", "home/.docker");
        check("a directory on the way is a link");
        std::fs::write(root.join("elsewhere/config.json"), "").unwrap();
        check("where the link leads is something");
        std::fs::remove_dir(root.join("home/.ssh")).unwrap();
        link("../elsewhere/keys", "home/.ssh");
        check("a directory has become a link that leads nowhere");
        std::fs::write(root.join("elsewhere/keys"), "").unwrap();
        check("and now leads to a file");
        std::fs::create_dir(root.join("ws/a/b/.git")).unwrap();
        check("a repository below the workspace");
        std::fs::remove_dir(root.join("ws/a/b/.git")).unwrap();
        std::fs::write(root.join("ws/.git"), "gitdir: ../elsewhere\n").unwrap();
        check("a worktree");
        std::fs::rename(root.join("ws/a"), root.join("ws/c")).unwrap();
        check("a directory with another name");
    }
}
