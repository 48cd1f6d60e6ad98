//! Security identifiers: the users, groups and sandboxes that access control entries name.
//! <https://learn.microsoft.com/windows/win32/secauthz/security-identifiers>

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use stockade_protocol::AbsPath;

use crate::Malformed;
use crate::disk::Identity;

/// A security identifier, such as `S-1-5-32-544`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    authority: u64,
    parts: Vec<u32>,
}

/// No more fit into the format.
const MOST_PARTS: usize = 15;
const AUTHORITY_WORLD: u64 = 1;
const AUTHORITY_NT: u64 = 5;
const AUTHORITY_LABEL: u64 = 16;

impl Sid {
    /// One that only a sandbox with exactly these marks has. It belongs to no user: Windows lets a
    /// token be restricted to any identifier, and nothing but this program's own entries names it.
    pub(crate) fn capability(marks: &str) -> Self {
        let digest = Sha256::digest(marks.as_bytes());
        // A domain's identifier and a number in it, as for a user of a machine that does not exist.
        let words = digest.chunks_exact(4).filter_map(|chunk| chunk.try_into().ok().map(u32::from_le_bytes)).take(4);
        Self { authority: AUTHORITY_NT, parts: [21].into_iter().chain(words).collect() }
    }

    /// One that stands for writing to a tree, whatever else a sandbox may do. Entries for it stay on the tree: only a
    /// sandbox that may write there has it. Another tree that later stands at the same path has another one.
    pub(crate) fn root(path: &AbsPath, identity: Identity) -> Self {
        let Identity { volume, index } = identity;
        // Most volumes do not tell names in other cases apart, and one more identifier does no harm on others.
        Self::capability(&format!("root {volume:x} {index:x} {}", path.to_string().to_lowercase()))
    }

    /// Whether every sandbox's token is restricted to it, besides identifiers of its own.
    pub(crate) fn is_in_every_token(&self) -> bool {
        let (restricted, write_restricted) = (Self::nt([12]), Self::nt([33]));
        *self == Self::everyone() || *self == restricted || *self == write_restricted || self.is_logon()
    }

    pub(crate) fn everyone() -> Self {
        Self { authority: AUTHORITY_WORLD, parts: vec![0] }
    }

    pub(crate) fn nt<const N: usize>(parts: [u32; N]) -> Self {
        Self { authority: AUTHORITY_NT, parts: parts.into() }
    }

    pub(crate) fn label(level: u32) -> Self {
        Self { authority: AUTHORITY_LABEL, parts: vec![level] }
    }

    /// As it stands in a token or an entry.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![1, u8::try_from(self.parts.len()).unwrap_or(u8::MAX)];
        bytes.extend(self.authority.to_be_bytes().iter().skip(2));
        bytes.extend(self.parts.iter().flat_map(|part| part.to_le_bytes()));
        bytes
    }

    /// Reads one, and gives what follows it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let [1, count, a, b, c, d, e, f, rest @ ..] = bytes else { return Err(Malformed("an identifier")) };
        let authority = u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]);
        let count = usize::from(*count);
        let parts = rest.get(..4 * count).filter(|_| count <= MOST_PARTS).ok_or(Malformed("an identifier"))?;
        let parts = parts.chunks_exact(4).filter_map(|part| part.try_into().ok().map(u32::from_le_bytes)).collect();
        Ok((Self { authority, parts }, rest.get(4 * count..).unwrap_or_default()))
    }

    /// The last number: in a domain the one that tells its users and groups apart.
    pub(crate) fn last(&self) -> Option<u32> {
        self.parts.last().copied()
    }

    /// Whether this is a session's own identifier, which everything in one logon shares.
    pub(crate) fn is_logon(&self) -> bool {
        self.authority == AUTHORITY_NT && matches!(self.parts.as_slice(), [5, _, _])
    }

    /// Whether this is an integrity level.
    pub(crate) fn is_label(&self) -> bool {
        self.authority == AUTHORITY_LABEL
    }
}

impl FromStr for Sid {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed("an identifier");
        let mut words = text.strip_prefix("S-1-").ok_or_else(malformed)?.split('-');
        let number = |word: &str| {
            let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            word.parse::<u64>().ok().filter(|_| is_plain).ok_or_else(malformed)
        };
        let authority = number(words.next().ok_or_else(malformed)?)?;
        let parts =
            words.map(|word| u32::try_from(number(word)?).map_err(|_| malformed())).collect::<Result<_, _>>()?;
        let sid = Self { authority, parts };
        if authority >> 48 != 0 || sid.parts.len() > MOST_PARTS { Err(malformed()) } else { Ok(sid) }
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-1-{}", self.authority)?;
        self.parts.iter().try_for_each(|part| write!(f, "-{part}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl serde::Serialize for Sid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Sid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_known_identifiers_have_their_known_bytes() {
        let administrators: Sid = "S-1-5-32-544".parse().unwrap();
        assert_eq!(administrators.to_bytes(), [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0]);
        assert_eq!(administrators.to_string(), "S-1-5-32-544");
        assert_eq!(Sid::everyone().to_string(), "S-1-1-0");
        assert!("S-1-5-5-0-1234".parse::<Sid>().unwrap().is_logon());
        for text in ["", "S-1-", "S-1-5-", "S-1-5-+1", "S-2-5-1", "S-1-5-4294967296", "S-1-281474976710656-1"] {
            assert!(text.parse::<Sid>().is_err(), "{text}");
        }
    }

    #[test]
    fn other_marks_have_another_capability() {
        assert_eq!(Sid::capability("a"), Sid::capability("a"));
        assert_ne!(Sid::capability("a"), Sid::capability("b"));
        assert!(Sid::capability("a").to_string().starts_with("S-1-5-21-"));
        let root = |text: &str, index| Sid::root(&text.parse().unwrap(), Identity { volume: 1, index });
        assert_eq!(root(r"C:\w", 1), root(r"c:\W", 1));
        assert_ne!(root(r"C:\w", 1), root(r"C:\v", 1));
        assert_ne!(root(r"C:\w", 1), root(r"C:\w", 2), "another tree at the same path");
    }

    proptest! {
        #[test]
        fn survives_text_and_bytes(authority in 0..1u64 << 48, parts in prop::collection::vec(any::<u32>(), 0..=MOST_PARTS), more: Vec<u8>) {
            let sid = Sid { authority, parts };
            prop_assert_eq!(&sid.to_string().parse::<Sid>().unwrap(), &sid);
            let bytes = [sid.to_bytes(), more.clone()].concat();
            prop_assert_eq!(Sid::from_bytes(&bytes).unwrap(), (sid, more.as_slice()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok((sid, rest)) = Sid::from_bytes(&bytes) {
                prop_assert_eq!([sid.to_bytes(), rest.to_vec()].concat(), bytes);
            }
        }
    }
}
