//! Renders file changes: every path first, then the changes.

use stockade_protocol::{AbsPath, FileChange, PatchApproval, RawText};

use crate::terminal::page::{Page, Tone};
use crate::terminal::text::{self, Detail};

/// Limit on diff lines on a short page.
const SHORT_DIFF: usize = 80;

pub(super) fn show(page: &mut Page, patch: &PatchApproval) {
    page.plain(0, "");
    page.list(&patch.changes, "files", |page, change| page.line(2, Tone::Title, &headline(change, page.detail)));
    let mut room = match page.detail {
        Detail::Short => SHORT_DIFF,
        Detail::Whole => usize::MAX,
    };
    let mut hidden = 0;
    for change in &patch.changes {
        let lines: Vec<_> = lines(change).collect();
        let shown = lines.len().min(room);
        hidden += lines.len() - shown;
        room -= shown;
        if shown == 0 {
            continue;
        }
        page.section(&headline(change, page.detail));
        for (sign, line) in lines.into_iter().take(shown) {
            let text = text::file_line(line, page.detail);
            page.line(2, tone(sign, line), &format!("{sign}{text}"));
        }
    }
    page.left_out(2, hidden, "changed lines");
}

pub(super) fn show_grant(page: &mut Page, patch: &PatchApproval) {
    if let Some(root) = &patch.grant_root {
        let root = text::word(root.as_raw(), page.detail);
        page.plain(0, "");
        page.line(1, Tone::Warning, &format!("With a yes, everything below {root} may be written for the session."));
    }
}

fn headline(change: &FileChange, detail: Detail) -> String {
    let path = |path: &AbsPath| text::word(path.as_raw(), detail);
    match change {
        FileChange::Add { path: file, .. } => format!("add {}", path(file)),
        FileChange::Delete { path: file, .. } => format!("delete {}", path(file)),
        FileChange::Update { path: file, move_path: None, .. } => format!("change {}", path(file)),
        FileChange::Update { path: from, move_path: Some(to), .. } => format!("move {} -> {}", path(from), path(to)),
    }
}

/// The lines of a change, each with its prefix.
fn lines(change: &FileChange) -> impl Iterator<Item = (&'static str, &[u8])> {
    let (sign, text): (_, &RawText) = match change {
        FileChange::Add { content, .. } => ("+", content),
        FileChange::Delete { content, .. } => ("-", content),
        // A diff has its own prefixes.
        FileChange::Update { unified_diff, .. } => ("", unified_diff),
    };
    let bytes = text.as_bytes();
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    // As `diff` prints it; a unified diff already contains it.
    let is_unended = !sign.is_empty() && !bytes.is_empty() && !bytes.ends_with(b"\n");
    let lines = whole.split(|byte| *byte == b'\n').filter(move |_| !whole.is_empty()).map(move |line| (sign, line));
    lines.chain(is_unended.then_some(("", &b"\\ No newline at end of file"[..])))
}

fn tone(sign: &str, line: &[u8]) -> Tone {
    match sign.as_bytes().first().or(line.first()) {
        Some(b'+') => Tone::Added,
        Some(b'-') => Tone::Removed,
        _ => Tone::Normal,
    }
}
