//! Settings of an agent that an installation turns on beside its hook, since no hook sees what they are about.

use serde_json::{Value, json};

use super::json_text::{self, TextError};
use crate::args::AgentName;

/// A setting that is `true` in an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    path: &'static [&'static str],
    /// Its name, as the agent's manual has it.
    name: &'static str,
    other_value: OtherValue,
}

/// What an installation makes of another value, which is a person's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherValue {
    /// The hook alone would not hold: nothing is installed.
    Refused,
    /// The hook asks about what the setting would turn off.
    Kept,
}

/// In a directory that it trusts, gemini-cli takes variables that are not set yet from the `.env` of its workspace, and
/// starts itself again with them. Commands may write that file: `NODE_OPTIONS` in it would load their code outside of every
/// sandbox, `XDG_CONFIG_HOME` would lead the hook to settings of their own.
const IGNORE_LOCAL_ENV: Switch =
    Switch { path: &["advanced", "ignoreLocalEnv"], name: "advanced.ignoreLocalEnv", other_value: OtherValue::Refused };

/// Claude Code runs commands in the text of a skill itself when it reads it, and a person who says yes to a skill does not
/// see them.
const DISABLE_SKILL_SHELL: Switch =
    Switch { path: &["disableSkillShellExecution"], name: "disableSkillShellExecution", other_value: OtherValue::Kept };

/// The setting of an agent.
pub(super) fn of(agent: AgentName) -> Option<Switch> {
    match agent {
        AgentName::Gemini => Some(IGNORE_LOCAL_ENV),
        AgentName::ClaudeCode => Some(DISABLE_SKILL_SHELL),
        AgentName::Codex | AgentName::Opencode => None,
    }
}

impl Switch {
    /// Whether the settings are as an installation leaves them.
    pub(super) fn is_settled_in(self, text: &str) -> Result<bool, TextError> {
        Ok(match (json_text::member(text, self.path)?, self.other_value) {
            (Some("true"), _) | (Some(_), OtherValue::Kept) => true,
            (Some(_), OtherValue::Refused) | (None, _) => false,
        })
    }

    /// The settings with it. A person's own value is not overruled.
    pub(super) fn added(self, text: &str) -> Result<String, TextError> {
        match (json_text::member(text, self.path)?, self.other_value) {
            (Some("true"), _) | (Some(_), OtherValue::Kept) => Ok(text.to_owned()),
            (Some(other), OtherValue::Refused) => Err(TextError::Taken { key: self.name, value: other.to_owned() }),
            (None, _) => json_text::put(text, self.path, &json!(true)),
        }
    }

    /// What the settings say then.
    pub(super) fn with(self, mut settings: Value) -> Option<Value> {
        let (last, above) = self.path.split_last()?;
        let mut at = &mut settings;
        for name in above {
            at = at.as_object_mut()?.entry(*name).or_insert_with(|| json!({}));
        }
        at.as_object_mut()?.entry(*last).or_insert_with(|| json!(true));
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_added_once_and_nothing_is_overruled() {
        for switch in [IGNORE_LOCAL_ENV, DISABLE_SKILL_SHELL] {
            for before in ["", "{}", "{ \"a\": 1 }", "{ \"advanced\": {} }", "{ \"advanced\": { \"b\": [2] /* c */ } }"]
            {
                let text = switch.added(before).unwrap();
                assert!(switch.is_settled_in(&text).unwrap(), "{text}");
                assert_eq!(switch.added(&text).unwrap(), text);
                let was: Value = serde_json::from_str(&before.replace("/* c */", "")).unwrap_or_else(|_| json!({}));
                let is: Value = serde_json::from_str(&text.replace("/* c */", "")).unwrap();
                assert_eq!(Some(is), switch.with(was), "{text}");
            }
        }
        let taken = IGNORE_LOCAL_ENV.added("{ \"advanced\": { \"ignoreLocalEnv\": false } }").unwrap_err();
        assert_eq!(taken, TextError::Taken { key: "advanced.ignoreLocalEnv", value: String::from("false") });
        assert!(IGNORE_LOCAL_ENV.added("{ \"advanced\": 7 }").is_err());
        let own = "{ \"disableSkillShellExecution\": false }";
        assert_eq!(DISABLE_SKILL_SHELL.added(own).unwrap(), own);
        assert!(DISABLE_SKILL_SHELL.is_settled_in(own).unwrap() && !DISABLE_SKILL_SHELL.is_settled_in("{}").unwrap());
    }
}
