//! Secrets anywhere in a text: a shell line, a header, a URL, a document, a message.

use std::ops::Range;

use super::{REDACTED, fed, names, shapes, words};

/// Limit on passes. A redaction may reveal the end of another secret to the next pass; a text that still changes then
/// is redacted as a whole.
const PASSES: usize = 6;

/// Limit on nested quotes that are parsed as commands.
const DEPTH: usize = 4;

/// The text without its secrets. Idempotent.
pub(super) fn redact(bytes: &[u8]) -> Vec<u8> {
    let mut text = bytes.to_vec();
    for _ in 0..PASSES {
        let next = pass(&text);
        if next == text {
            return text;
        }
        text = next;
    }
    REDACTED.as_bytes().to_vec()
}

fn pass(bytes: &[u8]) -> Vec<u8> {
    let mut secrets = Vec::new();
    find_anywhere(bytes, &mut secrets);
    if !is_plain_word(bytes) {
        find_in_commands(bytes, 0..bytes.len(), DEPTH, &mut secrets);
    }
    hide(bytes, secrets)
}

/// Whether a text is one word, such as a path, that is neither an option nor an assignment: as a command it names a
/// program, and no secret.
fn is_plain_word(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_'))
}

fn hide(bytes: &[u8], mut secrets: Vec<Range<usize>>) -> Vec<u8> {
    secrets.sort_by_key(|secret| (secret.start, secret.end));
    let mut hidden = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        // Overlapping and adjacent secrets are merged.
        if secret.start > done || hidden.is_empty() {
            hidden.extend_from_slice(bytes.get(done..secret.start).unwrap_or_default());
            hidden.extend_from_slice(REDACTED.as_bytes());
        }
        done = done.max(secret.end);
    }
    hidden.extend_from_slice(bytes.get(done..).unwrap_or_default());
    hidden
}

/// Finds secrets by their format, or by the preceding name or context.
fn find_anywhere(bytes: &[u8], secrets: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let found = match byte {
            b'-' => shapes::private_key_at(bytes, at),
            b':' if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"://")) => user_in_url(bytes, at),
            b':' if bytes.get(at..).is_some_and(|rest| rest.starts_with(b":pserver:")) => pserver_password(bytes, at),
            b'\'' | b'"' => sql_password(bytes, at),
            b':' | b'=' => named_value(bytes, at),
            b'<' => element(bytes, at),
            b'B' | b'b' => bearer(bytes, at).or_else(|| shapes::token_at(bytes, at)),
            b'p' => netrc_password(bytes, at).or_else(|| shapes::token_at(bytes, at)),
            _ => shapes::token_at(bytes, at),
        };
        at = match found {
            Some(secret) => {
                let end = secret.end.max(at + 1);
                secrets.push(secret);
                end
            }
            None => at + 1,
        };
    }
}

