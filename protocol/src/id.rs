//! Identifiers of requests and threads, safe for log lines and file names.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Invalid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(#[schemars(regex(pattern = r"^[A-Za-z0-9_.:/-]{1,128}$"))] String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let usable = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
                if (1..=128).contains(&text.len()) && text.chars().all(usable) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(Invalid::Id { kind: stringify!($name), id: text.into() })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// One request, from the moment it is made to its last line in the audit trail.
    RequestId
}
id! {
    /// One conversation or session: approvals "for the session" are remembered by it.
    ThreadId
}
id! {
    /// A name under which a running command can be cancelled.
    CancelToken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_would_break_a_log_line() {
        for text in ["", "a b", "a\nb", "\u{e9}", &"x".repeat(129)] {
            let error = text.parse::<RequestId>().unwrap_err().to_string();
            assert!(error.starts_with("RequestId `"), "{error}");
        }
        assert!("call_1:exec/2-b.c".parse::<ThreadId>().is_ok());
    }
}
