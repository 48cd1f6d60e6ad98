use proptest::prelude::*;

use super::*;

const KINDS: [Kind; 3] = [Kind::File, Kind::Directory, Kind::File];
const FILE_MASK: u64 = FIRST_MASK;
const DIRECTORY_MASK: u64 = FIRST_MASK + 1;

fn tree() -> Tree {
    Tree { made: Duration::ZERO, ..Tree::new(KINDS.to_vec()) }
}

fn request(operation: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let halves = |values: &[u32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let length = u32::try_from(HEADER + body.len()).unwrap();
    let words: Vec<u8> = [7, node].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
    [halves(&[length, operation]), words, halves(&[1000, 1000, 4321, 0]), body.to_vec()].concat()
}

/// The error number, and what follows the head.
fn answer(operation: u32, node: u64, body: &[u8]) -> (i32, Vec<u8>) {
    let request = request(operation, node, body);
    let bytes = tree().respond(&request).answer.unwrap();
    assert_eq!(usize::try_from(u32::from_ne_bytes(bytes[..4].try_into().unwrap())).unwrap(), bytes.len());
    assert_eq!(u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), 7);
    (-i32::from_ne_bytes(bytes[4..8].try_into().unwrap()), bytes[16..].to_vec())
}

fn touched(operation: u32, node: u64, body: &[u8]) -> Option<(usize, Option<Vec<u8>>)> {
    let request = request(operation, node, body);
    let touch = tree().respond(&request).touch;
    touch.map(|touch| {
        assert_eq!(touch.thread, 4321);
        (touch.mask, touch.name.map(<[u8]>::to_vec))
    })
}

/// As `struct fuse_attr` has it.
fn mode(attributes: &[u8]) -> u32 {
    u32::from_ne_bytes(attributes[60..64].try_into().unwrap())
}

#[test]
fn masks_are_found_by_their_numbers_and_have_the_modes_of_what_they_stand_for() {
    for (name, expected) in [(b"0\0", FILE), (b"1\0", DIRECTORY | 0o111), (b"2\0", FILE)] {
        let (error, entry) = answer(LOOKUP, ROOT, name);
        assert_eq!((error, entry.len()), (0, 128));
        assert_eq!(mode(&entry[40..]), expected);
    }
    for name in [&b"3\0"[..], b"-1\0", b"x\0", b"", b"0", b"\0", b"0\0\0", b"18446744073709551615\0"] {
        assert_eq!(answer(LOOKUP, ROOT, name).0, libc::ENOENT, "{name:?}");
    }
    let (error, attributes) = answer(GETATTR, DIRECTORY_MASK, &[0; 16]);
    assert_eq!((error, attributes.len(), mode(&attributes[16..])), (0, 104, DIRECTORY | 0o111));
}

#[test]
fn opening_listing_and_looking_for_names_are_told_and_looking_around_is_not() {
    assert_eq!(touched(OPEN, FILE_MASK, &[0; 8]), Some((0, None)));
    assert_eq!(touched(OPENDIR, DIRECTORY_MASK, &[0; 8]), Some((1, None)));
    assert_eq!(touched(LOOKUP, DIRECTORY_MASK, b"id\0"), Some((1, Some(b"id".to_vec()))));
    assert_eq!(touched(LOOKUP, ROOT, b"0\0"), None, "the launcher's");
    let wanted = |permission: u32| [permission.to_ne_bytes(), [0; 4]].concat();
    assert_eq!(touched(ACCESS, FILE_MASK, &wanted(4)), Some((0, None)));
    assert_eq!(touched(ACCESS, DIRECTORY_MASK, &wanted(4)), Some((1, None)));
    assert_eq!(touched(ACCESS, DIRECTORY_MASK, &wanted(1)), None, "it may be entered");
    for operation in [GETATTR, ACCESS, STATFS, FORGET, RELEASE, GETXATTR, LISTXATTR] {
        assert_eq!(touched(operation, FILE_MASK, &[0; 16]), None, "{operation}");
        assert_eq!(touched(operation, DIRECTORY_MASK, &[0; 16]), None, "{operation}");
    }
}

