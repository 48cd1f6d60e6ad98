//! The files of the layers, their order, and other kinds of files with their names.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use std::fs;
use std::path::Path;

use stockade_execpolicy::{HostExecutables, Layer, MAX_FILE_BYTES, PolicyLoader, RulesError, user_rules};
use stockade_protocol::{Argv, Decision, ParsedLine};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn decide(loader: &PolicyLoader, words: &[&str]) -> Decision {
    let line = ParsedLine::single(&Argv::parse(words.iter().copied()).unwrap());
    loader.load().unwrap().decide(&line, HostExecutables::Resolve, |_| Decision::Prompt)
}

#[test]
fn files_are_listed_by_layer_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["user/b.rules", "user/a.rules", "user/.hidden.rules", "user/note.txt", "etc/z.rules"] {
        write(&at(name), "");
    }
    let loader = PolicyLoader::new()
        .file(at("user/note.txt"))
        .project_file(at("p/.stockade/rules/p.rules"), "")
        .directory(Layer::User, at("user"))
        .directory(Layer::System, at("etc"))
        .directory(Layer::System, at("missing"));
    let files: Vec<_> = loader.files().unwrap().into_iter().map(|file| (file.layer, file.path)).collect();
    let expected = [
        (Layer::System, at("etc/z.rules")),
        (Layer::User, at("user/a.rules")),
        (Layer::User, at("user/b.rules")),
        (Layer::Project, at("p/.stockade/rules/p.rules")),
        (Layer::Session, at("user/note.txt")),
    ];
    assert_eq!(files, expected);
}

#[test]
fn no_later_layer_undoes_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(
        &at("etc/a.rules"),
        "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\nprefix_rule(pattern=[\"git\", \"status\"])\nhost_executable(name=\"git\", paths=[\"/usr/bin/git\"])\n",
    );
    // The file does not exist: only the given content counts.
    let (project, content) = (
        at("p/.stockade/rules/a.rules"),
        "prefix_rule(pattern=[\"git\"])\nhost_executable(name=\"git\", paths=[\"/tmp/git\"])\nhost_executable(name=\"make\", paths=[\"/opt/make\"])\nprefix_rule(pattern=[\"make\"])\n",
    );
    write(&at("extra.rules"), "prefix_rule(pattern=[\"git\", \"status\"], decision=\"prompt\")\n");
    let trusted = PolicyLoader::new().project_file(project, content).directory(Layer::System, at("etc"));
    let layers: Vec<Layer> = trusted.load().unwrap().rules().map(|rule| rule.origin().layer).collect();
    assert_eq!(layers, [Layer::System, Layer::System, Layer::Project, Layer::Project]);
    assert_eq!(decide(&trusted, &["git", "push"]), Decision::Forbidden);
    assert_eq!(decide(&trusted, &["git", "log"]), Decision::Allow);
    // The administrator said which git it is.
    assert_eq!(decide(&trusted, &["/usr/bin/git", "status"]), Decision::Allow);
    assert_eq!(decide(&trusted, &["/tmp/git", "status"]), Decision::Prompt);
    assert_eq!(decide(&trusted, &["/opt/make"]), Decision::Allow);
    // A later layer may be stricter.
    assert_eq!(decide(&trusted.clone().file(at("extra.rules")), &["git", "status"]), Decision::Prompt);
    let untrusted = PolicyLoader::new().directory(Layer::System, at("etc"));
    assert_eq!(decide(&untrusted, &["git", "log"]), Decision::Prompt);
}

#[test]
fn one_bad_file_is_no_policy() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.rules"), "prefix_rule(pattern=[\"ls\"])\n");
    write(&dir.path().join("b.rules"), "prefix_rule(pattern=[\"rm\"], decision=\"no\")\n");
    let error = PolicyLoader::new().directory(Layer::User, dir.path()).load().unwrap_err();
    assert!(matches!(&error, RulesError::Invalid(found) if found.file.ends_with("b.rules")), "{error}");
    let missing = PolicyLoader::new().file(dir.path().join("c.rules")).load().unwrap_err();
    assert!(matches!(missing, RulesError::Read { .. }), "{missing}");
    let not_a_directory = PolicyLoader::new().directory(Layer::User, dir.path().join("a.rules")).load().unwrap_err();
    assert!(matches!(not_a_directory, RulesError::Read { .. }), "{not_a_directory}");
}

#[test]
fn only_text_of_a_sane_size_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let load = |bytes: &[u8]| {
        let file = dir.path().join("a.rules");
        fs::write(&file, bytes).unwrap();
        PolicyLoader::new().file(file).load().unwrap_err()
    };
    assert!(matches!(load(b"# \xff"), RulesError::NotText { offset: 2, .. }));
    assert!(matches!(load(&vec![b'#'; MAX_FILE_BYTES + 1]), RulesError::TooLarge { .. }));
    let endless = PolicyLoader::new().file("/dev/zero").load().unwrap_err();
    assert!(matches!(endless, RulesError::NotAFile { .. }), "{endless}");
    let handed = |content: Vec<u8>| PolicyLoader::new().project_file("/p/a.rules", content).load().unwrap_err();
    assert!(matches!(handed(b"# \xff".to_vec()), RulesError::NotText { offset: 2, .. }));
    assert!(matches!(handed(vec![b'#'; MAX_FILE_BYTES + 1]), RulesError::TooLarge { .. }));
}

#[cfg(unix)]
#[test]
fn other_things_with_such_a_name_are_errors() {
    use std::os::unix::fs::symlink;
    let load = |make: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join("x.rules"));
        PolicyLoader::new().directory(Layer::User, dir.path()).load().map(|policy| policy.rules().count())
    };
    let directory = load(&|path| fs::create_dir(path).unwrap());
    assert!(matches!(directory, Err(RulesError::NotAFile { .. })), "{directory:?}");
    // Opening a pipe without a writer would wait for one.
    let pipe = load(&|path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap());
    assert!(matches!(pipe, Err(RulesError::NotAFile { .. })), "{pipe:?}");
    // A user may keep rules elsewhere.
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "prefix_rule(pattern=[\"ls\"])").unwrap();
    let link = load(&|path| symlink(outside.path(), path).unwrap());
    assert!(matches!(link, Ok(1)), "{link:?}");
}

#[test]
fn the_users_directory_follows_the_xdg_rules() {
    let at = |xdg: Option<&str>, home: Option<&str>| {
        user_rules(|name| match name {
            "XDG_CONFIG_HOME" => xdg.map(Into::into),
            _ => home.map(Into::into),
        })
    };
    assert_eq!(at(Some("/x"), Some("/h")), Some("/x/stockade/rules".into()));
    assert_eq!(at(Some("relative"), Some("/h")), Some("/h/.config/stockade/rules".into()));
    assert_eq!(at(Some(""), Some("/h")), Some("/h/.config/stockade/rules".into()));
    assert_eq!(at(None, None), None);
}
