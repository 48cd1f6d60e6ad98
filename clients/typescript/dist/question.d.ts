import type { ApprovalRequest, ApprovalSubject, NetworkPolicyAmendment, ReviewDecision } from "./protocol.js";
/** The return value of a question's handler: created by the methods of {@link Question}. */
export interface Answer {
    /** The decision. */
    decision: ReviewDecision;
    /** The answer to an MCP server's question. */
    content?: Record<string, unknown>;
}
/**
 * Answers a session's questions. Returning nothing leaves the question to the session's other clients; so does
 * throwing, which is also told to `onError`.
 */
export type QuestionHandler = (question: Question) => Answer | undefined | void | Promise<Answer | undefined | void>;
/** A question. Its methods make the answers; only an answer that is {@link offers | offered} can be given. */
export declare class Question {
    #private;
    /** The session that asks. */
    readonly sessionId: string;
    /** Its own name, for {@link Session.answer}. */
    readonly id: string;
    /** The command that caused it, if one did. */
    readonly commandId: string | undefined;
    /** The question as it was sent. */
    readonly request: ApprovalRequest;
    /** Aborted when no answer is needed any more: another client answered, it took too long, the command was cancelled. */
    readonly signal: AbortSignal;
    /** What is asked: `subject.command`, `subject.patch`, `subject.network`, … is there, and only one of them. */
    get subject(): ApprovalSubject;
    /** The offered answers, in display order. */
    get decisions(): readonly ReviewDecision[];
    /**
     * The question in a line, to be shown as it is: what would happen, why it is asked, which paths lead elsewhere, and
     * what the requester says about it. Characters that could hide any of it are made visible.
     */
    get text(): string;
    /** Whether this answer can be given. */
    offers(decision: DecisionKind): boolean;
    /** Yes, once. */
    approve(): Answer;
    /** Yes, and to what belongs with it, until the command ends. */
    approveForRun(): Answer;
    /** Yes, and the same is not asked again in this session. */
    approveForSession(): Answer;
    /** Yes, and a rule is saved that allows exactly this command from now on. */
    approveAndSaveRule(): Answer;
    /** Yes, and a permission profile is saved that lets exactly this command write there, in this workspace, from now on. */
    approveAndSaveProfile(): Answer;
    /** Yes or no to a destination, saved as a rule: one of those that the question proposes. */
    saveNetworkRule(action: NetworkPolicyAmendment["action"]): Answer;
    /** No, with words for the program that asked. The command is not run, or not run again. */
    deny(reason?: string): Answer;
    /** No, and the request that led to the question should stop. */
    abort(): Answer;
    /** The answer to an MCP server's question: `content` fits the schema that it sent. */
    accept(content: Record<string, unknown>): Answer;
    /** Any answer. */
    answer(decision: ReviewDecision): Answer;
}
type Keys<Union> = Union extends object ? {
    [Name in keyof Union]-?: [Union[Name]] extends [never | undefined] ? never : Name;
}[keyof Union] : never;
/** A decision's name, without its payload. */
export type DecisionKind = Extract<ReviewDecision, string> | Keys<Exclude<ReviewDecision, string>>;
export {};
