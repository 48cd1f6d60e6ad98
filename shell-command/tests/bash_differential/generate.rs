//! Lines to run: by grammar, by mutation of such lines, and from loose tokens.
//!
//! Nothing here names a real program by path, and the harness offers none by name.

use std::hash::{BuildHasher, Hasher};

/// A seed from the environment, or a new one.
pub(crate) fn seed() -> u64 {
    match std::env::var("STOCKADE_SEED") {
        Ok(text) => text.parse().expect("STOCKADE_SEED is a number"),
        Err(_) => std::hash::RandomState::new().build_hasher().finish(),
    }
}

/// Lines where parsers are known to disagree with bash.
pub(crate) const LISTED: &[&str] = &[
    "a # c\nbb",
    "[[ + == <(a) ]] || bb",
    "a >& '$(bb)'",
    "a >& --bb",
    "a>&-bb cc",
    "a <& -bb",
    "a >&-'bb'",
    "a >&-\\\nbb",
    "`a>& --bb`",
    "a >& 'x `bb`'; cc",
    "[[ <(a) > (bb) ]]",
    "[[ x < >(a b) ]]; cc",
    "a #\nbb",
    "a \\\n; bb",
    "a\\\n x",
    "a\\\n# b\ncc",
    "a#b c",
    "a;#b\nc",
    "! a",
    "! ! bb",
    "(a; bb)",
    "{ a; bb; }",
    "{a,b}",
    "{a,b} c",
    "a {b,c}{d,e}",
    "a {1..3}",
    "a {}",
    "a {x}",
    "a x{",
    "a {x,",
    "a \"{b,c}\"",
    "a $'\\x74ouch'",
    "$'\\x61' b",
    "a $'\\'b'",
    "a $'\\u0041'",
    "a $'\\101'",
    "a $'b\\c'",
    "a \"$'b'\"",
    "a $\"b\"",
    "a \"b\\\"; c; d \\\"\"",
    "a '\\'b",
    "a \"\\$(b)\"",
    "a \"$(b)\"",
    "a $(b c) d",
    "a `b c`",
    "a \"`b`\"",
    "a `b \\`c\\``",
    "a ${x:-$(b)}",
    "a \"${x:-$(b)}\"",
    "a ${x:-'$(b)'}",
    "a ${x:-\"}\"} b",
    "a ${x#$(b)}",
    "a ${x@P}",
    "a $((1+2))",
    "a $(( $(b; echo 1) ))",
    "a $((x[$(b)]))",
    "a $[1]",
    "a $((b) )",
    "((a=1)) && bb",
    "let 'a[$(bb)]=1'",
    "x=1 a",
    "x=1; a",
    "x=$(a) bb",
    "x=(a b); cc",
    "x=($(a)) bb",
    "x[$(a)]=1",
    "x+=1 a",
    "a x=1",
    "declare x=$(a)",
    "export x=1; a",
    "a > out",
    "> out",
    "> out a",
    "a >| out",
    "a 2> out",
    "a >& out",
    "a &> out",
    "a >&2",
    "a 2>&1 b",
    "a < in",
    "a <> out",
    "a 3<> out >/dev/fd/3",
    "echo x 3>> out >/dev/fd/3",
    "echo x > out 1< out >/dev/stdout",
    "a <<E\nb\nE\ncc",
    "a <<E\n$(b)\nE\n",
    "a <<'E'\n$(b)\nE\ncc",
    "a <<\"E\"\n`b`\nE",
    "a <<-E\n\tb\n\tE\ncc",
    "a <<E && bb\nx\nE\ncc",
    "a <<E | bb\nx\nE",
    "a <<E <<F\n1\nE\n2\nF\ncc",
    "a <<E\nb\\\nE\nc\nE",
    "a <<E b\nx\nE",
    "a <<E\nx",
    "a $(bb <<E\nx\nE\n)",
    "a <<E; bb\n$(cc)\nE",
    "a <<< b",
    "a <<< \"$(b)\"",
    "a <(b)",
    "a >(b)",
    "a<(b)",
    "a b<(c)",
    "cat <(a; bb) <(cc)",
    "if a; then b; else cc; fi",
    "if aa; then b; elif c; then d; fi",
    "while a; do b; break; done",
    "until aa; do b; break; done",
    "for i in 1 2; do a $i; done",
    "for i in $(a); do b; done",
    "for i; do a; done",
    "for ((i=0;i<1;i++)); do a; done",
    "case x in x) a;; y) b;; esac",
    "case $(a) in *) b;; esac",
    "case x in (x|y) a;& z) b;; esac",
    "a $(case x in x) b;; esac)",
    "[[ a == b ]] || cc",
    "[[ a < b ]] && cc",
    "[[ -n $(a) ]]",
    "[[ 'a[$(bb)]' -eq 0 ]]",
    "[[ x =~ (x|y) ]] && a",
    "[ a = a ] && bb",
    "test -v 'a[$(bb)]'",
    "f() { a; }; f",
    "f() { a; }",
    "function f { a; }; f",
    "a() { bb; }; a",
    "f() ( a ); f",
    "f(){ a;};f",
    "eval a",
    "eval 'a b'",
    "eval \"a 'b c'\"",
    "eval 'a; bb'",
    "eval \"$x\" a",
    "trap 'a b' EXIT",
    "trap -- a EXIT",
    "command a b",
    "builtin a",
    "exec real a",
    "exec -a x real b",
    "command exec real a",
    "exec a",
    "time a",
    "time -p a",
    "time a | bb",
    "coproc a; wait",
    "a & bb",
    "a &",
    "a | bb | cc",
    "a |& bb",
    "a && bb || cc",
    "a;bb;cc",
    "a\nbb\ncc",
    "a\r",
    "a\rb",
    "a\u{a0}b",
    "a\u{3000}b c",
    "\u{441}a",
    "a \u{e9}",
    "a é*",
    "a *",
    "a ?",
    "a [b",
    "a [b]",
    "a ~",
    "a ~x/y",
    "a x=~",
    "a !b",
    "a b!",
    "a @(b|c)",
    "a +(x)",
    "a ^b",
    "a %1",
    "a =b",
    "a -",
    "''",
    "'' a",
    "a ''",
    "\"\" b",
    "$x a",
    "$x",
    "a $x b",
    "a $1 $@ $# $? $$",
    "a $",
    "a $ b",
    "a \"$\"",
    "a $= b",
    "a \\",
    "a \\\n",
    "\\a b",
    "a\\ b c",
    "a \\$x \\`b\\`",
    "a \"\\\nb\"",
    "a 'x\ny'",
    "a ||",
    "a &&",
    "&& a",
    "; a",
    "a ;; b",
    "a )",
    "( a",
    "{ a",
    "} a",
    "a }",
    "if a; then b",
    "a\\\nb",
    "i\\\nf a; then b; fi",
    "a &\\\n& bb",
    "a $\\\n(b)",
    "a <\\\n<E\nx\nE",
    "mapfile -C 'a' -c 1 x <<< y",
    "read 'x[$(a)]' <<< y",
    "printf -v 'x[$(a)]' y",
    "printf '%n' 'x[$(a)]'",
    "a=b; $a",
    "shopt -s expand_aliases\nalias a=bb\na",
    "set -- a; \"$@\"",
    "unset x; a ${x:=bb}",
    "a {b,$(c)}",
    "a {b,c}>out",
    "{x}>out a",
    "a 2{b,c}",
    "1>out a",
    "a1>out",
    "a 1 >out",
    "bash -c 'a'",
    "nice a",
    "env a b",
    "env x=1 a",
    "timeout 1 a b",
    "find . -exec a {} +",
    "xargs a",
    "a;(bb)|cc",
    "(a)(bb)",
    "a(b)",
    "a (b)",
    "! (a)",
    "!a",
    "time (a)",
    "time ! a",
    "a | ! bb",
    "a | time bb",
    "cd x; a",
    "a \"b`c`d$(e)f\"",
    "a \"$(b \"c\")\"",
    "a \"$(b \"$(cc \"d\")\")\"",
    "a '$(b)'\"$(c)\"",
    "a $(b))",
    "a $(",
    "a `",
    "a \"",
    "a '",
    "a $'",
    "a ${",
    "a ${x",
    "a $((",
    "a <(",
    "a <<",
    "a >",
    "# a",
    "#a\nbb",
    " a",
    "\ta",
    "\n\na\n\n",
    "a \t b",
    "a;\n;b",
    "a & & b",
    "a &; b",
    "a\n&& b",
    "a &&\n\nbb",
    "a |\n# c\nbb",
    "a && # c\nbb",
    "if a # c\nthen b\nfi",
    "for i in a # c\ndo b; done",
    "x=a#b c",
    "a x#y #z",
    "a {,b}",
    "a {b..}",
    "a b{}c,",
    "a {},b}",
    "a $x{b,c}",
    "a {a..c}",
    "select i in a; do b; done <<< 1",
    "a() b",
    "function a() { bb; }",
    "a() if bb; then c; fi",
    "case a in esac",
    "case a in a) esac",
    "case in in in) a;; esac",
    "for in in in; do a; done",
    "if if a; then b; fi; then c; fi",
    "{ { a; } }",
    "( ( a ) )",
    "((a))",
    "( (a) )",
    "$(a)",
    "`a`",
    "\"$(a)\"",
    "$(echo a b)",
];

