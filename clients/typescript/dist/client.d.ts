import type { AuditRecord, AuditVerifyResult, CheckReport, InitializeResult, ListedSession, OpenQuestion } from "./protocol.js";
import { type CommandLine, type OpenOptions, type SessionHandlers } from "./options.js";
import { Session } from "./session.js";
import { type Transport } from "./transport.js";
/** How to reach a server. */
export interface ConnectOptions {
    /** The program that is started and spoken with over its standard input and output; `["stockade", "serve"]` if absent. */
    command?: readonly string[] | undefined;
    /** Connects to a server that runs already: the path of its Unix socket, or `true` for the usual one. */
    socket?: string | true | undefined;
    /** Any other transport to a server. */
    transport?: Transport | undefined;
    /** The environment of the program that is started; this program's if absent. */
    env?: NodeJS.ProcessEnv | undefined;
    /** The directory of the program that is started; this program's if absent. */
    cwd?: string | undefined;
    /** This program's name: other clients are shown it as the one that answered. */
    name?: string | undefined;
    /** This program's version. */
    version?: string | undefined;
    /** Whether questions can be answered here. Sessions without `onQuestion` leave theirs to other clients. */
    answers?: boolean | undefined;
    /** Whether terminals can be shown here. */
    terminal?: boolean | undefined;
    /** Gives up connecting. */
    signal?: AbortSignal | undefined;
    /** The longest message to take from the server, in bytes; 64 MiB if absent. */
    maxFrameBytes?: number | undefined;
    /** Receives errors that no call can throw, such as one of a question's handler. A warning is printed if absent. */
    onError?: ((error: unknown) => void) | undefined;
}
/** A client of a Stockade server. */
export declare class Stockade implements AsyncDisposable {
    #private;
    private constructor();
    /** Starts a server, or connects to one, and introduces this program to it. */
    static connect(options?: ConnectOptions): Promise<Stockade>;
    /** The server's name, version, methods and limits. */
    get server(): InitializeResult;
    /** Opens a session. It asks with `on-failure` if it has `onQuestion`, and never if it has not. */
    open(options?: OpenOptions): Promise<Session>;
    /** Joins a session that another client opened, or that this program opened over a connection that was lost. */
    attach(sessionId: string, capability: string, handlers?: SessionHandlers): Promise<Session>;
    /** The sessions of the server, the oldest first. */
    sessions(): Promise<ListedSession[]>;
    /** The open questions of all sessions that this connection is attached to. */
    questions(): Promise<OpenQuestion[]>;
    /** The whole trail, the oldest record first. */
    audit(): AsyncGenerator<AuditRecord, void, undefined>;
    /** Checks whether the trail is whole. */
    verifyAudit(): Promise<AuditVerifyResult>;
    /** Evaluates the rules of the system and the user for a command. */
    checkRules(command: CommandLine): Promise<CheckReport>;
    /**
     * Ends the connection. A server that this client started closes its sessions and ends; sessions of another
     * server live on for their time.
     */
    close(): Promise<void>;
    /** The same as {@link close}. */
    [Symbol.asyncDispose](): Promise<void>;
}