/// `https://user:password@host`, `https://token@host`.
fn user_in_url(bytes: &[u8], colon: usize) -> Option<Range<usize>> {
    let start = colon + 3;
    let rest = bytes.get(start..)?;
    let ends = |c: &u8| c.is_ascii_whitespace() || b"/?#\"'`<>\\".contains(c);
    let authority = rest.get(..rest.iter().position(ends).unwrap_or(rest.len()))?;
    let user = authority.get(..authority.iter().rposition(|c| *c == b'@')?)?;
    match user.iter().position(|c| *c == b':') {
        Some(at) => Some(start + at + 1..start + user.len()),
        None => {
            let scheme_length = bytes.get(..colon)?.iter().rev().take_while(|c| c.is_ascii_alphanumeric()).count();
            let scheme = bytes.get(colon - scheme_length..colon)?;
            // Only there a user without password is a token.
            let is_token =
                (scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http")) && user != b"git";
            is_token.then_some(start..start + user.len())
        }
    }
}

/// The value after `name=` or `name:`, if the name is that of a secret.
fn named_value(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let separator = bytes.get(at)?;
    let before = bytes.get(..at)?;
    let spaced = before.iter().rev().take(8).take_while(|c| matches!(c, b' ' | b'\t')).count();
    let before = before.get(..at - spaced)?;
    let unquoted =
        before.strip_suffix(b"\\\"").or_else(|| before.strip_suffix(b"\"")).or_else(|| before.strip_suffix(b"'"));
    let before = unquoted.unwrap_or(before);
    let is_name = |c: &&u8| c.is_ascii_alphanumeric() || b"_-.".contains(c);
    let length = before.iter().rev().take(names::MAX_NAME + 1).take_while(is_name).count();
    let outside = before.len() - length;
    let name = header_name(before.get(outside..)?);
    let in_url = outside.checked_sub(1).and_then(|at| before.get(at)).is_some_and(|c| b"?&".contains(c));
    let is_secret = match in_url {
        true => names::is_secret_parameter(name),
        false => names::is_secret(name) || names::is_secret_header(name) || is_value_of_secret(before, name),
    };
    if !is_secret {
        return None;
    }
    let rest = bytes.get(at + 1..)?;
    // `KEY= command` sets nothing; `key = value` and `key: value` do.
    let may_be_spaced = *separator == b':' || spaced > 0;
    let gap = rest.iter().take_while(|c| may_be_spaced && matches!(c, b' ' | b'\t')).count();
    let start = at + 1 + gap;
    let value = bytes.get(start..)?;
    if *separator == b':' && value.starts_with(b":") {
        return None;
    }
    let secret = if *separator == b':' && names::is_secret_header(name) {
        header(value)
    } else {
        plain_value(value, *separator)
    };
    secret.filter(|secret| !secret.is_empty()).map(|secret| start + secret.start..start + secret.end)
}

/// The name of a header attached to its option, as in `-HAuthorization: …`.
fn header_name(name: &[u8]) -> &[u8] {
    let glued = name.iter().take(8).position(|c| *c == b'H').filter(|_| name.starts_with(b"-"));
    let header = glued.and_then(|at| name.get(at + 1..)).filter(|header| names::is_secret(header));
    header.unwrap_or(name)
}

/// Whether this is the value of an entry named by another member: `"name": "DB_PASSWORD", "value": …`.
fn is_value_of_secret(before: &[u8], name: &[u8]) -> bool {
    if !name.eq_ignore_ascii_case(b"value") {
        return false;
    }
    let before = before.get(..before.len() - name.len()).unwrap_or_default();
    let mut words = words_before(before);
    let own = words.next().unwrap_or_default();
    let member = words.next().unwrap_or_default();
    let is_name = [&b"name"[..], b"key"].iter().any(|word| member.eq_ignore_ascii_case(word));
    is_name && names::is_secret(own)
}

/// The last words of a text, backwards, with any separators.
fn words_before(before: &[u8]) -> impl Iterator<Item = &[u8]> {
    const LOOKED_AT: usize = 160;
    let before = before.get(before.len().saturating_sub(LOOKED_AT)..).unwrap_or_default();
    before.rsplit(|c| !c.is_ascii_alphanumeric() && !b"_-.@".contains(c)).filter(|word| !word.is_empty())
}

/// `<password>…</password>`.
fn element(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at + 1..)?;
    let is_name = |c: &&u8| c.is_ascii_alphanumeric() || b"_-.:".contains(c);
    let length = rest.iter().take(names::MAX_NAME).take_while(is_name).count();
    if rest.get(length) != Some(&b'>') || !names::is_secret(rest.get(..length)?) {
        return None;
    }
    let start = at + 1 + length + 1;
    let value = bytes.get(start..)?;
    let end = value.iter().position(|c| *c == b'<').filter(|end| value.get(end + 1) == Some(&b'/'))?;
    let is_reference = value.get(..end).is_some_and(is_reference);
    (end > 0 && !is_reference).then_some(start..start + end)
}

/// `machine HOST login USER password …`, as in `.netrc`.
fn netrc_password(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at..)?;
    let word = [&b"password"[..], b"passwd"].into_iter().find(|word| rest.starts_with(word))?;
    let gap = rest.get(word.len()..)?.iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
    let mut before = words_before(bytes.get(..at)?);
    let is_entry = before.nth(1).is_some_and(|word| word == b"login" || word == b"machine");
    if gap == 0 || !is_entry || !at.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_whitespace) {
        return None;
    }
    let start = word.len() + gap;
    let value = rest.get(start..)?;
    let end = value.iter().position(|c| c.is_ascii_whitespace() || b"\"'\\".contains(c)).unwrap_or(value.len());
    (end > 0 && !is_reference(value.get(..end)?)).then_some(at + start..at + start + end)
}

