//! Go stamps programs with the state of their repository, and takes every directory with a `.git` for one.
//!
//! During a run a placeholder has that name in a workspace without a repository, so that no command can make one whose hooks run
//! outside. git passes over the empty directory; `go build` asks git for the state of it, and fails with git. So go is told
//! not to stamp, where there is nothing to stamp with.
//!
//! <https://pkg.go.dev/cmd/go#hdr-Compile_packages_and_dependencies>

use std::collections::BTreeMap;
use std::io::Read as _;

use stockade_protocol::{AbsPath, Access, FileTarget, Permissions, RawText, RuleSource};
use stockade_sandboxing::{HostFiles as _, RealFiles};

const VARIABLE: &str = "GOFLAGS";
const FLAG: &str = "-buildvcs=false";
const CACHES: &[&str] = &["GOCACHE", "HOME", "XDG_CACHE_HOME"];
/// Settings of go are a few lines.
const LONGEST_SETTINGS: u64 = 64 * 1024;

/// Tells go not to stamp, if a command in this directory finds a placeholder and no repository. Flags that name the option are
/// left as they are.
pub(crate) fn turn_off(environment: &mut BTreeMap<RawText, RawText>, permissions: &Permissions, cwd: &AbsPath) {
    // Without a place for its cache go builds nothing.
    let can_build = CACHES.iter().any(|name| environment.contains_key(&(*name).into()));
    if !can_build || !finds_placeholder_only(permissions, cwd) {
        return;
    }
    // An empty variable counts as none.
    let given = environment.get(&VARIABLE.into()).filter(|flags| !flags.is_empty()).cloned();
    // The variable counts more than the settings, so it has to repeat them.
    let flags = given.or_else(|| saved_flags(environment, permissions)).unwrap_or_default();
    let Some(text) = flags.as_str().filter(|text| !text.contains("-buildvcs")) else { return };
    let flags = if text.trim().is_empty() { String::from(FLAG) } else { format!("{text} {FLAG}") };
    environment.insert(VARIABLE.into(), flags.into());
}

/// Whether a protected `.git` is missing in this directory or above it, and none is there.
fn finds_placeholder_only(permissions: &Permissions, cwd: &AbsPath) -> bool {
    let names: Vec<AbsPath> = cwd.ancestors().filter_map(|above| above.join(b".git".to_vec()).ok()).collect();
    let is_held = |name: &AbsPath| {
        permissions.files.iter().any(|rule| {
            rule.source == RuleSource::ProtectedMetadata
                && matches!(&rule.target, FileTarget::Path(held) if held == name)
        })
    };
    names.iter().any(is_held) && names.iter().all(|name| RealFiles.kind(name).is_none())
}

/// The flags that `go env -w` has saved, if the command may read them and can't write them.
fn saved_flags(environment: &BTreeMap<RawText, RawText>, permissions: &Permissions) -> Option<RawText> {
    let directory = |name: &str| environment.get(&name.into()).and_then(|text| AbsPath::parse(text.clone()).ok());
    let below = |directory: AbsPath, path: &str| {
        path.split('/').try_fold(directory, |directory, name| directory.join(name.as_bytes().to_vec())).ok()
    };
    let settings = match environment.get(&"GOENV".into()).filter(|text| !text.is_empty()) {
        // `off` is no path.
        Some(given) => AbsPath::parse(given.clone()).ok()?,
        None => directory("XDG_CONFIG_HOME")
            .and_then(|directory| below(directory, "go/env"))
            .or_else(|| below(directory("HOME")?, ".config/go/env"))?,
    };
    // What a command may write could be replaced by a pipe, which this program would wait for.
    let path = std::fs::canonicalize(settings.to_host_path()?).ok().filter(|path| path.is_file())?;
    if permissions.access(&AbsPath::from_path(&path).ok()?) != Access::Read {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(LONGEST_SETTINGS).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("GOFLAGS=")).map(RawText::from)
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{FileRule, FileRules};

    use super::*;

    fn flags(directory: &std::path::Path, more: &[(&str, &str)]) -> Option<String> {
        let workspace = AbsPath::from_path(directory).unwrap();
        let git = workspace.join(b".git".to_vec()).unwrap();
        let rules = [
            FileRule::path("/".parse().unwrap(), Access::Read),
            FileRule::path(git, Access::Read).from_source(RuleSource::ProtectedMetadata),
        ];
        let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
        let cache = ("GOCACHE", "/var/cache/go");
        let mut environment: BTreeMap<RawText, RawText> =
            more.iter().chain([&cache]).map(|(name, value)| ((*name).into(), (*value).into())).collect();
        turn_off(&mut environment, &permissions, &workspace.join(b"sub".to_vec()).unwrap());
        environment.get(&VARIABLE.into()).map(ToString::to_string)
    }

    #[test]
    fn go_does_not_stamp_where_there_is_no_repository() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        assert_eq!(flags(&root, &[]).as_deref(), Some(FLAG));
        assert_eq!(flags(&root, &[("GOFLAGS", "-mod=mod")]).as_deref(), Some("-mod=mod -buildvcs=false"));
        assert_eq!(flags(&root, &[("GOFLAGS", "-buildvcs=true")]).as_deref(), Some("-buildvcs=true"));
        std::fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(flags(&root, &[]), None, "there is something to stamp with");
    }

    #[test]
    fn an_environment_without_a_cache_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let root = AbsPath::from_path(directory.path()).unwrap();
        let git = FileRule::path(root.join(b".git".to_vec()).unwrap(), Access::Read);
        let files = FileRules::new([git.from_source(RuleSource::ProtectedMetadata)]).unwrap();
        let mut environment = BTreeMap::new();
        turn_off(&mut environment, &Permissions { files, ..Permissions::default() }, &root);
        assert!(environment.is_empty());
    }

    #[test]
    fn saved_flags_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(".config/go")).unwrap();
        std::fs::write(root.join(".config/go/env"), "GOPROXY=off\nGOFLAGS=-trimpath\n").unwrap();
        let home = [("HOME", root.to_str().unwrap())];
        assert_eq!(flags(&root, &home).as_deref(), Some("-trimpath -buildvcs=false"));
        let elsewhere = [home[0], ("GOENV", "/nowhere/env")];
        assert_eq!(flags(&root, &elsewhere).as_deref(), Some(FLAG));
        assert_eq!(flags(&root, &[home[0], ("GOENV", "off")]).as_deref(), Some(FLAG));
        assert_eq!(flags(&root, &[home[0], ("GOFLAGS", "")]).as_deref(), Some("-trimpath -buildvcs=false"));
    }
}
