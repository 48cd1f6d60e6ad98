//! Whether a repository has submodules, as its index says: git looks into their directories, which commands write, and takes
//! settings from there.
//!
//! <https://git-scm.com/docs/index-format>

use std::fs;
use std::io::Read as _;
use std::path::Path;

/// The largest index that is read.
const LARGEST: u64 = 64 << 20;
const HEADER: usize = 12;
/// The attributes of a file before its hash, and the place of its mode among them.
const ATTRIBUTES: usize = 40;
const MODE: usize = 24;
const HASH: usize = 20;
const GITLINK: u32 = 0o160_000;
/// Flags: two more bytes follow, and the length of the name.
const EXTENDED: u16 = 0x4000;
const NAME: u16 = 0x0fff;

/// Whether an index may have a submodule. One that is missing has none; one that can't be read may.
pub(super) fn may_have_submodules(index: &Path) -> bool {
    let mut bytes = Vec::new();
    match fs::metadata(index) {
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
        Ok(found) if !found.is_file() || found.len() > LARGEST => return true,
        Ok(_) => {}
    }
    let read = fs::File::open(index).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    read.is_err() || !has_plain_files_only(&bytes).unwrap_or(false)
}

/// Whether all entries are files or links; `None` for an index in another form: compressed names, other hashes, or one that
/// shares entries with another file.
fn has_plain_files_only(index: &[u8]) -> Option<bool> {
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?));
    let version = index.strip_prefix(b"DIRC").and_then(number)?;
    let count = number(index.get(8..)?)?;
    if !matches!(version, 2 | 3) {
        return None;
    }
    let mut rest = index.get(HEADER..)?;
    for _ in 0..count {
        if number(rest.get(MODE..)?)? == GITLINK {
            return Some(false);
        }
        let flags = u16::from_be_bytes(rest.get(ATTRIBUTES + HASH..)?.get(..2)?.try_into().ok()?);
        let start = ATTRIBUTES + HASH + if flags & EXTENDED == 0 { 2 } else { 4 };
        let length = match flags & NAME {
            NAME => rest.get(start..)?.iter().position(|byte| *byte == 0)?,
            length => usize::from(length),
        };
        // An end of one to eight bytes.
        let size = (start + length + 8) / 8 * 8;
        if rest.get(start + length) != Some(&0) {
            return None;
        }
        rest = rest.get(size..)?;
    }
    let shares = rest.starts_with(b"link") || rest.starts_with(b"sdir");
    (!shares).then_some(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the real git writes the index")]
    fn git(directory: &Path, words: &[&str]) {
        let mut git = std::process::Command::new("git");
        let status = git.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    #[test]
    fn submodules_are_found_in_a_real_index() {
        let directory = tempfile::tempdir().unwrap();
        let index = directory.path().join(".git/index");
        assert!(!may_have_submodules(&index), "there is none yet");
        git(directory.path(), &["init", "-q", "."]);
        for number in 0..50 {
            fs::write(directory.path().join(format!("{}{number}", "x".repeat(number))), "x").unwrap();
        }
        git(directory.path(), &["add", "."]);
        assert!(!may_have_submodules(&index));
        git(directory.path(), &["add", "-N", "-f", "."]);
        let entry = format!("160000,{},sub", "1".repeat(40));
        git(directory.path(), &["update-index", "--add", "--cacheinfo", &entry]);
        assert!(may_have_submodules(&index));
        git(directory.path(), &["rm", "-q", "--cached", "sub"]);
        assert!(!may_have_submodules(&index));
        git(directory.path(), &["update-index", "--index-version", "4"]);
        assert!(may_have_submodules(&index), "names that are compressed are not read");
    }

    proptest! {
        /// No file is a panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut index = b"DIRC\0\0\0\x02\0\0\0\x05".to_vec();
            index.extend(&bytes);
            prop_assert!(has_plain_files_only(&bytes) != Some(true));
            let _ = has_plain_files_only(&index);
        }
    }
}
