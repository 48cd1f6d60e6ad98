//! Accepted diffs, refused diffs, and their positions.

use super::*;

fn apply(diff: &str, file: &str) -> Result<String, DiffError> {
    let result = UnifiedDiff::parse(diff.as_bytes())?.apply(file.as_bytes())?;
    Ok(String::from_utf8(result).unwrap())
}

#[test]
fn applies_hunks_with_any_header() {
    let hunks = "@@ -1,2 +1,3 @@ fn main() {\n+zero\n one\n two\n@@ -4 +5 @@\n-four\n+4\n";
    let file = "one\ntwo\nthree\nfour\nfive\n";
    let expected = "zero\none\ntwo\nthree\n4\nfive\n";
    for header in
        ["", "--- a\n+++ b\n", "diff --git a/f b/f\nindex 83db48f..bf2a3c1 100644\n--- a/f\t2026-01-01\n+++ b/f\n"]
    {
        assert_eq!(apply(&format!("{header}{hunks}"), file).unwrap(), expected, "{header}");
    }
}

#[test]
fn ends_of_lines_and_files_are_kept() {
    for (diff, file, expected) in [
        // The file has carriage returns, or the diff's own lines have.
        ("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", "a\r\nb\r\n", "a\r\nc\r\n"),
        ("@@ -1 +1 @@\r\n-a\r\n+b\r\n", "a\r\n", "b\r\n"),
        // No newline: before, after, both.
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a", "a\n"),
        ("@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", "a\n", "a"),
        ("@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ Kein Zeilenumbruch\n", "a\nb", "c\nb"),
        // From nothing, and to nothing.
        ("@@ -0,0 +1 @@\n+a\n", "", "a\n"),
        ("@@ -1 +0,0 @@\n-a\n", "a\n", ""),
        // An empty context line whose blank was stripped.
        ("@@ -1,2 +1,2 @@\n\n-a\n+b\n", "\na\n", "\nb\n"),
        // Lines that look like headers.
        ("@@ -1,2 +1,2 @@\n--- a\n+++ b\n @@ -1 +1 @@\n", "-- a\n@@ -1 +1 @@\n", "++ b\n@@ -1 +1 @@\n"),
    ] {
        assert_eq!(apply(diff, file).as_deref(), Ok(expected), "{diff}");
    }
}

#[test]
fn bytes_need_not_be_text() {
    let diff = UnifiedDiff::parse(b"@@ -1 +1 @@\n-\xff\0\n+\xfe\r\r\n").unwrap();
    assert_eq!(diff.apply(b"\xff\0\n").unwrap(), b"\xfe\r\r\n");
}

