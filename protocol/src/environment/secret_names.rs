//! Names of variables that contain a secret, load code, or are needed by ordinary programs.

use super::wildcard;

/// Names of variables that usually contain a secret.
pub const SECRET_NAMES: &[&str] = &[
    "*KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*PASSCODE*",
    "PASS",
    "*PASS",
    "*_PASS_*",
    "?*PWD",
    "*_PW",
    "*PAT",
    "*CREDENTIAL*",
    "*CREDS*",
    "*_CRED",
    "*AUTH_CONFIG*",
    "*_AUTH",
    "*AUTH_IDENT",
    "*_JWT",
    "*_PSK",
    "*_SAS",
    "*_COOKIE",
    "*MNEMONIC*",
    "*WEBHOOK*",
    "*DATABASE_URL",
    "*_DSN",
    "*CONNECTION_STRING*",
    "*CONNSTR*",
    // git settings, which may contain a header with a token. `GIT_CONFIG_KEY_0` matches by its name; git fails without
    // the others, so they are dropped together.
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_VALUE_*",
];

/// Words that contain a pattern of [`SECRET_NAMES`] without indicating a secret. They are removed from a name before
/// it is judged: `MONKEY` stays, `MONKEY_API_KEY` does not.
pub const PLAIN_WORDS: &[&str] = &[
    "KEYBOARD",
    "KEYMAP",
    "KEYWORD",
    "KEYSTROKE",
    "MONKEY",
    "TURKEY",
    "HOTKEY",
    "WHISKEY",
    "JOCKEY",
    "HOCKEY",
    "DONKEY",
    "SECRETARY",
    "TOKENIZER",
    "MAX_TOKENS",
    "COMPASS",
    "BYPASS",
    "TRESPASS",
    "OVERPASS",
    "UNDERPASS",
    "MULTIPASS",
    "ASKPASS",
    "OLDPWD",
    "COMPAT",
    "EXPAT",
];

/// Whole names that match a pattern of [`SECRET_NAMES`] without indicating a secret; in a longer name they may.
pub const PLAIN_NAMES: &[&str] = &["KEYS", "PRIMARY_KEY", "FOREIGN_KEY"];

/// Names that make a loader, a shell or an interpreter run code before the command itself does.
/// They are never inherited; `set` is the only way to give one to a command.
pub const LOADER_NAMES: &[&str] = &[
    "LD_*",
    "DYLD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "RUBYOPT",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    // codex's shell starts the one for each command, which asks at the descriptor that the other names. None is passed on.
    "EXEC_WRAPPER",
    "CODEX_ESCALATE_SOCKET",
];

/// The names that `inherit: "core"` keeps.
pub const CORE_NAMES: &[&str] =
    &["HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "SYSTEMROOT", "TEMP", "TMP"];

/// Patterns with the letters that each needs: most names lack one, so that no search is needed. Every run checks all of
/// its variables.
struct Lettered<const COUNT: usize> {
    patterns: &'static [&'static str],
    letters: [u32; COUNT],
}

static SECRETS: Lettered<{ SECRET_NAMES.len() }> = Lettered::new(SECRET_NAMES);
static LOADERS: Lettered<{ LOADER_NAMES.len() }> = Lettered::new(LOADER_NAMES);

impl<const COUNT: usize> Lettered<COUNT> {
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
    const fn new(patterns: &'static [&'static str]) -> Self {
        let (mut letters, mut index) = ([0; COUNT], 0);
        while index < COUNT {
            letters[index] = letters_of(patterns[index]);
            index += 1;
        }
        Self { patterns, letters }
    }

    fn matches(&self, name: &str) -> bool {
        // Of another script's letters, some stand for one of these without regard to case.
        let own = if name.is_ascii() { letters_of(name) } else { u32::MAX };
        let mut known = self.patterns.iter().zip(&self.letters);
        known.any(|(pattern, letters)| letters & !own == 0 && wildcard(pattern, name))
    }
}

