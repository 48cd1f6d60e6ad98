//! The programs of a run that a rule spoke of, drawn below the programs that started them.

use std::fmt::Write as _;

use stockade_protocol::{Argv, AuditEvent, DecisionSource, RawText};

use super::story::{decided, decider};

/// What was started, as far as the trail has it.
#[derive(Default)]
pub(super) struct Started {
    roots: Vec<Node>,
}

struct Node {
    command: Argv,
    /// What was decided about it, if a rule spoke of it.
    decisions: Vec<String>,
    below: Vec<Node>,
}

impl Started {
    /// Adds a program that was judged, with those above it.
    pub(super) fn add(&mut self, event: &AuditEvent) {
        let AuditEvent::ProgramJudged { command, started_by, decision, source, .. } = event else { return };
        let mut level = &mut self.roots;
        for above in started_by {
            level = &mut node(level, above).below;
        }
        // The text of a rule says which it is.
        let decision = if let DecisionSource::Rule(rule) = source {
            format!("{}: {}", decided(*decision), RawText::from(rule.as_str()))
        } else {
            format!("{} by {}", decided(*decision), decider(source))
        };
        let decisions = &mut node(level, command).decisions;
        if !decisions.contains(&decision) {
            decisions.push(decision);
        }
    }

    /// The tree, with a headline; nothing if no rule spoke of a program.
    pub(super) fn draw(&self) -> String {
        if self.roots.is_empty() {
            return String::new();
        }
        let mut text = String::from("\nwhat it started, as far as a rule spoke of it:\n");
        for root in &self.roots {
            root.draw("  ", "  ", &mut text);
        }
        text
    }
}

impl Node {
    fn draw(&self, own: &str, below: &str, text: &mut String) {
        let decisions =
            if self.decisions.is_empty() { String::new() } else { format!("  {}", self.decisions.join("; ")) };
        // Writing into memory does not fail.
        writeln!(text, "{own}{}{decisions}", self.command).ok();
        let last = self.below.len().saturating_sub(1);
        for (index, child) in self.below.iter().enumerate() {
            let (branch, bar) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.draw(&format!("{below}{branch}"), &format!("{below}{bar}"), text);
        }
    }
}

/// The node of a command, which may be known with the path of its program.
fn node<'a>(level: &'a mut Vec<Node>, command: &Argv) -> &'a mut Node {
    let known = level.iter().position(|node| is_same(&node.command, command));
    let index = known.unwrap_or_else(|| {
        level.push(Node { command: command.clone(), decisions: Vec::new(), below: Vec::new() });
        level.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "the index was found, or is that of the node just added")]
    &mut level[index]
}

fn is_same(one: &Argv, other: &Argv) -> bool {
    let name = |argv: &Argv| argv.program().as_bytes().rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    let rest = |argv: &Argv| -> Vec<RawText> { argv.words().iter().skip(1).cloned().collect() };
    name(one) == name(other) && rest(one) == rest(other)
}

#[cfg(test)]
mod tests {
    use stockade_protocol::Decision;

    use super::*;

    fn judged(words: &[&str], above: &[&[&str]], decision: Decision, source: DecisionSource) -> AuditEvent {
        let argv = |words: &[&str]| Argv::parse(words.iter().copied()).unwrap();
        AuditEvent::ProgramJudged {
            command: argv(words),
            whole: None,
            cwd: "/ws".parse().unwrap(),
            started_by: above.iter().map(|words| argv(words)).collect(),
            pid: None,
            decision,
            source,
            execution: None,
            reason: None,
        }
    }

    #[test]
    fn programs_are_drawn_below_those_that_started_them() {
        let mut started = Started::default();
        assert_eq!(started.draw(), "");
        let make = &["make", "deploy"][..];
        let shell = &["/bin/sh", "-c", "git push"][..];
        started.add(&judged(&["git", "push"], &[make, shell], Decision::Allow, DecisionSource::Reviewer));
        let rule = DecisionSource::Rule(String::from("a rule (x.rules:1:1) forbids it"));
        started.add(&judged(
            &["ssh", "host"],
            &[make, shell, &["/usr/bin/git", "push"]],
            Decision::Forbidden,
            rule.clone(),
        ));
        started.add(&judged(&["rm", "-rf", "build"], &[make], Decision::Forbidden, rule));
        let expected = "
what it started, as far as a rule spoke of it:
  make deploy
  ├─ /bin/sh -c 'git push'
  │  └─ git push  allowed by a person
  │     └─ ssh host  forbidden: a rule (x.rules:1:1) forbids it
  └─ rm -rf build  forbidden: a rule (x.rules:1:1) forbids it
";
        assert_eq!(started.draw(), expected);
    }
}
