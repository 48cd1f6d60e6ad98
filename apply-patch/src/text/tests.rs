use stockade_protocol::{AbsPath, FileChange};

use super::*;

fn parse(text: &str) -> Result<PatchText, TextError> {
    PatchText::parse(text.as_bytes())
}

/// The changes of a text in `/d` that don't need the files.
fn changes(text: &str) -> Vec<FileChange> {
    parse(text).unwrap().changes(&"/d".parse().unwrap(), |_| false).unwrap()
}

fn at(path: &str) -> AbsPath {
    path.parse().unwrap()
}

const HUNK: &str = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n";

fn update(path: &str, to: Option<&str>, diff: &str) -> FileChange {
    FileChange::Update { path: at(path), unified_diff: diff.into(), move_path: to.map(at) }
}

#[test]
fn names_are_taken_as_diff_and_git_write_them() {
    for header in [
        "--- x/f\n+++ x/f\n",
        "--- a/x/f\n+++ b/x/f\n",
        "--- a/x/f\t2026-01-01 00:00:00\n+++ b/x/f\t2026-01-01 00:00:00\n",
        "diff --git a/x/f b/x/f\nindex 1..2 100644\n--- a/x/f\n+++ b/x/f\n",
        "diff --git i/x/f w/x/f\nindex 1..2 100644\n--- i/x/f\n+++ w/x/f\n",
        "diff --git x/f x/f\nindex 1..2 100644\n--- x/f\n+++ x/f\n",
        "diff --git \"a/x/\\146\" \"b/x/\\146\"\n--- \"a/x/\\146\"\n+++ \"b/x/\\146\"\n",
        "From 123 Mon Sep 17\nSubject: [PATCH] x\n\n - a list\n---\n f | 2 +-\n\ndiff --git a/x/f b/x/f\n--- a/x/f\n+++ b/x/f\n",
        "--- /d/x/f\n+++ /d/x/f\n",
    ] {
        assert_eq!(changes(&format!("{header}{HUNK}")), [update("/d/x/f", None, HUNK)], "{header}");
        assert_eq!(changes(&format!("{header}{HUNK}-- \n2.47\n\n")).len(), 1, "{header}");
    }
    // In a repository without prefixes a directory `a` is one.
    let text = format!("diff --git a/f a/f\n--- a/f\n+++ a/f\n{HUNK}");
    assert_eq!(changes(&text), [update("/d/a/f", None, HUNK)]);
}

#[test]
fn files_are_added_deleted_and_moved() {
    let text = format!(
        "diff --git a/new b/new\nnew file mode 100644\nindex 0000000..1\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n\
         diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n\
         diff --git a/old b/old\ndeleted file mode 100755\nindex 1..0\n--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n\
         diff --git a/gone b/gone\ndeleted file mode 100644\nindex e69de29..0000000\n\
         diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n\
         diff --git a/a b/b/c\nsimilarity index 90%\nrename from a\nrename to b/c\nindex 1..2 100644\n--- a/a\n+++ b/b/c\n{HUNK}"
    );
    let add = |path, content: &str| FileChange::Add { path: at(path), content: content.into() };
    let delete = |path, content: &str| FileChange::Delete { path: at(path), content: content.into() };
    let expected = [
        add("/d/new", "a\nb"),
        add("/d/empty", ""),
        delete("/d/old", "x\ny\n"),
        delete("/d/gone", ""),
        update("/d/from", Some("/d/to"), ""),
        update("/d/a", Some("/d/b/c"), HUNK),
    ];
    assert_eq!(changes(&text), expected);
}