/// As the launcher reads them, a few at a time.
#[test]
fn all_masks_are_listed_with_what_a_lookup_tells() {
    let read = |first: u64, size: u32| {
        let body = [&[0; 8], &first.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 20]].concat();
        let (error, listed) = answer(READDIRPLUS, ROOT, &body);
        assert_eq!(error, 0);
        listed
    };
    let all = read(0, 4096);
    assert_eq!(all.len(), 3 * 160);
    for (entry, name) in all.chunks_exact(160).zip([&b"0\0"[..], b"1\0", b"2\0"]) {
        assert_eq!(entry[..128], answer(LOOKUP, ROOT, name).1[..128].to_vec()[..], "{name:?}");
        assert_eq!(entry[152..154], *name);
    }
    assert_eq!(read(1, 4096), all[160..]);
    assert_eq!(read(0, 330), all[..320]);
    assert!(read(3, 4096).is_empty() && read(u64::MAX, 4096).is_empty() && read(0, 10).is_empty());
    assert_eq!(answer(READDIRPLUS, DIRECTORY_MASK, &[0; 40]).0, libc::EACCES);
    assert_eq!(answer(OPENDIR, DIRECTORY_MASK, &[0; 8]).0, libc::EACCES);
}

#[test]
fn access_is_as_the_mode_says() {
    for (node, wanted, expected) in [
        (FILE_MASK, 4_u32, libc::EACCES),
        (FILE_MASK, 1, libc::EACCES),
        (DIRECTORY_MASK, 1, 0),
        (DIRECTORY_MASK, 5, libc::EACCES),
        (DIRECTORY_MASK, 2, libc::EACCES),
        (99, 4, libc::EACCES),
    ] {
        assert_eq!(answer(ACCESS, node, &wanted.to_ne_bytes()).0, expected, "{node} {wanted}");
    }
    assert_eq!(answer(ACCESS, FILE_MASK, &[]).0, libc::EACCES, "what can't be read is everything");
}

#[test]
fn the_version_is_agreed_upon() {
    let init = |major: u32, minor: u32| [major.to_ne_bytes(), minor.to_ne_bytes(), [0; 4], [0; 4]].concat();
    let (error, agreed) = answer(INIT, 0, &init(7, 45));
    assert_eq!((error, agreed.len()), (0, 64));
    assert_eq!((&agreed[..4], &agreed[4..8]), (&7_u32.to_ne_bytes()[..], &MINOR.to_ne_bytes()[..]));
    assert_eq!(answer(INIT, 0, &init(7, 27)).1[4..8], 27_u32.to_ne_bytes());
    for (major, minor) in [(6, 9), (8, 0), (7, 5)] {
        assert_eq!(answer(INIT, 0, &init(major, minor)).0, libc::EPROTO);
    }
    assert_eq!(answer(INIT, 0, &[7]).0, libc::EPROTO);
}

/// Operations by which the kernel would let a program see or change something.
const GUARDED: [u32; 11] = [OPEN, OPENDIR, READ, READDIR, READDIRPLUS, CREATE, TMPFILE, WRITE, SETATTR, MKNOD, LINK];

proptest! {
    /// Any request gets one complete answer of a known size, and never one that opens a mask. For the first two
    /// operations the kernel treats `ENOSYS` as permission.
    #[test]
    fn any_request_has_one_answer_and_opens_nothing(
        operation in prop_oneof![0_u32..64, any::<u32>()],
        node in prop_oneof![0_u64..8, any::<u64>()],
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = request(operation, node, &body);
        let mut tree = tree();
        let response = tree.respond(&bytes);
        if matches!(operation, FORGET | BATCH_FORGET | INTERRUPT) {
            prop_assert_eq!(response, Response::default());
            return Ok(());
        }
        let (error, body) = answer(operation, node, &body);
        prop_assert!((0..=133).contains(&error));
        prop_assert!(error == 0 || body.is_empty());
        prop_assert!(body.len() <= KINDS.len() * 160);
        if GUARDED.contains(&operation) && (node != ROOT || !matches!(operation, OPENDIR | READDIRPLUS)) {
            prop_assert!(error == libc::EACCES || error == libc::EROFS);
        }
        if let Some(touch) = response.touch {
            prop_assert!(touch.mask < KINDS.len());
        }
    }

    /// Invalid bytes are not answered, or only under their own id, and end nothing.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut tree = tree();
        if let Some(answer) = tree.respond(&bytes).answer {
            prop_assert_eq!(&answer[8..16], &bytes[8..16]);
        }
        let whole = request(LOOKUP, DIRECTORY_MASK, b"name\0");
        for length in 0..whole.len() {
            prop_assert_eq!(tree.respond(&whole[..length]), Response::default());
        }
    }
}
