import { Command } from "./command.js";
import { type Connection } from "./connection.js";
import type { CommandLine, PolicyOptions, RunOptions, StartOptions } from "./options.js";
import type { ApprovalResolved, Argv, AskForApproval, AuditRecord, ElicitationRequestResult, EscalationExecution, Explanation, FileChange, CheckReport, OpenQuestion, PatchApplyResult, Permissions, PermissionsRequestResult, RememberedApproval, SandboxPolicy, SessionState, ToolCallApproval, ToolReviewResult } from "./protocol.js";
import { type Answer } from "./question.js";
import { CommandResult } from "./result.js";
import { type Text } from "./text.js";
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
/** The client as a session uses it. */
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
    /** The secret that lets another client {@link Stockade.attach | attach}. Its holder can answer questions. */
    get capability(): string;
    /** The session as the server described it last: its directory, policy, permissions and notices. */
    get state(): SessionState;
    /** Runs a command to its end. A refusal or a denial is a result, not an error. */
    run(command: CommandLine, options?: RunOptions): Promise<CommandResult>;
    /** Starts a command whose output is read, or whose input is written, while it runs. */
    start(command: CommandLine, options?: StartOptions): Command;
    /** Follows a command of the session from the piece of output behind `afterSeq` on. */
    follow(commandId: string, options?: {
        afterSeq?: number | undefined;
        signal?: AbortSignal | undefined;
    }): Promise<Command>;
    /** Says what would happen to a command, and why. */
    explain(command: CommandLine, options?: {
        cwd?: Text | undefined;
        escalation?: EscalationExecution | undefined;
    }): Promise<Explanation>;
    /** Changes files, all or none: a list of changes, or the text that `stockade patch` reads. */
    patch(changes: readonly FileChange[] | string): Promise<PatchApplyResult>;
    /** Asks whether a tool may be called. The program makes the call itself. */
    reviewTool(call: ToolCallApproval, options?: {
        requiresApproval?: boolean | undefined;
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
