//! Access control lists and security descriptors, as the bytes that Windows takes and gives.
//!
//! Lists are edited as plain data, so that what is put on a file and taken off again can be tested on
//! any system. Entries of a kind that is not known here are kept byte for byte.
//! <https://learn.microsoft.com/openspecs/windows_protocols/ms-dtyp/20233ed8-a6c6-4097-aafa-dd545ed24428>

use crate::{Malformed, Sid};

const ALLOWED: u8 = 0;
const DENIED: u8 = 1;
const MANDATORY_LABEL: u8 = 0x11;

/// The flags of an entry: the children that inherit it.
pub(crate) mod flag {
    /// To files in the directory.
    pub(crate) const FILES: u8 = 1;
    /// To directories in the directory.
    pub(crate) const DIRECTORIES: u8 = 2;
    /// It does not hold for the directory itself.
    pub(crate) const ONLY_BELOW: u8 = 8;
    /// It was passed on by the directory above.
    pub(crate) const INHERITED: u8 = 16;
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Says {
    Allow,
    Deny,
    /// The integrity level of the object, and what lower ones may not do.
    Label,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Known {
        says: Says,
        flags: u8,
        mask: u32,
        sid: Sid,
    },
    /// Of another kind, whole.
    Other(Vec<u8>),
}

impl Entry {
    pub(crate) fn flags(&self) -> u8 {
        match self {
            Self::Known { flags, .. } => *flags,
            Self::Other(bytes) => bytes.get(1).copied().unwrap_or_default(),
        }
    }

    /// Whether it allows something under a condition, or for a part of an object.
    pub(crate) fn is_other_allowance(&self) -> bool {
        // Compound, object, callback and callback-object entries.
        matches!(self, Self::Other(bytes) if matches!(bytes.first(), Some(4 | 5 | 9 | 11)))
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.flags() & flag::INHERITED != 0
    }

    pub(crate) fn speaks_of(&self, whom: &Sid) -> bool {
        matches!(self, Self::Known { says: Says::Allow | Says::Deny, sid, .. } if sid == whom)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (says, flags, mask, sid) = match self {
            Self::Known { says, flags, mask, sid } => (says, flags, mask, sid.to_bytes()),
            Self::Other(bytes) => return bytes.clone(),
        };
        let kind = match says {
            Says::Allow => ALLOWED,
            Says::Deny => DENIED,
            Says::Label => MANDATORY_LABEL,
        };
        let size = u16::try_from(8 + sid.len()).unwrap_or(u16::MAX);
        let [low, high] = size.to_le_bytes();
        [&[kind, *flags, low, high], mask.to_le_bytes().as_slice(), &sid].concat()
    }

    fn from_bytes(whole: &[u8]) -> Self {
        Self::known(whole).unwrap_or_else(|| Self::Other(whole.to_vec()))
    }

    fn known(whole: &[u8]) -> Option<Self> {
        let [kind, flags, _, _, m0, m1, m2, m3, sid @ ..] = whole else { return None };
        let says = match *kind {
            ALLOWED => Says::Allow,
            DENIED => Says::Deny,
            MANDATORY_LABEL => Says::Label,
            _ => return None,
        };
        let (sid, rest) = Sid::from_bytes(sid).ok()?;
        let mask = u32::from_le_bytes([*m0, *m1, *m2, *m3]);
        rest.is_empty().then_some(Self::Known { says, flags: *flags, mask, sid })
    }
}

/// A list of entries. The first entry with a right and with an identifier of the token decides over that right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acl(pub(crate) Vec<Entry>);

impl Acl {
    /// The list with its header. `None` if it is longer than Windows takes.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let body: Vec<u8> = self.0.iter().flat_map(Entry::to_bytes).collect();
        let size = u16::try_from(8 + body.len()).ok()?.to_le_bytes();
        let count = u16::try_from(self.0.len()).ok()?.to_le_bytes();
        // Revision 4 may hold every kind of entry.
        let head = [[4, 0], size, count, [0, 0]].concat();
        Some([head, body].concat())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("an access control list");
        let [2..=4, _, s0, s1, c0, c1, _, _, ..] = bytes else { return Err(malformed) };
        let size = usize::from(u16::from_le_bytes([*s0, *s1]));
        let mut rest = bytes.get(8..size).ok_or(malformed)?;
        let mut entries = Vec::new();
        for _ in 0..u16::from_le_bytes([*c0, *c1]) {
            let [_, _, low, high, ..] = rest else { return Err(malformed) };
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let entry = rest.get(..length).filter(|entry| entry.len() >= 4).ok_or(malformed)?;
            entries.push(Entry::from_bytes(entry));
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(Self(entries))
    }
}

/// The parts of a security descriptor that are read and written here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Whether entries of the directory above are kept away, and whether they were passed on.
    pub(crate) control: u16,
    /// The access control list. Without one, every user has all rights.
    pub(crate) dacl: Option<Acl>,
    /// Where the label stands.
    pub(crate) sacl: Option<Acl>,
}