const NAMES: &[&str] = &["a", "bb", "cc", "d", "ls", "git", "rm", "x.y", "n-1", "real"];
const PLAIN: &[&str] =
    &["x", "-n", "--long=v", "a.b", "1", "12", "b/c", "a=b", "%", "+", "@", ":", "-", "é", "in", "do", "if", "}", "{}"];
const QUOTED: &[&str] = &[
    "'x y'",
    "\"x y\"",
    "\"a;b\"",
    "'$(a)'",
    "\\;",
    "\\ ",
    "\"\\\"\"",
    "$'\\n'",
    "$'\\x41b'",
    "''",
    "\"\"",
    "x'y'z",
    "\"a\\\nb\"",
    "\\$",
    "'#'",
    "\"'\"",
    "'a\nb'",
    "$'a\\'b'",
    "\"\\`a\\`\"",
    "\"|\"",
    "'&&'",
    "\\\\",
    "a\\'b",
];
const EXPANDED: &[&str] = &[
    "$x", "${x}", "\"$x\"", "*", "?x", "[ab]", "~", "{b,c}", "{1..2}", "${x:-y}", "${#x}", "$?", "$1", "\"$@\"",
    "$((1+2))", "$\"x\"",
];
const SOUP: &[&str] = &[
    "a",
    "bb",
    "cc",
    " ",
    " ",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    "<",
    ">",
    "<<E\n",
    "\nE\n",
    "<<<",
    "$x",
    "${x",
    "}",
    "$'",
    "=",
    "x=",
    "if ",
    "then ",
    "else ",
    "fi",
    "do ",
    "done",
    "for i in ",
    "case x in ",
    "esac",
    ";;",
    "x)",
    "[[ ",
    " ]]",
    "((",
    "))",
    "!",
    "* ",
    "[",
    "]",
    "~",
    "{",
    ",",
    "..",
    "eval ",
    "trap ",
    "exec ",
    "time ",
    "function ",
    "() ",
    "<(",
    ">(",
    "2>",
    ">&",
    "&>",
    "1",
    "$((",
    "é",
    "\t",
    "\r",
    "coproc ",
    "@(",
    "in ",
];