#[test]
fn what_a_change_cannot_say_is_refused_with_its_line() {
    let git = "diff --git a/f b/f\n";
    for (text, line, says) in [
        (format!("{git}old mode 100644\nnew mode 100755\n"), 2, "mode"),
        (format!("{git}new file mode 100755\n"), 2, "executable"),
        (format!("{git}new file mode 120000\n"), 2, "link"),
        (format!("{git}deleted file mode 120000\n"), 2, "link"),
        (format!("{git}index 1..2 160000\n"), 2, "submodule"),
        (format!("{git}copy from a\ncopy to f\n"), 2, "copies"),
        (format!("{git}index 1..2\nBinary files a/f and b/f differ\n"), 3, "binary"),
        (format!("{git}index 1..2\nGIT binary patch\n"), 3, "binary"),
        (String::from("diff --cc f\n"), 1, "merge"),
        (format!("{git}--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n"), 4, "merge"),
        (String::from("Binary files a and b differ\n"), 1, "binary"),
        (format!("--- old/f\n+++ new/f\n{HUNK}"), 1, "`old/f` and `new/f`"),
        (format!("diff --git a/f b/g\n--- a/f\n+++ b/g\n{HUNK}"), 1, "`f` and `g`"),
        (format!("diff --git f f\n--- f\n+++ g\n{HUNK}"), 1, "`f` and `g`"),
        (HUNK.to_owned(), 1, "before a hunk"),
        (git.to_owned(), 1, "changes of this file"),
        (format!("--- f\n+++ f\n{HUNK}+more\n"), 7, "no more lines"),
        (format!("--- f\n+++ f\n{HUNK}\n more\n"), 8, "no more lines"),
        (String::from("--- f\n+++ f\n@@ -1,9 +1,9 @@\n one\n-two\n+2\ndiff\n"), 7, "fewer lines"),
        (String::from("--- f\n+++ f\n"), 3, "@@ -1,2 +1,2 @@"),
        (String::from("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n"), 1, "name of a file"),
        (String::from("--- /dev/null\n+++ f\n@@ -1 +1,2 @@\n a\n+b\n"), 1, "only added lines"),
        (String::from("--- f\n+++ /dev/null\n@@ -1,2 +1 @@\n a\n-b\n"), 1, "all lines"),
    ] {
        let told = parse(&text).unwrap_err().to_string();
        assert!(told.starts_with(&format!("line {line}: ")) && told.contains(says), "{text}\n{told}");
    }
    for empty in ["", "\n", "just words\n"] {
        assert!(matches!(parse(empty), Err(TextError::Empty)), "{empty}");
    }
    assert!(matches!(parse("--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n"), Err(TextError::Cut { .. })));
    let above = parse(&format!("--- ../f\n+++ ../f\n{HUNK}")).unwrap();
    assert!(matches!(above.changes(&at("/d"), |_| true), Err(TextError::Name { .. })));
}

/// The file after an envelope is applied.
fn applied(content: &str, body: &str) -> Result<String, TextError> {
    let text = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n");
    let parsed = parse(&text)?;
    let [TextChange::Update { update: Update::Chunks(chunks), .. }] = parsed.changes.as_slice() else {
        panic!("{parsed:?}")
    };
    let diff = locate::diff(&at("/d/f"), content.as_bytes(), chunks)?;
    let diff = crate::UnifiedDiff::parse(&diff).unwrap_or_else(|error| panic!("{error}: {diff:?}"));
    Ok(String::from_utf8(diff.apply(content.as_bytes()).unwrap()).unwrap())
}

