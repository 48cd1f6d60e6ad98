//! A small suite that every backend has to pass on its own system: with random rules for a real tree, each operation
//! inside a real sandbox has the result that [`Permissions::access`] predicts.
//!
//! The test program is its own probe: it starts itself in the sandbox, where [`answer`] tries the operations listed in
//! a file. So the suite needs only a directory and is the same on every system. The suite of this repository's `tests`
//! is larger, and for Linux only.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, FileTarget, NetworkPolicy, Permissions, RawText};

use crate::{Backend, CommandSpec, SpawnError, Stdio, Streams, WaitStatus};

/// The variable that names the file with the operations.
const ASKED: &str = "STOCKADE_CONFORMANCE";
/// The prefix of a line with results.
const ANSWERS: &str = "answers ";
const PATIENCE: Duration = Duration::from_secs(120);

/// The suite's parameters for a system.
#[derive(Clone, Debug)]
pub struct SuiteContext {
    /// An empty directory, by its canonical path.
    pub directory: PathBuf,
    /// Rules that let programs run, such as one that lets everything be read.
    pub platform: Vec<FileRule>,
    /// A network policy that the backend enforces.
    pub network: NetworkPolicy,
    /// Variables that programs need to start.
    pub environment: BTreeMap<RawText, RawText>,
    /// The arguments with which this program calls [`answer`].
    pub arguments: Vec<String>,
}

/// The number of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Policies that were enforced.
    pub enforced: usize,
    /// Policies that the backend refused.
    pub refused: usize,
    /// Operations that were allowed, and had to be.
    pub allowed: usize,
    /// Operations that were denied, and had to be.
    pub denied: usize,
}

/// Tries the requested operations, if there are any: called by the program inside.
pub fn answer() -> std::io::Result<()> {
    let Some(asked) = std::env::var_os(ASKED) else { return Ok(()) };
    let mut answers = String::from(ANSWERS);
    for line in fs::read_to_string(asked)?.lines() {
        let works = line.split_once(' ').is_some_and(|(operation, path)| try_out(operation, Path::new(path)));
        answers.push(if works { '1' } else { '0' });
    }
    println!("\n{answers}");
    Ok(())
}

/// Whether an operation succeeds. It is undone.
fn try_out(operation: &str, path: &Path) -> bool {
    match operation {
        "read" => fs::read(path).is_ok(),
        "list" => fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none_or(|entry| entry.is_ok())),
        "append" => OpenOptions::new().append(true).open(path).is_ok(),
        "create" => {
            let made = path.join("zz-new");
            fs::write(&made, "x").is_ok() && fs::remove_file(&made).is_ok()
        }
        "move" => {
            let other = path.with_extension("moved");
            fs::rename(path, &other).is_ok() && fs::rename(&other, path).is_ok()
        }
        _ => false,
    }
}

/// A random number generator that is the same on every system.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % count.max(1)
    }
}

struct Tree {
    directories: Vec<AbsPath>,
    files: Vec<AbsPath>,
}

/// Three names, three levels, and a file in each directory.
fn plant(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree { directories: Vec::new(), files: Vec::new() };
    let mut waiting = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let file = directory.join("file.txt");
        fs::write(&file, "content").map_err(|error| format!("{}: {error}", file.display()))?;
        if depth < 3 {
            waiting.extend(["a", "b", "k\u{e9}y"].map(|name| (directory.join(name), depth + 1)));
        }
        tree.directories.push(AbsPath::from_path(&directory).map_err(|error| error.to_string())?);
        tree.files.push(AbsPath::from_path(&file).map_err(|error| error.to_string())?);
    }
    Ok(tree)
}

/// Runs random policies and compares. The error names the difference and the policy.
pub fn conform(backend: &dyn Backend, context: &SuiteContext, policies: usize, seed: u64) -> Result<Tally, String> {
    let root = context.directory.join("tree");
    let tree = plant(&root)?;
    let mut random = Random(seed);
    let mut tally = Tally::default();
    for number in 0..policies {
        let files = FileRules::new(context.platform.iter().cloned().chain(rules(&tree, &mut random)));
        let files = files.map_err(|error| error.to_string())?;
        let permissions = Permissions { files, network: context.network.clone(), ..Permissions::default() };
        one(backend, context, &tree, &permissions, &mut tally)
            .map_err(|why| format!("policy {number} of seed {seed}: {why}\n{:#?}", permissions.files))?;
    }
    Ok(tally)
}

