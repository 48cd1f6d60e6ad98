//! A command and its arguments: never empty, never with a NUL byte.

use std::ffi::OsString;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Invalid;
use crate::RawText;

/// The words that a process is started with. The first is the program.
///
/// ```
/// use stockade_protocol::Argv;
///
/// let argv = Argv::parse(["git", "status"])?;
/// assert_eq!(argv.program().as_str(), Some("git"));
/// assert!(Argv::parse::<&str>([]).is_err());
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Argv(#[schemars(length(min = 1))] Vec<RawText>);

impl Argv {
    /// Checks words for use as an argument list.
    pub fn parse<T: Into<RawText>>(words: impl IntoIterator<Item = T>) -> Result<Self, Invalid> {
        let words: Vec<RawText> = words.into_iter().map(Into::into).collect();
        match words.first() {
            None => return Err(Invalid::EmptyArgv),
            Some(program) if program.is_empty() => return Err(Invalid::EmptyProgram),
            Some(_) => {}
        }
        match words.iter().position(|word| word.as_bytes().contains(&0)) {
            Some(index) => Err(Invalid::NulInArgv { index }),
            None => Ok(Self(words)),
        }
    }

    /// Converts words of the operating system.
    pub fn from_os(words: impl IntoIterator<Item = OsString>) -> Result<Self, Invalid> {
        Self::parse(words.into_iter().map(OsString::into_encoded_bytes))
    }

    /// The program, as it was given: a name or a path.
    #[expect(clippy::indexing_slicing, reason = "`parse` refuses an empty list and nothing shortens it")]
    pub fn program(&self) -> &RawText {
        &self.0[0]
    }

    /// All words, program first.
    pub fn words(&self) -> &[RawText] {
        &self.0
    }
}

/// Formats the words as a line that a shell splits into the same words.
impl fmt::Display for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write_quoted(f, word)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, word: &RawText) -> fmt::Result {
    let shown = word.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !shown.is_empty() && shown.chars().all(plain) {
        f.write_str(&shown)
    } else if word.as_str() == Some(&shown) {
        write!(f, "'{}'", shown.replace('\'', r"'\''"))
    } else {
        // Escaped characters need bash's `$'…'` quoting.
        write!(f, "$'{}'", ansi_c(word))
    }
}

/// Escapes a word for bash's `$'…'`, byte by byte where it is not plain ASCII text.
fn ansi_c(word: &RawText) -> String {
    use fmt::Write as _;
    word.as_bytes().iter().fold(String::new(), |mut out, &byte| {
        // Writing to a string cannot fail.
        match byte {
            b'\'' | b'\\' => write!(out, "\\{}", char::from(byte)),
            b' '..=b'~' => write!(out, "{}", char::from(byte)),
            _ => write!(out, "\\x{byte:02x}"),
        }
        .ok();
        out
    })
}

impl<'de> Deserialize<'de> for Argv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(Vec::<RawText>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_start_a_process() {
        assert_eq!(Argv::parse::<&str>([]), Err(Invalid::EmptyArgv));
        assert_eq!(Argv::parse(["", "x"]), Err(Invalid::EmptyProgram));
        assert_eq!(Argv::parse(["a", "b\0c"]), Err(Invalid::NulInArgv { index: 1 }));
    }

    #[test]
    fn is_shown_as_a_line_that_a_shell_reads_back() {
        let argv = Argv::parse([&b"echo"[..], b"a b", b"it's", b"", b"\x1b[2J", b"\xff"].map(<[u8]>::to_vec)).unwrap();
        assert_eq!(argv.to_string(), r"echo 'a b' 'it'\''s' '' $'\x1b[2J' $'\xff'");
    }
}