/// The ASCII letters in a text without regard to case, one bit for each.
const fn letters_of(text: &str) -> u32 {
    let (mut rest, mut letters) = (text.as_bytes(), 0);
    while let [first, behind @ ..] = rest {
        if first.is_ascii_alphabetic() {
            letters |= 1 << (first.to_ascii_uppercase() - b'A');
        }
        rest = behind;
    }
    letters
}

/// Whether a variable of this name makes a loader, a shell or an interpreter run code.
pub(super) fn loads_code(name: &str) -> bool {
    LOADERS.matches(name)
}

/// Whether a variable of this name usually contains a secret.
pub(super) fn usually_secret(name: &str) -> bool {
    let is_secret = |name: &str| SECRETS.matches(name);
    if !is_secret(name) || PLAIN_NAMES.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
        return false;
    }
    let plain = PLAIN_WORDS.iter().fold(name.to_ascii_uppercase(), |name, word| name.replace(word, ""));
    is_secret(&plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::EnvironmentPolicy;

    proptest! {
        /// Letters leave out no pattern that matches.
        #[test]
        fn letters_change_no_answer(name in "[-_A-Za-z0-9\\u{131}\\u{17f}\\u{212a}]{0,12}", at in 0..SECRET_NAMES.len()) {
            let with_pattern = format!("{name}{}{name}", SECRET_NAMES[at].replace(['*', '?'], "x"));
            for name in [name.as_str(), &with_pattern, &with_pattern.to_lowercase(), SECRET_NAMES[at]] {
                let is_secret = SECRET_NAMES.iter().any(|pattern| wildcard(pattern, name));
                prop_assert_eq!(SECRETS.matches(name), is_secret, "{}", name);
                let loads = LOADER_NAMES.iter().any(|pattern| wildcard(pattern, name));
                prop_assert_eq!(loads_code(name), loads, "{}", name);
            }
        }
    }

    #[test]
    fn names_of_secrets_are_dropped_and_others_stay() {
        let policy = EnvironmentPolicy::default();
        for name in [
            "MYSQL_PWD",
            "PGPASSWORD",
            "PASSPHRASE",
            "GPG_PASSPHRASE",
            "GH_PAT",
            "AZURE_DEVOPS_EXT_PAT",
            "DATABASE_URL",
            "TEST_DATABASE_URL",
            "SENTRY_DSN",
            "DB_PASS",
            "DB_PW",
            "SMTP_PASS",
            "CREDS",
            "AWS_CREDS",
            "DOCKER_AUTH_CONFIG",
            "NPM_AUTH",
            "YARN_NPM_AUTH_IDENT",
            "GITHUB_TOKEN",
            "API_KEY",
            "APIKEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_KEY",
            "OPENAI_API_KEY",
            "MONKEY_API_KEY",
            "KEYBOARD_SECRET",
            "SLACK_WEBHOOK_URL",
            "AZURE_STORAGE_CONNECTION_STRING",
            "SESSION_COOKIE",
            "WALLET_MNEMONIC",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "ACCESS_KEYS",
            "npm_token",
        ] {
            assert!(!policy.inherits(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "USER",
            "LANG",
            "TERM",
            "SHELL",
            "EDITOR",
            "DISPLAY",
            "XAUTHORITY",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "GIT_ASKPASS",
            "GPG_TTY",
            "KEYBOARD",
            "KEYMAP",
            "MONKEY",
            "WHISKEY",
            "JOCKEY",
            "PRIMARY_KEY",
            "KEYS",
            "SECRETARY",
            "PWD",
            "OLDPWD",
            "GLIBC_COMPAT",
            "XKB_KEYMAP",
            "COMPASS",
            "BYPASS",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "TOKENIZERS_PARALLELISM",
            "LLM_MAX_TOKENS",
            "PATTERN",
            "NODE_PATH",
            "CARGO_HOME",
            "VIRTUAL_ENV",
            "KUBECONFIG",
            "AWS_PROFILE",
            "NPM_CONFIG_REGISTRY",
            "PIP_INDEX_URL",
            "HTTP_PROXY",
            "no_proxy",
            "CI",
            "PASSENGER_HOME",
        ] {
            assert!(policy.inherits(name), "{name}");
        }
    }
}