#[test]
fn what_is_no_diff_of_one_file_is_refused() {
    for (diff, words) in [
        ("hello\n", "line 1 of the diff: expected `@@"),
        ("@@ -1 +1 @@\n-a\n+b", "cut: its last line"),
        ("@@ -1,2 +1 @@\n-a\n", "cut: lines"),
        ("@@ -1 +1 @@\n-a\n-b\n", "more lines than its header says"),
        ("@@ -1 +1 @@\n-a\n+b\n+c\n", "line 4 of the diff: expected `@@"),
        ("@@ -1 +1 @@\n-a\n+b\n--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n", "line 4 of the diff: expected `@@"),
        ("--- a\n@@ -1 +1 @@\n-a\n+b\n", "line 2 of the diff: expected `+++ `"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n", "line 2 of the diff: expected `@@"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "line 2 of the diff: expected `@@"),
        ("@@ -0 +1 @@\n-a\n+b\n", "lines count from one"),
        ("@@ -+1 +1 @@\n-a\n+b\n", "expected `@@"),
        ("@@ -1 +1 @@@\n-a\n+b\n", "expected `@@"),
        ("@@ -99999999999999999999 +1 @@\n-a\n+b\n", "expected `@@"),
        ("@@ -18446744073709551615,2 +18446744073709551615,2 @@\n-a\n-b\n+b\n+c\n", "too large"),
        ("@@ -5 +5 @@\n-a\n+b\n@@ -2 +2 @@\n-a\n+b\n", "before the end of the one above"),
        ("@@ -1 +1 @@\n a\n", "hunk 1 changes nothing"),
        ("@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+a\n+c\n", "no line after the end"),
        ("@@ -1 +1 @@\n-a\n\\ No\n+b\n\\ No\n\\ No\n", "expected `@@"),
        ("@@ -1 +1 @@\n-a\n\\ No\n+b\n\\ No\n@@ -3 +3 @@\n-a\n+b\n", "ends the file"),
        ("@@ -1 +1 @@\nxa\n+b\n", "expected ` `, `-` or `+`"),
    ] {
        let error = UnifiedDiff::parse(diff.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{diff}: {error}");
    }
}

#[test]
fn the_place_that_is_named_comes_first() {
    // Line 3 is as good a match, but the diff says line 1.
    assert_eq!(apply("@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nb\na\nb\n").unwrap(), "a\nc\na\nb\n");
}

#[test]
fn another_place_has_to_be_the_only_one() {
    let diff = "@@ -2,2 +2,2 @@\n a\n-b\n+c\n@@ -5 +5 @@\n-d\n+e\n";
    assert_eq!(apply(diff, "new\nnew\nx\na\nb\n-\nd\n").unwrap(), "new\nnew\nx\na\nc\n-\ne\n");
    assert_eq!(apply(diff, "a\nb\n-\nd\n").unwrap(), "a\nc\n-\ne\n");
    // Each hunk matches somewhere, but not at one distance.
    let error = apply(diff, "new\nx\na\nb\n-\n-\nd\n").unwrap_err();
    assert_eq!(error, DiffError::NoMatch { hunk: 1, line: 2 });
    let error = apply("@@ -2 +2 @@\n-b\n+c\n", "b\na\nb\n").unwrap_err();
    assert_eq!(error, DiffError::Ambiguous { hunk: 1, line: 2 });
    let error = apply("@@ -900 +900 @@\n-b\n+c\n", "b\na\nb\n").unwrap_err();
    assert_eq!(error, DiffError::Ambiguous { hunk: 1, line: 900 });
    assert_eq!(apply("@@ -18446744073709551614 +18446744073709551614 @@\n-b\n+c\n", "a\nb\n").unwrap(), "a\nc\n");
}

#[test]
fn context_matches_exactly_or_not_at_all() {
    let diff = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    for file in ["a\nb", "a\r\nb\n", "a\n b\n", "a\nb \n", "A\nb\n", "a\n\nb\n", ""] {
        assert_eq!(apply(diff, file).unwrap_err(), DiffError::NoMatch { hunk: 1, line: 1 }, "{file:?}");
    }
}

#[test]
fn a_line_without_an_end_goes_to_the_end_only() {
    let diff = "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n";
    assert_eq!(apply(diff, "a\n").unwrap(), "b");
    assert_eq!(apply(diff, "a\nc\n").unwrap_err(), DiffError::NoMatch { hunk: 1, line: 1 });
    assert_eq!(apply(diff, "a\nc\na\n").unwrap(), "a\nc\nb");
}

#[test]
fn lines_without_any_context_are_added_to_an_empty_file_only() {
    let diff = "@@ -1,0 +2 @@\n+b\n";
    assert_eq!(apply(diff, "a\n").unwrap_err(), DiffError::NoContext { hunk: 1 });
    assert_eq!(apply("@@ -0,0 +1 @@\n+b\n", "a\n").unwrap_err(), DiffError::NoContext { hunk: 1 });
}

#[test]
fn a_search_without_end_is_given_up() {
    let file = "a\n".repeat(200_000);
    let old = "-a\n".repeat(1_000);
    let diff = format!("@@ -1,1001 +1,1 @@\n{old}-b\n+c\n");
    assert_eq!(apply(&diff, &file).unwrap_err(), DiffError::TooLarge { hunk: 1, line: 1 });
}
