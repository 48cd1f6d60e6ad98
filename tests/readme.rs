//! What the documents show is what happens: every `console` block is run, line by line.

use std::fs;
use std::path::Path;

use crate::support::{program, repository, run, stockade, text};

/// A command and the output that the document shows for it.
struct Example {
    command: String,
    output: Vec<String>,
}

fn blocks(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    document.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn examples(block: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => examples.push(Example { command: command.to_owned(), output: Vec::new() }),
            (None, Some(example)) => example.output.push(line.to_owned()),
            (None, None) => panic!("a console block starts with a command: {line}"),
        }
    }
    examples
}

/// A line `…` in the document stands for any number of lines.
fn shows(expected: &[String], printed: &[&str]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, _) => printed.is_empty(),
        (Some((line, rest)), _) if line == "…" => {
            (0..=printed.len()).any(|skip| shows(rest, printed.get(skip..).unwrap()))
        }
        (Some(_), None) => false,
        (Some((line, rest)), Some((first, others))) => line == first && shows(rest, others),
    }
}

fn run_examples(document: &Path) -> usize {
    let document = fs::read_to_string(document).unwrap();
    // Not below `/tmp`, which is private in a sandbox.
    let directory = tempfile::Builder::new().prefix("stockade-readme").tempdir_in("/var/tmp").unwrap();
    let (here, home) = (directory.path().join("here"), directory.path().join("home"));
    for path in [&here, &home] {
        fs::create_dir(path).unwrap();
    }
    let program_directory = Path::new(stockade().get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", program_directory.display(), std::env::var("PATH").unwrap());
    let examples: Vec<Example> = blocks(&document, "console").iter().flat_map(|block| examples(block)).collect();
    for example in &examples {
        // Without a terminal, so that no question is asked.
        let mut shell = program("setsid");
        shell.args(["--wait", "bash", "-c", &format!("{{ {}; }} 2>&1", example.command)]).current_dir(&here);
        shell.env("PATH", &path).env("HOME", &home).env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
        let printed = text(&run(&mut shell, 0).stdout);
        let printed = printed.replace(here.to_str().unwrap(), "HERE").replace(home.to_str().unwrap(), "HOME");
        let lines: Vec<&str> = printed.lines().collect();
        assert!(shows(&example.output, &lines), "`{}` printed\n{printed}", example.command);
    }
    examples.len()
}

#[test]
fn the_readmes_examples_do_what_they_show() {
    assert!(run_examples(&repository().join("README.md")) >= 3);
}

#[test]
fn the_tours_examples_do_what_they_show() {
    assert!(run_examples(&repository().join("docs/tour.md")) >= 10);
}

/// The clients' own tests run the examples of their READMEs.
#[test]
fn the_readmes_clients_are_those_that_are_tested() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    for (language, document) in [("python", "clients/python/README.md"), ("ts", "clients/typescript/README.md")] {
        let shown = blocks(&read("README.md"), language);
        let [shown] = shown.as_slice() else { panic!("one example in {language}: {shown:?}") };
        assert_eq!(Some(shown), blocks(&read(document), language).first(), "{document}");
    }
}

#[test]
fn the_readme_names_exactly_two_commands() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let commands = blocks(&readme, "sh");
    let line = "echo hi > target/hello; cat target/hello; echo x > /etc/hello || echo denied";
    let first = format!("scripts/build && target/stockade run -- sh -c '{line}'\n");
    assert_eq!(commands, [first.as_str(), "scripts/test\n"]);
    assert!(repository().join("scripts/test").exists());
    // The first is the same as `stockade run …` after a build, which is run here in a workspace of its own.
    let directory = tempfile::Builder::new().prefix("stockade-readme").tempdir_in("/var/tmp").unwrap();
    fs::create_dir_all(directory.path().join("ws/target")).unwrap();
    let mut shell = program("setsid");
    shell.arg("--wait").arg(stockade().get_program()).args(["run", "--", "sh", "-c", line]);
    shell.current_dir(directory.path().join("ws")).env("HOME", directory.path());
    let output = run(shell.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME"), 0);
    assert_eq!(text(&output.stdout), "hi\ndenied\n");
    assert!(!Path::new("/etc/hello").exists());
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "protocol/README.md",
        "core/README.md",
        "stockade/README.md",
        "clients/python/README.md",
        "clients/typescript/README.md",
        "docs/tour.md",
        "docs/comparison.md",
        "docs/config.md",
        "docs/performance.md",
        "docs/server.md",
    ] {
        let file = repository().join(name);
        let document = fs::read_to_string(&file).unwrap();
        for target in document.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            // A heading of the same document, or of another one.
            let target = target.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.starts_with("http") {
                let linked = file.parent().unwrap().join(target);
                assert!(linked.exists(), "{name} links to {target}, which is not there");
            }
        }
    }
}
