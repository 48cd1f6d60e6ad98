//! The processes above one, by what they run: the command comes first.

use std::fs::File;
use std::io::Read as _;

use stockade_protocol::{Argv, RawText};

/// As far as it is looked up from a process.
const MOST_ABOVE: usize = 24;
/// What is kept of the words of one process.
const MOST_BYTES: u64 = 2048;
const MOST_WORDS: usize = 16;
const LONGEST_WORD: usize = 160;

/// What the process of a thread runs, behind what has started it, and so on up to the command. A shell that has split off
/// to start a program is one with itself.
pub(super) fn chain(thread: i32) -> Vec<Argv> {
    let mut all: Vec<Argv> = Vec::new();
    let mut process = thread;
    for _ in 0..MOST_ABOVE {
        let Some(status) = read(&format!("/proc/{process}/status"), 4096) else { break };
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        // The first process of the sandbox is the launcher.
        let is_first = field("NSpid:").and_then(|numbers| numbers.split_whitespace().next_back()) == Some("1");
        if is_first {
            break;
        }
        let words = words(process);
        if words.is_some() && words.as_ref() != all.last() {
            all.extend(words);
        }
        match field("PPid:").and_then(|parent| parent.parse::<i32>().ok()).filter(|parent| *parent > 1) {
            Some(parent) => process = parent,
            None => break,
        }
    }
    all.reverse();
    all
}

fn words(process: i32) -> Option<Argv> {
    let line = read(&format!("/proc/{process}/cmdline"), MOST_BYTES)?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let mut words: Vec<RawText> = line.split(|byte| *byte == 0).take(MOST_WORDS + 1).map(cut).collect();
    if words.len() > MOST_WORDS {
        words.truncate(MOST_WORDS);
        words.push(RawText::from("…"));
    }
    Argv::parse(words).ok()
}

fn cut(word: &[u8]) -> RawText {
    match word.get(..LONGEST_WORD) {
        Some(beginning) if beginning.len() < word.len() => {
            RawText::from(format!("{}…", String::from_utf8_lossy(beginning)).as_str())
        }
        Some(_) | None => RawText::from(word.to_vec()),
    }
}

fn read(path: &str, most: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut text).ok()?;
    Some(text)
}
