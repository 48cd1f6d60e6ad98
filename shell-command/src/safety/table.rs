//! Programs that only read, with their read-only options. One row a program; omissions are explained beside it.
//!
//! Lists apply to GNU, BSD and busybox: an option that takes a value in one and none in another is omitted if
//! misparsing it could hide an option that writes.

use super::options::{Allowed, Given, Judged};
use super::paths;

/// A row.
struct Program {
    names: &'static [&'static str],
    allowed: Allowed,
    operands: Operands,
    /// Operands before the files: a pattern, unless one of `pattern_options` gives it.
    patterns: usize,
    pattern_options: &'static [&'static str],
    trees: Trees,
}

/// The treatment of a directory operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trees {
    /// Nothing, or it shows names.
    Names,
    /// It reads the files below it that are not hidden.
    Read,
}

#[derive(Clone, Copy)]
enum Operands {
    /// Files, at most this many.
    Files(usize),
    /// Words that name no file.
    Text,
    None,
}

const ANY: usize = usize::MAX;

const fn files(names: &'static [&'static str], flags: &'static str, values: &'static str) -> Program {
    let allowed = Allowed { flags, values, glued: "", long: &[], long_values: &[], number: false };
    Program { names, allowed, operands: Operands::Files(ANY), patterns: 0, pattern_options: &[], trees: Trees::Names }
}

impl Program {
    const fn long(self, long: &'static [&'static str]) -> Self {
        Self { allowed: Allowed { long, ..self.allowed }, ..self }
    }

    const fn long_values(self, long_values: &'static [&'static str]) -> Self {
        Self { allowed: Allowed { long_values, ..self.allowed }, ..self }
    }

    const fn number(self) -> Self {
        Self { allowed: Allowed { number: true, ..self.allowed }, ..self }
    }

    const fn glued(self, glued: &'static str) -> Self {
        Self { allowed: Allowed { glued, ..self.allowed }, ..self }
    }

    const fn at_most(self, count: usize) -> Self {
        Self { operands: Operands::Files(count), ..self }
    }

    const fn text(self) -> Self {
        Self { operands: Operands::Text, ..self }
    }

    const fn none(self) -> Self {
        Self { operands: Operands::None, ..self }
    }

    const fn pattern(self, options: &'static [&'static str]) -> Self {
        Self { patterns: 1, pattern_options: options, ..self }
    }

    const fn reads_trees(self) -> Self {
        Self { trees: Trees::Read, ..self }
    }
}

