//! Random permissions and paths: a profile allows what `Permissions::access` says, and nothing else.
//!
//! | operation | is allowed if |
//! | --- | --- |
//! | read, list, execute, map, clone a file | it can be read |
//! | look at | it can be read, or something below it |
//! | write, change mode, owner or times | it can be written |
//! | create, remove, rename | it and its directory can be written, and no rule below it says otherwise |

use proptest::collection::vec;
use proptest::prelude::*;
use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Permissions};
use stockade_sandbox_macos::Seatbelt;

use crate::evaluator::{Object, READINGS};
use crate::world::{Asked, World, command, path};

/// Few names, so that rules really meet each other; with letters that have more than two spellings.
fn any_path() -> impl Strategy<Value = AbsPath> {
    vec("[ask]|a\\.k|st", 0..5).prop_map(|names| path(&format!("/{}", names.join("/"))))
}

fn any_rule() -> impl Strategy<Value = FileRule> {
    let access = prop_oneof![Just(Access::None), Just(Access::Scratch), Just(Access::Read), Just(Access::Write)];
    let wild = prop_oneof![
        3 => Just("**".to_owned()),
        2 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("a*".to_owned()),
        1 => Just("*.k".to_owned()),
        1 => Just("[ak]".to_owned()),
        1 => Just("[!a]".to_owned()),
        3 => "[ask]|a\\.k|st",
    ];
    let glob = (vec("[ask]", 1..3), vec(wild, 1..4))
        .prop_filter_map("a glob", |(base, wild)| format!("/{}/{}", base.join("/"), wild.join("/")).parse().ok());
    prop_oneof![
        4 => (any_path(), access).prop_map(|(path, access)| FileRule::path(path, access)),
        1 => glob.prop_map(FileRule::deny_glob),
    ]
}

pub(crate) fn any_case() -> impl Strategy<Value = (Permissions, Vec<AbsPath>, Vec<AbsPath>)> {
    (vec(any_rule(), 0..9), vec(any_path(), 16), vec(any_path(), 0..6)).prop_map(|(rules, asked, found)| {
        (Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() }, asked, found)
    })
}

/// Whether a rule, or a file that a glob denies, lies below a path and has less than writing.
fn is_restricted_below(permissions: &Permissions, found: &[AbsPath], path: &AbsPath) -> bool {
    let is_below = |below: &AbsPath| below != path && below.starts_with(path);
    permissions.files.iter().any(|rule| match &rule.target {
        FileTarget::Path(own) => is_below(own) && rule.access < Access::Write,
        FileTarget::Glob(glob) => found.iter().any(|found| glob.matches(found) && is_below(found)),
    })
}

fn grants_below(permissions: &Permissions, path: &AbsPath) -> bool {
    permissions.files.iter().any(|rule| match &rule.target {
        FileTarget::Path(own) => own != path && own.starts_with(path) && rule.access >= Access::Read,
        FileTarget::Glob(_) => false,
    })
}

fn agree(permissions: &Permissions, found: &[AbsPath], asked: &Asked, path: &AbsPath) {
    let text = path.to_string();
    let access = permissions.access(path);
    let is_writable = |path: &AbsPath| permissions.access(path) == Access::Write;
    let object = Object::file(&text);
    let reads = access >= Access::Read;
    let ask = |operation: &str, expected: bool| {
        assert_eq!(asked.allows(operation, &object), expected, "{operation} {text}, which has {access}");
    };
    for operation in ["file-map-executable", "process-exec", "process-exec-interpreter"] {
        ask(operation, reads);
    }
    // The names in the root directory can always be listed.
    for operation in ["file-read-data", "file-read-xattr"] {
        ask(operation, reads || text == "/");
    }
    ask("file-read-metadata", reads || text == "/" || grants_below(permissions, path));
    for operation in ["file-write-data", "file-write-mode", "file-write-owner", "file-write-times", "file-write-xattr"]
    {
        ask(operation, access == Access::Write);
    }
    let moves = access == Access::Write
        && path.parent().is_some_and(|parent| is_writable(&parent))
        && !is_restricted_below(permissions, found, path);
    for operation in ["file-write-create", "file-write-unlink"] {
        ask(operation, moves);
    }
    for operation in ["file-write-setugid", "file-link"] {
        ask(operation, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_profile_allows_what_the_oracle_says((permissions, paths, found) in any_case()) {
        let world = World { found: found.clone(), ..World::default() };
        let plan = Seatbelt::new().plan_on(&command(), &permissions, None, &world).unwrap();
        let asked = Asked::of(&plan);
        let named = permissions.files.iter().filter_map(|rule| match &rule.target {
            FileTarget::Path(path) => Some(path),
            FileTarget::Glob(_) => None,
        });
        let near = named.flat_map(|path| path.ancestors().chain(path.join("a")));
        for path in paths.iter().chain(&found).cloned().chain(near) {
            agree(&permissions, &found, &asked, &path);
        }
    }

    /// Another spelling of a path is the same file on most Macs, so it gets no more than either.
    #[test]
    fn another_spelling_gets_no_more((permissions, paths, found) in any_case(), seed in any::<u64>()) {
        let world = World { found, ..World::default() };
        let asked = Asked::of(&Seatbelt::new().plan_on(&command(), &permissions, None, &world).unwrap());
        let has_negation = permissions.files.iter().any(|rule| rule.target.to_string().contains('!'));
        for path in paths {
            let plain = path.to_string();
            let other: String = plain.chars().enumerate().map(|(at, c)| respell(c, seed.rotate_right(u32::try_from(at).unwrap()))).collect();
            let exact = permissions.access(&crate::world::path(&other));
            let folded = if has_negation { Access::Write } else { permissions.access(&path) };
            let least = exact.min(folded);
            prop_assert!(!asked.writes(&other) || least == Access::Write, "{other} as {plain}");
            prop_assert!(!asked.reads(&other) || least >= Access::Read || other == "/", "{other} as {plain}");
        }
    }
}

/// One of a character's spellings.
fn respell(character: char, seed: u64) -> char {
    match (character, seed % 4) {
        ('a'..='z', 0) => character.to_ascii_uppercase(),
        ('k', 1) => '\u{212a}',
        ('s', 1) => '\u{17f}',
        _ => character,
    }
}

#[test]
fn a_directory_is_not_cloned_and_a_file_only_where_it_can_be_read() {
    let asked = Asked::new(&crate::world::files(&["/w write", "/w/secret none"]));
    for reading in READINGS {
        let clones = |path, is_directory| {
            let object = Object { is_directory, ..Object::file(path) };
            asked.rules().allows(reading, &[], "file-clone", &object)
        };
        assert!(clones("/w/a", false));
        assert!(!clones("/w/a", true) && !clones("/w/secret/a", false) && !clones("/x", false));
    }
}
