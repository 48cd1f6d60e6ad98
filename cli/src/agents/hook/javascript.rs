//! How agents that are written in JavaScript read a text.

/// Whether JavaScript counts a character as whitespace, in `\s` and in `trim` ([ECMAScript]). Rust's set differs in two:
/// it has U+0085, and lacks U+FEFF.
///
/// [ECMAScript]: https://tc39.es/ecma262/#sec-white-space
pub(super) fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c != '\u{85}' && c.is_whitespace())
}

/// Whether a character is not, or may not be, the one that is left after `normalize("NFC")`: the characters that are
/// always replaced, and those that join the letter before them in Latin, Greek, Cyrillic, Japanese and Korean. The vowel
/// signs of other scripts are not among them, since names that are normalized already are full of them.
pub(super) fn may_be_normalized(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}' | '\u{374}' | '\u{37e}' | '\u{387}' | '\u{958}'..='\u{95f}'
            | '\u{9dc}'..='\u{9dd}' | '\u{9df}' | '\u{a33}' | '\u{a36}' | '\u{a59}'..='\u{a5b}' | '\u{a5e}'
            | '\u{b5c}'..='\u{b5d}' | '\u{f43}' | '\u{f4d}' | '\u{f52}' | '\u{f57}' | '\u{f5c}' | '\u{f69}'
            | '\u{f73}' | '\u{f75}'..='\u{f76}' | '\u{f78}' | '\u{f81}' | '\u{f93}' | '\u{f9d}' | '\u{fa2}'
            | '\u{fa7}' | '\u{fac}' | '\u{fb9}' | '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}'
            | '\u{1f71}'..='\u{1f7d}' | '\u{1fbb}' | '\u{1fbe}' | '\u{1fc9}'..='\u{1fcb}' | '\u{1fd3}'
            | '\u{1fdb}' | '\u{1fe3}' | '\u{1feb}' | '\u{1fee}'..='\u{1fef}' | '\u{1ff9}'..='\u{1ffd}'
            | '\u{2000}'..='\u{2001}' | '\u{2126}' | '\u{212a}'..='\u{212b}' | '\u{2329}'..='\u{232a}'
            | '\u{2adc}' | '\u{3099}'..='\u{309a}' | '\u{f900}'..='\u{fa0d}' | '\u{fa10}'..='\u{fa12}'
            | '\u{fa15}'..='\u{fa22}' | '\u{fa25}'..='\u{fa26}' | '\u{fa2a}'..='\u{fa6d}'
            | '\u{fa70}'..='\u{fad9}' | '\u{fb1d}'..='\u{fb1f}' | '\u{fb2a}'..='\u{fb4e}'
            | '\u{1d15e}'..='\u{1d164}' | '\u{1d1bb}'..='\u{1d1c0}' | '\u{2f800}'..='\u{2fa1d}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_read_as_javascript_does() {
        for c in ['\u{feff}', ' ', '\t', '\u{a0}', '\u{2028}', '\u{3000}'] {
            assert!(is_space(c), "{c:?}");
        }
        for c in ['\u{85}', '\u{180e}', '\u{200b}', 'a'] {
            assert!(!is_space(c), "{c:?}");
        }
        // The Kelvin sign is a `K` then, and a combining accent is part of its letter.
        for c in ['\u{212a}', '\u{301}', '\u{37e}', '\u{1161}', '\u{f900}', '\u{2fa1d}'] {
            assert!(may_be_normalized(c), "{c:?}");
        }
        for c in ['K', '/', '\u{e9}', '\u{1ebf}', '\u{3042}', '\u{ac00}', '\u{e48}', '\u{9be}'] {
            assert!(!may_be_normalized(c), "{c:?}");
        }
    }
}