#[rustfmt::skip]
const PROGRAMS: &[Program] = &[
    // --- no effect, no file ---
    files(&["true", "false", ":"], "", "").text(),
    files(&["pwd"], "LP", "").none(),
    files(&["whoami", "tty", "logname", "arch", "nproc", "groups"], "", "").none(),
    files(&["id"], "ugGnrz", "").text(),
    files(&["uname"], "asnrvmpio", "").none(),
    files(&["seq"], "w", "sf").text(),
    files(&["basename"], "az", "s").text(),
    files(&["dirname"], "z", "").text(),
    // `which` and `type` only look programs up.
    files(&["which"], "a", "").text(),
    files(&["type"], "atpP", "").text(),

    // --- names, sizes, times; never contents ---
    files(&["ls"], "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", "ITw")
        .long(&["all", "almost-all", "author", "classify", "color", "directory", "full-time", "group-directories-first",
            "human-readable", "inode", "no-group", "numeric-uid-gid", "recursive", "reverse", "si", "size"])
        .long_values(&["block-size", "format", "hide", "ignore", "indicator-style", "sort", "time", "time-style"]),
    // BSD's `-f` takes a value: omitted.
    files(&["stat"], "Lt", "c").long(&["dereference", "terse"]).long_values(&["format", "printf"]),
    // `--files0-from` names files in a file: omitted here and below.
    files(&["du"], "abchklmsSx0", "d")
        .long(&["all", "apparent-size", "bytes", "human-readable", "summarize", "total"]).long_values(&["max-depth"]),
    files(&["df"], "ahHikTP", "").long(&["human-readable", "inodes", "local"]),
    files(&["realpath"], "emPLsqz", "").long(&["canonicalize-existing", "canonicalize-missing", "no-symlinks"]),
    files(&["readlink"], "efmnqsz", "").long(&["canonicalize"]),
    // `-C` compiles a magic file, `-m` loads one, `-z` runs decompressors, `-f` names files in a file.
    files(&["file"], "bhiLkNpr", "").long(&["brief", "dereference", "mime", "mime-encoding", "mime-type"]),

    // --- contents ---
    files(&["cat"], "AbeEnstTuv", "").long(&["number", "number-nonblank", "show-all", "squeeze-blank"]),
    files(&["tac"], "br", "s"),
    files(&["head"], "qvz", "nc").number().long(&["quiet", "silent", "verbose"]).long_values(&["bytes", "lines"]),
    // `-f`, `-F` and `--pid` never end: omitted.
    files(&["tail"], "qvz", "nc").number().long(&["quiet", "silent", "verbose"]).long_values(&["bytes", "lines"]),
    files(&["wc"], "clLmw", "").long(&["bytes", "chars", "lines", "max-line-length", "words"]),
    files(&["nl"], "p", "bdfhilnsvw"),
    files(&["rev"], "", ""),
    files(&["cut"], "nsz", "bcdf").long(&["complement", "only-delimited"])
        .long_values(&["bytes", "characters", "delimiter", "fields", "output-delimiter"]),
    files(&["tr"], "cCdst", "").long(&["complement", "delete", "squeeze-repeats", "truncate-set1"]).text(),
    files(&["fold"], "bs", "w"),
    files(&["fmt"], "cstu", "w"),
    files(&["paste"], "sz", "d"),
    files(&["expand", "unexpand"], "ai", "t"),
    files(&["comm"], "123iz", "").long(&["check-order", "nocheck-order"]),
    files(&["join"], "iz", "aejotv12"),
    files(&["column"], "txen", "cs"),
    // `-o` writes, `-T` and `--compress-program` choose the directory and the program for temporary files.
    files(&["sort"], "bcCdfghiMmnRrsuVz", "kt")
        .long(&["check", "dictionary-order", "general-numeric-sort", "human-numeric-sort", "ignore-case",
            "ignore-leading-blanks", "month-sort", "numeric-sort", "reverse", "stable", "unique", "version-sort",
            "zero-terminated"])
        .long_values(&["field-separator", "key"]),
    // The second operand is the output.
    files(&["uniq"], "cdDiuz", "fsw").long(&["count", "ignore-case", "repeated", "unique", "zero-terminated"])
        .long_values(&["check-chars", "skip-chars", "skip-fields"]).at_most(1),
    // BSD's `-o` writes; its `-i` takes a file where GNU's takes none, and both only read.
    files(&["base64", "base32"], "d", "w").long(&["decode"]).long_values(&["wrap"]).at_most(1),
    // `-c` reads file names from a file: omitted.
    files(&["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"], "btz", "")
        .long(&["binary", "tag", "text", "zero"]),
    files(&["cksum", "sum"], "", ""),
    files(&["od"], "abcdfiloxsv", "AjNtS").glued("w").long_values(&["address-radix", "format", "read-bytes", "skip-bytes"]),
    files(&["hexdump"], "bcCdovx", "ns"),
    files(&["strings"], "a", "nte"),
    files(&["cmp"], "bls", "in").long(&["print-bytes", "quiet", "silent", "verbose"]).long_values(&["bytes"]),
    // `diff` is left out: of two directories it shows the files, hidden ones too, and a name does not tell which it is.
    // `-f` reads patterns from a file. `-r` reads every file below, `.env` among them.
    files(&["grep"], "abcEFGhHiIlLnoPqsTUvwxyzZ", "ABCem").number()
        .long(&["basic-regexp", "byte-offset", "color", "colour", "count", "extended-regexp", "files-with-matches",
            "files-without-match", "fixed-strings", "ignore-case", "invert-match", "line-number", "line-regexp",
            "no-filename", "no-messages", "null", "only-matching", "perl-regexp", "quiet", "silent", "text",
            "with-filename", "word-regexp"])
        .long_values(&["after-context", "before-context", "context", "max-count", "regexp"])
        .pattern(&["e", "regexp"]),
    // `--pre` and `--hostname-bin` run programs, `-z` runs decompressors, `-f` reads patterns from a file. It leaves
    // out hidden and ignored files, unless `-u`, `-.`, `--no-ignore` or a glob says otherwise; `-L` leads elsewhere.
    files(&["rg"], "abcFHiIlnNopPqsSUvwx0", "ABCdEejmMrtT")
        .long(&["case-sensitive", "count", "count-matches", "files", "files-with-matches", "files-without-match",
            "fixed-strings", "heading", "ignore-case", "invert-match", "line-number", "line-regexp",
            "multiline", "no-config", "no-filename", "no-heading", "no-line-number", "null", "only-matching", "pcre2", "pretty", "quiet", "smart-case", "stats", "text", "trim", "type-list",
            "vimgrep", "with-filename", "word-regexp"])
        .long_values(&["after-context", "before-context", "color", "colors", "context", "max-columns", "max-count", "max-depth", "max-filesize", "regexp", "replace", "sort", "sortr", "threads", "type",
            "type-not"])
        .pattern(&["e", "regexp", "files", "type-list"]).reads_trees(),
];

