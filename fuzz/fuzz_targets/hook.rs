//! Any document of any agent is a use of a tool or refused; whatever the line, the agent's shell is handed one word of it, and the
//! original is found in it again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

#[path = "../../cli/src/agents/hook/call.rs"]
#[allow(dead_code, reason = "only the parser is called here")]
mod call;
#[path = "../../cli/src/agents/hook/given_command.rs"]
#[allow(dead_code, reason = "only the parser is called here")]
mod given_command;
#[path = "../../cli/src/agents/hook/javascript.rs"]
#[allow(dead_code, reason = "only the parser is called here")]
mod javascript;
#[path = "../../cli/src/agents/hook/line.rs"]
#[allow(dead_code, reason = "only the parser is called here")]
mod line;

/// The agents, as the program's arguments name them.
mod args {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum AgentName {
        ClaudeCode,
        Codex,
        Gemini,
        Opencode,
    }
}

fuzz_target!(|data: &[u8]| {
    use args::AgentName::{ClaudeCode, Codex, Gemini, Opencode};
    for agent in [ClaudeCode, Codex, Gemini, Opencode] {
        if let Ok(call) = call::read(agent, data)
            && let call::Tool::Shell { line, .. } = &call.tool
        {
            check_line(line);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        check_line(text);
        let _ = line::original(text);
    }
});

fn check_line(text: &str) {
    // No line of a shell has one.
    if text.contains('\0') {
        return;
    }
    let session = "claude-code-1".parse().unwrap();
    let both = [(line::Asked::No, line::NextLine::Follows), (line::Asked::Yes, line::NextLine::StartsAnew)];
    for (asked, next) in both {
        let Some(outer) = line::outer(Path::new("/usr/bin/stockade"), &session, text, asked, next) else { continue };
        assert_eq!(line::original(&outer).as_deref(), Some(text), "{outer}");
    }
}
