//! The second reading: tree-sitter's bash grammar.
//!
//! Its tree only gives the positions of commands and words. The values of words are computed by the code of the first
//! reading, their boundaries are not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::{Doubt, Found, FoundWord, Step, lone_word};

/// Limit on tree-sitter's progress callbacks. Ordinary lines need a few; error recovery in a hostile text can take
/// millions. A count, unlike a clock, is deterministic.
const PATIENCE: usize = 5_000;

thread_local! {
    // Creating a parser costs about as much as parsing a short line.
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

type Span = (usize, usize);

/// The commands of a tree.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The words of each command by its first word. `None`: the tree does not split it into words.
    commands: BTreeMap<Span, Option<Vec<Span>>>,
    /// Whether the tree has syntax errors.
    pub(super) broken: bool,
}

/// A copy of `text` that is safe for the grammar's C code, with unchanged byte positions.
///
/// Its scanner passes any character to `isdigit`, which reads outside of a table for most of them: it crashes unless
/// the C compiler optimises the lookup away. So the copy is ASCII without control characters. It also has no heredocs,
/// since the scanner loses its state when their delimiters outgrow a buffer and then misreads the following text:
/// those that the first reading found are `hidden`, and any remaining `<<` is in quotes, in arithmetic or in a text
/// that is opaque anyway.
pub(super) fn tame(text: &str, hidden: &[(usize, usize)]) -> String {
    let mut bytes: Vec<u8> = text
        .bytes()
        .map(|byte| match byte {
            b'\t' | b'\n' | b' '..=b'~' => byte,
            // Bash treats all of these as parts of a word.
            _ => b'u',
        })
        .collect();
    for &(start, end) in hidden {
        if let Some(part) = bytes.get_mut(start..end) {
            part.fill(b' ');
        }
    }
    let ascii = String::from_utf8(bytes).unwrap_or_default();
    ascii.replace("<<<", "  <").replace("<<", "uu")
}

/// Reads a text that is [`tame`].
pub(super) fn read(text: &str) -> Step<Seen> {
    let tree = parse(text).ok_or(Doubt("the line takes too long to be read"))?;
    let mut seen = Seen { broken: tree.root_node().has_error(), ..Seen::default() };
    let mut cursor = tree.walk();
    // `Node::parent` starts at the root each time, so the ancestors are kept here.
    let mut above: Vec<Node<'_>> = Vec::new();
    loop {
        let node = cursor.node();
        seen.visit(node, above.last());
        if cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(seen);
            }
            above.pop();
        }
    }
}

fn parse(text: &str) -> Option<Tree> {
    PARSER.with_borrow_mut(|slot| {
        let parser = match slot {
            Some(parser) => parser,
            None => {
                let mut parser = Parser::new();
                parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
                slot.insert(parser)
            }
        };
        let mut calls = 0_usize;
        let mut patience = |_: &_| {
            calls += 1;
            if calls > PATIENCE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut patience);
        let tree =
            parser.parse_with_options(&mut |at, _| text.as_bytes().get(at..).unwrap_or_default(), None, Some(options));
        if tree.is_none() {
            // A stopped parser would resume the old text.
            parser.reset();
        }
        tree
    })
}

impl Seen {
    fn visit(&mut self, node: Node<'_>, parent: Option<&Node<'_>>) {
        match node.kind() {
            "command" => {
                let Some(name) = node.child_by_field_name("name") else { return };
                let mut words: Vec<Span> = vec![span(name)];
                collect_arguments(node, &mut words);
                if let Some(parent) = parent.filter(|parent| parent.kind() == "redirected_statement") {
                    collect_redirected(*parent, &mut words);
                }
                words.sort_unstable();
                self.commands.insert(span(name), Some(words));
            }
            // A name without its command remains in a part with syntax errors.
            "command_name" if parent.is_none_or(|parent| parent.kind() != "command") => {
                self.commands.insert(span(node), Some(vec![span(node)]));
            }
            "declaration_command" | "unset_command" | "test_command" => {
                if let Some(keyword) = node.child(0) {
                    self.commands.insert(span(keyword), None);
                }
            }
            _ => {}
        }
    }

    /// Whether the first reading found the same commands at the same positions.
    pub(super) fn agrees_with(&self, commands: &[Found]) -> bool {
        let mut count = 0;
        commands.iter().filter(|command| !command.words.is_empty()).all(|command| {
            count += 1;
            let spans: Vec<Span> = command.words.iter().map(|word| (word.start, word.end)).collect();
            match spans.first().and_then(|first| self.commands.get(first)) {
                Some(Some(words)) => *words == spans,
                Some(None) => true,
                None => false,
            }
        }) && count == self.commands.len()
    }

    /// Lists the commands that only the tree has.
    pub(super) fn add_unseen_to(&self, commands: &mut Vec<Found>, text: &str) {
        let known: BTreeSet<usize> =
            commands.iter().filter_map(|command| command.words.first().map(|word| word.start)).collect();
        for (first, words) in &self.commands {
            if known.contains(&first.0) {
                continue;
            }
            let spans = words.as_deref().unwrap_or(std::slice::from_ref(first));
            let words = spans.iter().map(|&(start, end)| FoundWord {
                start,
                end,
                word: lone_word(text.get(start..end).unwrap_or_default()),
                worst: None,
            });
            commands.push(Found { words: words.collect(), ..Found::default() });
        }
    }
}

fn span(node: Node<'_>) -> Span {
    (node.start_byte(), node.end_byte())
}

/// The grammar reads words after a redirection as further targets, and those after `<<E` as part of the heredoc. They
/// are arguments.
fn collect_arguments(node: Node<'_>, words: &mut Vec<Span>) {
    let mut cursor = node.walk();
    words.extend(node.children_by_field_name("argument", &mut cursor).map(span));
    collect_redirected(node, words);
}

fn collect_redirected(node: Node<'_>, words: &mut Vec<Span>) {
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        let mut inner = child.walk();
        match child.kind() {
            "file_redirect" => {
                words.extend(child.children_by_field_name("destination", &mut inner).skip(1).map(span));
            }
            "heredoc_redirect" => {
                words.extend(child.children_by_field_name("argument", &mut inner).map(span));
                collect_redirected(child, words);
            }
            _ => {}
        }
    }
}