/// Builtins, as bash lists them; those that would end the driver or wait for ever are left out.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "let",
    "local",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Arguments that run `a`, `bb` or `real` if they are evaluated.
const HOSTILE: &[&str] = &[
    "'x[$(bb)]'",
    "'x[$(bb)]=1'",
    "'x=($(bb))'",
    "'$(bb)'",
    "'`bb`'",
    "'a b'",
    "a",
    "x",
    "x='y[$(bb)]'",
    "RANDOM='y[$(bb)]'",
    "OPTIND='y[$(bb)]'",
    "RANDOM",
    "SECONDS",
    "OPTIND",
    "HISTCMD",
    "SRANDOM",
    "PATH",
    "y",
    "real",
    "'real x'",
    "./real",
    "<(echo a b)",
    "/dev/stdin",
    "--",
    "]",
    "-eq",
    "0",
    "+1",
    "'%n'",
    "'%s'",
    "'%d'",
    "EXIT",
    "DEBUG",
    "ERR",
    "posix",
    "history",
    "expand_aliases",
    "a=bb",
    "'a=bb x'",
    "\"$x\"",
    "$y",
];

/// Variables whose assignment may do more than assign.
const VARIABLES: &[&str] = &[
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "OPTIND",
    "HISTCMD",
    "LINENO",
    "BASHPID",
    "EPOCHSECONDS",
    "PS4",
    "PROMPT_COMMAND",
    "BASH_ENV",
    "COLUMNS",
    "LINES",
    "HISTSIZE",
    "TMOUT",
    "FUNCNEST",
    "MAILCHECK",
    "IFS",
    "OPTERR",
    "OPTARG",
    "REPLY",
    "UID",
    "PPID",
    "SHLVL",
    "BASH_XTRACEFD",
    "BASH_COMPAT",
    "BASH_CMDS",
    "BASH_ALIASES",
    "DIRSTACK",
    "COMP_POINT",
    "READLINE_POINT",
    "GROUPS",
    "PIPESTATUS",
    "x",
];

pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed | 1 }
    }

    /// xorshift64*
    fn next(&mut self, below: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len())]
    }

    pub(crate) fn line(&mut self) -> String {
        match self.next(10) {
            0..7 => self.list(2),
            7..9 => {
                let line = self.list(2);
                self.mutate(&line)
            }
            9 if self.next(2) == 0 => {
                let line = self.pick(LISTED);
                let line = format!("{line}{}{}", self.pick(&["\n", ";", " ", "\n\n", "&&", "|"]), self.list(1));
                self.mutate(&line)
            }
            _ => (0..2 + self.next(10)).map(|_| self.pick(SOUP)).collect(),
        }
    }

    /// A line around a builtin, or around a variable that bash may act upon, with arguments that run something where
    /// they are evaluated.
    pub(crate) fn builtin_line(&mut self) -> String {
        let mut out = self.pick(&["", "", "", "x='y[$(bb)]'; ", "y='x[$(bb)]'; ", "set -x; ", "a & "]).to_owned();
        match self.next(5) {
            0 => out.push_str(&self.special_assignment()),
            _ => {
                let name = self.pick(BUILTINS);
                out.push_str(self.pick(&["", "", "", "builtin ", "command "]));
                out.push_str(name);
                for _ in 0..1 + self.next(4) {
                    out.push(' ');
                    out.push_str(&self.hostile());
                }
            }
        }
        out.push_str(self.pick(&["", "", "", " <<< 'y[$(bb)]'", " <<< 'a b'", " < /dev/null"]));
        out.push_str(self.pick(&["", "", "; a", "; x", " && bb", "; fc -s", "; real x"]));
        out
    }

    fn hostile(&mut self) -> String {
        match self.next(3) {
            0 => {
                let letters: String = (0..1 + self.next(2)).map(|_| self.letter()).collect();
                let glued = if self.next(4) == 0 { self.pick(HOSTILE) } else { "" };
                format!("-{letters}{glued}")
            }
            _ => self.pick(HOSTILE).to_owned(),
        }
    }

    fn letter(&mut self) -> char {
        const LETTERS: &[u8] = b"abcdefghiklmnoprstuvwxACDEFGIPSTVWX";
        char::from(LETTERS[self.next(LETTERS.len())])
    }

    fn special_assignment(&mut self) -> String {
        let (name, value) = (self.pick(VARIABLES), self.pick(HOSTILE));
        match self.next(7) {
            0 => format!("{name}={value}"),
            1 => format!("{name}+={value}"),
            2 => format!("{name}={value} a"),
            3 => format!("for {name} in {value}; do a; done"),
            4 => format!("{name}=({value} {value})"),
            5 => format!("f() {{ local {name}={value}; }}; f"),
            _ => format!("echo ${{{name}:={value}}}"),
        }
    }

    /// Removes, doubles, inserts or swaps a little.
    fn mutate(&mut self, line: &str) -> String {
        if line.contains("while") || line.contains("until") || line.contains("((") {
            // A loop that has lost its end would run for ever.
            return line.to_owned();
        }
        let mut chars: Vec<char> = line.chars().collect();
        for _ in 0..1 + self.next(2) {
            if chars.is_empty() {
                break;
            }
            let at = self.next(chars.len());
            match self.next(4) {
                0 => drop(chars.remove(at)),
                1 => chars.insert(at, chars[at]),
                2 => {
                    let token: Vec<char> = self.pick(SOUP).chars().collect();
                    chars.splice(at..at, token);
                }
                _ => {
                    let other = self.next(chars.len());
                    chars.swap(at, other);
                }
            }
        }
        chars.into_iter().collect()
    }

    fn list(&mut self, depth: usize) -> String {
        let mut out = self.pipeline(depth);
        for _ in 0..self.next(3) {
            out.push_str(self.pick(&[
                "; ",
                " && ",
                " || ",
                "\n",
                ";",
                "&&",
                "||",
                " & ",
                " \\\n&& ",
                " # note\n",
                " &&\n",
            ]));
            out.push_str(&self.pipeline(depth));
        }
        out
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut out = if self.next(12) == 0 { "! ".to_owned() } else { String::new() };
        out.push_str(&self.command(depth));
        while self.next(5) == 0 {
            out.push_str(self.pick(&[" | ", "|", " |& ", " |\n"]));
            out.push_str(&self.command(depth));
        }
        out
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(0);
        }
        let inner = depth - 1;
        match self.next(24) {
            0 => format!("({})", self.list(inner)),
            1 => format!("{{ {}; }}", self.pipeline(inner)),
            2 => {
                format!("if {}; then {}; else {}; fi", self.pipeline(inner), self.pipeline(inner), self.pipeline(inner))
            }
            3 => format!("for i in {} {}; do {}; done", self.word(inner), self.word(inner), self.pipeline(inner)),
            4 => {
                format!("case {} in x) {};; *) {};; esac", self.word(inner), self.pipeline(inner), self.pipeline(inner))
            }
            5 => format!("while {}; do {}; break; done", self.pipeline(inner), self.pipeline(inner)),
            6 => {
                // A name of its own: a body that calls itself would not end.
                let name = format!("f{}", self.next(1_000_000));
                let call = if self.next(2) == 0 { name.as_str() } else { "a" };
                format!("{name}() {{ {}; }}; {call}", self.pipeline(inner))
            }
            7 => format!("eval {}", self.quoted_list(inner)),
            8 => format!("trap {} EXIT", self.quoted_list(inner)),
            9 => format!("[[ {} == {} ]]", self.word(inner), self.word(inner)),
            10 => {
                format!("{} <<E && {}\n{}\nE\n{}", self.simple(0), self.simple(0), self.heredoc(inner), self.simple(0))
            }
            11 => format!(
                "{} <<'E' && {}\n{}\nE\n{}",
                self.simple(0),
                self.simple(0),
                self.heredoc(inner),
                self.simple(0)
            ),
            12 => format!("{} {}", self.pick(&["time", "command", "exec"]), self.simple(inner)),
            _ => self.simple(depth),
        }
    }

    fn quoted_list(&mut self, depth: usize) -> String {
        let text = self.list(depth);
        format!("'{}'", text.replace('\'', r"'\''"))
    }

    fn heredoc(&mut self, depth: usize) -> String {
        let substitution = format!("$({})", self.list(depth));
        self.pick(&["x", "$x", "a b\nc", "'q'", "\\$x", "", "#"]).to_owned()
            + if self.next(2) == 0 { &substitution } else { "" }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut out = String::new();
        if self.next(8) == 0 {
            out.push_str(&format!("x={} ", self.word(depth)));
        }
        if self.next(15) == 0 {
            out.push_str("2>/dev/null ");
        }
        let name = self.pick(NAMES);
        out.push_str(&match self.next(8) {
            0 => format!("'{name}'"),
            1 => format!("\\{name}"),
            2 => format!("\"{name}\""),
            _ => name.to_owned(),
        });
        for _ in 0..self.next(4) {
            out.push_str(self.pick(&[" ", " ", " ", "  ", "\t", " \\\n"]));
            out.push_str(&self.word(depth));
        }
        if self.next(10) == 0 {
            out.push_str(self.pick(&[
                " > out",
                " >out",
                " 2>&1",
                " >>out",
                " < in",
                " <<< x",
                " >/dev/null",
                " &>out",
                " 2>out x",
            ]));
        }
        out
    }

    fn word(&mut self, depth: usize) -> String {
        match self.next(14) {
            0..6 => self.pick(PLAIN).to_owned(),
            6..9 => self.pick(QUOTED).to_owned(),
            9 => self.pick(EXPANDED).to_owned(),
            10 => format!("{}{}", self.pick(PLAIN), self.pick(QUOTED)),
            11 => format!("{}{}", self.pick(QUOTED), self.pick(EXPANDED)),
            12 if depth > 0 => {
                let inner = self.list(depth - 1);
                let (open, close) = [("$(", ")"), ("\"$(", ")\""), ("<(", ")"), ("${x:-$(", ")}")][self.next(4)];
                format!("{open}{inner}{close}")
            }
            13 if depth > 0 => format!("`{} {}`", self.pick(NAMES), self.pick(PLAIN)),
            _ => self.pick(NAMES).to_owned(),
        }
    }
}
