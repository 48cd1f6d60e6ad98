//! The verdict of the rules and the table of known commands on a command.

use stockade_execpolicy::{
    Certainty, CheckReport, CommandEvaluation, Evaluation, HostExecutables, Policy, PrefixRule, RuleMatch,
    propose_amendment,
};
use stockade_protocol::{Argv, CommandRole, Decision, ExecPolicyAmendment, Invalid, ParsedCommand, ParsedLine};
use stockade_shell_command::{MOST_SAFE_COMMANDS, Safety, line_safety, parse_argv, reads_secret, safety};

/// The verdict on a command before it runs.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The parsed command.
    pub parsed: ParsedLine,
    /// Every rule that matched, for every part.
    pub evaluation: Evaluation,
    /// The result.
    pub rules: RuleVerdict,
    /// The question about what the line does not show, if it is not asked: programs are judged when they are started.
    pub left_to_starts: Option<String>,
}

/// What becomes of the parts of a line that are not known before it runs, and may match a rule that restricts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknowns {
    Asked,
    /// The programs that they start are judged then.
    JudgedAtStart,
}

/// The decision of the rules or, without a matching rule, of the command table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleVerdict {
    /// A rule forbids a part of it.
    Forbidden {
        /// The rule and the reason.
        reason: String,
    },
    /// A rule prompts for a part of it, or restricts what an opaque line may run.
    Prompt {
        /// The rule and the reason.
        reason: String,
    },
    /// Rules allow every part of it.
    Allowed,
    /// It only reads; rules may have allowed some parts.
    Safe,
    /// It may do more, and no rule matches.
    Unknown {
        /// Why it is not known as safe.
        reason: String,
    },
    /// It destroys a system, a disk or a home directory, and no rule matches.
    Dangerous {
        /// What it destroys.
        reason: String,
    },
}

impl Verdict {
    /// Judges a shell line as [`of`](Self::of) judges `bash -c` with it.
    pub fn of_line(policy: &Policy, line: &str) -> Result<Self, Invalid> {
        Ok(Self::of(policy, &Argv::parse(["bash", "-c", line])?))
    }

    /// The matching rules and the decision, as `execpolicy check` prints them. An allowed part is still asked about if
    /// the line as a whole is not covered.
    pub fn report(&self) -> CheckReport {
        let report = self.evaluation.report(&self.parsed);
        CheckReport { decision: report.decision.max(Some(self.rules.decision())), ..report }
    }

    /// Judges a command.
    pub fn of(policy: &Policy, command: &Argv) -> Self {
        #[cfg(test)]
        PARSES.with(|parses| parses.set(parses.get() + 1));
        let mut parsed = parse_argv(command);
        // No person reads that many, so a question is needed. All of them are known, though.
        let too_many = parsed.opaque.is_none() && parsed.commands.len() > MOST_SAFE_COMMANDS;
        if too_many {
            parsed.opaque = Some(format!("it runs more than {MOST_SAFE_COMMANDS} commands"));
        }
        let fallback = |part: &ParsedCommand| safety(part).decision();
        let mut evaluation = policy.evaluate_argv(command, &parsed, HostExecutables::Resolve, fallback);
        evaluation.unseen = evaluation.unseen.filter(|_| !too_many);
        let rules = RuleVerdict::of(&parsed, &evaluation, Unknowns::Asked);
        Self { parsed, evaluation, rules, left_to_starts: None }
    }

    /// The verdict with the unknown parts of the line left to the starts of its programs, if that takes a question away:
    /// not if a part that is known is restricted, or destroys something.
    pub(crate) fn with_starts_judged(&self) -> Option<Self> {
        let RuleVerdict::Prompt { reason } = &self.rules else { return None };
        let rules = match RuleVerdict::of(&self.parsed, &self.evaluation, Unknowns::JudgedAtStart) {
            rules @ (RuleVerdict::Unknown { .. } | RuleVerdict::Safe) => rules,
            // A rule for the whole line does not give what a rule that restricts has not let it have.
            RuleVerdict::Allowed
            | RuleVerdict::Forbidden { .. }
            | RuleVerdict::Prompt { .. }
            | RuleVerdict::Dangerous { .. } => return None,
        };
        let evaluation = Evaluation { unseen: None, ..self.evaluation.clone() };
        Some(Self { parsed: self.parsed.clone(), evaluation, rules, left_to_starts: Some(reason.clone()) })
    }