fn rules(tree: &Tree, random: &mut Random) -> Vec<FileRule> {
    let pick = |random: &mut Random, paths: &[AbsPath]| paths.get(random.below(paths.len())).cloned();
    let count = 1 + random.below(4);
    let rule = |random: &mut Random| {
        let path = if random.below(5) == 0 { pick(random, &tree.files) } else { pick(random, &tree.directories) };
        let access = [Access::None, Access::Read, Access::Write, Access::Write];
        Some(FileRule::path(path?, access.get(random.below(4)).copied()?))
    };
    (0..count).filter_map(|_| rule(random)).collect()
}

fn one(
    backend: &dyn Backend,
    context: &SuiteContext,
    tree: &Tree,
    permissions: &Permissions,
    tally: &mut Tally,
) -> Result<(), String> {
    let asked = context.directory.join("asked");
    let command = command(context, &asked)?;
    let plan = match backend.compile(&command, permissions) {
        Ok(plan) => plan,
        // A refusal is not an error; the caller counts them.
        Err(_) => {
            tally.refused += 1;
            return Ok(());
        }
    };
    let operations = operations(tree, plan.permissions());
    let mut lines = String::new();
    for (operation, path, _) in &operations {
        let path = path.to_host_path().ok_or("not a path of this system")?;
        // Writing to a string can't fail.
        writeln!(lines, "{operation} {}", path.display()).ok();
    }
    fs::write(&asked, lines).map_err(|error| error.to_string())?;
    let answers = run(plan.as_ref())?;
    if answers.chars().count() != operations.len() {
        return Err(format!("{} answers to {} questions", answers.len(), operations.len()));
    }
    for ((operation, path, expected), answer) in operations.iter().zip(answers.chars()) {
        match (expected, answer == '1') {
            (true, true) => tally.allowed += 1,
            (false, false) => tally.denied += 1,
            (_, works) => return Err(format!("`{operation}` of `{path}` works: {works}, and should not be so")),
        }
    }
    tally.enforced += 1;
    Ok(())
}

fn command(context: &SuiteContext, asked: &Path) -> Result<CommandSpec, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let own = own.to_str().ok_or("this program's path is no text")?.to_owned();
    let mut environment = context.environment.clone();
    environment.insert(ASKED.into(), asked.to_str().ok_or("the directory's path is no text")?.into());
    let invalid = |error: stockade_protocol::Invalid| error.to_string();
    Ok(CommandSpec {
        argv: Argv::parse(std::iter::once(own).chain(context.arguments.iter().cloned())).map_err(invalid)?,
        cwd: AbsPath::from_path(&context.directory).map_err(invalid)?,
        environment,
        process: Default::default(),
    })
}

/// Each operation on each path, and whether it has to work.
fn operations<'a>(tree: &'a Tree, permissions: &Permissions) -> Vec<(&'static str, &'a AbsPath, bool)> {
    let access = |path: &AbsPath| permissions.access(path);
    let is_named = |path: &AbsPath| {
        permissions.files.iter().any(|rule| matches!(&rule.target, FileTarget::Path(named) if named == path))
    };
    let mut operations = Vec::new();
    for directory in &tree.directories {
        operations.push(("list", directory, access(directory) >= Access::Read));
        operations.push(("create", directory, access(directory) == Access::Write));
    }
    for file in &tree.files {
        operations.push(("read", file, access(file) >= Access::Read));
        operations.push(("append", file, access(file) == Access::Write));
        let around = file.parent().map_or(Access::None, |parent| access(&parent));
        // A file that a rule names is not removed or renamed.
        if !is_named(file) {
            operations.push(("move", file, access(file) == Access::Write && around == Access::Write));
        }
    }
    operations
}

fn run(plan: &dyn crate::Plan) -> Result<String, String> {
    let told = |error: SpawnError| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let stdio = Stdio { stdout: Streams::To(writer.into()), ..Stdio::default() };
    let mut running = plan.spawn(stdio).map_err(told)?;
    // Its output fits into a pipe.
    let status = running.wait(Some(PATIENCE)).map_err(told)?;
    drop(running);
    let mut output = String::new();
    reader.read_to_string(&mut output).map_err(|error| error.to_string())?;
    if status != Some(WaitStatus::Exited(0)) {
        return Err(format!("the probe ended with {status:?}: {output}"));
    }
    let answers = output.lines().find_map(|line| line.strip_prefix(ANSWERS));
    answers.map(str::to_owned).ok_or_else(|| format!("the probe gave no answer: {output}"))
}
