//! What a key means, without a terminal.

use stockade_protocol::ReviewDecision;

use super::choices::Choice;
use super::text::is_plain;

/// More of a reason than this is not kept.
const LONGEST_REASON: usize = 500;

const CTRL_C: char = '\u{3}';
const CTRL_D: char = '\u{4}';
const BACKSPACE: [char; 2] = ['\u{8}', '\u{7f}'];

/// What to do after some keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Print this, and wait for more.
    Say(String),
    /// Show the question in full, and wait for more.
    ShowEverything,
    /// This is the answer. Print this.
    Decide(ReviewDecision, String),
}

/// A conversation about one question.
pub(super) struct Dialog {
    choices: Vec<Choice>,
    state: State,
}

enum State {
    Choosing,
    /// A reason is being typed. The bytes are the beginning of a character.
    Explaining {
        reason: String,
        unfinished: Vec<u8>,
    },
}

impl Dialog {
    pub(super) fn new(choices: Vec<Choice>) -> Self {
        Self { choices, state: State::Choosing }
    }

    /// What stands before the cursor.
    pub(super) fn invitation(&self) -> String {
        let keys: Vec<String> = self.choices.iter().map(|choice| choice.key.to_string()).collect();
        format!("[{}]? ", keys.join("/"))
    }

    /// Takes what the terminal sent in one piece.
    pub(super) fn press(&mut self, bytes: &[u8]) -> Vec<Step> {
        match &mut self.state {
            State::Choosing => vec![self.choose(bytes)],
            State::Explaining { reason, unfinished } => explain(reason, unfinished, bytes),
        }
    }

    fn choose(&mut self, bytes: &[u8]) -> Step {
        // A key is one byte. More in one piece is a paste, or a key such as an arrow: no answer.
        let key = match bytes {
            [byte] => char::from(*byte).to_ascii_lowercase(),
            bytes if bytes.contains(&(CTRL_C as u8)) => CTRL_C,
            _ => return self.ask_again(),
        };
        if key == CTRL_C || key == CTRL_D {
            return Step::Decide(ReviewDecision::Abort, String::from("stopped\n"));
        }
        if key == 'v' {
            return Step::ShowEverything;
        }
        let Some(choice) = self.choices.iter().find(|choice| choice.key == key) else { return self.ask_again() };
        if matches!(choice.decision, ReviewDecision::Denied { .. }) {
            self.state = State::Explaining { reason: String::new(), unfinished: Vec::new() };
            return Step::Say(String::from("no\nWhy not? (Enter alone gives no reason) "));
        }
        let answer = if choice.decision.is_approval() { "yes" } else { "no" };
        Step::Decide(choice.decision.clone(), format!("{key}: {answer}\n"))
    }

    fn ask_again(&self) -> Step {
        Step::Say(format!("\nPlease press one of these keys. {}", self.invitation()))
    }
}

fn explain(reason: &mut String, unfinished: &mut Vec<u8>, bytes: &[u8]) -> Vec<Step> {
    // An arrow or a function key.
    if bytes.starts_with(b"\x1b") {
        return Vec::new();
    }
    unfinished.extend_from_slice(bytes);
    let (typed, rest) = whole_characters(unfinished);
    *unfinished = rest;
    let mut echo = String::new();
    for c in typed.chars() {
        match c {
            CTRL_C => return vec![Step::Decide(ReviewDecision::Abort, String::from("\nstopped\n"))],
            '\r' | '\n' | CTRL_D => {
                let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                return vec![Step::Decide(ReviewDecision::Denied { reason }, format!("{echo}\n"))];
            }
            c if BACKSPACE.contains(&c) && reason.pop().is_some() => echo.push_str("\u{8} \u{8}"),
            c if is_plain(c) && reason.chars().count() < LONGEST_REASON => {
                reason.push(c);
                echo.push(c);
            }
            _ => {}
        }
    }
    vec![Step::Say(echo)]
}

/// The characters that are complete, and the bytes of one that is not yet.
fn whole_characters(bytes: &[u8]) -> (String, Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), Vec::new()),
        Err(error) if error.error_len().is_none() => {
            let (whole, rest) = bytes.split_at(error.valid_up_to());
            (String::from_utf8_lossy(whole).into_owned(), rest.to_vec())
        }
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::choices::choices;
    use super::super::samples;
    use super::*;

    fn dialog() -> Dialog {
        Dialog::new(choices(&samples::command()))
    }

    /// What is decided when pieces are typed one after the other.
    fn decided(pieces: &[&[u8]]) -> Option<ReviewDecision> {
        let mut dialog = dialog();
        pieces.iter().flat_map(|piece| dialog.press(piece)).find_map(|step| match step {
            Step::Decide(decision, _) => Some(decision),
            Step::Say(_) | Step::ShowEverything => None,
        })
    }

    #[test]
    fn each_key_is_its_answer() {
        assert_eq!(decided(&[b"y"]), Some(ReviewDecision::Approved));
        assert_eq!(decided(&[b"Y"]), Some(ReviewDecision::Approved));
        assert_eq!(decided(&[b"s"]), Some(ReviewDecision::ApprovedForSession));
        assert!(matches!(decided(&[b"p"]), Some(ReviewDecision::ApprovedExecpolicyAmendment { .. })));
        assert_eq!(decided(&[b"q"]), Some(ReviewDecision::Abort));
        assert_eq!(decided(&[b"\x03"]), Some(ReviewDecision::Abort));
        assert_eq!(decided(&[b"\x04"]), Some(ReviewDecision::Abort));
    }

    #[test]
    fn nothing_else_is_an_answer() {
        for pieces in [&[&b"\n"[..]][..], &[b"\r", b"\n", b" "], &[b"x"], &[b"yy"], &[b"y\n"], &[b"\x1b[A"], &[b"\xff"]]
        {
            assert_eq!(decided(pieces), None, "{pieces:?}");
        }
        let mut dialog = dialog();
        let again = dialog.press(b"\n");
        assert_eq!(again, [Step::Say(String::from("\nPlease press one of these keys. [y/s/p/n/q]? "))]);
        assert_eq!(dialog.press(b"v"), [Step::ShowEverything]);
    }

    #[test]
    fn a_no_takes_a_reason() {
        let no = |reason: Option<&str>| Some(ReviewDecision::Denied { reason: reason.map(str::to_owned) });
        assert_eq!(decided(&[b"n", b"\r"]), no(None));
        assert_eq!(decided(&[b"n", b"\x04"]), no(None));
        assert_eq!(decided(&[b"n", b"not", b" here", b"\n"]), no(Some("not here")));
        assert_eq!(decided(&[b"n", b"ab\x7f\x7f\x7fc\n"]), no(Some("c")));
        assert_eq!(decided(&[b"n", b"caf\xc3", b"\xa9", b"\n"]), no(Some("caf\u{e9}")));
        assert_eq!(decided(&[b"n", b"\x1b[A", b"y\x07\n"]), no(Some("y")));
        assert_eq!(decided(&[b"n", b"because\x03"]), Some(ReviewDecision::Abort));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Only a single byte that stands for an approval is one, however keys are thrown at it.
        #[test]
        fn pieces_of_several_bytes_never_approve(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 2..8), 0..20)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert!(decided(&pieces).is_none_or(|decision| !decision.is_approval()));
        }

        #[test]
        fn a_no_never_becomes_a_yes(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..20)) {
            let pieces: Vec<&[u8]> = std::iter::once(&b"n"[..]).chain(pieces.iter().map(Vec::as_slice)).collect();
            prop_assert!(decided(&pieces).is_none_or(|decision| !decision.is_approval()));
        }
    }
}
