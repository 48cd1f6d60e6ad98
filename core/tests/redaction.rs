//! Redaction of texts and commands, and false positives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use stockade_core::{REDACTED, redact_argv, redact_text, redact_variable};
use stockade_protocol::Argv;

fn argv(words: &[&str]) -> Vec<String> {
    let redacted = redact_argv(&Argv::parse(words.iter().copied()).unwrap());
    redacted.words().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The lines of a table, without its comments.
fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with("# "))
}

/// The words of a line as a shell would have them, as far as the tables go: quotes, no escapes.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut open) = (Vec::new(), None, false);
    for c in line.chars() {
        match (c, quote) {
            (' ', None) => open = false,
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(end)) if c == end => quote = None,
            (c, _) => {
                if !open {
                    words.push(String::new());
                }
                open = true;
                words.last_mut().unwrap().push(c);
            }
        }
    }
    words
}

/// What of a table is not as it should be, read as a line and as the words of a command.
fn misses(table: &str, expected: impl Fn(&str) -> String) -> Vec<String> {
    let plain = |line: &str| line.replace(['«', '»'], "");
    let mut misses = Vec::new();
    for line in lines(table) {
        let (given, expected) = (plain(line), expected(line));
        if redact_text(&given) != expected {
            misses.push(format!("{given}\n    {}", redact_text(&given)));
        }
        let words = split(&given);
        let redacted = argv(&words.iter().map(String::as_str).collect::<Vec<_>>());
        if redacted != split(&expected) {
            misses.push(format!("{words:?}\n    {redacted:?}"));
        }
    }
    misses
}

/// What stands between `«` and `»` is replaced, whole, and nothing else.
fn marked(line: &str) -> String {
    let mut parts = line.split('«');
    let mut expected = parts.next().unwrap().to_owned();
    for part in parts {
        let (_, rest) = part.split_once('»').unwrap();
        expected = format!("{expected}{REDACTED}{rest}");
    }
    expected
}

#[test]
fn every_known_form_of_a_secret_is_hidden() {
    let table = include_str!("redaction/hidden.txt");
    assert!(lines(table).count() >= 220);
    let misses = misses(table, marked);
    assert!(misses.is_empty(), "{} misses:\n{}", misses.len(), misses.join("\n"));
}

#[test]
fn ordinary_commands_stay_as_they_are() {
    let table = include_str!("redaction/kept.txt");
    assert!(lines(table).count() >= 220);
    let misses = misses(table, str::to_owned);
    assert!(misses.is_empty(), "{} misses:\n{}", misses.len(), misses.join("\n"));
}

/// Pipes and here-strings are of a line, not of a command's words.
#[test]
fn what_a_program_is_fed_with_is_hidden() {
    for line in [
        "echo 'me:«hunter2»' | chpasswd",
        "echo me:«hunter2» | sudo chpasswd",
        "printf '%s:%s' x 'me:«hunter2»' | /usr/sbin/chpasswd",
        "chpasswd <<< 'me:«hunter2»'",
        "chpasswd <<<me:«hunter2»",
        "true || { echo me:«hunter2» | chpasswd; }",
        "if x; then echo me:«hunter2» | sudo chpasswd; fi",
        "echo 'me:«hunter2»' | tee log | chpasswd",
        "cat <<< 'me:«hunter2»' | chpasswd",
        "chpasswd << EOF\nme:«hunter2»\nyou:«hunter3»\nEOF\nls a:b",
        "cat <<-'E' | chpasswd\n\tme:«hunter2»\n\tE\nls a:b",
        "mysql -e \"SET PASSWORD FOR me = '«hunter2»'\"",
        "mysql -e \"SET PASSWORD FOR 'me'@'h' = PASSWORD('«hunter2»')\"",
        "mysql -e \"set password = '«hunter2»'\"",
        "echo «hunter2» | passwd --stdin me",
        "passwd me <<< «hunter2»",
        "echo -n «hunter2» | sudo -S make install",
        "echo «hunter2» | docker login -u me --password-stdin",
        "bash -c \"echo me:«hunter2» | chpasswd\"",
    ] {
        assert_eq!(redact_text(&line.replace(['«', '»'], "")), marked(line));
    }
    for line in [
        "echo a:b | grep a",
        "echo $PW | chpasswd",
        "echo \"me:$PW\" | tee x",
        "passwd me || echo failed",
        "cat f | chpasswd",
    ] {
        assert_eq!(redact_text(line), line);
    }
}

#[test]
fn no_form_is_redacted_twice() {
    for line in lines(include_str!("redaction/hidden.txt")).chain(lines(include_str!("redaction/kept.txt"))) {
        let once = redact_text(&line.replace(['«', '»'], ""));
        assert_eq!(redact_text(&once), once);
    }
}