    /// A rule that would avoid the question about this command, if one may be offered.
    pub(crate) fn amendment(&self, command: &Argv) -> Option<ExecPolicyAmendment> {
        match self.rules {
            RuleVerdict::Unknown { .. } => propose_amendment(command, &self.parsed, &self.evaluation),
            RuleVerdict::Forbidden { .. }
            | RuleVerdict::Prompt { .. }
            | RuleVerdict::Allowed
            | RuleVerdict::Safe
            | RuleVerdict::Dangerous { .. } => None,
        }
    }
}

impl RuleVerdict {
    fn of(line: &ParsedLine, evaluation: &Evaluation, unknowns: Unknowns) -> Self {
        for (decision, verdict) in [
            (Decision::Forbidden, (|reason| Self::Forbidden { reason }) as fn(String) -> Self),
            (Decision::Prompt, |reason| Self::Prompt { reason }),
        ] {
            if let Some(reason) = restricting_rule(line, evaluation, decision, unknowns) {
                return verdict(reason);
            }
        }
        if unknowns == Unknowns::Asked
            && let Some(reason) = unseen_rule(line, evaluation)
        {
            return Self::Prompt { reason };
        }
        if evaluation.exact.is_some() {
            return Self::Allowed;
        }
        let open = unmatched(line, evaluation);
        // A shell without a command is not covered by rules.
        let runs = line.commands.iter().any(|part| part.role == CommandRole::Runs);
        if open.commands.is_empty() && open.opaque.is_none() && runs {
            return Self::Allowed;
        }
        match line_safety(&open) {
            Safety::Safe => Self::Safe,
            Safety::Unknown { reason } => Self::Unknown { reason },
            Safety::Dangerous { reason } => Self::Dangerous { reason },
        }
    }

    /// The decision, for a log line.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Forbidden { .. } => Decision::Forbidden,
            Self::Prompt { .. } | Self::Unknown { .. } | Self::Dangerous { .. } => Decision::Prompt,
            Self::Allowed | Self::Safe => Decision::Allow,
        }
    }
}

