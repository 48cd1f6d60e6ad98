//! Saves the rule of an "always" answer.
//!
//! The file is replaced as a whole, so a reader, a crash or a full disk sees the old rules or the new ones, never a
//! half. Writers take turns by locking a separate file beside it (the rules file itself is a new one after each
//! change, so a lock on it would guard the old one). The new text is parsed before it replaces the file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use stockade_protocol::{Decision, ExecPolicyAmendment, Host, NetworkProtocol, RawText};

use crate::network::protocol_word;
use crate::policy::HostExecutables;
use crate::rule::starlark_string;
use crate::{Layer, MAX_FILE_BYTES, Policy, RulesError, load};

/// The result of saving a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    /// The rule is now the last line of the file.
    Written,
    /// The file already had it, and was not changed.
    AlreadyThere,
}

/// Saves a rule that allows exactly this command, inside the sandbox.
///
/// The file and its directories are made when they are missing, for the user alone. A file that is
/// not valid is left as it is, and so is one with a stricter rule for this command. If `file` is a
/// symbolic link, the file it leads to is changed and the link stays.
///
/// ```
/// use stockade_execpolicy::{Amended, append_allow_rule};
/// use stockade_protocol::{Argv, ExecPolicyAmendment};
///
/// let home = tempfile::tempdir()?;
/// let file = home.path().join("rules/default.rules");
/// let tests = ExecPolicyAmendment(Argv::parse(["cargo", "test"])?);
/// assert_eq!(append_allow_rule(&file, &tests)?, Amended::Written);
/// assert_eq!(append_allow_rule(&file, &tests)?, Amended::AlreadyThere);
/// let saved = "prefix_rule(pattern=[\"cargo\", \"test\"], decision=\"allow\", exact=True)\n";
/// assert_eq!(std::fs::read_to_string(&file)?, saved);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn append_allow_rule(file: &Path, amendment: &ExecPolicyAmendment) -> Result<Amended, RulesError> {
    let prefix = &amendment.0;
    let words = prefix.words().iter().map(|word| match word.as_str() {
        Some(text) => Ok(starlark_string(text)),
        None => Err(RulesError::Unwritable { prefix: prefix.clone(), word: word.clone() }),
    });
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let rule = format!("prefix_rule(pattern=[{}], decision=\"allow\", exact=True)", words.join(", "));
    append(file, &rule, |policy| {
        let matches = policy.matches(prefix, HostExecutables::Ignore);
        match matches.iter().max_by_key(|found| found.decision()) {
            None => Ok(Standing::Open),
            Some(found) if found.decision() == Decision::Allow => Ok(Standing::Settled),
            Some(found) => Err(RulesError::Restricted {
                prefix: RawText::from(prefix.to_string()),
                rule: found.rule().to_string(),
                origin: found.rule().origin().to_string(),
            }),
        }
    })
}

/// Saves a decision for connections to a port of a host, or to all of its ports.
///
/// The file is treated as by [`append_allow_rule`]. A stricter decision than the one in the file is added, and wins; a
/// laxer one is an error.
pub fn append_network_rule(
    file: &Path,
    host: &Host,
    protocol: NetworkProtocol,
    port: Option<u16>,
    decision: Decision,
    justification: Option<&str>,
) -> Result<Amended, RulesError> {
    let word = match decision {
        Decision::Allow => "allow",
        Decision::Prompt => "prompt",
        Decision::Forbidden => "deny",
    };
    let reason = justification.map(|reason| format!(", justification={}", starlark_string(reason))).unwrap_or_default();
    let name = starlark_string(&host.to_string());
    let port_argument = port.map(|port| format!(", port={port}")).unwrap_or_default();
    let protocol_word = protocol_word(protocol);
    let rule =
        format!("network_rule(host={name}, protocol=\"{protocol_word}\", decision=\"{word}\"{reason}{port_argument})");
    append(file, &rule, |policy| match policy.network_rule_covering(host, protocol, port) {
        Some(found) if found.decision() == decision => Ok(Standing::Settled),
        Some(found) if found.decision() > decision => Err(RulesError::Restricted {
            prefix: RawText::from(host.to_string()),
            rule: format!("the network rule for {host}"),
            origin: found.origin().to_string(),
        }),
        Some(_) | None => Ok(Standing::Open),
    })
}

