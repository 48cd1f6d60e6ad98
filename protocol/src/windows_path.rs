//! The textual rules of Windows paths, for `AbsPath`.
//!
//! Windows has many spellings of one file, and none may evade a rule written in another. Paths without a single normal
//! form are refused: device paths, alternate streams, and names that end in a dot or a space (Windows drops those when
//! it opens the file). <https://learn.microsoft.com/windows/win32/fileio/naming-a-file>

use crate::abs_path::{PathStyle, normalise};
use crate::{Invalid, RawText};

/// Parses `C:\dir`, `C:/dir`, `\\server\share\dir` and their `\\?\` forms.
pub(crate) fn parse(text: &RawText) -> Result<RawText, Invalid> {
    let relative = || Invalid::RelativePath { path: text.clone() };
    let whole = text.as_str().ok_or_else(relative)?.replace('/', r"\");
    let path = match whole.strip_prefix(r"\\?\") {
        Some(unc) if starts_with_ignoring_case(unc, r"UNC\") => format!(r"\\{}", unc.get(4..).unwrap_or_default()),
        Some(plain) => plain.to_owned(),
        None => whole,
    };
    let (prefix, rest) = match path.strip_prefix(r"\\") {
        Some(share) => share_prefix(share).ok_or_else(relative)?,
        None => drive_prefix(&path).ok_or_else(relative)?,
    };
    let refused = |name: &str| name.contains([':', '*', '?', '"', '<', '>', '|']) || name.ends_with(['.', ' ']);
    if let Some(name) = rest.split('\\').find(|name| !matches!(*name, "." | "..") && refused(name)) {
        return Err(Invalid::WindowsName { name: name.into(), path: text.clone() });
    }
    normalise(text, rest.as_bytes(), prefix.as_bytes(), PathStyle::Windows)
}

fn drive_prefix(path: &str) -> Option<(String, &str)> {
    let (drive, rest) = path.split_once(':')?;
    let letter = drive.chars().next().filter(|_| drive.len() == 1)?;
    (letter.is_ascii_alphabetic() && rest.starts_with('\\'))
        .then(|| (format!("{}:", letter.to_ascii_uppercase()), rest))
}

fn share_prefix(share: &str) -> Option<(String, &str)> {
    let (server, rest) = share.split_once('\\')?;
    let (name, _) = rest.split_once('\\').unwrap_or((rest, ""));
    let usable = |part: &str| !part.is_empty() && !matches!(part, "." | ".." | "?");
    (usable(server) && usable(name))
        .then(|| (format!(r"\\{server}\{name}"), rest.get(name.len()..).unwrap_or_default()))
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Splits a normalised path into its drive or share and the names below it.
pub(crate) fn split_prefix(path: &[u8]) -> (&[u8], &[u8]) {
    let separators = if path.starts_with(br"\\") { 4 } else { 1 };
    let end = path.iter().enumerate().filter(|(_, byte)| **byte == b'\\').nth(separators - 1);
    path.split_at(end.map_or(path.len(), |(index, _)| index))
}

/// Whether two names are the same to Windows, which folds case character by character.
pub(crate) fn same_name(a: &[u8], b: &[u8]) -> bool {
    match (std::str::from_utf8(a), std::str::from_utf8(b)) {
        (Ok(a), Ok(b)) => a.chars().flat_map(char::to_uppercase).eq(b.chars().flat_map(char::to_uppercase)),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use crate::AbsPath;

    #[test]
    fn many_spellings_have_one_form() {
        for (given, normal) in [
            (r"c:\", r"C:\"),
            (r"c:/Users//me/", r"C:\Users\me"),
            (r"\\?\C:\Users\.\me", r"C:\Users\me"),
            (r"\\srv\share", r"\\srv\share\"),
            (r"\\?\UNC\srv\share\x", r"\\srv\share\x"),
        ] {
            assert_eq!(AbsPath::parse(given).unwrap().as_raw().as_str(), Some(normal), "{given}");
        }
    }

    #[test]
    fn what_has_no_single_form_is_refused() {
        for given in [
            r"C:rel",
            r"\rooted",
            r"\\.\PhysicalDrive0",
            r"\\srv",
            r"C:\a:stream",
            r"C:\a.",
            r"C:\a \b",
            r"C:\a\..\b",
            "CC:\\a",
            r"\\?\GLOBALROOT\x",
        ] {
            assert!(AbsPath::parse(given).is_err(), "{given}");
        }
    }

    #[test]
    fn case_is_ignored() {
        let path = |text| AbsPath::parse(text).unwrap();
        assert!(path(r"C:\Repo\.GIT\hooks").starts_with(&path(r"c:\repo\.git")));
        assert!(path(r"\\SRV\Share\x").starts_with(&path(r"\\srv\share")));
        assert!(!path(r"C:\repo").starts_with(&path("/")));
    }
}
