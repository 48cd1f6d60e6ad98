//! Any text as a diff of any file: no panic, one result, and nothing but the hunks' own lines changes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_apply_patch::{PatchText, UnifiedDiff};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (text, file) = input;
    // As a patch of several files: names are taken from a directory, whatever they are, and no file is read.
    if let (Ok(patch), Ok(directory)) = (PatchText::parse(text), "/d".parse()) {
        for path in patch.changes(&directory, |_| false).iter().flatten().flat_map(|change| change.paths()) {
            assert!(path.starts_with(&directory) || text.windows(2).any(|two| two == b" /" || two == b"\"/"));
        }
    }
    let Ok(diff) = UnifiedDiff::parse(text) else { return };
    let Ok(result) = diff.apply(file) else { return };
    assert_eq!(diff.apply(file).as_ref(), Ok(&result), "the same diff gives two results");
    if diff.is_empty() {
        assert_eq!(result, file);
    }
    // Every line of the result was in the file or is one that the diff adds.
    for line in result.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let kept = file.split(|byte| *byte == b'\n').any(|old| old == bare);
        let added = text.split(|byte| *byte == b'\n').any(|added| added.split_first() == Some((&b'+', bare)));
        assert!(kept || added, "a line from nowhere: {line:?}");
    }
});
