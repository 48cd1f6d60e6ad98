//! From file rules to Seatbelt's words.
//!
//! Each rule that grants becomes one `allow` for its directory, less what other rules below it take away
//! (`require-not`). So no file rule depends on the order of another, and the most specific rule decides:
//! of all the rules that hold a path, each that grants less than is asked for is cut out of all that lie
//! above it, and one that grants again inside of it has an `allow` of its own.
//!
//! A rule protects what lies under a name, so the name has to stay where it is: the directories between
//! a writable place and a rule that grants less can't be renamed, removed or put there anew ("pinned").

use std::collections::BTreeSet;

use stockade_protocol::{AbsPath, Access, FileRules, FileTarget, GlobSegment, RuleSource};
use stockade_sandboxing::{HostFiles, Kind, Unenforceable};

use crate::parameters::Parameters;
use crate::pattern;

/// The names of the private directories' paths among the parameters: temporary files and caches. They are known when
/// a command starts.
pub(crate) const SCRATCH: &str = "SCRATCH";
pub(crate) const CACHE: &str = "CACHE";

/// What file rules became.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) text: String,
    /// Private directories that were asked for.
    pub(crate) private: Vec<AbsPath>,
    /// What can't be held, for a person to know.
    pub(crate) warnings: Vec<String>,
}

/// A denied glob, with the links in its fixed part followed.
struct Denied<'a> {
    base: AbsPath,
    segments: &'a [GlobSegment],
}

struct Compiler<'a> {
    rules: &'a FileRules,
    host: &'a dyn HostFiles,
    paths: Vec<(&'a AbsPath, Access)>,
    denied: Vec<Denied<'a>>,
    /// What the globs match now.
    matches: Vec<AbsPath>,
    devices: AbsPath,
    text: String,
    parameters: &'a mut Parameters,
}

/// Compiles rules whose links have been resolved.
pub(crate) fn compile(
    rules: &FileRules,
    host: &dyn HostFiles,
    parameters: &mut Parameters,
) -> Result<Files, Unenforceable> {
    let mut paths = Vec::new();
    let mut denied = Vec::new();
    for rule in rules {
        match &rule.target {
            FileTarget::Path(path) => paths.push((path, rule.access)),
            FileTarget::Glob(glob) => {
                denied.push(Denied { base: host.canonical(glob.base()), segments: glob.segments() });
            }
        }
    }
    let devices: AbsPath = "/dev".parse().map_err(|error| internal(&error))?;
    let found = host.matches(&rules.globs())?;
    let matches = found.matches.iter().map(|found| host.canonical(found)).collect();
    let mut compiler = Compiler { rules, host, paths, denied, matches, devices, text: String::new(), parameters };
    compiler.check()?;
    compiler.grants()?;
    compiler.ways_in()?;
    compiler.pins()?;
    let private: Vec<AbsPath> = compiler.with_access(Access::Scratch).cloned().collect();
    let warnings = [compiler.warnings(), found.warnings(rules)].concat();
    let mut text = compiler.text;
    if !private.is_empty() {
        text.push_str(&private_directories());
    }
    Ok(Files { text, private, warnings })
}

fn internal(error: &stockade_protocol::Invalid) -> Unenforceable {
    Unenforceable {
        what: String::from("the policy"),
        why: error.to_string(),
        remedy: String::from("please report this"),
    }
}

/// The command's own directories, in the place of those that it can't have. Programs look at each directory on the way
/// to a file (`realpath`, `mkdir -p`), and the way lies in a directory that a policy usually takes away.
fn private_directories() -> String {
    let each = |filter: &str| [SCRATCH, CACHE].map(|name| format!("\n  ({filter} (param \"{name}\"))")).concat();
    let (here, itself, above) = (each("subpath"), each("literal"), each("path-ancestors"));
    format!(
        "\n; The private directories.\n\
         (allow file-read* file-write* file-map-executable process-exec*{here})\n\
         (allow network-bind network-inbound network-outbound{here})\n\
         (allow file-read-metadata{above})\n\
         (deny file-write-unlink file-write-create{itself})\n"
    )
}

