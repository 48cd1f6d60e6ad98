//! The commands that `find` is told to run.
//!
//! Its arguments are parsed one by one with their values, so that a value is never mistaken for `-exec`, nor `-exec`
//! for a value. An argument that is not in the tables makes the line opaque.
//! <https://www.gnu.org/software/findutils/manual/html_mono/find.html>

use stockade_protocol::Word;

use super::{Inside, Started};

/// Tests, options, operators and actions without a value that inspect names and metadata, or print.
const LOOKS: &[&str] = &[
    "-H",
    "-L",
    "-P",
    "-a",
    "-and",
    "-d",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-nowarn",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-warn",
    "-writable",
    "-xdev",
];

/// Likewise, with one value.
const LOOKS_WITH_VALUE: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-size",
    "-type",
    "-uid",
    "-user",
    "-wholename",
];

/// Words without a value that do more, or are not needed for inspection.
const OTHERS: &[&str] = &["-O0", "-O1", "-O2", "-O3", "-delete", "-ignore_readdir_race", "-noignore_readdir_race"];

/// Likewise, with one value.
const OTHERS_WITH_VALUE: &[&str] =
    &["-D", "-files0-from", "-fls", "-fprint", "-fprint0", "-fstype", "-samefile", "-used", "-xtype"];

/// A word of `find` that begins with `-` and does not start a program.
pub(crate) struct FindWord {
    /// The number of its values.
    pub(crate) values: usize,
    /// It only inspects names and metadata.
    pub(crate) only_looks: bool,
}

impl FindWord {
    /// `None` for a word that is not known.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let looks = |values| Some(Self { values, only_looks: true });
        let other = |values| Some(Self { values, only_looks: false });
        match text {
            _ if LOOKS.contains(&text) => looks(0),
            _ if LOOKS_WITH_VALUE.contains(&text) => looks(1),
            _ if OTHERS.contains(&text) => other(0),
            _ if OTHERS_WITH_VALUE.contains(&text) || is_comparison(text) => other(1),
            "-fprintf" => other(2),
            _ => None,
        }
    }
}

/// The commands that `find` starts with these arguments.
pub(super) fn look(rest: &[Word]) -> Inside {
    let mut starts = Vec::new();
    let mut words = rest.iter();
    let mut understood = true;
    while let Some(word) = words.next() {
        let Some(text) = word.as_str() else { continue };
        let values = match text {
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                starts.push(executed(&mut words));
                0
            }
            _ => {
                let known = FindWord::read(text);
                understood &= !text.starts_with('-') || known.is_some();
                known.map_or(0, |word| word.values)
            }
        };
        for _ in 0..values {
            words.next();
        }
    }
    let inside = Inside::runs(starts);
    // An unknown word may be `-exec`, or its end.
    if rest.iter().any(|word| word.known().is_none()) {
        inside.opaque("an argument of `find` is made while the line runs")
    } else if understood {
        inside
    } else {
        inside.opaque("an argument of `find` is not known")
    }
}

/// `-newerXY`, which compares two times.
fn is_comparison(text: &str) -> bool {
    text.strip_prefix("-newer").is_some_and(|times| times.len() == 2 && times.bytes().all(|c| b"aBcmt".contains(&c)))
}

/// The command up to its end.
fn executed<'w>(words: &mut impl Iterator<Item = &'w Word>) -> Started {
    let mut command: Vec<Word> = Vec::new();
    let mut names_files = false;
    for word in words {
        match word.as_str() {
            Some(";") => break,
            // Elsewhere `+` is an ordinary word.
            Some("+") if names_files => break,
            Some(text) if !text.contains("{}") => command.push(word.clone()),
            // `find` inserts file names there.
            Some(_) | None => command.push(Word::Unknown),
        }
        names_files = word.as_str() == Some("{}");
    }
    Started::Words { words: command, assigns: Vec::new(), via: "find -exec".into() }
}
