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
    let directory = tempfile::tempdir().unwrap();
    let program_directory = Path::new(stockade().get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", program_directory.display(), std::env::var("PATH").unwrap());
    let examples: Vec<Example> = blocks(&document, "console").iter().flat_map(|block| examples(block)).collect();
    for example in &examples {
        let mut shell = program("bash");
        shell.args(["-c", &format!("{{ {}; }} 2>&1", example.command)]).env("PATH", &path).current_dir(&directory);
        let printed = text(&run(&mut shell, 0).stdout);
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
fn the_readme_names_exactly_two_commands() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let commands = blocks(&readme, "sh");
    assert_eq!(commands, ["cargo run -- schema --out schemas\n", "scripts/test\n"]);
    assert!(repository().join("scripts/test").exists());
    // The first is the same as `stockade schema --out schemas`, which is run here instead.
    let directory = tempfile::tempdir().unwrap();
    run(stockade().args(["schema", "--out", "schemas"]).current_dir(&directory), 0);
    assert!(directory.path().join("schemas/StockadeProtocol.json").exists());
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for name in ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "protocol/README.md"]
    {
        let file = repository().join(name);
        let document = fs::read_to_string(&file).unwrap();
        for target in document.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if !target.starts_with("http") {
                let linked = file.parent().unwrap().join(target);
                assert!(linked.exists(), "{name} links to {target}, which is not there");
            }
        }
    }
}
