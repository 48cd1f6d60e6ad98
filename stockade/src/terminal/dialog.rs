//! The meaning of keys, independent of a terminal.

use stockade_core::Answer;
use stockade_protocol::ReviewDecision;

use super::choices::Choice;
use super::filling::{Filled, Filling, Form};
use super::line::{CTRL_C, CTRL_D, Echo, Line, Typed};

/// Limit on the length of a reason.
const LONGEST_REASON: usize = 500;

/// The next step after some keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Print this, and wait for more.
    Say(String),
    /// Show the question in full, and wait for more.
    ShowEverything,
    /// This is the answer. Print this.
    Decide(Answer, String),
}

/// A conversation about one question.
pub(super) struct Dialog {
    choices: Vec<Choice>,
    /// The form for an approval.
    form: Option<Form>,
    /// Whether the shown question was shortened. It has to be seen in full before it can be approved.
    is_unseen: bool,
    state: State,
}

enum State {
    Choosing,
    /// A reason is being typed.
    Explaining(Line),
    Filling(Box<Filling>),
}

impl Dialog {
    pub(super) fn new(choices: Vec<Choice>, form: Option<Form>) -> Self {
        Self { choices, form, is_unseen: false, state: State::Choosing }
    }

    /// Marks the question as shortened.
    pub(super) fn shortened(self, is_unseen: bool) -> Self {
        Self { is_unseen, ..self }
    }

    /// The text before the cursor.
    pub(super) fn invitation(&self) -> String {
        let keys: Vec<String> = self.choices.iter().map(|choice| choice.key.to_string()).collect();
        format!("[{}]? ", keys.join("/"))
    }

    /// Handles one chunk from the terminal.
    pub(super) fn press(&mut self, bytes: &[u8]) -> Step {
        match &mut self.state {
            State::Choosing => self.choose(bytes),
            State::Explaining(reason) => explain(reason, bytes),
            State::Filling(filling) => match filling.press(bytes) {
                Filled::Say(text) => Step::Say(text),
                Filled::Send(content, text) => {
                    Step::Decide(Answer { decision: ReviewDecision::Approved, content: Some(content) }, text)
                }
                Filled::Refuse(text) => self.ask_why(&text),
                Filled::Stopped => stop("\nstopped\n"),
            },
        }
    }

    fn choose(&mut self, bytes: &[u8]) -> Step {
        // A key is one byte. More in one chunk is a paste, or a key such as an arrow: not an answer.
        let key = match bytes {
            [byte] => char::from(*byte).to_ascii_lowercase(),
            bytes if bytes.contains(&(CTRL_C as u8)) => CTRL_C,
            _ => return self.ask_again(),
        };
        if key == CTRL_C || key == CTRL_D {
            return stop("stopped\n");
        }
        let Some(choice) = self.choices.iter().find(|choice| choice.key == key).filter(|_| key != 'v') else {
            let is_view = key == 'v';
            self.is_unseen &= !is_view;
            return if is_view { Step::ShowEverything } else { self.ask_again() };
        };
        if choice.decision.is_approval() && std::mem::take(&mut self.is_unseen) {
            return Step::ShowEverything;
        }
        if matches!(choice.decision, ReviewDecision::Denied { .. }) {
            return self.ask_why("no");
        }
        if let Some(form) = self.form.as_ref().filter(|_| choice.decision.is_approval()) {
            let (filling, question) = Filling::start(form.clone());
            self.state = State::Filling(Box::new(filling));
            return Step::Say(format!("{key}: yes\n{question}"));
        }
        let answer = if choice.decision.is_approval() { "yes" } else { "no" };
        Step::Decide(choice.decision.clone().into(), format!("{key}: {answer}\n"))
    }

    /// Whether a single key is expected, not a line.
    pub(super) fn wants_one_key(&self) -> bool {
        match &self.state {
            State::Choosing => true,
            State::Explaining(_) => false,
            State::Filling(filling) => filling.wants_one_key(),
        }
    }

