import { Command } from "./command.js";
import { type Connection } from "./connection.js";
import { OutputChunk } from "./output.js";
import type { ApprovalResolved, Argv, AskForApproval, AuditRecord, ElicitationRequestResult, EscalationExecution, Explanation, FileChange, CheckReport, NetworkMode, OpenQuestion, PatchApplyResult, Permissions, PermissionsRequestResult, RememberedApproval, ResourceLimits, SandboxMode, SandboxPolicy, SessionState, TerminalSize, ToolCallApproval, ToolReviewResult } from "./protocol.js";
import { type Answer, type QuestionHandler } from "./question.js";
import { CommandResult } from "./result.js";
import { type Text } from "./text.js";
/** A command line: the program and its arguments. No shell takes it apart. */
export type CommandLine = readonly [Text, ...Text[]] | readonly Text[];
/** What can be changed about a session while it lasts. */
export interface PolicyOptions {
    /** When to ask. */
    ask?: AskForApproval;
    /** How much commands are trusted with. */
    sandbox?: SandboxMode;
    /** The network. */
    network?: NetworkMode;
    /** Hosts that may be reached, such as `crates.io:443`. */
    allowHosts?: readonly string[];
    /** Directories that may be written besides the workspace. */
    writable?: readonly Text[];
    /** Paths and globs that are never read. */
    denyRead?: readonly string[];
    /** Variables that commands get in any case. */
    set?: Readonly<Record<string, string>>;
    /** How much of the machine a command may use. */
    limits?: ResourceLimits;
    /** How long a command may run. */
    timeoutMs?: number;
}
/** What this client wants to hear of a session. */
export interface SessionHandlers {
    /** Answers the session's questions. Without it, other clients of the session answer them. */
    onQuestion?: QuestionHandler;
    /** Is told what happens in the session. */
    onEvent?: (event: SessionEvent) => void;
}
/** A session to open. What is absent is as the settings have it. */
export interface OpenOptions extends PolicyOptions, SessionHandlers {
    /** A name, which no other session has. */
    name?: string;
    /** The directory or directories that commands work in; this program's directory if absent. */
    workspace?: Text | readonly Text[];
    /** Where commands start; the first directory of the workspace if absent. */
    cwd?: Text;
    /** The profile of the settings. */
    profile?: string;
    /** The whole environment that commands start from; this program's if absent. The settings say what they see of it. */
    environment?: Readonly<Record<string, Text | undefined>>;
    /** How long the session lives on without a client. */
    lingerMs?: number;
    /** How long a question waits for an answer. */
    answerTimeoutMs?: number;
}
/** A command to start. */
export interface StartOptions {
    /** Where it starts; the session's directory if absent. */
    cwd?: Text;
    /** How long it may run; the session's time if absent. */
    timeoutMs?: number;
    /** What it wants to run with; what the session grants if absent. */
    escalation?: EscalationExecution;
    /** Why, for the person who is asked. */
    justification?: string;
    /** Gives it a terminal of this size. */
    terminal?: TerminalSize;
    /** `"pipe"`: its standard input is what {@link Command.write} sends. Empty if absent. */
    stdin?: "none" | "pipe";
    /** Its whole environment, in place of the session's. */
    environment?: Readonly<Record<string, Text | undefined>>;
    /** Aborting cancels the command. When the promise rejects with the signal's reason, the command has ended. */
    signal?: AbortSignal;
}
/** A command to run to its end. */
export interface RunOptions extends StartOptions {
    /** What its standard input holds. */
    input?: Text;
    /** Is told its output while it runs. The command waits for a promise that is returned. */
    onOutput?: (chunk: OutputChunk) => void | Promise<void>;
}
/** Something that happened in a session. */
export type SessionEvent = 
/** A command was started, here or by another client. */
{
    type: "command_started";
    commandId: string;
    command: Argv;
}
/** A command that another client started has ended. */
 | {
    type: "command_ended";
    commandId: string;
    result: CommandResult;
}
/** Output of a command that is followed is gone: pieces before `firstSeq` will not come. */
 | {
    type: "output_lost";
    commandId: string;
    firstSeq: number;
}
/** A question needs no answer any more. */
 | {
    type: "question_resolved";
    resolved: ApprovalResolved;
}
/** The policy was changed. */
 | {
    type: "changed";
    ask: AskForApproval;
    sandbox: SandboxPolicy;
}
/** The session is closed. */
 | {
    type: "closed";
    why: string;
}
/** Something worth knowing, in a sentence. */
 | {
    type: "notice";
    text: string;
};
/** What a session needs of its client. */
export interface SessionContext {
    connection: Connection;
    report(error: unknown): void;
    left(session: Session): void;
}
/** A session of the server. */
export declare class Session implements AsyncDisposable {
    #private;
    /** Its name on the wire. */
    readonly id: string;
    /** The secret that lets another client {@link Stockade.attach | attach}. Whoever has it can answer questions. */
    get capability(): string;
    /** The session as the server described it last: its directory, policy, permissions and notices. */
    get state(): SessionState;
    /** Runs a command to its end. A refusal or a denial is a result, not an error. */
    run(command: CommandLine, options?: RunOptions): Promise<CommandResult>;
    /** Starts a command whose output is read, or whose input is written, while it runs. */
    start(command: CommandLine, options?: StartOptions): Command;
    /** Follows a command of the session from the piece of output behind `afterSeq` on. */
    follow(commandId: string, options?: {
        afterSeq?: number;
        signal?: AbortSignal;
    }): Promise<Command>;
    /** Says what would happen to a command, and why. */
    explain(command: CommandLine, options?: {
        cwd?: Text;
        escalation?: EscalationExecution;
    }): Promise<Explanation>;
    /** Changes files, all or none: a list of changes, or the text that `stockade patch` reads. */
    patch(changes: readonly FileChange[] | string): Promise<PatchApplyResult>;
    /** Asks whether a tool may be called. The program makes the call itself. */
    reviewTool(call: ToolCallApproval, options?: {
        requiresApproval?: boolean;
    }): Promise<ToolReviewResult>;
    /** Asks for permissions in advance. */
    requestPermissions(permissions: Permissions, justification?: string): Promise<PermissionsRequestResult>;
    /** Passes on a question of an MCP server. */
    elicit(server: string, message: string, requestedSchema?: Record<string, unknown>): Promise<ElicitationRequestResult>;
    /** Changes the policy from the next command on. What was approved for the session stays approved. */
    update(options: PolicyOptions): Promise<SessionState>;
    /** What was approved for the session. */
    remembered(): Promise<RememberedApproval[]>;
    /** Forgets an approval by its key, or all of them. Says how many. */
    forget(key?: string): Promise<number>;
    /** The session's open questions. */
    questions(): Promise<OpenQuestion[]>;
    /** Answers a question outside of its handler, such as one of {@link questions}. */
    answer(questionId: string, answer: Answer): Promise<void>;
    /** The trail of the session, the oldest record first. */
    audit(): AsyncGenerator<AuditRecord, void, undefined>;
    /** What the rules say of a command in this session's directory. */
    checkRules(command: CommandLine): Promise<CheckReport>;
    /** Leaves the session to its other clients, or to itself. */
    detach(): Promise<void>;
    /** Ends the session's commands, refuses its questions and forgets its approvals. Says how many commands were ended. */
    close(): Promise<number>;
    /** Closes the session; one that is closed already, or whose server has gone, stays so. */
    [Symbol.asyncDispose](): Promise<void>;
}