#[cfg(test)]
thread_local! {
    static PARSES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many commands this thread has parsed.
#[cfg(test)]
pub(crate) fn parses() -> usize {
    PARSES.with(std::cell::Cell::get)
}

/// The first rule with this decision, and the part of the line that it matches, as text.
fn restricting_rule(
    line: &ParsedLine,
    evaluation: &Evaluation,
    decision: Decision,
    unknowns: Unknowns,
) -> Option<String> {
    let counts = |found: &&RuleMatch| unknowns == Unknowns::Asked || found.certainty() == Certainty::Certain;
    let found = evaluation.commands.iter().zip(&line.commands).find_map(|(judged, part)| {
        let found = judged.matches.iter().filter(counts).find(|found| found.decision() == decision)?;
        Some((found, part))
    });
    let (found, part) = found?;
    let rule = found.rule();
    let words: Vec<String> = part.words.iter().map(ToString::to_string).collect();
    let words = beginning(words.join(" "));
    let why = rule.justification().map(|why| format!(": {why}")).unwrap_or_default();
    Some(match found.certainty() {
        Certainty::Certain => format!("a rule ({}) {} `{words}`{why}", rule.origin(), verb(rule)),
        Certainty::Possible => format!("`{words}` may become what a rule ({}) {}: {rule}", rule.origin(), verb(rule)),
    })
}

/// A command as far as a reason shows it. A question shows all of it besides.
fn beginning(mut text: String) -> String {
    const MOST_SHOWN: usize = 1000;
    if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn verb(rule: &PrefixRule) -> &'static str {
    if rule.decision() == Decision::Forbidden { "forbids" } else { "asks before" }
}

/// The rule that an unknown part of the line may match, as text.
fn unseen_rule(line: &ParsedLine, evaluation: &Evaluation) -> Option<String> {
    let rule = evaluation.unseen.as_ref()?.rule();
    let why = line.opaque.as_deref().unwrap_or("it can't be read in full");
    let destroys = match line_safety(line) {
        Safety::Dangerous { reason } => format!("{reason}; "),
        Safety::Safe | Safety::Unknown { .. } => String::new(),
    };
    Some(format!("{destroys}{why}, so the line may run what a rule ({}) {}: {rule}", rule.origin(), verb(rule)))
}

/// The line without the parts that rules allow. A `cd` stays: it affects the others.
fn unmatched(line: &ParsedLine, evaluation: &Evaluation) -> ParsedLine {
    let is_allowed = |judged: &CommandEvaluation, part: &ParsedCommand| {
        let by_rule = judged.decision == Decision::Allow && judged.fallback.is_none() && !reads_secret(part);
        match part.role {
            // A wrapper is judged by its command, unless it does more (`nohup` writes a file); restricting rules for
            // it were evaluated already.
            CommandRole::Wrapper => safety(part) == Safety::Safe || (by_rule && !judged.matches.is_empty()),
            CommandRole::Runs => by_rule,
        }
    };
    let parts = evaluation.commands.iter().zip(&line.commands);
    let commands: Vec<_> =
        parts.filter(|(judged, part)| !is_allowed(judged, part)).map(|(_, part)| part.clone()).collect();
    ParsedLine { commands, opaque: line.opaque.clone() }
}

#[cfg(test)]
mod tests {
    use stockade_execpolicy::Layer;

    use super::*;

    fn verdict(rules: &str, words: &[&str]) -> RuleVerdict {
        let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
        Verdict::of(&policy, &Argv::parse(words.iter().copied()).unwrap()).rules
    }

    const RULES: &str = r#"
prefix_rule(pattern = ["make"], decision = "allow")
prefix_rule(pattern = ["git", "push"], decision = "prompt", justification = "it leaves the machine")
prefix_rule(pattern = ["curl"], decision = "forbidden")
"#;

    #[test]
    fn rules_come_first_and_the_table_fills_the_gaps() {
        assert_eq!(verdict(RULES, &["make", "all"]), RuleVerdict::Allowed);
        assert_eq!(verdict(RULES, &["bash", "-c", "make && make test"]), RuleVerdict::Allowed);
        assert_eq!(verdict(RULES, &["bash", "-c", "make && ls"]), RuleVerdict::Safe);
        assert_eq!(verdict(RULES, &["timeout", "5", "make"]), RuleVerdict::Allowed);
        for words in [&["nohup", "cat", "f"][..], &["bash", "-c", "nohup cat f"]] {
            assert!(matches!(verdict(RULES, words), RuleVerdict::Unknown { .. }), "{words:?}: nohup.out is written");
        }
        assert!(matches!(verdict(RULES, &["bash", "-c", "make && npm i"]), RuleVerdict::Unknown { .. }));
        assert!(matches!(verdict(RULES, &["bash", "-c", "make; rm -rf /"]), RuleVerdict::Dangerous { .. }));
        assert!(matches!(verdict(RULES, &["sh", "-c", "git status; curl x"]), RuleVerdict::Forbidden { .. }));
        assert!(matches!(verdict(RULES, &["sh", "-c", "make; $X"]), RuleVerdict::Prompt { .. }), "it may become curl");
        let prompt = format!("{:?}", verdict(RULES, &["git", "push"]));
        assert!(
            prompt.starts_with("Prompt") && prompt.contains("asks before `git push`: it leaves the machine"),
            "{prompt}"
        );
    }

    #[test]
    fn a_reason_does_not_repeat_a_long_command() {
        let RuleVerdict::Forbidden { reason } = verdict(RULES, &["curl", &"é".repeat(85_000)]) else { panic!() };
        assert!(reason.chars().count() < 1100 && reason.contains("é…`"), "{reason}");
    }

    /// The prompt names what is unknown.
    #[test]
    fn a_line_of_allowed_parts_that_may_run_more_says_so() {
        let only_allows = r#"prefix_rule(pattern = ["make"], decision = "allow")"#;
        for line in ["((PATH=0)); make", "for x in $((PATH=0)); do make; done", "make <<< $((PATH=0))"] {
            let RuleVerdict::Unknown { reason } = verdict(only_allows, &["bash", "-c", line]) else { panic!("{line}") };
            assert!(reason != "nothing is run", "{line}");
        }
    }

    /// An unknown part of a line may match a restricting rule.
    #[test]
    fn a_line_that_cannot_be_known_meets_every_rule_that_restricts() {
        let lines = ["echo $((x))", "RANDOM='a[$(curl x)]'", "echo curl | sh", "make; eval \"$x\"", "compgen -C curl"];
        let only_allows = r#"prefix_rule(pattern = ["make"], decision = "allow")"#;
        for line in lines {
            let words = ["bash", "-c", line];
            let found = verdict(RULES, &words);
            let RuleVerdict::Prompt { reason } = &found else { panic!("{line}: {found:?}") };
            assert!(reason.contains("what a rule (t.rules:4:1) forbids: [\"curl\"]"), "{reason}");
            assert!(matches!(verdict(only_allows, &words), RuleVerdict::Unknown { .. }), "{line}: nothing restricts");
            let exact = format!("{RULES}\nprefix_rule(pattern = [\"bash\", \"-c\", {line:?}])");
            assert!(matches!(verdict(&exact, &words), RuleVerdict::Prompt { .. }), "{line}: rules that restrict count");
        }
    }

    /// The question goes only if nothing but the unknown part raises it, and nothing is gained beyond that.
    #[test]
    fn the_unknown_parts_of_a_line_can_be_left_to_the_starts_of_programs() {
        let policy = |rules: &str| Policy::parse("t.rules", rules, Layer::User).unwrap();
        let left = |rules: &str, line: &str| {
            Verdict::of(&policy(rules), &Argv::parse(["bash", "-c", line]).unwrap()).with_starts_judged()
        };
        for line in ["echo $((x))", "echo curl | sh", "make; eval \"$x\"", "$X y", "git $x", "make; git $x"] {
            let verdict = left(RULES, line).unwrap_or_else(|| panic!("{line}"));
            assert!(matches!(verdict.rules, RuleVerdict::Unknown { .. }), "{line}: {:?}", verdict.rules);
            assert!(verdict.left_to_starts.is_some_and(|why| why.contains("a rule (t.rules:")), "{line}");
            // Not even a rule for all of it gives more.
            let exact = format!("{RULES}\nprefix_rule(pattern = [\"bash\", \"-c\", {line:?}], outside = True)");
            let verdict = left(&exact, line).unwrap_or_else(|| panic!("{line}"));
            assert!(matches!(verdict.rules, RuleVerdict::Unknown { .. }), "{line}: {:?}", verdict.rules);
        }
        for line in ["git push; $x", "curl x; $x", "make", "ls", "npm i", "rm -rf /; $x", "rm -rf ~; eval $x"] {
            assert!(left(RULES, line).is_none(), "{line}");
        }
        let only_allows = r#"prefix_rule(pattern = ["make"], decision = "allow")"#;
        assert!(left(only_allows, "$x y").is_none(), "no rule asks");
    }

    /// A rule for the words may let a command leave the sandbox, and with it the masks on credentials.
    #[test]
    fn a_part_that_is_given_a_secret_is_not_allowed_by_a_rule_for_its_words() {
        for line in ["make < .env", "make < ~/.ssh/id_rsa", "make < $x", "make; make < /home/me/.netrc"] {
            assert!(matches!(verdict(RULES, &["bash", "-c", line]), RuleVerdict::Unknown { .. }), "{line}");
        }
        assert_eq!(verdict(RULES, &["bash", "-c", "make < input.txt"]), RuleVerdict::Allowed);
    }

    #[test]
    fn a_shell_that_runs_nothing_is_allowed_by_no_rule() {
        for words in [&["bash", "-c", ""][..], &["bash", "-lc", "# x"], &["dash", "-c", " "], &["sh", "-c", "sh -c ''"]]
        {
            for rules in ["", RULES] {
                assert!(matches!(verdict(rules, words), RuleVerdict::Unknown { .. }), "{words:?}");
            }
        }
    }

    #[test]
    fn more_parts_than_a_person_reads_are_never_safe() {
        let line = vec!["ls"; MOST_SAFE_COMMANDS + 1].join(";");
        assert!(matches!(verdict("", &["sh", "-c", &line]), RuleVerdict::Unknown { .. }));
        let allowed = vec!["make"; MOST_SAFE_COMMANDS + 1].join(";");
        assert!(matches!(verdict(RULES, &["sh", "-c", &allowed]), RuleVerdict::Unknown { .. }));
    }

    #[test]
    fn a_part_that_writes_a_file_is_not_allowed_by_a_rule_for_its_words() {
        assert!(matches!(verdict(RULES, &["sh", "-c", "make > /etc/x"]), RuleVerdict::Unknown { .. }));
    }
}