#[test]
fn secrets_of_commands_are_hidden() {
    for (words, hidden) in [
        (vec!["gh", "--token", "S3CRET"], vec!["gh", "--token", "‹›"]),
        (vec!["x", "--password=S3CRET two"], vec!["x", "--password=‹›"]),
        (vec!["env", "DB_PASSWORD=S3CRET x y", "make"], vec!["env", "DB_PASSWORD=‹›", "make"]),
        (
            vec!["sudo", "-u", "root", "mysql", "-pS3CRET", "-h", "db"],
            vec!["sudo", "-u", "root", "mysql", "-p‹›", "-h", "db"],
        ),
        (vec!["/usr/bin/curl", "-u", "me:S3CRET", "-ume:S3CRET"], vec!["/usr/bin/curl", "-u", "me:‹›", "-ume:‹›"]),
        (vec!["docker", "login", "-u", "me", "-p", "S3CRET"], vec!["docker", "login", "-u", "me", "-p", "‹›"]),
        (vec!["docker", "run", "-p", "80:80"], vec!["docker", "run", "-p", "80:80"]),
        (vec!["sshpass", "-p", "S3CRET", "ssh", "h"], vec!["sshpass", "-p", "‹›", "ssh", "h"]),
        (vec!["openssl", "x", "-passin", "pass:S3CRET"], vec!["openssl", "x", "-passin", "pass:‹›"]),
        (
            vec!["npm", "config", "set", "//r.test/:_authToken", "S3CRET"],
            vec!["npm", "config", "set", "//r.test/:_authToken", "‹›"],
        ),
        (vec!["curl", "-H", "Authorization: Bearer S3CRET"], vec!["curl", "-H", "Authorization: Bearer ‹›"]),
        (vec!["curl", "-H", "X-Api-Key: S3CRET"], vec!["curl", "-H", "X-Api-Key: ‹›"]),
        (vec!["curl", "--oauth2-bearer", "S3CRET"], vec!["curl", "--oauth2-bearer", "‹›"]),
        (
            vec!["sh", "-c", "TOKEN=S3CRET make && mysql -pS3CRET db"],
            vec!["sh", "-c", "TOKEN=‹› make && mysql -p‹› db"],
        ),
        (vec!["bash", "-c", "sh -c 'curl -u \"me:S3CRET\" x'"], vec!["bash", "-c", "sh -c 'curl -u \"me:‹›\" x'"]),
        (vec!["sh", "-c", "x --secret 'S3CRET two' y"], vec!["sh", "-c", "x --secret '‹›' y"]),
        // A name that leads to a secret is no secret.
        (
            vec!["sh", "-c", "curl -H \"Authorization: token\" --token $TOKEN"],
            vec!["sh", "-c", "curl -H \"Authorization: ‹›\" --token $TOKEN"],
        ),
        (
            vec!["x", "--token-file", "/run/t", "--max-tokens", "5"],
            vec!["x", "--token-file", "/run/t", "--max-tokens", "5"],
        ),
        (
            vec!["git", "commit", "-m", "fix the key of the map: it was wrong"],
            vec!["git", "commit", "-m", "fix the key of the map: it was wrong"],
        ),
        (
            vec!["cargo", "test", "--", "--test-threads=1", "tokenizer::tests"],
            vec!["cargo", "test", "--", "--test-threads=1", "tokenizer::tests"],
        ),
    ] {
        let hidden: Vec<String> = hidden.iter().map(|word| word.replace("‹›", REDACTED)).collect();
        assert_eq!(argv(&words), hidden, "{words:?}");
    }
}

