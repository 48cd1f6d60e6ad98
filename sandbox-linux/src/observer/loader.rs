//! The program that a dynamic loader is told to load: `/lib64/ld-linux-x86-64.so.2 /bin/rm x` runs `rm x` without a start of `rm`.
//!
//! <https://man7.org/linux/man-pages/man8/ld.so.8.html>. A loader reads its own options up to the first word that is none.

use stockade_protocol::RawText;

/// Options of glibc's and musl's loaders that have a value, in the next word or behind `=`.
const WITH_VALUE: [&[u8]; 7] = [
    b"--library-path",
    b"--inhibit-rpath",
    b"--preload",
    b"--audit",
    b"--argv0",
    b"--glibc-hwcaps-prepend",
    b"--glibc-hwcaps-mask",
];
/// With these no program is run.
const ONLY_TOLD: [&[u8]; 6] =
    [b"--list", b"--verify", b"--list-tunables", b"--list-diagnostics", b"--help", b"--version"];

/// What a loader runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loaded<'a> {
    pub(super) program: &'a RawText,
    /// The name that the program is told, if that is another.
    pub(super) told: Option<&'a [u8]>,
    pub(super) rest: &'a [RawText],
}

/// Whether a program of this base name is a dynamic loader.
pub(super) fn is_loader(name: &[u8]) -> bool {
    let is_shared = name.windows(3).any(|part| part == b".so");
    is_shared && (name.starts_with(b"ld-") || name.starts_with(b"ld.so") || name.starts_with(b"ld64.so"))
}

/// The program that a loader with these arguments runs.
pub(super) fn loaded(arguments: &[RawText]) -> Option<Loaded<'_>> {
    let mut told = None;
    let mut rest = arguments;
    loop {
        let (first, behind) = rest.split_first()?;
        let word = first.as_bytes();
        if word == b"--" {
            let (program, rest) = behind.split_first()?;
            return Some(Loaded { program, told, rest });
        }
        if !word.starts_with(b"--") {
            return Some(Loaded { program: first, told, rest: behind });
        }
        let (option, glued) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (word.get(..at)?, word.get(at + 1..)),
            None => (word, None),
        };
        if ONLY_TOLD.contains(&option) {
            return None;
        }
        rest = behind;
        if WITH_VALUE.contains(&option) {
            let value = match glued {
                Some(value) => value,
                None => {
                    let (value, behind) = rest.split_first()?;
                    rest = behind;
                    value.as_bytes()
                }
            };
            if option == b"--argv0" {
                told = Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(words: &[&str]) -> Option<String> {
        let words: Vec<RawText> = words.iter().map(|word| RawText::from(*word)).collect();
        loaded(&words).map(|loaded| {
            let told = loaded.told.map(String::from_utf8_lossy).unwrap_or_default();
            let rest: Vec<String> = loaded.rest.iter().map(ToString::to_string).collect();
            format!("{} {told} {}", loaded.program, rest.join(","))
        })
    }

    #[test]
    fn loaders_are_known_by_name() {
        for name in ["ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ld.so", "ld-2.31.so", "ld64.so.2", "ld-linux.so.2"]
        {
            assert!(is_loader(name.as_bytes()), "{name}");
        }
        for name in ["ld", "ld.gold", "ld.bfd", "libc.so.6", "ldd", "ldconfig", ""] {
            assert!(!is_loader(name.as_bytes()), "{name}");
        }
    }

    proptest::proptest! {
        /// Whatever a caller writes: what is run is a word of it, with the words behind it.
        #[test]
        fn what_is_run_is_among_the_words(words in proptest::collection::vec("(--)?[a-z=0/]{0,12}|--argv0(=x)?|--list|--preload|--", 0..8)) {
            let words: Vec<RawText> = words.into_iter().map(RawText::from).collect();
            if let Some(found) = loaded(&words) {
                let at = words.len() - found.rest.len() - 1;
                proptest::prop_assert_eq!(&words[at], found.program);
                proptest::prop_assert_eq!(&words[at + 1..], found.rest);
            }
        }
    }

    #[test]
    fn the_program_stands_behind_the_options() {
        assert_eq!(runs(&["/bin/rm", "-f", "x"]).as_deref(), Some("/bin/rm  -f,x"));
        assert_eq!(runs(&["--library-path", "/x", "--inhibit-cache", "/bin/rm"]).as_deref(), Some("/bin/rm  "));
        assert_eq!(runs(&["--argv0", "rm", "/bin/busybox", "x"]).as_deref(), Some("/bin/busybox rm x"));
        assert_eq!(runs(&["--argv0=rm", "--", "/bin/busybox", "x"]).as_deref(), Some("/bin/busybox rm x"));
        assert_eq!(runs(&["-x", "y"]).as_deref(), Some("-x  y"));
        for nothing in [&[][..], &["--list", "/bin/rm"], &["--argv0"], &["--preload", "x"], &["--"]] {
            assert_eq!(runs(nothing), None, "{nothing:?}");
        }
    }
}
