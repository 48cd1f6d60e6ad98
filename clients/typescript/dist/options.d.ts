import type { OutputChunk } from "./output.js";
import type { AskForApproval, EscalationExecution, NetworkMode, ResourceLimits, SandboxMode, TerminalSize } from "./protocol.js";
import type { QuestionHandler } from "./question.js";
import type { SessionEvent } from "./session.js";
import { type Text } from "./text.js";
/** A command line: the program and its arguments. No shell takes it apart. */
export type CommandLine = readonly Text[];
/** The options of a session that can be changed while it lasts. */
export interface PolicyOptions {
    /** When to ask. */
    ask?: AskForApproval | undefined;
    /** How much commands are trusted with. */
    sandbox?: SandboxMode | undefined;
    /** The network. */
    network?: NetworkMode | undefined;
    /** Hosts that may be reached, such as `crates.io:443`. */
    allowHosts?: readonly string[] | undefined;
    /** Directories that may be written besides the workspace. */
    writable?: readonly Text[] | undefined;
    /** Paths and globs that are never read. */
    denyRead?: readonly string[] | undefined;
    /** Variables that commands get in any case. */
    set?: Readonly<Record<string, string>> | undefined;
    /** How much of the machine a command may use. */
    limits?: ResourceLimits | undefined;
    /** How long a command may run. */
    timeoutMs?: number | undefined;
}
/** The handlers of this client for a session. */
export interface SessionHandlers {
    /** Answers the session's questions. Without it, other clients of the session answer them. */
    onQuestion?: QuestionHandler | undefined;
    /** Receives the events of the session. */
    onEvent?: ((event: SessionEvent) => void) | undefined;
}
/** A session to open. What is absent is as the settings have it. */
export interface OpenOptions extends PolicyOptions, SessionHandlers {
    /** A name, which no other session has. */
    name?: string | undefined;
    /** The directory or directories that commands work in; this program's directory if absent. */
    workspace?: Text | readonly Text[] | undefined;
    /** Where commands start; the first directory of the workspace if absent. */
    cwd?: Text | undefined;
    /** The profile of the settings. */
    profile?: string | undefined;
    /** The whole environment that commands start from; this program's if absent. The settings say what they see of it. */
    environment?: Readonly<Record<string, Text | undefined>> | undefined;
    /** How long the session lives on without a client. */
    lingerMs?: number | undefined;
    /** How long a question waits for an answer. */
    answerTimeoutMs?: number | undefined;
}
/** A command to start. */
export interface StartOptions {
    /** Where it starts; the session's directory if absent. */
    cwd?: Text | undefined;
    /** How long it may run; the session's time if absent. */
    timeoutMs?: number | undefined;
    /** What it wants to run with; what the session grants if absent. */
    escalation?: EscalationExecution | undefined;
    /** Why, for the person who is asked. */
    justification?: string | undefined;
    /** Gives it a terminal of this size. */
    terminal?: TerminalSize | undefined;
    /** `"pipe"`: its standard input is what {@link Command.write} sends. Empty if absent. */
    stdin?: "none" | "pipe" | undefined;
    /** Its whole environment, in place of the session's. */
    environment?: Readonly<Record<string, Text | undefined>> | undefined;
    /** Aborting cancels the command. When the promise rejects with the signal's reason, the command has ended. */
    signal?: AbortSignal | undefined;
}
/** A command to run to its end. */
export interface RunOptions extends StartOptions {
    /** The content of its standard input. */
    input?: Text | undefined;
    /** Receives its output while it runs. The command waits for a returned promise. */
    onOutput?: ((chunk: OutputChunk) => void | Promise<void>) | undefined;
}
