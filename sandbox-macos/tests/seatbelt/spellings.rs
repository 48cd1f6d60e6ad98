//! Names in other cases, hostile names, and patterns.

use proptest::prelude::*;
use stockade_protocol::{AbsPath, Glob};
use stockade_sandbox_macos::Seatbelt;

use crate::evaluator::Object;
use crate::world::{Asked, World, command, files, path};

#[test]
fn protected_names_are_protected_in_every_spelling() {
    let asked = Asked::new(&files(&[
        "/ read",
        "/w write",
        "/w/.git read protected",
        "/w/.stockade read protected",
        "/w/.agents read protected",
        "/w/.env none",
    ]));
    for name in [
        ".git",
        ".GIT",
        ".Git/hooks/x",
        ".STOCKADE",
        ".\u{17f}tockade",
        ".\u{fb06}ockade",
        ".stoc\u{212a}ade",
        ".agent\u{17f}",
    ] {
        for prefix in ["/w", "/System/Volumes/Data/w"] {
            let text = format!("{prefix}/{name}");
            for operation in ["file-write-data", "file-write-create", "file-write-unlink"] {
                assert!(!asked.allows(operation, &Object::file(&text)), "{operation} {text}");
            }
        }
        assert!(asked.reads(&format!("/w/{name}")), "{name}");
    }
    for name in [".ENV", ".Env/x", ".env"] {
        assert!(
            !asked.reads(&format!("/w/{name}")) && !asked.reads(&format!("/System/Volumes/Data/w/{name}")),
            "{name}"
        );
    }
    for name in [".gitignore", ".github/x", "git", ".envrc"] {
        assert!(asked.writes(&format!("/w/{name}")), "{name}");
    }
}

/// No profile in production is known to have bytes beyond ASCII in a pattern but those of the path itself.
#[test]
fn the_pattern_of_an_ascii_name_is_ascii() {
    let names = ["/w/.stockade", "/w/office/kiss/first", "/w/flask/STAFF", "/w/b\u{e9}/mask"];
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("{name} none"))
        .chain(["/w write".into(), "/w/**/*s[k-s].key none".into()])
        .collect();
    let permissions = files(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let plan = Seatbelt::new().plan_on(&command(), &permissions, None, &World::default()).unwrap();
    let patterns = plan.profile().parameters().iter().filter(|own| own.name.starts_with("PATTERN"));
    for pattern in patterns {
        let beyond: Vec<char> =
            pattern.value.chars().filter(|c| !c.is_ascii() && !"\u{e9}\u{c9}".contains(*c)).collect();
        assert!(beyond.is_empty(), "{beyond:?} in {}", pattern.value);
    }
}

#[test]
fn what_is_protected_is_not_moved_with_its_parents() {
    let world = World { found: vec![path("/w/conf/x/a.key")], ..World::default() };
    let lines = ["/w write", "/cache write", "/w/a/b/.git read protected", "/w/**/*.key none"];
    let asked = Asked::of(&Seatbelt::new().plan_on(&command(), &files(&lines), None, &world).unwrap());
    let moves = |path| asked.allows("file-write-unlink", &Object::file(path));
    for pinned in ["/w", "/w/a", "/w/A", "/w/a/b", "/w/a/b/.git", "/w/conf", "/w/conf/x", "/w/conf/x/a.key", "/cache"] {
        assert!(!moves(pinned), "{pinned}");
    }
    for free in ["/w/c", "/w/a/c", "/w/a/b/c", "/w/conf/y", "/w/conf/x/a", "/cache/x"] {
        assert!(moves(free), "{free}");
    }
}

#[test]
fn a_denial_by_a_glob_holds_inside_and_gives_way_to_a_longer_grant() {
    let asked = Asked::new(&files(&["/w write", "/w/**/*.env none", "/w/a.env/keep read"]));
    for (text, reads) in [
        ("/w/a.env", false),
        ("/w/x/y/.ENV", false),
        ("/w/x/a.env/below", false),
        ("/w/a.env/keep", true),
        ("/w/a.env/keep/x", true),
        ("/w/a.env/keep/b.env", false),
        ("/w/aenv", true),
        ("/w/a.envx", true),
    ] {
        assert_eq!(asked.reads(text), reads, "{text}");
    }
    assert!(!asked.writes("/w/a.env/keep"));
}