impl Compiler<'_> {
    fn with_access(&self, access: Access) -> impl Iterator<Item = &AbsPath> {
        self.paths.iter().filter(move |(_, own)| *own == access).map(|(path, _)| *path)
    }

    fn check(&self) -> Result<(), Unenforceable> {
        for (path, access) in &self.paths {
            let refuse = |why: &str, remedy: &str| {
                Err(Unenforceable {
                    what: format!("`{access}` access to `{path}`"),
                    why: why.to_owned(),
                    remedy: remedy.to_owned(),
                })
            };
            if path.starts_with(&self.devices) && (**path != self.devices || *access > Access::None) {
                return refuse("the sandbox decides over devices itself", "leave the rule out");
            }
            match (self.host.kind(path), access) {
                (None, Access::Write) => return refuse("it does not exist", "create it, or take it out of the policy"),
                (Some(Kind::File), Access::Scratch) => {
                    return refuse("it is a file", "a private directory can stand only in the place of a directory");
                }
                (None | Some(_), Access::None | Access::Scratch | Access::Read) | (Some(_), Access::Write) => {}
            }
        }
        Ok(())
    }

    /// One `allow` for each rule that grants.
    fn grants(&mut self) -> Result<(), Unenforceable> {
        for (path, access) in self.paths.clone() {
            if access >= Access::Read {
                let where_ = self.place(path, Access::Read)?;
                self.say(&format!("\n; `{access}` by a rule.\n"));
                self.say(&format!("(allow file-read* file-map-executable process-exec*\n{where_})\n"));
                let deeper = where_.replace('\n', "\n  ");
                self.say(&format!("(if (defined? 'file-clone)\n  (allow file-clone\n  {deeper}))\n"));
            }
            if access == Access::Write {
                let where_ = self.place(path, Access::Write)?;
                self.say(&format!("(allow file-write*\n{where_})\n"));
            }
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A rule's directory, less everything below it that has less than `needed`.
    fn place(&mut self, path: &AbsPath, needed: Access) -> Result<String, Unenforceable> {
        let own = format!("(subpath {})", self.parameters.path(path)?);
        let mut cut = Vec::new();
        let less = self.paths.iter().filter(|(below, access)| *access < needed && below.starts_with(path));
        let mut below: BTreeSet<AbsPath> =
            less.map(|(below, _)| (*below).clone()).filter(|below| below != path).collect();
        if self.devices.starts_with(path) {
            below.insert(self.devices.clone());
        }
        for below in &below {
            cut.push(format!("(subpath {})", self.parameters.path(below)?));
            cut.push(format!("(regex {})", self.parameters.pattern(below, pattern::subpath(below))?));
        }
        for denied in &self.denied {
            let pattern = if denied.base.starts_with(path) {
                pattern::glob(&denied.base, &[denied.segments])
            } else {
                match pattern::rests(&denied.base, denied.segments, path) {
                    rests if rests.is_empty() => continue,
                    rests => pattern::glob(path, &rests),
                }
            };
            cut.push(format!("(regex {})", self.parameters.pattern(path, pattern)?));
        }
        if cut.is_empty() {
            return Ok(format!("  {own}"));
        }
        let cut: String = cut.iter().map(|filter| format!("\n    (require-not {filter})")).collect();
        Ok(format!("  (require-all\n    {own}{cut})"))
    }

    /// The directories on the way to what is granted can be passed, though not listed.
    fn ways_in(&mut self) -> Result<(), Unenforceable> {
        let granted = self.paths.iter().filter(|(_, access)| *access >= Access::Read);
        let above = granted.flat_map(|(path, _)| path.ancestors().skip(1));
        let above: BTreeSet<AbsPath> = above.filter(|above| self.rules.access(above) < Access::Read).collect();
        self.literals("; Directories on the way to them.\n(allow file-read-metadata", &above, Spelling::Exact)
    }

    /// Names that have to stay where they are.
    fn pins(&mut self) -> Result<(), Unenforceable> {
        let is_writable = |path: &AbsPath| self.rules.access(path) == Access::Write;
        let less = self.paths.iter().filter(|(path, access)| *access < Access::Write && !self.is_no_secret_yet(path));
        let protected = less.map(|(path, _)| *path).chain(&self.matches);
        let mut pinned: BTreeSet<AbsPath> =
            protected.flat_map(|path| path.ancestors().skip(1)).filter(|above| is_writable(above)).collect();
        // To remove or rename a directory is to write the one above it.
        let roots = self
            .with_access(Access::Write)
            .filter(|root| is_writable(root) && !root.parent().is_some_and(|parent| is_writable(&parent)));
        pinned.extend(roots.cloned());
        self.literals(
            "; Names that stay where they are.\n(deny file-write-unlink file-write-create",
            &pinned,
            Spelling::AnyCase,
        )
    }

    /// A credential file in a directory that does not exist holds no secret yet, and to keep its
    /// directory from being made would take more from the command than it gives.
    fn is_no_secret_yet(&self, path: &AbsPath) -> bool {
        let is_mask = self.rules.deciding(path).is_some_and(|rule| rule.source == RuleSource::CredentialMask);
        is_mask && path.parent().is_some_and(|parent| self.host.kind(&parent).is_none())
    }

    fn literals(&mut self, start: &str, paths: &BTreeSet<AbsPath>, spelling: Spelling) -> Result<(), Unenforceable> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for path in paths {
            lines.push_str(&format!("\n  (literal {})", self.parameters.path(path)?));
            if spelling == Spelling::AnyCase && path.depth() > 0 {
                let pattern = self.parameters.pattern(path, pattern::literal(path))?;
                lines.push_str(&format!("\n  (regex {pattern})"));
            }
        }
        self.say(&format!("\n{start}{lines})\n"));
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let denied = self.with_access(Access::None).chain(&self.matches);
        denied
            .filter(|path| self.host.has_other_names(path))
            .map(|path| format!("`{path}` is denied, and can be read under another name: it has hard links"))
            .collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Exact,
    AnyCase,
}