#[test]
fn secrets_in_texts_are_hidden() {
    for (text, hidden) in [
        ("https://user:S3CRET@host/x?token=S3CRET&y=1", "https://user:‹›@host/x?token=‹›&y=1"),
        ("git clone https://S3CRETS3CRET@github.com/a", "git clone https://‹›@github.com/a"),
        ("ssh://git@host/x postgres://u:S3CRET@db/x", "ssh://git@host/x postgres://u:‹›@db/x"),
        (r#"{"password": "S3CRET \" two", "a": 1}"#, r#"{"password": "‹›" two", "a": 1}"#),
        (r#"{\"apiKey\":\"S3CRET\"}"#, r#"{\"apiKey\":\"‹›\"}"#),
        ("password = 'S3CRET'", "password = '‹›'"),
        ("Cookie: a=S3CRET; b=S3CRET\nHost: x", "Cookie: ‹›\nHost: x"),
        ("can't read it: API_KEY=S3CRET isn't set", "can't read it: API_KEY=‹› isn't set"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nS3CRET\nS3CRET\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----‹›-----END RSA PRIVATE KEY-----",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        ),
        ("use secret::Thing; std::token::x", "use secret::Thing; std::token::x"),
        ("PWD=/repo OLDPWD=/ make", "PWD=/repo OLDPWD=/ make"),
        ("", ""),
    ] {
        assert_eq!(redact_text(text), hidden.replace("‹›", REDACTED), "{text}");
    }
}

#[test]
fn variables_are_judged_by_name() {
    assert_eq!(redact_variable("GITHUB_TOKEN", "x"), REDACTED);
    assert_eq!(redact_variable("MY_KEYS", "x"), REDACTED);
    assert_eq!(redact_variable("EMPTY_TOKEN", ""), "");
    assert_eq!(redact_variable("URL", "https://a:b@c"), format!("https://a:{REDACTED}@c"));
    assert_eq!(redact_variable("PATH", "/bin:/usr/bin"), "/bin:/usr/bin");
}

/// A token of a known shape: what is left of it after redaction must not hold its body.
fn token() -> impl Strategy<Value = String> {
    let body = |length: usize| proptest::string::string_regex(&format!("[A-Za-z0-9]{{{length}}}")).unwrap();
    let prefixed = |prefix: &'static str, length: usize| body(length).prop_map(move |body| format!("{prefix}{body}"));
    prop_oneof![
        prefixed("ghp_", 36),
        prefixed("github_pat_", 60),
        prefixed("glpat-", 20),
        prefixed("xoxb-123456789012-", 24),
        prefixed("npm_", 36),
        prefixed("pypi-", 60),
        prefixed("sk-proj-", 40),
        prefixed("sk-ant-api03-", 60),
        prefixed("sk_live_", 24),
        prefixed("AIza", 35),
        prefixed("hf_", 34),
        "AKIA[A-Z2-7]{16}",
        "eyJ[A-Za-z0-9]{20}\\.eyJ[A-Za-z0-9]{30}\\.[A-Za-z0-9]{20}",
    ]
}

/// Pieces that the scanner has an opinion about, in any order.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        token(),
        "[-=:'\"\\\\ $(){}&;|`@/?#,\\n]{1,4}",
        prop::sample::select(vec![
            "password",
            "--token",
            "TOKEN=",
            "Authorization: Bearer ",
            "https://",
            "user:pw@host",
            "mysql -p",
            "curl -u ",
            "-----BEGIN PRIVATE KEY-----",
            "-----END",
            "sh -c ",
            "‹redacted›",
            "\"apiKey\":",
            "bearer ",
            "é",
            "$TOKEN",
            "<password>",
            "</password>",
            "machine h login u password ",
            "curl -sSHAuthorization: ",
            "sqlplus u/",
            "smbclient -U u%",
            "vault login ",
            "npm config set _auth ",
            "docker login -p",
            "\"name\": \"TOKEN\", \"value\": ",
            "?sig=",
            "123456789:AA",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn redacting_twice_is_redacting_once(text in text()) {
        let once = redact_text(&text);
        prop_assert_eq!(redact_text(&once), once);
    }

    #[test]
    fn known_tokens_never_survive(before in text(), token in token(), after in text()) {
        let whole = format!("{before} {token} {after}");
        prop_assert!(!redact_text(&whole).contains(&token), "{}", redact_text(&whole));
        if let Ok(argv) = Argv::parse([before.as_str(), token.as_str(), whole.as_str()]) {
            prop_assert!(!redact_argv(&argv).words().iter().any(|word| word.as_str().unwrap().contains(&token)));
        }
    }

    #[test]
    fn a_named_secret_never_survives(
        before in text(),
        name in prop::sample::select(vec!["password=", "API_KEY=", "--token ", "client_secret: ", "https://u:"]),
        secret in "[A-Za-z0-9]{12}",
    ) {
        let end = if name.contains("://") { "@host" } else { "" };
        let redacted = redact_text(&format!("{before}\n{name}{secret}{end}"));
        prop_assert!(!redacted.contains(&secret), "{redacted}");
    }

    #[test]
    fn any_command_is_redacted_twice_as_once(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6)) {
        if let Ok(argv) = Argv::parse(words) {
            let once = redact_argv(&argv);
            prop_assert_eq!(once.words().len(), argv.words().len());
            prop_assert_eq!(redact_argv(&once), once);
        }
    }
}

/// The time grows linearly with the length, for any text.
#[test]
fn long_texts_take_no_longer_than_their_length() {
    for piece in [
        "'",
        "\"",
        "a=",
        "token=",
        "sk-",
        "://",
        "@",
        "ghp_",
        "-----BEGIN ",
        "$(",
        "\\",
        "eyJ",
        "x ",
        "--token ",
        "docker login ",
        "vault token ",
        "<password>",
        "login u password ",
        "name value=",
        "?key=",
        "123456789:AA",
        "curl -u a ",
    ] {
        let time = |count: usize| {
            let text = piece.repeat(count / piece.len());
            let start = processor_time();
            std::hint::black_box(redact_text(&text));
            processor_time() - start
        };
        let (short, long) = (time(20_000), time(160_000));
        assert!(long < short * 40 + std::time::Duration::from_millis(200), "{piece}: {short:?}, then {long:?}");
    }
}

/// Processor time of this thread, which other programs on the machine do not change.
fn processor_time() -> std::time::Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}
