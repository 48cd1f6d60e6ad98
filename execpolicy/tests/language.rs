//! Rules files: the language, error messages, and bounds on time and memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use std::time::{Duration, Instant};

use stockade_execpolicy::{Layer, Policy, Position, RulesError};
use stockade_protocol::Decision;

fn load(text: &str) -> Result<Policy, RulesError> {
    Policy::parse("t.rules", text, Layer::User)
}

fn patterns(text: &str) -> Vec<String> {
    load(text).unwrap_or_else(|error| panic!("{error}")).rules().map(ToString::to_string).collect()
}

/// The position and the message, without the excerpt.
fn problem(text: &str) -> (Position, String) {
    match load(text) {
        Err(RulesError::Invalid(found)) => (found.position, found.message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("loaded: {text}"),
    }
}

#[test]
fn a_file_of_codex_loads() {
    let text = r#"
# the example of codex's README
prefix_rule(
    pattern = ["cmd", ["alt1", "alt2"]], # ordered tokens; list entries denote alternatives
    decision = "prompt",                 # allow | prompt | forbidden; defaults to allow
    justification = "explain why this rule exists",
    match = [["cmd", "alt1"], "cmd alt2"],           # examples that must match this rule
    not_match = [["cmd", "oops"], "cmd alt3"],       # examples that must not match this rule
)

host_executable(
    name = "git",
    paths = [
        "/opt/homebrew/bin/git",
        "/usr/bin/git",
    ],
)
network_rule(host = "api.github.com", protocol = "https", decision = "allow", justification = "Allow API calls")
network_rule(host = "evil.test", protocol = "socks5_tcp", decision = "deny")
"#;
    let policy = load(text).unwrap();
    let rule = policy.rules().next().unwrap();
    assert_eq!(rule.to_string(), r#"["cmd", ["alt1", "alt2"]]"#);
    assert_eq!(rule.decision(), Decision::Prompt);
    assert_eq!(rule.justification(), Some("explain why this rule exists"));
    assert_eq!(rule.origin().to_string(), "t.rules:3:1");
    assert_eq!(policy.network_rules().len(), 2);
    assert_eq!(policy.network_rules()[1].decision(), Decision::Forbidden);
}

#[test]
fn variables_loops_and_comprehensions_make_rules() {
    let text = r#"
READ = ["status", "log"]
READ = READ + ["diff"]
prefix_rule(pattern = ["git", READ])
for program in ["cargo", "go"]:
    if program == "go":
        continue
    prefix_rule(pattern = [program, "test"], decision = "allow" if program != "go" else "prompt")
[prefix_rule(pattern = ["npm", "run", "b-" + name]) for name in READ if name not in ["log", "diff"]]
name = 'x'
name += "y"
prefix_rule([r"raw\d", """long""", "\x41\u00e9", name])
a, b = ("1", "2")
prefix_rule([a, [x + y for x in [a] for y in (b, a)][-1]])
"#;
    let expected = [
        r#"["git", ["status", "log", "diff"]]"#,
        r#"["cargo", "test"]"#,
        r#"["npm", "run", "b-status"]"#,
        r#"["raw\\d", "long", "Aé", "xy"]"#,
        r#"["1", "11"]"#,
    ];
    assert_eq!(patterns(text), expected);
}

#[test]
fn errors_say_where_what_and_how_to_go_on() {
    let text = "prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"git\"], decision=\"alow\")\n";
    let shown = load(text).unwrap_err().to_string();
    let expected = "unknown decision `alow`
 --> t.rules:2:39
  |
2 | prefix_rule(pattern=[\"git\"], decision=\"alow\")
  |                                       ^^^^^^
  = help: use `allow`, `prompt` or `forbidden`";
    assert_eq!(shown, expected);
}

#[test]
fn every_mistake_has_its_place() {
    for (text, line, column, message) in [
        ("prefix_rule(", 1, 13, "syntax error"),
        ("x = 1\nprefix_rule()", 2, 1, "`pattern` is missing"),
        ("prefix_rule(pattern=[])", 1, 21, "`pattern` is empty"),
        ("prefix_rule(pattern=[\"a\", []])", 1, 27, "a list of alternatives is empty"),
        ("prefix_rule(pattern=\"git\")", 1, 21, "`pattern` is a string"),
        ("prefix_rule(pattern=[\"a\", 1])", 1, 27, "an element of `pattern` is a number"),
        ("prefix_rule(pattern=[\"a\", [\"b\", None]])", 1, 33, "an alternative of `pattern` is None"),
        ("prefix_rule(pattern=[\"\"])", 1, 21, "the program of a pattern is an empty string"),
        ("prefix_rule(pattern=[\"a\"], patern=1)", 1, 28, "unknown argument `patern`"),
        ("prefix_rule(pattern=[\"a\"], justification=\" \")", 1, 42, "`justification` is empty"),
        ("prefix_rule(pattern=[\"a\"], match=[\"b\"])", 1, 35, "the example `b` does not match the pattern [\"a\"]"),
        (
            "prefix_rule(pattern=[\"a\"], not_match=[\"a b\"])",
            1,
            39,
            "the example `a b` matches the pattern [\"a\"], but must not",
        ),
        ("prefix_rule(pattern=[\"a\"], match=[\"a '\"])", 1, 35, "the example has an open quote"),
        ("prefix_rule(pattern=[\"a\"], match=[\"/bin/a\"])", 1, 35, "the example `/bin/a` does not match"),
        ("host_executable(name=\"git\", paths=[\"git\"])", 1, 36, "path `git` is not absolute"),
        ("host_executable(name=\"git\", paths=[\"/bin/hg\"])", 1, 36, "`/bin/hg` is not a path of `git`"),
        ("host_executable(name=\"a/b\", paths=[])", 1, 22, "`a/b` is not the bare name of a program"),
        ("network_rule(host=\"a b\", protocol=\"https\", decision=\"allow\")", 1, 19, "host `a b`"),
        ("network_rule(host=\"a.b\", protocol=\"gopher\", decision=\"allow\")", 1, 35, "unknown protocol `gopher`"),
        ("network_rule(host=\"a.b\", protocol=\"http\")", 1, 1, "`decision` is missing"),
        ("network_rule(\"a.b\", \"http\", \"allow\", port=0)", 1, 43, "`port` is 0"),
        ("network_rule(\"a.b\", \"http\", \"allow\", port=65536)", 1, 43, "`port` is 65536"),
        ("network_rule(\"a.b\", \"http\", \"allow\", port=\"22\")", 1, 43, "`port` is a string"),
        ("def f():\n    pass\n", 1, 1, "functions cannot be defined"),
        ("load(\"a\", \"b\")", 1, 1, "syntax error"),
        ("x = [1]\nx.append(2)", 2, 1, "methods and computed functions"),
        ("x = [1]\nx += [2]", 2, 1, "`+=` would change a list in place"),
        ("prefix_rule = 1", 1, 1, "`prefix_rule` cannot be assigned to"),
        ("print(1)", 1, 1, "the function `print` is not available"),
        ("x = f\"{y}\"", 1, 5, "f-strings are not supported"),
        ("while True:\n    pass", 1, 1, "syntax error"),
        ("prefix_rule(pattern=[nope])", 1, 22, "`nope` is not defined"),
    ] {
        let (position, found) = problem(text);
        assert!(found.starts_with(message), "{text}\n{found}");
        assert_eq!(position, Position { line, column }, "{text}\n{found}");
    }
}

#[test]
fn an_example_may_use_a_path_that_the_file_lists() {
    assert_eq!(
        patterns("prefix_rule(pattern=[\"a\"], match=[\"/bin/a b\"])\nhost_executable(name=\"a\", paths=[\"/bin/a\"])")
            .len(),
        1
    );
    assert_eq!(patterns("prefix_rule(pattern=[\"a\"], decision=\"prompt\", match=[\"/bin/a b\"])").len(), 1);
}

#[test]
fn nothing_of_a_bad_file_counts() {
    assert!(load("prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"rm\"], decision=\"forbiden\")").is_err());
}

/// Files made to take all time, memory or stack. Each is refused, soon.
fn hostile() -> Vec<(&'static str, String)> {
    let repeat = |text: &str, count: usize| text.repeat(count);
    vec![
        ("list times number", "x = [0] * 1000000000".into()),
        ("string times number", "x = \"x\" * 10000000000".into()),
        ("doubling list", format!("a = [\"x\"]\n{}", repeat("a = a + a\n", 60))),
        ("doubling string", format!("a = \"x\"\n{}", repeat("a = a + a\n", 60))),
        ("doubling nested", format!("a = [\"x\"]\n{}", repeat("a = [a, a]\n", 60))),
        ("deep value", format!("a = []\nfor x in {:?}:\n    a = [a]\n", vec![1; 10_000])),
        ("recursion", "def f():\n    f()\nf()\n".into()),
        ("lambda", "(lambda f: f(f))(lambda f: f(f))".into()),
        ("nested comprehension", {
            let list = format!("L = {:?}\n", vec![1; 1000]);
            format!("{list}x = [1 for a in L for b in L for c in L for d in L]")
        }),
        ("nested loops", format!("L = {:?}\nfor a in L:\n for b in L:\n  for c in L:\n   pass\n", vec![1; 1000])),
        (
            "many rules from a loop",
            format!("L = {:?}\n[prefix_rule(pattern=[\"a\", \"b\"]) for a in L for b in L]", vec![1; 3000]),
        ),
        ("deep brackets", repeat("[", 1_000_000)),
        ("deep calls", format!("x{}", repeat("()", 500_000))),
        ("deep not", format!("x = {}1", repeat("not ", 500_000))),
        ("deep minus", format!("x = {}1", repeat("-", 500_000))),
        ("long sum", format!("x = 1{}", repeat("+1", 500_000))),
        ("long sum over lines", format!("x = 1{}", repeat("+1\\\n", 500_000))),
        ("long sum over windows lines", format!("x = 1{}", repeat("+1\\\r\n", 400_000))),
        ("long dots", format!("x = y{}", repeat(".a", 500_000))),
        ("long index", format!("x = y{}", repeat("[0]", 500_000))),
        ("long condition", format!("x = {}1", repeat("1 if 1 else ", 150_000))),
        ("long lambda", format!("x = {}1", repeat("lambda:", 200_000))),
        ("long elif", format!("if 1:\n pass\n{}", repeat("elif 1:\n pass\n", 100_000))),
        ("deep blocks", (0..1900).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect()),
        ("long number", repeat("9", 2_000_000)),
        ("long hexadecimal", format!("x = 0x{}", repeat("f", 2_000_000))),
        ("nested f-strings", repeat("f'{", 300_000)),
        ("too many rules", repeat("prefix_rule([\"a\"])\n", 50_001)),
        ("large file", repeat("#", 5_000_000)),
        ("unclosed string", format!("\"\"\"{}", repeat("x", 2_000_000))),
        ("deep assignment", format!("{}x{} = 1", repeat("(", 100_000), repeat(",)", 100_000))),
    ]
}

#[test]
fn a_hostile_file_is_refused_soon_and_in_little_memory() {
    for (name, text) in hostile() {
        let start = Instant::now();
        let error = load(&text).err().unwrap_or_else(|| panic!("{name} was accepted"));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{name} took {took:?}");
        let shown = error.to_string();
        assert!(shown.len() < 2000, "{name}: {} bytes of error", shown.len());
    }
    // The largest that a file can become without being refused.
    for (name, text) in [
        ("alternatives", format!("prefix_rule([\"a\", [{}]])", "\"b\",".repeat(500_000))),
        ("different alternatives", format!("prefix_rule([\"a\", [{}]])", (0..200_000).map(|index| format!("\"{index}\",")).collect::<String>())),
        ("combinations", (0..20_000).map(|index| format!("prefix_rule([\"a\",[\"b\",\"{index}\"],[\"c\",\"d\"],[\"e\",\"f\"],[\"g\",\"h\"],[\"i\",\"j\"]])\n")).collect::<String>()),
        ("rules", (0..50_000).map(|index| format!("prefix_rule([\"a\",\"{index}\"])\n")).collect::<String>()),
    ] {
        let start = Instant::now();
        assert!(load(&text).is_ok(), "{name}: {} bytes", text.len());
        assert!(start.elapsed() < Duration::from_secs(10), "{name} took {:?}", start.elapsed());
    }
    #[cfg(target_os = "linux")]
    assert!(peak_memory() < 256, "{} MiB at the peak", peak_memory());
}

/// The most memory that this process ever had, in MiB.
#[cfg(target_os = "linux")]
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// Files at the limits fit the stack of a test thread, which is a quarter of a program's.
#[test]
fn what_the_guard_lets_pass_fits_the_stack() {
    for text in [
        format!("x = 1{}", "+1".repeat(128)),
        format!("x = {}1", "not ".repeat(128)),
        format!("x = {}1", "-".repeat(128)),
        format!("x = {}1", "1 if 1 else ".repeat(64)),
        format!("x = {}1{}", "[".repeat(15), "]".repeat(15)),
        format!("x = {}{}", "(1+1+1+1+".repeat(31), format_args!("1{}", ")".repeat(31))),
        (0..64).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect::<String>() + &" ".repeat(64) + "pass\n",
        format!("if 0:\n pass\n{}", "elif 0:\n pass\n".repeat(64)),
    ] {
        if let Err(error) = load(&text) {
            panic!("{error}");
        }
    }
}

#[test]
fn large_files_of_ordinary_rules_load_either_way() {
    let rules: String =
        (0..10_000).map(|index| format!("prefix_rule(pattern=[\"git\", \"c{index}\", [\"a\", \"b\"]])\n")).collect();
    assert_eq!(load(&rules).unwrap().rules().count(), 10_000);
    assert_eq!(load(&format!("x = 1\n{rules}")).unwrap().rules().count(), 10_000);
}

#[test]
fn examples_and_alternatives_are_not_multiplied() {
    let words: Vec<String> = (0..100_000).map(|index| format!("\"w{index}\"")).collect();
    let text = format!("prefix_rule(pattern=[\"a\", [{0}]], not_match=[{0}])", words.join(","));
    let start = Instant::now();
    assert_eq!(load(&text).unwrap().rules().count(), 1);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// `~/` is the home directory that the loader is given, not that of this process.
#[test]
fn a_home_directory_is_the_callers() {
    use stockade_execpolicy::PolicyLoader;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.rules");
    std::fs::write(&file, "host_executable(name=\"git\", paths=[\"~/bin/git\"])\n").unwrap();
    let policy = PolicyLoader::new().home(Some("/home/other")).file(&file).load().unwrap();
    let found: Vec<String> =
        policy.host_executables().flat_map(|(_, paths)| paths.iter().map(ToString::to_string)).collect();
    assert_eq!(found, ["/home/other/bin/git"]);
    for loader in [PolicyLoader::new(), PolicyLoader::new().home(Some(""))] {
        let error = loader.file(&file).load().unwrap_err().to_string();
        assert!(error.contains("`~` has no meaning because `HOME` is not set"), "{error}");
    }
}
