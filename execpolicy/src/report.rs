//! The JSON of `execpolicy check`, the same as codex prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{AbsPath, Decision, ParsedLine, RawText, Word};

use crate::evaluation::{Evaluation, RuleMatch};
use crate::rule::Placement;

/// What `execpolicy check` prints: `{"matchedRules":[…],"decision":"…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// Every match, in the order of the commands.
    pub matched_rules: Vec<ReportedMatch>,
    /// The strictest decision. Absent when nothing matched and no fallback was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// One match of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReportedMatch {
    /// A prefix rule matched, or may match.
    #[serde(rename_all = "camelCase")]
    PrefixRuleMatch {
        /// The words that matched.
        matched_prefix: Vec<RawText>,
        /// What the match asks for.
        decision: Decision,
        /// The path that was given, where the rule matched by the name of the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolved_program: Option<AbsPath>,
        /// Why the rule exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        justification: Option<String>,
        /// Whether the rule says `outside = True`, which codex does not know. Absent where it does not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        outside: bool,
        /// The permission profiles that the rule gives to the command, which codex does not know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        profiles: Vec<String>,
    },
    /// No rule matched, and the fallback judged the command.
    HeuristicsRuleMatch {
        /// The command. A word that is only known once the line runs is `null`.
        command: Vec<Word>,
        /// What the fallback said.
        decision: Decision,
    },
}

impl CheckReport {
    pub(crate) fn of_matches(matches: &[RuleMatch]) -> Self {
        let decision = matches.iter().map(RuleMatch::decision).max();
        Self { matched_rules: matches.iter().map(reported).collect(), decision }
    }

    pub(crate) fn of_line(evaluation: &Evaluation, line: &ParsedLine) -> Self {
        let mut matched_rules: Vec<_> = evaluation.exact.iter().map(reported).collect();
        for (judged, command) in evaluation.commands.iter().zip(&line.commands) {
            matched_rules.extend(judged.matches.iter().map(reported));
            matched_rules.extend(
                judged
                    .fallback
                    .map(|decision| ReportedMatch::HeuristicsRuleMatch { command: command.words.clone(), decision }),
            );
        }
        matched_rules.extend(evaluation.unseen.iter().map(reported));
        Self { matched_rules, decision: Some(evaluation.decision) }
    }
}

fn reported(found: &RuleMatch) -> ReportedMatch {
    ReportedMatch::PrefixRuleMatch {
        matched_prefix: found.matched_prefix().to_vec(),
        decision: found.decision(),
        resolved_program: found.resolved_program().cloned(),
        justification: found.rule().justification().map(str::to_owned),
        outside: found.rule().said_placement() == Some(Placement::Outside),
        profiles: found.rule().profiles().to_vec(),
    }
}