#[test]
fn pieces_are_found_by_their_lines() {
    let file = "fn a() {\n    one\n}\n\nfn b() {\n    one\n}\n";
    for (body, expected) in [
        ("@@\n fn a() {\n-    one\n+    1\n", "fn a() {\n    1\n}\n\nfn b() {\n    one\n}\n"),
        (" fn a() {\n-    one\n+    1\n", "fn a() {\n    1\n}\n\nfn b() {\n    one\n}\n"),
        ("@@ fn b() {\n-    one\n+    1\n+    2\n", "fn a() {\n    one\n}\n\nfn b() {\n    1\n    2\n}\n"),
        ("@@ fn a() {\n-    one\n@@ fn b() {\n-    one\n", "fn a() {\n}\n\nfn b() {\n}\n"),
        ("@@ fn a() {\n@@ fn b() {\n-    one\n", "fn a() {\n    one\n}\n\nfn b() {\n}\n"),
        ("-    one\n }\n*** End of File\n", "fn a() {\n    one\n}\n\nfn b() {\n}\n"),
        ("+end\n", "fn a() {\n    one\n}\n\nfn b() {\n    one\n}\nend\n"),
        ("@@\n \n+// b\n fn b() {\n", "fn a() {\n    one\n}\n\n// b\nfn b() {\n    one\n}\n"),
    ] {
        assert_eq!(applied(file, body).unwrap(), expected, "{body}");
    }
    assert!(matches!(applied(file, "-    one\n+    1\n"), Err(TextError::Ambiguous { piece: 1, .. })));
    assert!(matches!(applied(file, "-   one\n+    1\n"), Err(TextError::NoMatch { .. })));
    assert!(matches!(applied(file, "@@ fn c() {\n-    one\n"), Err(TextError::NoMatch { .. })));
    assert!(matches!(applied(file, " }\n*** End of File\n+x\n"), Err(TextError::NoContext { piece: 2, .. })));
    assert!(matches!(applied(file, "@@ fn b() {\n+new\n"), Err(TextError::NoContext { .. })));
    assert!(matches!(applied(file, " fn a() {\n*** End of File\n"), Err(TextError::NoMatch { .. })));
}

/// As in codex, a last line without a terminator gets one.
#[test]
fn a_last_line_without_an_end_gets_one() {
    for (file, body, expected) in [
        ("a\nb", "-b\n+c\n", "a\nc\n"),
        ("a\nb", " a\n b\n+c\n", "a\nb\nc\n"),
        ("a\nb", "+c\n", "a\nb\nc\n"),
        ("a\nb", "-a\n+c\n", "c\nb"),
        ("", "+c\n", "c\n"),
        ("\n", "+c\n", "\nc\n"),
        ("a", "-a\n", ""),
    ] {
        assert_eq!(applied(file, body).unwrap(), expected, "{file:?} {body:?}");
    }
}

#[test]
fn an_envelope_adds_and_moves() {
    let text = "\n*** Begin Patch\n*** Add File: x/new\n+a\n+\n*** Add File: empty\n*** Update File: old\n*** Move to: new\n*** End Patch\n\n";
    let add = |path, content: &str| FileChange::Add { path: at(path), content: content.into() };
    assert_eq!(changes(text), [add("/d/x/new", "a\n\n"), add("/d/empty", ""), update("/d/old", Some("/d/new"), "")]);
    for (text, says) in [
        ("*** Begin Patch\n*** Add File: a\n+x\n", "cut"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch\n", "line 2: expected"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch\n", "line 3: expected"),
        ("*** Begin Patch\n*** Update File: a\nx\n*** End Patch\n", "line 3: expected"),
        ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch\n", "line 4: expected"),
        ("*** Begin Patch\n*** Add File: a\n*** End Patch\nrm -rf x\n", "line 4: expected"),
        ("*** Begin Patch\n*** End Patch\n", "no change was found"),
    ] {
        let told = parse(text).unwrap_err().to_string();
        assert!(told.contains(says), "{text}: {told}");
    }
}

#[cfg(unix)]
#[test]
fn only_files_that_may_be_read_are_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let root = AbsPath::from_path(&place.path().canonicalize().unwrap()).unwrap();
    std::fs::write(place.path().join("secret"), "key\n").unwrap();
    std::os::unix::fs::symlink("secret", place.path().join("link")).unwrap();
    let delete = |name: &str| parse(&format!("*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n")).unwrap();
    let found = delete("secret").changes(&root, |_| true).unwrap();
    assert_eq!(found, [FileChange::Delete { path: root.join("secret").unwrap(), content: "key\n".into() }]);
    let refused = delete("secret").changes(&root, |path| *path != root.join("secret").unwrap());
    assert!(matches!(refused, Err(TextError::Unreadable { .. })), "{refused:?}");
    for name in ["link", "missing", "missing/x", "."] {
        let refused = delete(name).changes(&root, |_| true);
        assert!(matches!(refused, Err(TextError::File(_) | TextError::NoName)), "{name}: {refused:?}");
    }
}