/// `:pserver:user:…@host:/path`, as cvs takes it.
fn pserver_password(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + b":pserver:".len();
    let rest = bytes.get(start..)?;
    let end = rest.iter().position(|c| c.is_ascii_whitespace() || b"/\"'".contains(c)).unwrap_or(rest.len());
    let user = rest.get(..end)?;
    let user = user.get(..user.iter().rposition(|c| *c == b'@')?)?;
    let colon = user.iter().position(|c| *c == b':')? + 1;
    Some(start + colon..start + user.len()).filter(|secret| !secret.is_empty())
}

/// `IDENTIFIED BY '…'`, `ALTER USER me PASSWORD '…'`: the quoted text after these words.
fn sql_password(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    const STATEMENTS: &[&str] = &["user", "role", "login", "group"];
    const LOOKED_BACK: usize = 8;
    let quote = *bytes.get(at)?;
    let escaped = at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\\');
    let before = bytes.get(..at - usize::from(escaped))?;
    if !before.last().is_some_and(|c| c.is_ascii_whitespace() || *c == b'(') {
        return None;
    }
    let mut words = words_before(before);
    let is = |word: Option<&[u8]>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted.as_bytes()));
    // `SET PASSWORD FOR me = '…'`, `SET PASSWORD = PASSWORD('…')`.
    let nearest: Vec<&[u8]> = words_before(before).take(LOOKED_BACK).collect();
    let sets = nearest.windows(2).any(|pair| is(pair.first().copied(), "password") && is(pair.last().copied(), "set"));
    let is_value = before.trim_ascii_end().last().is_some_and(|c| b"=(".contains(c));
    let last = words.next();
    let is_named = if sets && is_value {
        true
    } else if is(last, "by") {
        words.take(LOOKED_BACK).any(|word| is(Some(word), "identified"))
    } else {
        let speaks_of_user = |word: &[u8]| STATEMENTS.iter().any(|statement| is(Some(word), statement));
        (is(last, "password") || is(last, "as"))
            && words.take(LOOKED_BACK).any(|word| speaks_of_user(word) || is(Some(word), "identified"))
    };
    if !is_named {
        return None;
    }
    let start = at + 1;
    let rest = bytes.get(start..)?;
    let end = rest.iter().position(|c| *c == quote || *c == b'\n').unwrap_or(rest.len());
    let end = end - usize::from(escaped && rest.get(..end).is_some_and(|value| value.ends_with(b"\\")));
    (end > 0 && !is_reference(rest.get(..end)?)).then_some(start..start + end)
}

/// The secret part of a header: without its scheme, to the end of the line or of the quotes.
fn header(value: &[u8]) -> Option<Range<usize>> {
    const SCHEMES: &[&str] = &["bearer", "basic", "digest", "token", "negotiate", "apikey", "aws4-hmac-sha256"];
    let end = value.iter().position(|c| b"\n\r\"'".contains(c)).unwrap_or(value.len());
    let value = value.get(..end)?;
    let word = value.iter().position(|c| *c == b' ').unwrap_or(0);
    let is_scheme =
        SCHEMES.iter().any(|scheme| value.get(..word).is_some_and(|own| own.eq_ignore_ascii_case(scheme.as_bytes())));
    let secret = if is_scheme { word + 1..end } else { 0..end };
    (!is_reference(value.get(secret.clone())?)).then_some(secret)
}

fn plain_value(value: &[u8], separator: u8) -> Option<Range<usize>> {
    let quoted = |open: usize, quote: &[u8]| {
        let inner = value.get(open..)?;
        let end = inner.windows(quote.len()).position(|part| part == quote);
        Some(open..open + end.or_else(|| inner.iter().position(|c| *c == b'\n')).unwrap_or(inner.len()))
    };
    match value {
        [b'\\', b'"', ..] => quoted(2, b"\\\""),
        [b'"', ..] => quoted(1, b"\""),
        [b'\'', ..] => quoted(1, b"'"),
        [b'$', b'(', ..] => Some(0..value.iter().position(|c| *c == b')').map_or(value.len(), |end| end + 1)),
        _ => {
            let ends = |c: &u8| {
                c.is_ascii_whitespace() || b"\"'&;|<>(){}[]`\\".contains(c) || (separator == b':' && *c == b',')
            };
            let end = value.iter().position(ends).unwrap_or(value.len());
            let own = value.get(..end)?;
            (!is_reference(own) && own != b"$").then_some(0..end)
        }
    }
}