#[test]
fn a_glob_behind_a_link_denies_where_it_leads() {
    let world = World {
        link: Some((path("/tmp"), path("/private/tmp"))),
        found: vec![path("/tmp/x/y/a.env")],
        ..World::default()
    };
    let permissions = files(&["/private/tmp write", "/tmp/x/**/*.env none"]);
    let asked = Asked::of(&Seatbelt::new().plan_on(&command(), &permissions, None, &world).unwrap());
    assert!(!asked.reads("/private/tmp/x/a.env") && !asked.writes("/private/tmp/x/y/b.env"));
    assert!(asked.writes("/private/tmp/x/y/b") && asked.writes("/private/tmp/a.env"));
    assert!(!asked.allows("file-write-unlink", &Object::file("/private/tmp/x/y")), "it holds a file that is denied");
}

/// Names with a meaning in the profile language, in patterns, or in a shell.
fn hostile_name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::string::string_regex("[\\\\\"'()\\[\\]{}|^$.*+?#;,= \n\t-]{1,6}").unwrap(),
        "[a-zA-Z0-9 ()\"\\\\.*é€𝄞-]{1,8}",
        Just("\") (allow default) (allow file-read* (subpath \"/".to_owned()).prop_map(|text| text.replace('/', "")),
    ]
    .prop_filter("a name", |name| !matches!(name.as_str(), "." | ".."))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The text of a profile does not depend on what the paths are called, and a rule for a path is about
    /// that path.
    #[test]
    fn a_name_is_never_read_as_a_rule(name in hostile_name(), other in hostile_name()) {
        let plan = |name: &str| {
            let lines = [("/w", stockade_protocol::Access::Write), (&*format!("/w/{name}"), stockade_protocol::Access::None)]
                .map(|(text, access)| stockade_protocol::FileRule::path(AbsPath::parse(text).unwrap(), access));
            let files = stockade_protocol::FileRules::new(lines).unwrap();
            let permissions = stockade_protocol::Permissions { files, ..Default::default() };
            Seatbelt::new().plan_on(&command(), &permissions, None, &World::default()).unwrap()
        };
        let (hostile, plain) = (plan(&name), plan("plain"));
        prop_assert_eq!(hostile.profile().text(), plain.profile().text());
        let asked = Asked::of(&hostile);
        for denied in [format!("/w/{name}"), format!("/w/{name}/x"), format!("/w/{}", name.to_ascii_uppercase())] {
            prop_assert!(!asked.reads(&denied) && !asked.writes(&denied), "{}", denied);
        }
        // A name beyond ASCII may be taken for another spelling of one that folds with such a character.
        let is_another = other.is_ascii() && !other.to_lowercase().starts_with(&name.to_lowercase());
        prop_assert!(!is_another || asked.writes(&format!("/w/{other}")), "{} is not {}", other, name);
    }

    /// A glob's pattern matches what the glob does; beyond ASCII it may match more.
    #[test]
    fn a_glob_means_what_it_says(tail in "(\\*\\*/)?[a-c?*.+()$^|{}-]{0,3}(\\[!?[ -Za-~é]{1,3}\\])?[a-c?*. -]{0,3}", names in proptest::collection::vec("[a-c.+()$^|-]{1,4}|[ -~&&[^/]]{1,3}|[a-cé€]{1,3}", 1..4)) {
        let Ok(glob) = format!("/w/{tail}").parse::<Glob>() else { return Ok(()) };
        let names: Vec<String> = names.into_iter().filter(|name| !matches!(name.as_str(), "." | "..")).collect();
        let asked_path = path(&format!("/w/{}", names.join("/")));
        let files = stockade_protocol::FileRules::new([
            stockade_protocol::FileRule::path(path("/"), stockade_protocol::Access::Read),
            stockade_protocol::FileRule::deny_glob(glob.clone()),
        ]).unwrap();
        let permissions = stockade_protocol::Permissions { files, ..Default::default() };
        let asked = Asked::of(&Seatbelt::new().plan_on(&command(), &permissions, None, &World::default()).unwrap());
        let text = asked_path.as_raw().as_str().unwrap().to_owned();
        let (reads, expected) = (asked.reads(&text), permissions.access(&asked_path) >= stockade_protocol::Access::Read);
        prop_assert!(!reads || expected, "{} lets {} through", glob, text);
        let is_plain = text.is_ascii() && text == text.to_lowercase() && glob.to_string() == glob.to_string().to_lowercase();
        let is_exact = is_plain && glob.to_string().is_ascii() && !text.contains(['[', ']', '\\']);
        prop_assert!(!is_exact || reads == expected, "{} and {}", glob, text);
    }
}