/// Whether the rules of a file already have the effect of the new one.
#[derive(PartialEq)]
enum Standing {
    Open,
    Settled,
}

fn append(
    file: &Path,
    rule: &str,
    standing: impl Fn(&Policy) -> Result<Standing, RulesError>,
) -> Result<Amended, RulesError> {
    let place = Place::new(file)?;
    let _turn = place.lock()?;
    let old = place.current()?;
    let name = file.to_string_lossy();
    if standing(&parse(&name, &old)?)? == Standing::Settled {
        return Ok(Amended::AlreadyThere);
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    let new = format!("{old}{gap}{rule}\n");
    if new.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLarge { path: file.to_owned(), limit: MAX_FILE_BYTES });
    }
    // The last line may swallow the new one, as after a trailing backslash.
    if standing(&parse(&name, &new)?)? != Standing::Settled {
        let source = io::Error::other("the end of the file does not take another rule");
        return Err(RulesError::Save { act: "add a rule to", path: file.to_owned(), source });
    }
    place.replace(&new)?;
    Ok(Amended::Written)
}

/// The rules file, its lock and its scratch file.
struct Place {
    directory: PathBuf,
    target: PathBuf,
    lock: PathBuf,
    scratch: PathBuf,
}

impl Place {
    fn new(file: &Path) -> Result<Self, RulesError> {
        let failed = |act| move |source| RulesError::Save { act, path: file.to_owned(), source };
        let is_link = fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
        let target = if is_link { fs::canonicalize(file).map_err(failed("follow the link"))? } else { file.to_owned() };
        let Some(name) = target.file_name() else {
            return Err(failed("find the name of")(io::ErrorKind::InvalidInput.into()));
        };
        let beside = |ending: &str| {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(ending);
            target.with_file_name(hidden)
        };
        let directory =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        Ok(Self { lock: beside(".lock"), scratch: beside(".new"), directory, target })
    }

    fn failed(&self, act: &'static str) -> impl FnOnce(io::Error) -> RulesError {
        let path = self.target.clone();
        move |source| RulesError::Save { act, path, source }
    }

    /// Waits for the lock, which is released when the file is dropped.
    fn lock(&self) -> Result<File, RulesError> {
        private_directories().create(&self.directory).map_err(self.failed("make the directory of"))?;
        let file = private_file().create(true).truncate(false).open(&self.lock).map_err(self.failed("lock"))?;
        file.lock().map_err(self.failed("lock"))?;
        Ok(file)
    }

    fn current(&self) -> Result<String, RulesError> {
        match load::read(&self.target) {
            Err(RulesError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            other => other,
        }
    }

    fn replace(&self, text: &str) -> Result<(), RulesError> {
        // The lock is held, so an existing scratch file was left by a writer that died.
        match fs::remove_file(&self.scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed("clear the way for")(error));
            }
            Ok(()) | Err(_) => {}
        }
        let written = self.write_scratch(text).and_then(|()| fs::rename(&self.scratch, &self.target));
        if let Err(error) = written {
            // The rules file is untouched; a scratch file that stays is removed by the next writer.
            fs::remove_file(&self.scratch).ok();
            return Err(self.failed("write")(error));
        }
        sync_directory(&self.directory).map_err(self.failed("settle"))
    }

    fn write_scratch(&self, text: &str) -> io::Result<()> {
        let mut file = private_file().create_new(true).open(&self.scratch)?;
        keep_access(&self.target, &file)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

#[cfg(unix)]
fn private_directories() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

#[cfg(unix)]
fn private_file() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    let no_links = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    options.write(true).mode(0o600).custom_flags(no_links);
    options
}

/// Gives the new file the owner and the mode of the one that it replaces.
#[cfg(unix)]
fn keep_access(old: &Path, new: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let old = match fs::metadata(old) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid()))?;
    }
    new.set_permissions(old.permissions())
}

/// Without this, the rename may be lost in a power failure.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn private_directories() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

#[cfg(not(unix))]
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

#[cfg(not(unix))]
fn keep_access(_: &Path, _: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
/// The home directory is irrelevant: validity does not depend on `~/`.
fn parse(name: &str, text: &str) -> Result<Policy, RulesError> {
    crate::load::parse(name, text, Layer::User, Some("/".as_ref())).map(|file| Policy::build(vec![file]))
}
