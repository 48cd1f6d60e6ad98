//! Recorded sequences of tool calls and their answers.
