//! What is in a directory and below it, within bounds.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stockade_protocol::AbsPath;

use super::helper::{absolute, invalid};
use super::request::{Walk, WalkOptions, WalkedKind};

/// The most that any walk may be asked for.
const MOST: WalkOptions = WalkOptions {
    max_depth: 64,
    max_directories: 10_000,
    max_entries: 50_000,
    follow_directory_symlinks: true,
    prune_hidden_directories: false,
};

/// How large an answer can be, about.
const MOST_BYTES: usize = 4 << 20;

/// What a name costs besides its bytes.
const NAME_COST: usize = 64;

/// Walks a directory, the nearest names first.
pub(super) fn walk(root: &Path, options: &WalkOptions) -> io::Result<Walk> {
    let is_too_much = options.max_depth > MOST.max_depth
        || options.max_directories > MOST.max_directories
        || options.max_entries > MOST.max_entries;
    if is_too_much {
        let (depth, directories, entries) = (MOST.max_depth, MOST.max_directories, MOST.max_entries);
        return Err(invalid(format!("a walk has at most {depth} levels, {directories} directories, {entries} names")));
    }
    if !fs::metadata(root)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mut walker = Walker {
        options,
        found: Walk::default(),
        bytes: 0,
        names: 0,
        visited: HashSet::new(),
        waiting: VecDeque::new(),
    };
    walker.enter(root.to_owned(), 0);
    while let Some((directory, depth)) = walker.waiting.pop_front() {
        walker.visit(&directory, depth);
        if walker.found.truncated {
            break;
        }
    }
    Ok(walker.found)
}

struct Walker<'a> {
    options: &'a WalkOptions,
    found: Walk,
    bytes: usize,
    names: usize,
    /// Directories by their real paths: links can lead in circles.
    visited: HashSet<PathBuf>,
    waiting: VecDeque<(PathBuf, usize)>,
}

impl Walker<'_> {
    fn enter(&mut self, directory: PathBuf, depth: usize) {
        let Ok(real) = fs::canonicalize(&directory) else { return };
        if self.visited.contains(&real) {
            return;
        }
        if self.visited.len() >= self.options.max_directories {
            self.found.truncated = true;
            return;
        }
        self.visited.insert(real);
        self.waiting.push_back((directory, depth));
    }

    fn visit(&mut self, directory: &Path, depth: usize) {
        let names = match fs::read_dir(directory) {
            Ok(names) => names,
            Err(error) => return self.problem(directory, &error),
        };
        let mut sorted: Vec<PathBuf> = Vec::new();
        for entry in names {
            self.names += 1;
            if self.names > self.options.max_entries {
                self.found.truncated = true;
                break;
            }
            match entry {
                Ok(entry) => sorted.push(entry.path()),
                Err(error) => self.problem(directory, &error),
            }
        }
        sorted.sort();
        for path in sorted {
            self.take(path, depth);
        }
    }

    fn take(&mut self, path: PathBuf, depth: usize) {
        let Ok(own) = fs::symlink_metadata(&path) else { return };
        // A link that leads nowhere is left out.
        let Ok(found) = fs::metadata(&path) else { return };
        let kind = if found.is_dir() { WalkedKind::Directory } else { WalkedKind::File };
        if !found.is_dir() && !found.is_file() {
            return;
        }
        let Ok(named) = absolute(&path) else { return };
        if !self.has_room(&named, 0) {
            return;
        }
        self.found.entries.push((named, kind));
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_left_out = (own.is_symlink() && !self.options.follow_directory_symlinks)
            || (is_hidden && self.options.prune_hidden_directories);
        if kind == WalkedKind::Directory && depth < self.options.max_depth && !is_left_out {
            self.enter(path, depth + 1);
        }
    }

    fn problem(&mut self, path: &Path, error: &io::Error) {
        let message = error.to_string();
        if let Ok(path) = absolute(path)
            && self.has_room(&path, message.len())
        {
            self.found.errors.push((path, message));
        }
    }

    fn has_room(&mut self, path: &AbsPath, more: usize) -> bool {
        self.bytes += path.as_raw().as_bytes().len() + more + NAME_COST;
        let fits = self.bytes <= MOST_BYTES;
        self.found.truncated |= !fits;
        fits
    }
}