    pub(super) fn ask_again(&self) -> Step {
        Step::Say(format!("\nPlease press one of these keys. {}", self.invitation()))
    }

    fn ask_why(&mut self, said: &str) -> Step {
        self.state = State::Explaining(Line::new(Echo::Shown, LONGEST_REASON));
        Step::Say(format!("{said}\nWhy not? (Enter alone gives no reason) "))
    }
}

fn stop(text: &str) -> Step {
    Step::Decide(ReviewDecision::Abort.into(), text.to_owned())
}

fn explain(reason: &mut Line, bytes: &[u8]) -> Step {
    match reason.press(bytes) {
        Typed::More { echo } => Step::Say(echo),
        Typed::Stopped => stop("\nstopped\n"),
        Typed::Finished { text, echo } => {
            let reason = Some(text.trim().to_owned()).filter(|reason| !reason.is_empty());
            Step::Decide(ReviewDecision::Denied { reason }.into(), format!("{echo}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stockade_protocol::ElicitationForm;

    use super::super::choices::choices;
    use super::super::samples;
    use super::*;
    use crate::terminal::Lifetime;

    fn dialog() -> Dialog {
        Dialog::new(choices(&samples::command(), Lifetime::Run), None)
    }

    /// The decision after these chunks.
    fn decided(pieces: &[&[u8]]) -> Option<ReviewDecision> {
        answered(dialog(), pieces).map(|answer| answer.decision)
    }

    fn answered(mut dialog: Dialog, pieces: &[&[u8]]) -> Option<Answer> {
        pieces.iter().map(|piece| dialog.press(piece)).find_map(|step| match step {
            Step::Decide(answer, _) => Some(answer),
            Step::Say(_) | Step::ShowEverything => None,
        })
    }

    /// A dialog about a form with a text that is needed, a number and a choice.
    fn form() -> Dialog {
        let request = samples::form();
        Dialog::new(choices(&request, Lifetime::Run), Some(samples::form_of(&request)))
    }

    #[test]
    fn a_form_is_sent_only_when_all_of_it_was_seen() {
        let sent = answered(form(), &[b"y", b"me@a.test\r", b"42\r", b"2\r", b"y"]).unwrap();
        let content = serde_json::json!({ "address": "me@a.test", "age": 42, "colour": "blue" });
        assert_eq!(sent.decision, ReviewDecision::Approved);
        assert_eq!(serde_json::to_value(sent.content).unwrap(), content);
        // The default, and what may be left empty.
        let sent = answered(form(), &[b"y", b"me@a.test\r", b"\r", b"\r", b"y"]).unwrap();
        let content = serde_json::json!({ "address": "me@a.test", "colour": "red" });
        assert_eq!(serde_json::to_value(sent.content).unwrap(), content);
        // A wrong answer is asked for again.
        let sent =
            answered(form(), &[b"y", b"\r", b"me\r", b"me@a.test\r", b"-1\r", b"x\r", b"1\r", b"9\r", b"1\r", b"y"]);
        assert_eq!(sent.unwrap().content.unwrap()["age"], 1);
        // A paste fills in one field, and sends nothing.
        assert_eq!(answered(form(), &[b"y", b"me@a.test\r1\r1\ry", b"1\r", b"1\ry"]), None);
        assert_eq!(answered(form(), &[b"y", b"me@a.test\r", b"\r", b"\r", b"yy", b"\r", b"x"]), None);
    }

    #[test]
    fn a_form_can_be_declined_and_cancelled_at_every_field() {
        let filled: [&[u8]; 4] = [b"y", b"me@a.test\r", b"\r", b"\r"];
        for count in 1..=filled.len() {
            let pieces: Vec<&[u8]> = filled.iter().take(count).copied().chain([&b"\x03"[..]]).collect();
            assert_eq!(answered(form(), &pieces), Some(ReviewDecision::Abort.into()), "{count}");
        }
        let pieces: Vec<&[u8]> = filled.iter().copied().chain([&b"n"[..], b"not for you\r"]).collect();
        let reason = Some(String::from("not for you"));
        assert_eq!(answered(form(), &pieces), Some(ReviewDecision::Denied { reason }.into()));
        assert_eq!(answered(form(), &[b"n", b"\r"]), Some(ReviewDecision::Denied { reason: None }.into()));
    }

    /// A secret is shown neither while it is typed nor afterwards.
    #[test]
    fn secrets_are_not_shown_and_said_to_be_sent() {
        let request = samples::secret_form();
        let mut dialog = Dialog::new(choices(&request, Lifetime::Run), Some(samples::form_of(&request)));
        let mut said = String::new();
        for piece in [&b"y"[..], b"hunt", b"er2", b"\x7f2", b"\r"] {
            let Step::Say(text) = dialog.press(piece) else { panic!("it goes on") };
            said += &text;
        }
        assert!(said.contains("****") && !said.contains("hunt") && !said.contains("er2"), "{said}");
        assert!(said.contains("This looks like a secret. Your input is sent to mail."), "{said}");
        assert!(said.contains("password: (not shown)"), "{said}");
        let Step::Decide(answer, _) = dialog.press(b"y") else { panic!("it is sent") };
        assert_eq!(answer.content.unwrap()["password"], "hunter2");
    }

    #[test]
    fn each_key_is_its_answer() {
        assert_eq!(decided(&[b"y"]), Some(ReviewDecision::Approved));
        assert_eq!(decided(&[b"Y"]), Some(ReviewDecision::Approved));
        assert_eq!(decided(&[b"s"]), None, "a run asks about its command once");
        let network = |lifetime, key: &[u8]| {
            answered(Dialog::new(choices(&samples::network(), lifetime), None), &[key]).map(|answer| answer.decision)
        };
        assert_eq!(network(Lifetime::Session, b"s"), Some(ReviewDecision::ApprovedForSession));
        assert_eq!(network(Lifetime::Run, b"s"), None, "a yes is for the run");
        assert_eq!(network(Lifetime::Run, b"x"), Some(ReviewDecision::DeniedForRun));
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
        assert_eq!(again, Step::Say(String::from("\nPlease press one of these keys. [y/p/n/q]? ")));
        assert_eq!(dialog.press(b"v"), Step::ShowEverything);
    }

    /// Omitted text is shown before an approval counts.
    #[test]
    fn nothing_is_approved_unseen() {
        for key in [b"y", b"p"] {
            let mut dialog = dialog().shortened(true);
            assert_eq!(dialog.press(key), Step::ShowEverything);
            assert!(matches!(dialog.press(key), Step::Decide(answer, _) if answer.decision.is_approval()));
        }
        let mut dialog = dialog().shortened(true);
        assert_eq!(dialog.press(b"v"), Step::ShowEverything);
        assert!(matches!(dialog.press(b"y"), Step::Decide(..)));
        assert!(matches!(self::dialog().shortened(true).press(b"q"), Step::Decide(..)));
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

        /// Only a single byte can approve, never a longer chunk.
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

        /// Any submitted form is a valid answer.
        #[test]
        fn what_is_sent_answers_the_form(pieces in prop::collection::vec(prop::sample::select(vec![
            &b"y"[..], b"n", b"a@b.c\r", b"12\r", b"2\r", b"\r", b"x", b"\x7f", b"\x1b[A", b"\xff",
        ]), 0..40)) {
            if let Some(Answer { decision: ReviewDecision::Approved, content }) = answered(form(), &pieces) {
                let schema = samples::schema_of(&samples::form());
                let checked = ElicitationForm::parse(&schema).unwrap().check(&content.unwrap());
                prop_assert_eq!(checked, Ok(()));
            }
        }
    }
}
