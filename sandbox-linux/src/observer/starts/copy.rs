//! The copy of a start from which a program is started elsewhere: whole, and of files that are the host's own.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::StartCopy;

use super::super::resolve::{LastLink, Located};
use super::{Interpreter, Named, Reader};

/// The most variables of a caller among which some are looked for.
const MOST_VARIABLES: usize = 4096;

impl Reader<'_> {
    /// The start as it can be made elsewhere, if its files are the host's, and its directory, held.
    pub(super) fn copy(
        &self,
        named: &Named,
        words: &[Vec<u8>],
        interpreters: &[Interpreter],
    ) -> Option<(StartCopy, OwnedFd)> {
        const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let found = named.found.as_ref()?;
        let bytes = |path: &AbsPath| path.as_raw().as_bytes().to_vec();
        let program = found.path()?;
        let hosts = self.host.locate(&bytes(&program), LastLink::Kept).ok()?;
        let are_same = |one: &OwnedFd, other: &OwnedFd| {
            let identity = |file: &OwnedFd| rustix::fs::fstat(file).map(|found| (found.st_dev, found.st_ino));
            identity(one).ok().zip(identity(other).ok()).is_some_and(|(one, other)| one == other)
        };
        let open = |file: &Located| file.open(LOOK, Mode::empty()).ok();
        let cwd = AbsPath::parse(self.view.absolute(self.call.thread, None, b".")?).ok()?;
        let own_cwd = rustix::fs::open(
            format!("/proc/{}/cwd", self.call.thread),
            LOOK.difference(OFlags::NOFOLLOW),
            Mode::empty(),
        )
        .ok()?;
        let hosts_cwd = self.host.locate(&bytes(&cwd), LastLink::Kept).ok()?;
        // By its own name, which links of the caller's view may lead elsewhere, the host has the same file.
        let given = self.host.locate(&named.path, LastLink::Followed).ok()?;
        let is_hosts = hosts.path == program
            && given.path == program
            && hosts_cwd.path == cwd
            && are_same(&found.file, &open(&hosts)?)
            && are_same(&own_cwd, &open(&hosts_cwd)?);
        is_hosts.then_some(())?;
        let copy = StartCopy {
            program,
            given: AbsPath::parse(named.path.clone()).ok()?,
            words: words.iter().cloned().map(RawText::from).collect(),
            cwd,
            interpreters: interpreters.iter().map(|found| RawText::from(found.program.clone())).collect(),
            variables: Vec::new(),
        };
        Some((copy, own_cwd))
    }

    /// Those of the caller's variables that have these names. Where they can't all be read, there are none.
    pub(super) fn variables(&self, names: &[RawText]) -> Vec<(RawText, RawText)> {
        let (_, path_at) = self.path_at();
        let Some(all) = (!names.is_empty()).then(|| self.words(self.argument(path_at + 2), MOST_VARIABLES)) else {
            return Vec::new();
        };
        let words = all.ok().filter(|all| all.are_all).map(|all| all.words).unwrap_or_default();
        let pairs = words.into_iter().filter_map(|word| {
            let end = word.iter().position(|byte| *byte == b'=')?;
            let (name, value) = word.split_at_checked(end)?;
            Some((RawText::from(name.to_vec()), RawText::from(value.get(1..)?.to_vec())))
        });
        pairs.filter(|(name, _)| names.contains(name)).collect()
    }
}
