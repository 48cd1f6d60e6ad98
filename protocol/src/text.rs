//! One-line texts of questions and denials, for programs without their own. They contain nothing that moves the cursor
//! or hides text.

use std::fmt;

use crate::{
    ApprovalSubject, Destination, EscalationExecution, Operation, RawText, Violation, ViolationTarget, WriteOperation,
};

/// `run git push, with more permissions`, `reach example.com:443`.
impl fmt::Display for ApprovalSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| RawText::from(text);
        match self {
            Self::Command(command) => {
                let how = match command.escalation {
                    EscalationExecution::TurnDefault => "",
                    EscalationExecution::Permissions(_) => ", with more permissions",
                    EscalationExecution::Unsandboxed => ", without the sandbox",
                };
                write!(f, "run {}{how}", command.command)
            }
            Self::Patch(patch) => {
                f.write_str("change")?;
                for (number, path) in patch.changes.iter().flat_map(|change| change.paths()).enumerate() {
                    write!(f, "{} {path}", if number == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Network(network) => {
                let (host, protocol, port) = (network.host.clone(), network.protocol, network.port);
                write!(f, "reach {}", Destination { host, protocol, port })
            }
            Self::Write(write) => {
                f.write_str(match write.operation {
                    WriteOperation::Write => "write",
                    WriteOperation::Create | WriteOperation::MakeDirectory => "create",
                    WriteOperation::Replace => "remove or replace",
                })?;
                for (number, path) in write.paths.iter().enumerate() {
                    write!(f, "{} {path}", if number == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Permissions(_) => f.write_str("give the session more permissions"),
            Self::ToolCall(call) => write!(f, "call {} of {}", shown(&call.tool), shown(&call.server)),
            Self::Elicitation(question) => {
                write!(f, "answer {}: {}", shown(&question.server), shown(&question.message))
            }
        }
    }
}

/// The denied act: "writing `/etc/hosts`".
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.operation {
            Operation::Read => "reading",
            Operation::Write => "writing",
            Operation::Execute => "running",
            Operation::Connect => "connecting to",
            Operation::Listen => "listening on",
            Operation::Process => "touching the process",
            Operation::SystemCall => "the system call",
            Operation::Exceed => "exceeding",
        };
        match &self.target {
            ViolationTarget::Path(path) | ViolationTarget::UnixSocket(path) => write!(f, "{verb} `{path}`"),
            ViolationTarget::Destination(to) => write!(f, "{verb} `{to}`"),
            ViolationTarget::SystemCall(name) | ViolationTarget::Limit(name) => {
                write!(f, "{verb} `{}`", RawText::from(name.as_str()))
            }
            ViolationTarget::Process(number) => write!(f, "{verb} `{number}`"),
            ViolationTarget::Command(command) => write!(f, "{verb} `{command}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ElicitationApproval, ToolCallApproval};

    use super::*;

    #[test]
    fn a_question_stays_on_its_line() {
        let question = ElicitationApproval {
            server: String::from("mail"),
            message: String::from("Which one?\n\u{1b}[2K\u{202e}"),
            requested_schema: None,
        };
        let text = ApprovalSubject::Elicitation(question).to_string();
        assert!(text.starts_with("answer mail: Which one?"), "{text}");
        assert!(text.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{text}");
        let call = serde_json::json!({ "server": "mail", "tool": "send\r" });
        let call: ToolCallApproval = serde_json::from_value(call).unwrap();
        assert_eq!(ApprovalSubject::ToolCall(call).to_string(), r"call send\r of mail");
    }
}