/// Judges a command by its row.
pub(super) fn judge(name: &str, arguments: &[&str]) -> Judged {
    let Some(program) = PROGRAMS.iter().find(|program| program.names.contains(&name)) else {
        return Err("not known as safe".into());
    };
    let given = program.allowed.read(arguments)?;
    match program.operands {
        Operands::None if !given.operands.is_empty() => Err("takes no operands here".into()),
        Operands::None | Operands::Text => Ok(()),
        Operands::Files(most) => program.judge_files(&given, most),
    }
}

impl Program {
    fn judge_files(&self, given: &Given<'_>, most: usize) -> Judged {
        let is_given = |options: &[&str]| given.options.iter().any(|option| options.contains(option));
        let patterns = if is_given(self.pattern_options) { 0 } else { self.patterns };
        let files = given.operands.get(patterns..).unwrap_or_default();
        if files.len() > most {
            return Err("the last operand is written".into());
        }
        for file in files {
            // binutils read further arguments from that file.
            if file.starts_with('@') {
                return Err(format!("`{file}` may name more files"));
            }
            if let Some(what) = paths::sensitive(file) {
                return Err(format!("`{file}` is {what}"));
            }
            let may_hold_secrets = match self.trees {
                Trees::Names => false,
                Trees::Read => !paths::is_below_here(file) || paths::is_hidden(file),
            };
            if may_hold_secrets {
                return Err(format!("`{file}` may hold secrets further down"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_safe(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        judge(words[0], &words[1..]).is_ok()
    }

    #[test]
    fn no_name_has_two_rows() {
        let mut names: Vec<&str> = PROGRAMS.iter().flat_map(|program| program.names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn options_are_read_as_the_programs_read_them() {
        for line in ["sort -k 2 -t: f", "sort -rnk2 f", "head -5 f", "rg -e -z f", "uniq -f 1 f", "cat -- -x", "ls -la"]
        {
            assert!(is_safe(line), "{line}");
        }
        for line in [
            "sort -ro x f",
            "sort --outp=x f",
            "sort --output x f",
            "sort f -ox",
            "rg -iz a .",
            "rg --pre=x a",
            "rg -nA1 a --search-zip",
            "uniq -c f g",
            "uniq -f 1 f g",
            "uniq -- f g",
            "file -C",
            "diff -l a b",
            "sort -k",
            "cat --sho f",
            "tail -f x",
            "base64 -o x f",
            "grep -f x y",
        ] {
            assert!(!is_safe(line), "{line}");
        }
    }

    #[test]
    fn secrets_are_not_read() {
        for line in [
            "cat .env",
            "head /proc/1/environ",
            "od -w .env",
            "od -w16 .env",
            "od -w8x f",
            "grep -r x .",
            "grep -r x --include=.env .",
            "grep x --include=.env",
            "grep --recursive x src",
            "grep x -R -- ~",
            "rg x ..",
            "rg -uuu x",
            "rg -. x",
            "rg --hidden x",
            "rg --no-ignore x",
            "rg -g .env x",
            "rg --iglob=.env x",
            "rg -L x",
            "rg x .config",
            "diff -r a b",
            "diff -rN a /etc",
            "diff -N a b",
            "diff . b",
            "diff a/ b",
            "diff -u ../w d",
            "strings @f",
        ] {
            assert!(!is_safe(line), "{line}");
        }
        for line in ["od -w f", "od -w16 f", "rg x", "rg -n x ./src", "grep -n x f"] {
            assert!(is_safe(line), "{line}");
        }
        assert!(is_safe("grep environ f"), "a pattern is no file");
        assert!(!is_safe("grep -e x environ"));
    }
}
