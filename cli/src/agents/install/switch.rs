//! gemini-cli's setting `advanced.ignoreLocalEnv`.
//!
//! In a directory that it trusts, gemini-cli takes variables that are not set yet from the `.env` of its workspace, and starts
//! itself again with them. Commands may write that file: `NODE_OPTIONS` in it would load their code outside of every sandbox,
//! `XDG_CONFIG_HOME` would lead the hook to settings of their own.

use serde_json::{Value, json};

use super::json_text::{self, TextError};

const PATH: [&str; 2] = ["advanced", "ignoreLocalEnv"];

/// Whether the settings say so.
pub(super) fn is_in(text: &str) -> Result<bool, TextError> {
    Ok(json_text::member(text, &PATH)? == Some("true"))
}

/// The settings with it. A value of the user's own is not overruled.
pub(super) fn added(text: &str) -> Result<String, TextError> {
    match json_text::member(text, &PATH)? {
        Some("true") => Ok(text.to_owned()),
        Some(other) => Err(TextError::Taken { key: "advanced.ignoreLocalEnv", value: other.to_owned() }),
        None => json_text::put(text, &PATH, &json!(true)),
    }
}

/// What the settings say then.
pub(super) fn with(mut settings: Value) -> Option<Value> {
    let [outer, inner] = PATH;
    let below = settings.as_object_mut()?.entry(outer).or_insert_with(|| json!({}));
    below.as_object_mut()?.insert(String::from(inner), json!(true));
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_added_once_and_nothing_is_overruled() {
        for before in ["", "{}", "{ \"a\": 1 }", "{ \"advanced\": {} }", "{ \"advanced\": { \"b\": [2] /* c */ } }"] {
            let text = added(before).unwrap();
            assert!(is_in(&text).unwrap(), "{text}");
            assert_eq!(added(&text).unwrap(), text);
            let was: Value = serde_json::from_str(&before.replace("/* c */", "")).unwrap_or_else(|_| json!({}));
            let is: Value = serde_json::from_str(&text.replace("/* c */", "")).unwrap();
            assert_eq!(Some(is), with(was), "{text}");
        }
        let taken = added("{ \"advanced\": { \"ignoreLocalEnv\": false } }").unwrap_err();
        assert_eq!(taken, TextError::Taken { key: "advanced.ignoreLocalEnv", value: String::from("false") });
        assert!(added("{ \"advanced\": 7 }").is_err());
    }
}