pub(crate) mod control {
    pub(crate) const DACL_PRESENT: u16 = 0x0004;
    pub(crate) const SACL_PRESENT: u16 = 0x0010;
    pub(crate) const DACL_INHERIT_REQUIRED: u16 = 0x0100;
    pub(crate) const DACL_INHERITED: u16 = 0x0400;
    pub(crate) const DACL_PROTECTED: u16 = 0x1000;
    pub(crate) const SELF_RELATIVE: u16 = 0x8000;
}

const HEAD: usize = 20;

impl Descriptor {
    /// Reads a self-relative descriptor.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("a security descriptor");
        let word = |at: usize| {
            let found = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
            found.and_then(|word| usize::try_from(word).ok()).ok_or(malformed)
        };
        let [1, _, low, high, ..] = bytes else { return Err(malformed) };
        let control = u16::from_le_bytes([*low, *high]);
        let list = |present: u16, at: usize| match word(at)? {
            0 => Ok(None),
            _ if control & present == 0 => Ok(None),
            offset => bytes.get(offset..).ok_or(malformed).and_then(Acl::from_bytes).map(Some),
        };
        if control & control::SELF_RELATIVE == 0 {
            return Err(malformed);
        }
        Ok(Self { control, sacl: list(control::SACL_PRESENT, 12)?, dacl: list(control::DACL_PRESENT, 16)? })
    }

    /// A self-relative descriptor with these lists, to be set on an object.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut control = control::SELF_RELATIVE | (self.control & control::DACL_PROTECTED);
        // Windows keeps the mark that entries were passed on only where it is asked to.
        if self.control & control::DACL_INHERITED != 0 {
            control |= control::DACL_INHERITED | control::DACL_INHERIT_REQUIRED;
        }
        let mut body = Vec::new();
        let mut place = |list: &Option<Acl>, present: u16| {
            let Some(list) = list else { return Some(0) };
            control |= present;
            let offset = u32::try_from(HEAD + body.len()).ok()?;
            body.extend(list.to_bytes()?);
            Some(offset)
        };
        let sacl = place(&self.sacl, control::SACL_PRESENT)?;
        let dacl = place(&self.dacl, control::DACL_PRESENT)?;
        let [low, high] = control.to_le_bytes();
        let head = [&[1, 0, low, high][..], &[0; 8], &sacl.to_le_bytes(), &dacl.to_le_bytes()].concat();
        Some([head, body].concat())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn entries() -> impl Strategy<Value = Entry> {
        const SIDS: &[&str] = &["S-1-1-0", "S-1-5-18", "S-1-5-32-544", "S-1-5-21-1-2-3-1001"];
        let known =
            (prop_oneof![Just(Says::Allow), Just(Says::Deny)], 0..32u8, any::<u32>(), prop::sample::select(SIDS))
                .prop_map(|(says, flags, mask, sid)| Entry::Known { says, flags, mask, sid: sid.parse().unwrap() });
        let other = (5..10u8, 0..32u8, any::<[u8; 4]>())
            .prop_map(|(kind, flags, rest)| Entry::Other([&[kind, flags, 8, 0][..], &rest].concat()));
        prop_oneof![9 => known, 1 => other]
    }

    pub(crate) fn lists() -> impl Strategy<Value = Acl> {
        prop::collection::vec(entries(), 0..8).prop_map(Acl)
    }

    proptest! {
        #[test]
        fn a_list_survives_bytes(list in lists()) {
            prop_assert_eq!(Acl::from_bytes(&list.to_bytes().unwrap()).unwrap(), list);
        }

        #[test]
        fn a_descriptor_survives_bytes(dacl in prop::option::of(lists()), sacl in prop::option::of(lists()), protected: bool) {
            let control = if protected { control::DACL_PROTECTED } else { 0 };
            let read = Descriptor::from_bytes(&Descriptor { control, dacl: dacl.clone(), sacl: sacl.clone() }.to_bytes().unwrap());
            let read = read.unwrap();
            prop_assert_eq!((read.dacl, read.sacl), (dacl, sacl));
            prop_assert_eq!(read.control & control::DACL_PROTECTED, control);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Descriptor::from_bytes(&bytes);
            let _ = Acl::from_bytes(&bytes);
        }
    }

    #[test]
    fn what_windows_gives_is_read() {
        // D:AI(A;OICI;FA;;;SY)(D;;SD;;;WD), as GetKernelObjectSecurity gives it.
        let bytes = [
            &[1, 0, 4, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0][..],
            &[2, 0, 48, 0, 2, 0, 0, 0],
            &[0, 3, 20, 0, 0xff, 1, 0x1f, 0, 1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0],
            &[1, 0, 20, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        ]
        .concat();
        let descriptor = Descriptor::from_bytes(&bytes).unwrap();
        let known = |says, flags, mask, sid: &str| Entry::Known { says, flags, mask, sid: sid.parse().unwrap() };
        assert_eq!(
            descriptor.dacl.unwrap().0,
            [known(Says::Allow, 3, 0x001f_01ff, "S-1-5-18"), known(Says::Deny, 0, 0x0001_0000, "S-1-1-0")]
        );
    }
}