/// `$NAME` or `${NAME}` names a secret without saying it.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(value);
    let Some(name) = value.strip_prefix(b"$") else { return false };
    let name = name.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}")).unwrap_or(name);
    name.first().is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_')
        && name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_')
}

/// `Bearer …` anywhere. Prose about bearers has no digits.
fn bearer(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    const WORD: &[u8] = b"bearer ";
    if !bytes.get(at..at + WORD.len())?.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let start = at + WORD.len();
    let is_token = |c: &&u8| c.is_ascii_alphanumeric() || b"._~+/=-".contains(c);
    let token = bytes.get(start..)?;
    let length = token.iter().take_while(is_token).count();
    let token = token.get(..length)?;
    (length >= 20 || (length >= 6 && token.iter().any(u8::is_ascii_digit))).then_some(start..start + length)
}

/// Parses a part of the text as shell commands, and finds the secrets in their options and operands.
fn find_in_commands(bytes: &[u8], part: Range<usize>, depth: usize, secrets: &mut Vec<Range<usize>>) {
    let mut command: Vec<Range<usize>> = Vec::new();
    // The earlier commands of a pipeline.
    let mut feeding: Vec<Vec<Range<usize>>> = Vec::new();
    let mut at = part.start;
    let mut quotes = Quotes::default();
    while at < part.end {
        match bytes.get(at) {
            Some(byte @ (b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'`')) => {
                judge(bytes, &command, secrets);
                let is_pipe = *byte == b'|' && bytes.get(at + 1) != Some(&b'|') && !command.is_empty();
                let below = (*byte == b'\n').then_some(at + 1..part.end);
                fed::find(bytes, &feeding, &command, below, secrets);
                if is_pipe && feeding.len() < fed::MOST_STAGES {
                    feeding.push(std::mem::take(&mut command));
                } else {
                    feeding.clear();
                }
                command.clear();
                at += 1;
            }
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            Some(b'\\') if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            Some(_) => {
                let end = word_end(bytes, at, part.end, &mut quotes);
                let inner = unquoted(bytes, at..end);
                let has_words = bytes.get(inner.clone()).is_some_and(|word| word.iter().any(u8::is_ascii_whitespace));
                if has_words && depth > 0 && inner.len() < end - at {
                    find_in_commands(bytes, inner.clone(), depth - 1, secrets);
                }
                command.push(inner);
                at = end;
            }
            None => break,
        }
    }
    judge(bytes, &command, secrets);
    fed::find(bytes, &feeding, &command, None, secrets);
}

fn judge(bytes: &[u8], command: &[Range<usize>], secrets: &mut Vec<Range<usize>>) {
    let texts: Vec<&[u8]> = command.iter().map(|word| bytes.get(word.clone()).unwrap_or_default()).collect();
    let found = words::secrets(&texts).into_iter().zip(command);
    secrets
        .extend(found.filter_map(|(secret, word)| secret.map(|part| word.start + part.start..word.start + part.end)));
}

/// The quotes known to be unclosed, so that their end is not searched again.
#[derive(Default)]
struct Quotes {
    single_open: bool,
    double_open: bool,
}

/// The end of a shell word that starts at `at`.
fn word_end(bytes: &[u8], mut at: usize, limit: usize, quotes: &mut Quotes) -> usize {
    while at < limit {
        let Some(byte) = bytes.get(at) else { break };
        let open = match byte {
            b'\'' => Some(&mut quotes.single_open),
            b'"' => Some(&mut quotes.double_open),
            _ => None,
        };
        match (byte, open) {
            (quote, Some(open)) if !*open => {
                let rest = bytes.get(at + 1..limit).unwrap_or_default();
                match rest.iter().position(|c| c == quote) {
                    Some(length) => at += length + 1,
                    // As in "can't": an ordinary character.
                    None => *open = true,
                }
            }
            // A continued line.
            (b'\\', _) if bytes.get(at + 1) == Some(&b'\n') => return at,
            (b'\\', _) => at += 1,
            (c, _) if c.is_ascii_whitespace() || b";|&()`".contains(c) => return at,
            _ => {}
        }
        at += 1;
    }
    at.min(limit)
}

/// A word without the quotes around it.
fn unquoted(bytes: &[u8], word: Range<usize>) -> Range<usize> {
    match bytes.get(word.clone()) {
        Some([b'"', .., b'"'] | [b'\'', .., b'\'']) => word.start + 1..word.end - 1,
        Some(_) | None => word,
    }
}
