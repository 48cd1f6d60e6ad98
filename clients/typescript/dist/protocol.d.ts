// Generated from `schemas/` by `scripts/generate.mjs`. Changes go there.

/** Properties that other variants of a union have: reading one of them tells the variants apart. */
export type Without<Names extends string> = { [name in Names]?: never };

/** What a client asks the server for. */
export interface Requests {
  /** Begins the conversation. The first request on every connection. */
  "initialize": { params: InitializeParams; result: InitializeResult };
  /** Opens a session and attaches this connection to it. */
  "session/open": { params: SessionOpenParams; result: SessionOpenResult };
  /** Attaches this connection to a session. */
  "session/attach": { params: SessionAttachParams; result: SessionState };
  /** Detaches this connection from a session. */
  "session/detach": { params: SessionParams; result: Empty };
  /** Changes a session's policy from its next command on. */
  "session/update": { params: SessionUpdateParams; result: SessionState };
  /** Ends a session with its commands and questions. */
  "session/close": { params: SessionParams; result: SessionCloseResult };
  /** Lists the sessions of the server. */
  "session/list": { params: Empty; result: SessionListResult };
  /** Runs a command and answers when it has ended. */
  "command/run": { params: CommandRunParams; result: CommandRunResult };
  /** Follows a command from a piece of its output on. */
  "command/attach": { params: CommandAttachParams; result: CommandAttachResult };
  /** Writes to a command's standard input or terminal. */
  "command/write": { params: CommandWriteParams; result: Empty };
  /** Changes the size of a command's terminal. */
  "command/resize": { params: CommandResizeParams; result: Empty };
  /** Sends a command a signal. */
  "command/signal": { params: CommandSignalParams; result: Empty };
  /** Ends a command. */
  "command/cancel": { params: CommandCancelParams; result: CommandCancelResult };
  /** Says what would happen to a command. */
  "command/explain": { params: CommandExplainParams; result: Explanation };
  /** Changes files on the host, all or none. */
  "patch/apply": { params: PatchApplyParams; result: PatchApplyResult };
  /** Decides whether a tool may be called. */
  "tool/review": { params: ToolReviewParams; result: ToolReviewResult };
  /** Asks for permissions in advance. */
  "permissions/request": { params: PermissionsRequestParams; result: PermissionsRequestResult };
  /** Passes on a question of an MCP server. */
  "elicitation/request": { params: ElicitationRequestParams; result: ElicitationRequestResult };
  /** Lists open questions. */
  "approval/list": { params: ApprovalListParams; result: ApprovalListResult };
  /** Answers a question. */
  "approval/answer": { params: ApprovalAnswerParams; result: Empty };
  /** Lists the approvals that hold for a session. */
  "approval/remembered": { params: ApprovalRememberedParams; result: ApprovalRememberedResult };
  /** Makes a session forget approvals. */
  "approval/forget": { params: ApprovalForgetParams; result: ApprovalForgetResult };
  /** Reads records of the trail. */
  "audit/list": { params: AuditListParams; result: AuditListResult };
  /** Checks whether the trail is whole. */
  "audit/verify": { params: Empty; result: AuditVerifyResult };
  /** Asks the rules about a command. */
  "rules/check": { params: RulesCheckParams; result: CheckReport };
  /** Closes all sessions and ends the server. Only on standard input and output. */
  "shutdown": { params: Empty; result: Empty };
}

/** What a client tells the server. */
export interface ClientNotifications {
  /** Says that output of a command was used. Only for commands run or attached with `acknowledge`. */
  "command/ack": CommandAck;
}

/** What the server asks a client for. */
export interface ServerRequests {
  /** Asks every client of the session that answers questions. The first usable answer counts. */
  "approval/request": { params: ApprovalRequestParams; result: ApprovalRequestResult };
}

/** What the server tells a client. */
export interface Notifications {
  /** A question needs no answer any more. */
  "approval/resolved": ApprovalResolved;
  /** An answer of this client can't be used. */
  "approval/unusable": ApprovalUnusable;
  /** A command was started. */
  "command/started": CommandStarted;
  /** A command wrote something. */
  "command/output": CommandOutput;
  /** Output of a command is not kept any more. */
  "command/lost": CommandLost;
  /** A command ended. */
  "command/ended": CommandEnded;
  /** A session's policy changed. */
  "session/changed": SessionChanged;
  /** A session is closed. */
  "session/closed": SessionClosed;
  /** Something worth knowing. */
  "session/notice": SessionNotice;
}

/** An absolute path without `.`, `..`, doubled or trailing separators. */
export type AbsPath = string | RawBytes;

/**
 * What may be done with a file of the host, in the order of what is exposed.
 * - `none`: Nothing: it can neither be read nor written.
 * - `scratch`: The host's files are out of reach, but an empty private directory stands in their place. It
 * can be written and is gone when the command ends.
 * - `read`: It can be read and executed.
 * - `write`: It can be read, written, created, renamed and removed.
 */
export type Access =
  | "none"
  | "scratch"
  | "read"
  | "write";

/** Answers a question. */
export interface ApprovalAnswerParams {
  /** What is answered to an MCP server's question. */
  content?: Record<string, unknown> | null;
  /** The decision, one of `request.available_decisions`. A denial may say why. */
  decision: ReviewDecision;
  /** The question. */
  question_id: QuestionId;
  /** The session. */
  session_id: SessionId;
}

/** Makes a session forget. */
export interface ApprovalForgetParams {
  /** The approval; every approval if absent. */
  key?: string | null;
  /** The session. */
  session_id: SessionId;
}

/** How much was forgotten. */
export interface ApprovalForgetResult {
  /** How many approvals were forgotten. */
  forgotten: number;
}

/** Lists the open questions. */
export interface ApprovalListParams {
  /** The session; every session that this connection is attached to if absent. */
  session_id?: SessionId | null;
}

/** The open questions. */
export interface ApprovalListResult {
  /** The questions, the oldest first. */
  questions: OpenQuestion[];
}

/** Asks what a session remembers. */
export interface ApprovalRememberedParams {
  /** The session. */
  session_id: SessionId;
}

/** What a session remembers. */
export interface ApprovalRememberedResult {
  /** The approvals, in the order in which they were given. */
  approvals: RememberedApproval[];
}

/** The answer. */
export interface ApprovalReply {
  /** What was answered to an MCP server's question. */
  content?: Record<string, unknown> | null;
  /** The decision. */
  decision: ReviewDecision;
  /** The name of the request that was answered. */
  id: RequestId;
}

/**
 * A question. It says what will really happen: resolved paths, every command of a line, what is
 * granted, and which answers there are.
 */
export interface ApprovalRequest {
  /** The answers there are, in the order to show them. */
  available_decisions: ReviewDecision[];
  /** The name of the request that it is about. */
  id: RequestId;
  /** Why it is asked. */
  reason?: string | null;
  /** Paths that lead elsewhere than their names say. */
  resolved_paths?: ResolvedPath[];
  /** How risky a program took it to be. Nothing is decided by it. */
  risk?: RiskAssessment | null;
  /** What is asked. */
  subject: ApprovalSubject;
  /** The session it belongs to. */
  thread_id: ThreadId;
}

/** Asks a client. */
export interface ApprovalRequestParams {
  /** The command that caused it, if one did. */
  command_id?: CommandId | null;
  /** The question's own name: a request can lead to several questions. */
  question_id: QuestionId;
  /** The question. */
  request: ApprovalRequest;
  /** The session. */
  session_id: SessionId;
}

/** A client's answer to `approval/request`. */
export interface ApprovalRequestResult {
  /** What is answered to an MCP server's question. */
  content?: Record<string, unknown> | null;
  /** The decision, one of `request.available_decisions`. A denial may say why. */
  decision: ReviewDecision;
  /** The question's `request.id`, if it is repeated. */
  id?: RequestId | null;
}

/** A question needs no answer any more. Sent to every client of the session but the one that answered. */
export interface ApprovalResolved {
  /** The name of the client that answered. */
  answered_by?: string | null;
  /** The decision, if there is one. */
  decision?: ReviewDecision | null;
  /** The question. */
  question_id: QuestionId;
  /** The session. */
  session_id: SessionId;
  /** Why there is no answer: `timed out`, `cancelled`, …. */
  why?: string | null;
}

/** What is asked. */
export type ApprovalSubject =
  | ApprovalSubjectCommand
  | ApprovalSubjectPatch
  | ApprovalSubjectNetwork
  | ApprovalSubjectWrite
  | ApprovalSubjectPermissions
  | ApprovalSubjectToolCall
  | ApprovalSubjectElicitation;

/** May this command run? */
export interface ApprovalSubjectCommand extends Without<"patch" | "network" | "write" | "permissions" | "tool_call" | "elicitation"> {
  command: CommandApproval;
}

/** May these files be changed? */
export interface ApprovalSubjectPatch extends Without<"command" | "network" | "write" | "permissions" | "tool_call" | "elicitation"> {
  patch: PatchApproval;
}

/** May this destination be reached? */
export interface ApprovalSubjectNetwork extends Without<"command" | "patch" | "write" | "permissions" | "tool_call" | "elicitation"> {
  network: NetworkApproval;
}

/** May the running command write this? Its call waits for the answer. */
export interface ApprovalSubjectWrite extends Without<"command" | "patch" | "network" | "permissions" | "tool_call" | "elicitation"> {
  write: WriteApproval;
}

/** May the session have these permissions from now on? */
export interface ApprovalSubjectPermissions extends Without<"command" | "patch" | "network" | "write" | "tool_call" | "elicitation"> {
  permissions: PermissionsApproval;
}

/** May this tool of an MCP server be called? */
export interface ApprovalSubjectToolCall extends Without<"command" | "patch" | "network" | "write" | "permissions" | "elicitation"> {
  tool_call: ToolCallApproval;
}

/** Will you answer an MCP server's question? */
export interface ApprovalSubjectElicitation extends Without<"command" | "patch" | "network" | "write" | "permissions" | "tool_call"> {
  elicitation: ElicitationApproval;
}

/** An answer of this client can't be used. The question stays open. */
export interface ApprovalUnusable {
  /** The question. */
  question_id: QuestionId;
  /** The session. */
  session_id: SessionId;
  /** What is wrong with the answer. */
  why: string;
}

/** The words that a process is started with. The first is the program. */
export type Argv = RawText[];

/**
 * When to ask before, or after, a command is run.
 * - `untrusted`: Before everything that is not known to be a harmless read.
 * - `on-failure`: When the sandbox denied something that a wider run could do.
 * - `on-request`: When the command itself asks for more, or is dangerous.
 * - `never`: Never: what would have to be asked is refused.
 */
export type AskForApproval =
  | "untrusted"
  | "on-failure"
  | "on-request"
  | AskForApprovalReject
  | AskForApprovalGranular
  | "never";

/** As `on-request`, but whole categories of questions are refused instead of shown. */
export interface AskForApprovalReject extends Without<"granular"> {
  reject: RejectConfig;
}

/** The same with the opposite sense: what is not said to be shown is refused. */
export interface AskForApprovalGranular extends Without<"reject"> {
  granular: GranularConfig;
}

/** What happened. Secrets in arguments are redacted before a record is made. */
export type AuditEvent =
  | AuditEventRequested
  | AuditEventPatchRequested
  | AuditEventToolRequested
  | AuditEventPermissionsRequested
  | AuditEventDecided
  | AuditEventAsked
  | AuditEventAnswered
  | AuditEventConnected
  | AuditEventProgramJudged
  | AuditEventWrittenOutside
  | AuditEventPatched
  | AuditEventToolCalled
  | AuditEventToolApproved
  | AuditEventPermissionsGranted
  | AuditEventFailed
  | AuditEventRefused
  | AuditEventEnded
  | AuditEventSessionOpened
  | AuditEventSessionChanged
  | AuditEventSessionClosed
  | AuditEventUnrecorded
  | AuditEventRepaired;

/** A command was asked for. */
export interface AuditEventRequested extends Without<"patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  requested: {
    /** The program and its arguments. */
    command: Argv;
    /** Where it starts. */
    cwd: AbsPath;
    /** What it wants to run with. */
    escalation: EscalationExecution;
    /** How much there is of it, where this record holds only the beginning and the end. */
    whole?: WholeCommand | null;
  };
}

/** A change of files was asked for. */
export interface AuditEventPatchRequested extends Without<"requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  patch_requested: {
    /** Every path that would change: both ends of a move. */
    paths: AbsPath[];
  };
}

/** A call of a tool was asked for. */
export interface AuditEventToolRequested extends Without<"requested" | "patch_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  tool_requested: {
    /** The MCP server that has the tool. */
    server: string;
    /** The tool. */
    tool: string;
  };
}

/** Permissions were asked for in advance. */
export interface AuditEventPermissionsRequested extends Without<"requested" | "patch_requested" | "tool_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  permissions_requested: {
    /** Why, in the words of the requester. */
    justification?: string | null;
    /** On top of what the session has. */
    permissions: Permissions;
  };
}

/** It was decided what has to happen before something runs or connects. */
export interface AuditEventDecided extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  decided: {
    /** The decision. */
    decision: Decision;
    /** Why. */
    reason?: string | null;
    /** What the policy outside that approved it found worth a warning. */
    sandbox_warnings?: string[];
    /** Who or what decided. */
    source: DecisionSource;
  };
}

/** A person was asked. */
export interface AuditEventAsked extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  asked: {
    /** What. */
    subject: ApprovalSubject;
  };
}

/** The answer came. */
export interface AuditEventAnswered extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  answered: {
    /** The decision. */
    decision: ReviewDecision;
    /** How long it took, in milliseconds. */
    duration_ms: number;
    /** Whether it came in time. A late answer changes nothing. */
    in_time: boolean;
  };
}

/**
 * A connection was decided. Equal ones of a request are counted, and the count is written now and then and when
 * the request ends.
 */
export interface AuditEventConnected extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  connected: {
    /** The decision. */
    decision: Decision;
    /** Where to. */
    destination: Destination;
    /** Who or what decided. */
    source: DecisionSource;
    /** How many equal connections there have been in this request; one if absent. */
    times?: number;
  };
}

/**
 * A rule that restricts, or gives something, was met by a program that the command started, and it was decided. Equal
 * starts of a request are recorded once, but those that ran elsewhere.
 */
export interface AuditEventProgramJudged extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  program_judged: {
    /** The program and its arguments. */
    command: Argv;
    /** Where it was started. */
    cwd: AbsPath;
    /** The decision. */
    decision: Decision;
    /** What it ran with, elsewhere than its caller, if a rule gave it more. */
    execution?: EscalationExecution | null;
    /** The process that started it, as the host numbers it. */
    pid?: number | null;
    /** Why. */
    reason?: string | null;
    /** Who or what decided. */
    source: DecisionSource;
    /** The programs above it, the command first. */
    started_by?: Argv[];
    /**
     * How much there is of it, where this record holds only the beginning and the end. What lies beyond the words that
     * are judged does not count.
     */
    whole?: WholeCommand | null;
  };
}

/** Calls on files were made for a command outside of the sandbox, after a yes. Written when the run ends. */
export interface AuditEventWrittenOutside extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  written_outside: {
    /** How many calls there were. */
    calls: number;
    /** The files that were written, made or removed, without those beyond the first hundred. */
    paths: AbsPath[];
  };
}

/** Files were changed. */
export interface AuditEventPatched extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  patched: {
    /** The files that were written or removed, where they really are. */
    paths: AbsPath[];
  };
}

/** A tool was called, and answered. What it answered is not kept. */
export interface AuditEventToolCalled extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  tool_called: {
    /** How long that took, in milliseconds. */
    duration_ms: number;
  };
}

/** A tool may be called, by a client that does so itself. */
export interface AuditEventToolApproved extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  tool_approved: Record<string, unknown>;
}

/** Permissions that were asked for in advance were granted. */
export interface AuditEventPermissionsGranted extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  permissions_granted: {
    /** On top of what the session has. */
    permissions: Permissions;
    /** How long they hold. */
    scope: PermissionsScope;
  };
}

/** A tool was called, or files were to be changed, and that failed; or a request was given up before its end. */
export interface AuditEventFailed extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  failed: {
    /** Why. */
    reason: string;
  };
}

/** It was not run. */
export interface AuditEventRefused extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  refused: Refusal;
}

/** It ran and ended. */
export interface AuditEventEnded extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "session_opened" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  ended: {
    /** How long it ran, in milliseconds. */
    duration_ms: number;
    /** Which layers held. */
    enforcement: Enforcement;
    /** Its exit code, or 128 and the signal's number. */
    exit_code?: number | null;
    /** How: `exited`, `denied`, `timed_out`, `cancelled` or `signaled`. */
    result: string;
    /** What it was denied. */
    violations?: Violation[];
  };
}

/** A client of the server opened a session. The ids of it, of its changes and of its end are the session's. */
export interface AuditEventSessionOpened extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_changed" | "session_closed" | "unrecorded" | "repaired"> {
  session_opened: {
    /** When it asks. */
    ask: AskForApproval;
    /** The name of the client program, in its own words. */
    client: string;
    /** The session's name, if it has one. */
    name?: string | null;
    /** How much its commands are trusted with. */
    sandbox: SandboxPolicy;
    /** The directories that its commands work in. */
    workspace: AbsPath[];
  };
}

/** A client changed the policy of a session, from its next request on. */
export interface AuditEventSessionChanged extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_closed" | "unrecorded" | "repaired"> {
  session_changed: {
    /** When it asks now. */
    ask: AskForApproval;
    /** The name of the client program, in its own words. */
    client: string;
    /** How much its commands are trusted with now. */
    sandbox: SandboxPolicy;
  };
}

/** A session was closed, with its commands and everything that it remembered. */
export interface AuditEventSessionClosed extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "unrecorded" | "repaired"> {
  session_closed: {
    /** How many commands were ended with it. */
    commands: number;
    /** Why. */
    reason: string;
  };
}

/**
 * The run made more records than one run may have, so that no run pushes earlier ones out of the
 * trail. What came after the limit is counted.
 */
export interface AuditEventUnrecorded extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "repaired"> {
  unrecorded: {
    /** How many events have no record of their own. */
    events: number;
  };
}

/**
 * The trail itself did not end as it should, and goes on from here. The ids are those of the
 * request that found it so.
 */
export interface AuditEventRepaired extends Without<"requested" | "patch_requested" | "tool_requested" | "permissions_requested" | "decided" | "asked" | "answered" | "connected" | "program_judged" | "written_outside" | "patched" | "tool_called" | "tool_approved" | "permissions_granted" | "failed" | "refused" | "ended" | "session_opened" | "session_changed" | "session_closed" | "unrecorded"> {
  repaired: {
    /** What was found. */
    damage: TrailDamage;
  };
}

/** Reads records of the trail. */
export interface AuditListParams {
  /** Only records behind the one with this `sequence`. */
  after?: number | null;
  /** How many records at most; 1,000 if absent. */
  limit?: number | null;
  /** Only the records of this session. */
  session_id?: SessionId | null;
}

/** Records of the trail. */
export interface AuditListResult {
  /** What to give as `after` for the next ones; absent if there are none yet. */
  next?: number | null;
  /** The records, the oldest first. */
  records: AuditRecord[];
}

/**
 * One decision or event. Each record carries the hash of the one before it, so that a line which
 * was changed, removed or slipped in can be named.
 */
export interface AuditRecord {
  /** What happened. */
  event: AuditEvent;
  /** The hash of this record: of everything above, written as JSON. */
  hash: RecordHash;
  /** The hash of the record before this one; all zero in the first. */
  previous: RecordHash;
  /** The request. */
  request_id: RequestId;
  /** Its place in the trail, counted from 0. */
  sequence: number;
  /** The session. */
  thread_id: ThreadId;
  /** When, in milliseconds since 1970 (UTC). */
  time_ms: number;
}

/** Whether the trail is whole. */
export interface AuditVerifyResult {
  /** The first record that is not as it should be. */
  bad?: TrailFlaw | null;
  /** The number of the oldest record that is kept. */
  first_sequence?: number | null;
  /** When it was written, in milliseconds since 1970 (UTC). */
  first_time_ms?: number | null;
  /** Its hash. */
  last_hash?: RecordHash | null;
  /** The number of the last good record. */
  last_sequence?: number | null;
  /** How many records are as they were written, up to the first that is not. */
  records: number;
  /** How many records were begun by writers that died. */
  unfinished: number;
  /** Whether every record is as it was written and none is missing. */
  whole: boolean;
}

/** Ends every running command that was started with this name. */
export interface CancelRequest {
  /** The name that the commands were started with. */
  token: CancelToken;
}

/** A name under which a running command can be cancelled. */
export type CancelToken = string;

/**
 * The secret that makes a connection a client of a session: 256 random bits in lower-case hexadecimal.
 *
 * It is compared without regard to where the first difference is, and never shown by `Debug`.
 */
export type Capability = string;

/** Output, whole or with its middle left out. */
export interface CapturedOutput {
  /** The whole, or its beginning. */
  head: RawText;
  /** How many bytes stood between head and tail. */
  omitted_bytes?: number;
  /** Its end, where the middle was left out. */
  tail?: RawText;
}

/** What `execpolicy check` prints: `{"matchedRules":[…],"decision":"…"}`. */
export interface CheckReport {
  /** The strictest decision. Absent when nothing matched and no fallback was asked. */
  decision?: Decision | null;
  /** Every match, in the order of the commands. */
  matchedRules: ReportedMatch[];
}

/** What a client can do. */
export interface ClientCapabilities {
  /** It answers `approval/request`. */
  answers?: boolean;
  /** It can show a terminal. */
  terminal?: boolean;
}

/** The client program. */
export interface ClientInfo {
  /** Its name, which others are shown as the one that answered. */
  name: string;
  /** Its version. */
  version?: string | null;
}

/** A client has used output of a command up to this piece. Where the command or the piece is not known, it is ignored. */
export interface CommandAck {
  /** The command. */
  command_id: CommandId;
  /** The number of the last piece that was used. */
  seq: number;
  /** The session. */
  session_id: SessionId;
}

/** A command, before its first run or, after a denial, before a wider one. */
export interface CommandApproval {
  /** The program and its arguments. */
  command: Argv;
  /** Where it starts. */
  cwd: AbsPath;
  /** What it will run with if approved. */
  escalation: EscalationExecution;
  /** Why, in the words of the requester. Nothing is decided by it. */
  justification?: string | null;
  /** What it runs, part by part. */
  parsed: ParsedLine;
  /** A rule that would save this question in future. */
  proposed_execpolicy_amendment?: ExecPolicyAmendment | null;
  /**
   * For a program that a running command starts: the programs above it, the command first. Its start waits for the
   * answer. Long ones are cut.
   */
  started_by?: Argv[];
  /** What the sandbox denied the run before this one. */
  violations?: Violation[];
}

/** Follows a command. */
export interface CommandAttachParams {
  /**
   * Whether output counts as under way until this client says `command/ack`, and not just until the connection has
   * taken it.
   */
  acknowledge?: boolean;
  /** The number of the last piece of output that the client has. */
  after_seq?: number;
  /** The command. */
  command_id: CommandId;
  /** The session. */
  session_id: SessionId;
}

/** Where a command stands. */
export interface CommandAttachResult {
  /** The oldest piece of output that is still kept; one more than `last_seq` if none is. */
  first_seq: number;
  /** The newest piece of output; 0 if there is none. */
  last_seq: number;
  /** Whether it still runs. */
  state: CommandState;
}

/** Ends a command. */
export interface CommandCancelParams {
  /** The command. */
  command_id: CommandId;
  /** The session. */
  session_id: SessionId;
}

/** Whether there was anything to end. */
export interface CommandCancelResult {
  /** Whether the command was still running. */
  was_running: boolean;
}

/** A command ended. Sent to every client of the session but the one that ran it. */
export interface CommandEnded {
  /** The command. */
  command_id: CommandId;
  /** The number of its last piece of output; 0 if there was none. */
  last_seq: number;
  /** How it ended. */
  outcome: Outcome;
  /** The session. */
  session_id: SessionId;
}

/** Asks what would happen to a command. */
export interface CommandExplainParams {
  /** The program and its arguments. */
  command: Argv;
  /** Where it would start; the session's directory if absent. */
  cwd?: AbsPath | null;
  /** What it would want to run with; what the session grants if absent. */
  escalation?: EscalationExecution | null;
  /** The session. */
  session_id: SessionId;
}

/** A command of a session, chosen by the client or else by the server. */
export type CommandId = string;

/** Output of a command is not kept any more. */
export interface CommandLost {
  /** The command. */
  command_id: CommandId;
  /** The oldest piece that is kept. */
  first_seq: number;
  /** The session. */
  session_id: SessionId;
}

/** A command wrote something. */
export interface CommandOutput {
  /** The command. */
  command_id: CommandId;
  /** What was written. */
  data: RawText;
  /** The number of this piece: from 1, without gaps, for both streams together. */
  seq: number;
  /** The session. */
  session_id: SessionId;
  /** Where it was written to. */
  stream: OutputStream;
}

/** Changes the size of a command's terminal. */
export interface CommandResizeParams {
  /** The command. */
  command_id: CommandId;
  /** The session. */
  session_id: SessionId;
  /** The new size. */
  size: TerminalSize;
}

/**
 * Whether a command does something itself or only starts another.
 * - `runs`: It does its own work and is judged in full.
 * - `wrapper`: It only starts the command behind it with the same rights (`timeout 5 git status`). That one
 * is judged in its place; rules that restrict the wrapper still count.
 */
export type CommandRole = "runs" | "wrapper";

/** Runs a command in a session. */
export interface CommandRunParams {
  /**
   * Whether output counts as under way until this client says `command/ack`, and not just until the connection has
   * taken it.
   */
  acknowledge?: boolean;
  /**
   * The most that the command may do. It lowers what the session grants and never raises it, and no approval exceeds
   * it.
   */
  at_most?: Permissions | null;
  /** The secret of the session: attaches this connection to it first, if it is not attached. */
  capability?: Capability | null;
  /** The program and its arguments. */
  command: Argv;
  /** A name for the command that no other command of the session has; the server chooses one if absent. */
  command_id?: CommandId | null;
  /** Where it starts; the session's directory if absent. */
  cwd?: AbsPath | null;
  /** The caller's whole environment, in place of the session's. */
  environment?: Record<string, RawText> | null;
  /** What it wants to run with; what the session grants if absent. */
  escalation?: EscalationExecution | null;
  /** Whether the caller ignores `SIGPIPE`, as the command then does: its writes to a pipe without a reader fail. */
  ignores_broken_pipes?: boolean;
  /** Why, for the person who is asked. */
  justification?: string | null;
  /** The caller's limits. They lower what the session grants and never raise it. */
  rlimits?: Record<string, Rlimit> | null;
  /** The session. */
  session_id: SessionId;
  /** What its standard input is. */
  stdin?: StdinKind;
  /** Whether this connection is sent the output while it is written. */
  stream?: boolean;
  /** Descriptors that come with this request and become the command's streams. Only on a socket. */
  streams?: SentStreams | null;
  /** Give it a terminal of this size. */
  terminal?: TerminalSize | null;
  /** How long it may run, in milliseconds; the session's time if absent. */
  timeout_ms?: number | null;
  /** The caller's umask. */
  umask?: Umask | null;
  /** Whether the command ends when this connection ends, as a command of a program does that is killed. */
  until_disconnect?: boolean;
}

/** How a command ended. All its output was sent before. */
export interface CommandRunResult {
  /** The command. */
  command_id: CommandId;
  /** The number of its last piece of output; 0 if there was none. */
  last_seq: number;
  /** How it ended. */
  outcome: Outcome;
}

/** Sends a command a signal. */
export interface CommandSignalParams {
  /** The command. */
  command_id: CommandId;
  /** The session. */
  session_id: SessionId;
  /** The signal. */
  signal: SignalName;
}

/** A command was started. Sent to every client of the session but the one that ran it under a name of its own choice. */
export interface CommandStarted {
  /** Its words. */
  command: Argv;
  /** The command. */
  command_id: CommandId;
  /** The session. */
  session_id: SessionId;
}

/**
 * Whether a command still runs.
 * - `running`: It runs, or waits for an answer.
 * - `ended`: It has ended.
 */
export type CommandState = "running" | "ended";

/** Writes to a command's standard input or terminal. */
export interface CommandWriteParams {
  /** Whether that is all. Nothing can be written afterwards. */
  close?: boolean;
  /** The command. */
  command_id: CommandId;
  /** What to write. */
  data: RawText;
  /** The session. */
  session_id: SessionId;
}

/**
 * What a rule, or all rules together, say of a command. The strictest wins:
 * - `allow`: It may, without asking.
 * - `prompt`: A person has to be asked.
 * - `forbidden`: It may not, and there is no question.
 */
export type Decision = "allow" | "prompt" | "forbidden";

/**
 * Who or what decided.
 * - `fallback`: The table of known commands.
 * - `approval_policy`: The approval policy.
 * - `reviewer`: A person, or a program that answers in their place.
 * - `session_memory`: An earlier answer that holds for the session.
 * - `external`: A policy outside, before the request arrived.
 */
export type DecisionSource =
  | DecisionSourceRule
  | "fallback"
  | "approval_policy"
  | "reviewer"
  | "session_memory"
  | "external";

/** A rule, by its text or place. */
export interface DecisionSourceRule {
  rule: string;
}

/**
 * What stood against an act.
 * - `not_granted`: No rule grants it.
 */
export type DenyingRule =
  | DenyingRuleFile
  | DenyingRuleNetwork
  | "not_granted"
  | DenyingRuleCommand
  | DenyingRuleLayer;

/** A rule on files. */
export interface DenyingRuleFile extends Without<"network" | "command" | "layer"> {
  file: FileRule;
}

/** A rule on hosts. */
export interface DenyingRuleNetwork extends Without<"file" | "command" | "layer"> {
  network: HostRule;
}

/** A rule on commands, or the answer to the question that such a rule raised. */
export interface DenyingRuleCommand extends Without<"file" | "network" | "layer"> {
  command: {
    /** Which rule, and why. */
    reason: string;
  };
}

/** A layer that does not depend on the policy, with its reason. */
export interface DenyingRuleLayer extends Without<"file" | "network" | "command"> {
  layer: {
    /** Why the layer refuses it. */
    reason: string;
  };
}

/** A destination on the network. */
export interface Destination {
  /** The host. */
  host: Host;
  /** The port. */
  port: number;
  /** What goes over the connection. */
  protocol: NetworkProtocol;
}

/** A question that an MCP server passes on. */
export interface ElicitationApproval {
  /** The question, in its words. */
  message: string;
  /** The JSON Schema of the answer it expects. */
  requested_schema?: Record<string, unknown> | null;
  /** The server that asks. */
  server: string;
}

/** Passes on a question of an MCP server. */
export interface ElicitationRequestParams {
  /** The question, in its words. */
  message: string;
  /** The JSON Schema of the answer it expects. */
  requested_schema?: Record<string, unknown> | null;
  /** The MCP server that asks. */
  server: string;
  /** The session. */
  session_id: SessionId;
}

/** What the MCP server is told, in MCP's words. */
export type ElicitationRequestResult = ElicitationRequestResultAccept | ElicitationRequestResultDecline | ElicitationRequestResultCancel;

/** The person answered. */
export interface ElicitationRequestResultAccept extends Without<"decline" | "cancel"> {
  accept: {
    /** The answer. */
    content: Record<string, unknown>;
  };
}

/** The person, or the policy, said no. */
export interface ElicitationRequestResultDecline extends Without<"accept" | "cancel"> {
  decline: {
    /** Why. */
    reason: string;
  };
}

/** There was no answer, or everything was stopped. */
export interface ElicitationRequestResultCancel extends Without<"accept" | "decline"> {
  cancel: {
    /** Why. */
    reason: string;
  };
}

/** Nothing. */
export type Empty = Record<string, never>;

/** Which layers stood around a run, read back from the system where it can be asked. */
export interface Enforcement {
  /** What built the sandbox: `native`, `bwrap`, `landlock`, `seatbelt`, …, or `none`. */
  engine: string;
  /** The layers, outermost first. */
  layers: LayerReport[];
}

/**
 * What the environment of a command starts from.
 * - `none`: Nothing.
 * - `core`: The handful of variables that programs need to find their way.
 * - `all`: Everything.
 */
export type EnvironmentInherit = "none" | "core" | "all";

/** How the environment of a command is made. The steps apply in the order of the fields. */
export interface EnvironmentPolicy {
  /** Inherited variables to drop. */
  exclude?: string[];
  /** Keep inherited variables whose names usually hold a secret. */
  ignore_default_excludes?: boolean;
  /** If not empty, drop every variable that none of these matches. */
  include_only?: string[];
  /** What to start from. */
  inherit?: EnvironmentInherit;
  /** Variables to set, whatever was inherited. */
  set?: Record<string, string>;
}

/** What programs look at in an error. */
export interface ErrorData {
  /** What led to it, the nearest cause first. */
  causes?: string[];
  /** What kind of error it is. */
  kind: ErrorKind;
  /** What is wrong with the program of a command that could not be started. */
  program?: ProgramProblem | null;
  /** The versions of the protocol that the server speaks, where the client asked for another. */
  supported?: number[];
}

/**
 * What kind of error it is. Each kind has one code.
 * - `parse`: The line is no JSON (-32700).
 * - `invalid_request`: The line is no request (-32600).
 * - `unknown_method`: There is no such method (-32601).
 * - `invalid_params`: The parameters don't fit; the message names the field (-32602).
 * - `internal`: The server failed (-32603).
 * - `not_initialized`: `initialize` comes first (-32000).
 * - `unknown_session`: There is no such session (-32001).
 * - `not_permitted`: The connection is not attached to the session, or the capability is wrong (-32002).
 * - `unknown_command`: The session has no such command (-32003).
 * - `busy`: A limit is reached; the message says which (-32004).
 * - `failed`: The request was fine and could not be carried out (-32005).
 * - `unknown_question`: The question does not exist, or was answered already (-32006).
 * - `unusable_answer`: The answer is not one of those that were offered; the question stays open (-32007).
 * - `closed`: The session was closed meanwhile (-32008).
 */
export type ErrorKind =
  | "parse"
  | "invalid_request"
  | "unknown_method"
  | "invalid_params"
  | "internal"
  | "not_initialized"
  | "unknown_session"
  | "not_permitted"
  | "unknown_command"
  | "busy"
  | "failed"
  | "unknown_question"
  | "unusable_answer"
  | "closed";

/**
 * What a run, or the run after a denial, may have. Never an overloaded "nothing".
 * - `turn_default`: What the session's policy grants.
 * - `unsandboxed`: No sandbox, but for denials that a person wrote.
 */
export type EscalationExecution = "turn_default" | EscalationExecutionPermissions | "unsandboxed";

/** These permissions on top, inside the sandbox. */
export interface EscalationExecutionPermissions {
  permissions: Permissions;
}

/**
 * How a denial is known, the surest first.
 * - `observed`: The supervisor saw the act itself.
 * - `reported`: The backend or the kernel reported it.
 * - `guessed`: The command's output looks like it. Output can say anything.
 */
export type Evidence = "observed" | "reported" | "guessed";

/** What has to happen before a command may start. */
export type ExecApprovalRequirement = ExecApprovalRequirementSkip | ExecApprovalRequirementNeedsApproval | ExecApprovalRequirementForbidden;

/** There is no question. */
export interface ExecApprovalRequirementSkip extends Without<"needs_approval" | "forbidden"> {
  skip: {
    /** Whether the rules that allowed it also let it run without the sandbox. */
    bypass_sandbox?: boolean;
    /** A rule that a person may want to save once a denial has been explained. */
    proposed_execpolicy_amendment?: ExecPolicyAmendment | null;
  };
}

/** A person is asked first. */
export interface ExecApprovalRequirementNeedsApproval extends Without<"skip" | "forbidden"> {
  needs_approval: {
    /** A rule that the person may save along with the approval. */
    proposed_execpolicy_amendment?: ExecPolicyAmendment | null;
    /** Why, in words for that person. */
    reason?: string | null;
  };
}

/** It does not run. */
export interface ExecApprovalRequirementForbidden extends Without<"skip" | "needs_approval"> {
  forbidden: {
    /** Why not. */
    reason: string;
  };
}

/**
 * When a run ends, if it does not end by itself. The clock stands still while a person is asked.
 * - `default_timeout`: After the session's usual time.
 */
export type ExecExpiration = "default_timeout" | ExecExpirationTimeout | ExecExpirationCancellation;

/** After this time. */
export interface ExecExpirationTimeout extends Without<"cancellation"> {
  timeout: {
    /** In milliseconds. */
    milliseconds: number;
  };
}

/** When it is cancelled by this name. */
export interface ExecExpirationCancellation extends Without<"timeout"> {
  cancellation: {
    /** The name. */
    token: CancelToken;
  };
}

/** A rule to be saved: exactly this command is allowed from now on, in the sandbox of its session. */
export type ExecPolicyAmendment = RawText[];

/**
 * A request to run one command. Nothing in it widens what the session's policy grants: what it
 * asks for on top goes through an approval.
 */
export interface ExecRequest {
  /**
   * A policy outside has approved it already: there is no question, and the trail says so.
   * Read under codex's name `approved` as well.
   */
  approved_by_policy?: boolean;
  /** The program and its arguments. */
  command: Argv;
  /** Where it starts. This has no influence on what it may write. */
  cwd: AbsPath;
  /** What it wants to run with. */
  escalation?: EscalationExecution;
  /** When to give up. */
  expiration?: ExecExpiration;
  /** The request's name in every event and record about it. */
  id: RequestId;
  /** Why, in the words of the requester. Shown to a person, and not relied on. */
  justification?: string | null;
  /** What that policy found worth a warning. */
  sandbox_warnings?: string[];
  /** Give it a pseudo-terminal of this size. */
  terminal?: TerminalSize | null;
  /** The session it belongs to. */
  thread_id: ThreadId;
}

/** One run of a command. */
export interface Execution {
  /** How long it ran, in milliseconds, without the time in which a person was asked. */
  duration_ms: number;
  /** Which layers held. */
  enforcement: Enforcement;
  /** The run before this one, whose denial led to this wider one. */
  first_attempt?: Execution | null;
  /** The programs that it started and that a rule spoke of, each with what was decided. Equal ones are told once. */
  programs?: JudgedProgram[];
  /** What it wrote to standard error. */
  stderr: CapturedOutput;
  /** What it wrote to standard output. */
  stdout: CapturedOutput;
  /** What it tried and was denied, also where it went on regardless. */
  violations?: Violation[];
}

/** Explains what would happen to a command. */
export interface Explanation {
  /** Whether a denial by the sandbox would lead to a question. */
  asks_after_denial: boolean;
  /** How it would reach the hosts that are granted; none where the network is off or open. */
  hosts_through?: HostsThrough | null;
  /**
   * The rules that hold for the programs that it starts, each with its decision and its place; none where no rule
   * restricts or grants, and where starts are not seen.
   */
  inside?: string[];
  /**
   * The question about what the line does not show, if it is not asked: each program that it starts is judged when
   * it is started.
   */
  left_to_starts?: string | null;
  /** What it runs, part by part. */
  parsed: ParsedLine;
  /** What it would be held to. A network of hosts without a rule is one that is off, and asked for host by host. */
  permissions: Permissions;
  /** What happens before it runs. */
  requirement: ExecApprovalRequirement;
  /** The rules that match, as `execpolicy check` prints them. */
  rules: CheckReport;
  /** Whether a sandbox would be built. */
  sandboxed: boolean;
  /** Directories whose programs are asked about as scripts of a skill. */
  skills?: AbsPath[];
  /** Who says so. */
  source: DecisionSource;
  /** Why that can't be enforced here, if it can't: then it does not run. */
  unenforceable?: string | null;
  /** Ways around the permissions that no kernel can close, and what keeps it in the sandbox against its rules. */
  warnings?: string[];
}

/** One file's change. */
export type FileChange = FileChangeAdd | FileChangeDelete | FileChangeUpdate;

/** A new file. */
export interface FileChangeAdd extends Without<"delete" | "update"> {
  add: {
    /** What will be in it. */
    content: RawText;
    /** Where. */
    path: AbsPath;
  };
}

/** A file that goes away. */
export interface FileChangeDelete extends Without<"add" | "update"> {
  delete: {
    /** What is in it now. */
    content: RawText;
    /** Where. */
    path: AbsPath;
  };
}

/** A file that changes, and perhaps moves. */
export interface FileChangeUpdate extends Without<"add" | "delete"> {
  update: {
    /** Where it will be, if it moves. */
    move_path?: AbsPath | null;
    /** Where it is now. */
    path: AbsPath;
    /** What changes, as a unified diff. */
    unified_diff: RawText;
  };
}

/** One rule. */
export interface FileRule {
  /** What may be done with it. A glob may only have `none`. */
  access: Access;
  /** Where it comes from. */
  source?: RuleSource;
  /** What it speaks of. */
  target: FileTarget;
}

/**
 * Rules in their normal form: sorted, one for each target, and the bounds on Stockade's own files behind
 * them. The order they were given in means nothing, and of two rules for the same target the stricter is
 * kept.
 */
export type FileRules = FileRule[];

/** What a rule speaks of. */
export type FileTarget = FileTargetPath | FileTargetGlob;

/** This path and everything below it. */
export interface FileTargetPath extends Without<"glob"> {
  path: AbsPath;
}

/** Every path that matches, and everything below those. */
export interface FileTargetGlob extends Without<"path"> {
  glob: Glob;
}

/** A pattern of absolute paths below a fixed directory, such as `/repo/**\/*.env`. */
export type Glob = string;

/** Categories of questions that are shown. Only read, never written. */
export interface GranularConfig {
  mcp_elicitations?: boolean;
  request_permissions?: boolean;
  rules?: boolean;
  sandbox_approval?: boolean;
  skill_approval?: boolean;
}

/** The host of a destination. */
export type Host = string;

/** One host, the names below a domain, or the addresses of a network. */
export type HostPattern = string;

/** One destination, or several, and what to do about it. */
export interface HostRule {
  /** The answer. */
  decision: Decision;
  /** The host or hosts. */
  host: HostPattern;
  /** The port; every port if absent. */
  port?: number | null;
  /**
   * The protocol. If absent, every stream for a rule that allows, which has to say `udp` to let datagrams
   * through, and every protocol for one that does not.
   */
  protocol?: NetworkProtocol | null;
}

/**
 * Rules by host. The strictest matching rule decides; a destination that no rule names has to be
 * asked for, and an address on this machine or its local network is refused unless it is named.
 */
export interface HostRules {
  /** Which HTTP requests may be sent to an allowed host. */
  methods?: HttpMethods;
  /** The rules; their order means nothing. */
  rules: HostRule[];
}

/**
 * How a command reaches the hosts that are granted.
 * - `sandbox`: By itself: the sandbox sees its connections, whatever program makes them.
 * - `proxy`: By a proxy on this machine, for programs that look at the variables for one.
 */
export type HostsThrough = "sandbox" | "proxy";

/**
 * Which HTTP requests pass.
 * - `read_only`: Only `GET`, `HEAD` and `OPTIONS`. Where the method can't be seen, the connection is refused.
 * - `any`: Every method.
 */
export type HttpMethods = "read_only" | "any";

/** Who speaks, in which version, and what it can do. */
export interface InitializeParams {
  /** What the client can do; nothing if absent. */
  capabilities?: ClientCapabilities;
  /** The client program. */
  client: ClientInfo;
  /** The version of the protocol: 1. */
  protocol_version: number;
}

/** Who answers, and what can be asked for. */
export interface InitializeResult {
  /** The limits of the server. */
  limits: ServerLimits;
  /** The methods that a client can call on this connection. */
  methods: string[];
  /** The version of the protocol that is spoken from here on. */
  protocol_version: number;
  /** The server program. */
  server: ServerInfo;
}

/** A program that a command started, and what was decided about it. */
export interface JudgedProgram {
  /** The program and its arguments. A long one is cut. */
  command: Argv;
  /** The decision. */
  decision: Decision;
  /**
   * What it ran with in a place of its own: permissions in another sandbox, or none. Absent if it ran where its caller
   * does.
   */
  execution?: EscalationExecution | null;
  /** Why. */
  reason?: string | null;
  /** Who or what decided. */
  source: DecisionSource;
  /** The programs above it, the command first. */
  started_by?: Argv[];
}

/** One layer. */
export interface LayerReport {
  /** What is worth knowing: an ABI version, the reason for a gap. */
  detail?: string | null;
  /** Its name: `user_namespace`, `landlock`, `seccomp`, …. */
  layer: string;
  /** Whether it held. */
  status: LayerStatus;
}

/**
 * Whether a layer held.
 * - `not_enforced`: It was not there.
 * - `partly_enforced`: It held in part; the detail says which.
 * - `fully_enforced`: It held.
 */
export type LayerStatus = "not_enforced" | "partly_enforced" | "fully_enforced";

/** A command in a list. */
export interface ListedCommand {
  /** Its words; left out if this connection is not attached to the session. */
  command?: Argv | null;
  /** The command. */
  command_id: CommandId;
  /** Whether it still runs. */
  state: CommandState;
}

/** A session in a list. */
export interface ListedSession {
  /** When it asks. */
  ask: AskForApproval;
  /** How many connections are attached. */
  clients: number;
  /** Its commands, the oldest first. */
  commands: ListedCommand[];
  /** How long nothing has run and no client was attached, in milliseconds. */
  idle_ms: number;
  /** Its name, if it has one. */
  name?: SessionName | null;
  /** When it was opened, in milliseconds since 1970 (UTC). */
  opened_at_ms: number;
  /** How many questions are open. */
  questions: number;
  /** How much commands are trusted with. */
  sandbox: SandboxPolicy;
  /** The session. */
  session_id: SessionId;
  /** The directories that commands work in. */
  workspace: AbsPath[];
}

/**
 * Whether an external sandbox lets the network through.
 * - `restricted`: It does not.
 * - `enabled`: It does.
 */
export type NetworkAccess = "restricted" | "enabled";

/** A destination that no rule names. */
export interface NetworkApproval {
  /** The host. */
  host: Host;
  /**
   * Addresses on this machine's or other local networks that the name leads to, where those are asked for. The name
   * itself is allowed already.
   */
  leads_to?: Host[];
  /** The port. */
  port: number;
  /** The program that wants to connect. */
  program?: RawText | null;
  /** Rules that would save this question in future. */
  proposed_network_policy_amendments?: NetworkPolicyAmendment[];
  /** What goes over the connection. */
  protocol: NetworkProtocol;
}

/**
 * The network of a command.
 * - `off`: None at all.
 * - `limited`: The hosts of `allow_hosts`, others are asked for, and only `GET`, `HEAD` and `OPTIONS` of plain
 * HTTP pass: what can't be seen is refused.
 * - `hosts`: The hosts of `allow_hosts`; others are asked for.
 * - `full`: Whatever the host itself can reach.
 */
export type NetworkMode =
  | "off"
  | "limited"
  | "hosts"
  | "full";

/**
 * The network of a command. Nothing is reachable that is not named.
 * - `off`: None at all.
 * - `full`: Whatever the host itself can reach.
 */
export type NetworkPolicy = "off" | NetworkPolicyHosts | "full";

/** The hosts that the rules name. */
export interface NetworkPolicyHosts {
  hosts: HostRules;
}

/** A rule to be saved: this destination is allowed, or refused, from now on. */
export interface NetworkPolicyAmendment {
  /** Whether to allow or refuse. */
  action: NetworkPolicyRuleAction;
  /** The host or hosts. */
  host: HostPattern;
  /** The port; every port if absent. */
  port?: number | null;
  /** The protocol; every protocol if absent. */
  protocol?: NetworkProtocol | null;
}

/**
 * What a saved network rule does.
 * - `allow`: Lets the connection through.
 * - `deny`: Refuses it.
 */
export type NetworkPolicyRuleAction = "allow" | "deny";

/**
 * What goes over a connection, as far as a rule cares.
 * - `http`: Plain HTTP, whose requests can be seen.
 * - `https`: TLS, usually HTTP inside it.
 * - `tcp`: Any other stream.
 * - `udp`: Datagrams.
 */
export type NetworkProtocol =
  | "http"
  | "https"
  | "tcp"
  | "udp";

/** An open question. */
export interface OpenQuestion {
  /** How long it has been open, in milliseconds. */
  asked_ms_ago: number;
  /** The command that caused it, if one did. */
  command_id?: CommandId | null;
  /** The question's own name. */
  question_id: QuestionId;
  /** The question. */
  request: ApprovalRequest;
  /** The session. */
  session_id: SessionId;
}

/**
 * What was tried.
 * - `read`: Reading a file or listing a directory.
 * - `write`: Writing, creating, removing, renaming, or changing a file's attributes.
 * - `execute`: Running a program.
 * - `connect`: Connecting or sending to a destination.
 * - `listen`: Waiting for connections.
 * - `process`: Signalling or tracing another process.
 * - `system_call`: A system call that no sandboxed command may use.
 * - `exceed`: Using more of the machine than was granted.
 */
export type Operation =
  | "read"
  | "write"
  | "execute"
  | "connect"
  | "listen"
  | "process"
  | "system_call"
  | "exceed";

/** How a request ended. */
export type Outcome =
  | OutcomeExited
  | OutcomeDenied
  | OutcomeRefused
  | OutcomeTimedOut
  | OutcomeCancelled
  | OutcomeSignaled;

/** The command ended by itself, and nothing points to a denial as the cause. */
export interface OutcomeExited extends Without<"denied" | "refused" | "timed_out" | "cancelled" | "signaled"> {
  exited: {
    /** The run. */
    execution: Execution;
    /** Its exit code. */
    exit_code: number;
  };
}

/** The command failed because the sandbox denied it something; the run names what. */
export interface OutcomeDenied extends Without<"exited" | "refused" | "timed_out" | "cancelled" | "signaled"> {
  denied: {
    /** The run. */
    execution: Execution;
    /** Its exit code, if it ended by itself. */
    exit_code?: number | null;
    /** The number of the signal that ended it, if one did. */
    signal?: number | null;
  };
}

/** It was not run. */
export interface OutcomeRefused extends Without<"exited" | "denied" | "timed_out" | "cancelled" | "signaled"> {
  refused: Refusal;
}

/** It took too long, and was ended. */
export interface OutcomeTimedOut extends Without<"exited" | "denied" | "refused" | "cancelled" | "signaled"> {
  timed_out: {
    /** The run. */
    execution: Execution;
  };
}

/** It was ended on request: it was cancelled, or its session was ended. */
export interface OutcomeCancelled extends Without<"exited" | "denied" | "refused" | "timed_out" | "signaled"> {
  cancelled: {
    /** The run. */
    execution: Execution;
    /** Why, in words. */
    reason: string;
  };
}

/** A signal ended it. */
export interface OutcomeSignaled extends Without<"exited" | "denied" | "refused" | "timed_out" | "cancelled"> {
  signaled: {
    /** The run. */
    execution: Execution;
    /** The signal's number. */
    signal: number;
  };
}

/**
 * Where a command writes to. A terminal is `stdout`.
 * - `stdout`: Standard output, or the terminal.
 * - `stderr`: Standard error.
 */
export type OutputStream = "stdout" | "stderr";

/** One command of a line. */
export interface ParsedCommand {
  /** Names of the variables that are set for it alone (`A=1 git status`, `env A=1 …`). */
  assigns?: string[];
  /** Files that its input is redirected from. */
  reads?: Word[];
  /** Whether it does something itself. */
  role?: CommandRole;
  /**
   * What it was found inside of, when it does not stand in the line itself: `bash -c`,
   * `find -exec`, `trap`, a substitution.
   */
  via?: string | null;
  /** The program and its arguments. */
  words: Word[];
  /** Files that its output is redirected to. `/dev/null` and other descriptors do not count. */
  writes?: Word[];
}

/** Every command that a line may run. */
export interface ParsedLine {
  /** The commands, in the order of the text; those found inside another stand right behind it. */
  commands: ParsedCommand[];
  /** Why the line may run more than `commands`, if it may. */
  opaque?: string | null;
}

/** Changes files on the host. Exactly one of `changes` and `patch` is given. */
export interface PatchApplyParams {
  /** The changes, by file. */
  changes?: FileChange[] | null;
  /** What relative names in `patch` start from; the session's directory if absent. */
  cwd?: AbsPath | null;
  /** The changes as the text that `stockade patch` reads. */
  patch?: string | null;
  /** The session. */
  session_id: SessionId;
}

/** What became of the changes. */
export type PatchApplyResult = PatchApplyResultApplied | PatchApplyResultRefused;

/** All were written. */
export interface PatchApplyResultApplied extends Without<"refused"> {
  applied: {
    /** The files that were written or removed, where they really are. */
    paths: AbsPath[];
  };
}

/** None was written. */
export interface PatchApplyResultRefused extends Without<"applied"> {
  refused: Refusal;
}

/** File changes that the host is going to write. */
export interface PatchApproval {
  /** The changes, by file. */
  changes: FileChange[];
  /** A directory that shall be writable for the rest of the session. */
  grant_root?: AbsPath | null;
}

/** A request to change files. */
export interface PatchRequest {
  /** A policy outside has approved it already: there is no question, and the trail says so. */
  approved_by_policy?: boolean;
  /** The changes, by file. */
  changes: FileChange[];
  /** The request's name in every event and record about it. */
  id: RequestId;
  /** What that policy found worth a warning. */
  sandbox_warnings?: string[];
  /** The session it belongs to. */
  thread_id: ThreadId;
}

/** The least permission that would have allowed an act. */
export type PermissionAmendment = PermissionAmendmentFile | PermissionAmendmentNetwork | PermissionAmendmentUnixSocket;

/** Access to a file. */
export interface PermissionAmendmentFile extends Without<"network" | "unix_socket"> {
  file: FileRule;
}

/** A destination. */
export interface PermissionAmendmentNetwork extends Without<"file" | "unix_socket"> {
  network: HostRule;
}

/** A Unix socket. */
export interface PermissionAmendmentUnixSocket extends Without<"file" | "network"> {
  unix_socket: AbsPath;
}

/**
 * Everything that a command may do. The default is nothing at all.
 *
 * A `SandboxPolicy` is what a person writes; resolving it is the only way
 * to one of these. Additional permissions have the same type and are merged in, and an
 * administrator's maximum has the same type and is intersected with.
 */
export interface Permissions {
  /** Which environment variables are seen. */
  environment?: EnvironmentPolicy;
  /** Files, by path. */
  files?: FileRules;
  /** How much of the machine may be used. */
  limits?: ResourceLimits;
  /** Destinations on the network. */
  network?: NetworkPolicy;
  /** Unix sockets that may be connected to, by resolved path. */
  unix_sockets?: AbsPath[];
}

/** Permissions that a session wants in advance. */
export interface PermissionsApproval {
  /** Why, in the words of the requester. */
  justification?: string | null;
  /** What is asked for, on top of what the session has. */
  permissions: Permissions;
}

/** Asks for permissions in advance. */
export interface PermissionsRequestParams {
  /** Why, for the person who is asked. */
  justification?: string | null;
  /** What is asked for, on top of what the session has. */
  permissions: Permissions;
  /** The session. */
  session_id: SessionId;
}

/** What became of the request for permissions. */
export type PermissionsRequestResult = PermissionsRequestResultGranted | PermissionsRequestResultRefused;

/** They were granted. */
export interface PermissionsRequestResultGranted extends Without<"refused"> {
  granted: {
    /** What was granted. */
    permissions: Permissions;
    /** For how long. */
    scope: PermissionsScope;
  };
}

/** They were not. */
export interface PermissionsRequestResultRefused extends Without<"granted"> {
  refused: Refusal;
}

/**
 * How long granted permissions hold.
 * - `session`: For every further command of the session.
 * - `once`: For one request that names them as its escalation.
 */
export type PermissionsScope = "session" | "once";

/** A permission profile to be saved: exactly this command, in exactly this workspace, may write these paths from now on. */
export interface ProfileAmendment {
  /** The command, to the last word. */
  command: Argv;
  /** The new file, among the user's profiles. */
  file: AbsPath;
  /** The directories of the workspace. */
  workspace: AbsPath[];
  /** What may be written: each of these and everything below it, but for what stays protected there. */
  write: AbsPath[];
}

/**
 * Why a program could not be started.
 * - `not_found`: There is none of this name.
 * - `not_executable`: It can't be executed.
 */
export type ProgramProblem = "not_found" | "not_executable";

/** A question, chosen by the server and unique in it. */
export type QuestionId = string;

/** Bytes that are not UTF-8 text. Only its schema is used. */
export interface RawBytes {
  /** The bytes, in lower-case hexadecimal. */
  hex: string;
}

/** Text from the operating system: a string, or its bytes in hexadecimal where they are not UTF-8. */
export type RawText = string | RawBytes;

/** What a sandboxed command may read. */
export type ReadOnlyAccess = ReadOnlyAccessFullAccess | ReadOnlyAccessRestricted;

/** Everything but credentials. */
export interface ReadOnlyAccessFullAccess {
  type: "full-access";
}

/** Only what is named. */
export interface ReadOnlyAccessRestricted {
  /** Also what ordinary programs need to start on this system. */
  include_platform_defaults?: boolean;
  /** Directories that may be read. */
  readable_roots?: AbsPath[];
  type: "restricted";
}

/** A SHA-256 hash, in lower-case hexadecimal. */
export type RecordHash = string;

/** Why a command was not run. */
export interface Refusal {
  /** Who refused. */
  by: RefusedBy;
  /** Why, and what to do about it. */
  reason: string;
}

/**
 * Who refused.
 * - `rule`: A rule forbids it.
 * - `approval_policy`: It would have to be asked, and the approval policy does not ask.
 * - `reviewer`: The person, or the program that answers in their place, said no.
 * - `timeout`: There was no answer in time.
 * - `administrator`: An administrator's maximum.
 * - `sandbox`: What was asked for can't be enforced on this host.
 * - `audit`: The audit trail is required and can't be written.
 * - `usage`: The arguments, the settings or the rules can't be understood, so that nothing was decided.
 */
export type RefusedBy =
  | "rule"
  | "approval_policy"
  | "reviewer"
  | "timeout"
  | "administrator"
  | "sandbox"
  | "audit"
  | "usage";

/** Categories of questions that are refused instead of shown. */
export interface RejectConfig {
  /** Questions that an MCP server passes on. */
  mcp_elicitations?: boolean;
  /** Requests for additional permissions. */
  request_permissions?: boolean;
  /** Questions that a `prompt` rule asks. */
  rules?: boolean;
  /** Questions to leave or widen the sandbox. */
  sandbox_approval?: boolean;
  /** Questions to run a skill's script. */
  skill_approval?: boolean;
}

/**
 * What an approval of a tool call for the session speaks of.
 * - `exact`: Calls with exactly these arguments.
 * - `any`: Calls with any arguments.
 */
export type RememberArguments = "exact" | "any";

/** An approval that holds for the session. */
export interface RememberedApproval {
  /** Its name, for `approval/forget`. */
  key: string;
  /** What it is for, in words for a person. */
  text: string;
}

/** One match of a report. */
export type ReportedMatch = ReportedMatchPrefixRuleMatch | ReportedMatchHeuristicsRuleMatch;

/** A prefix rule matched, or may match. */
export interface ReportedMatchPrefixRuleMatch extends Without<"heuristicsRuleMatch"> {
  prefixRuleMatch: {
    /** What the match asks for. */
    decision: Decision;
    /** Why the rule exists. */
    justification?: string | null;
    /** The words that matched. */
    matchedPrefix: RawText[];
    /** Whether the rule says `outside = True`, which codex does not know. Absent where it does not. */
    outside?: boolean;
    /** The permission profiles that the rule gives to the command, which codex does not know. */
    profiles?: string[];
    /** The path that was given, where the rule matched by the name of the program. */
    resolvedProgram?: AbsPath | null;
  };
}

/** No rule matched, and the fallback judged the command. */
export interface ReportedMatchHeuristicsRuleMatch extends Without<"prefixRuleMatch"> {
  heuristicsRuleMatch: {
    /** The command. A word that is only known once the line runs is `null`. */
    command: Word[];
    /** What the fallback said. */
    decision: Decision;
  };
}

/** One request, from the moment it is made to its last line in the audit trail. */
export type RequestId = string;

/** A path as it was given and where it really leads. */
export interface ResolvedPath {
  /** As it was given. */
  given: AbsPath;
  /** Where it leads, with all symbolic links followed. */
  resolved: AbsPath;
}

/** Upper limits. What is absent is not limited; a limit of zero is refused. */
export interface ResourceLimits {
  /** Processor time of each process, in seconds. */
  cpu_seconds?: number | null;
  /** Size of each file that is written, in bytes. */
  file_size_bytes?: number | null;
  /** Memory, in bytes: of the whole tree where the system can count that, else of each process. */
  memory_bytes?: number | null;
  /** Open files of each process. */
  open_files?: number | null;
  /** Processes and threads of the whole tree. */
  processes?: number | null;
}

/** The answer to an approval request. */
export type ReviewDecision =
  | ReviewDecisionWord
  | ReviewDecisionApprovedExecpolicyAmendment
  | ReviewDecisionApprovedProfileAmendment
  | ReviewDecisionNetworkPolicyAmendment
  | ReviewDecisionDenied;

/** The decisions that are a bare word on the wire. */
export type ReviewDecisionWord = "approved" | "approved_for_run" | "approved_for_session" | "denied" | "denied_for_run" | "timed_out" | "abort";

export interface ReviewDecisionApprovedExecpolicyAmendment extends Without<"approved_profile_amendment" | "network_policy_amendment" | "denied"> {
  approved_execpolicy_amendment: {
    proposed_execpolicy_amendment: ExecPolicyAmendment;
  };
}

export interface ReviewDecisionApprovedProfileAmendment extends Without<"approved_execpolicy_amendment" | "network_policy_amendment" | "denied"> {
  approved_profile_amendment: {
    proposed_profile_amendment: ProfileAmendment;
  };
}

export interface ReviewDecisionNetworkPolicyAmendment extends Without<"approved_execpolicy_amendment" | "approved_profile_amendment" | "denied"> {
  network_policy_amendment: {
    network_policy_amendment: NetworkPolicyAmendment;
  };
}

export interface ReviewDecisionDenied extends Without<"approved_execpolicy_amendment" | "approved_profile_amendment" | "network_policy_amendment"> {
  denied: {
    rejection: string;
  };
}

/** How risky a program took a request to be. It may be wrong, and it decides nothing. */
export interface RiskAssessment {
  /** What kind of harm is meant, such as `data_loss` or `network_access`. */
  category: string;
  /** How much could go wrong. */
  level: RiskLevel;
  /** What could go wrong, in a sentence or two. */
  summary: string;
}

/**
 * How much could go wrong.
 * - `low`: Little.
 * - `medium`: Something that takes work to undo.
 * - `high`: Something that can't be undone, or reaches beyond this machine.
 */
export type RiskLevel = "low" | "medium" | "high";

/** One limit of a process, see `setrlimit(2)`. What is absent is unlimited. */
export interface Rlimit {
  /** The limit that the process may raise it to. */
  hard?: number | null;
  /** The limit that holds. */
  soft?: number | null;
}

/** The `error` of a response. A refusal or a denial is never one: it is an outcome. */
export interface RpcError {
  /** The code that belongs to `data.kind`. */
  code: number;
  /** The same for programs. */
  data?: ErrorData | null;
  /** What is wrong, and what to do next. */
  message: string;
}

/** The id of a request. */
export type RpcId = number | string;

/**
 * Where a rule comes from, the firmest first.
 * - `administrator`: An administrator's upper bound.
 * - `policy`: A person wrote it, in a policy or on the command line.
 * - `protected_metadata`: Metadata that would let a command take over later (`.git`, …). Naming the path lifts it.
 * - `credential_mask`: Well-known credentials. Naming the path lifts it.
 * - `approval`: It was approved for this run.
 * - `own_files`: Stockade's own settings, rules, profiles, state and trail: an upper bound for the path and
 * everything below it, which no other rule and no grant exceeds.
 * - `own_files_link`: A link on the way to those: an upper bound for the link, and not for what is behind it.
 */
export type RuleSource =
  | "administrator"
  | "policy"
  | "protected_metadata"
  | "credential_mask"
  | "approval"
  | "own_files"
  | "own_files_link";

/** Asks the rules about a command. */
export interface RulesCheckParams {
  /** The program and its arguments. */
  command: Argv;
  /** The session whose rules are asked, those of its project included; the system's and the user's rules if absent. */
  session_id?: SessionId | null;
}

/**
 * How much a command is trusted with, the least first.
 * - `read-only`: Nothing is written.
 * - `workspace-write`: The workspace is written.
 * - `external-sandbox`: Another sandbox is around this process already.
 * - `danger-full-access`: No sandbox.
 */
export type SandboxMode =
  | "read-only"
  | "workspace-write"
  | "external-sandbox"
  | "danger-full-access";

/** How much a command is trusted with. */
export type SandboxPolicy =
  | SandboxPolicyDangerFullAccess
  | SandboxPolicyReadOnly
  | SandboxPolicyExternalSandbox
  | SandboxPolicyWorkspaceWrite;

/** No sandbox. */
export interface SandboxPolicyDangerFullAccess {
  type: "danger-full-access";
}

/** Nothing is written. */
export interface SandboxPolicyReadOnly {
  /** What may be read. */
  access?: ReadOnlyAccess;
  /** Whether the network may be used. */
  network_access?: boolean;
  type: "read-only";
}

/** Another program's sandbox is around this process already. */
export interface SandboxPolicyExternalSandbox {
  /** Whether that one lets the network through. */
  network_access?: NetworkAccess;
  type: "external-sandbox";
}

/** The workspace is written. */
export interface SandboxPolicyWorkspaceWrite {
  /** Give the command no private `/tmp`. */
  exclude_slash_tmp?: boolean;
  /** Give the command no private directory at `$TMPDIR`. */
  exclude_tmpdir_env_var?: boolean;
  /** Whether the network may be used. */
  network_access?: boolean;
  /** What may be read. */
  read_only_access?: ReadOnlyAccess;
  type: "workspace-write";
  /** Directories that may be written besides the session's workspace. */
  writable_roots?: AbsPath[];
}

/**
 * Descriptors that were sent along with the request (`SCM_RIGHTS`), by their position, counted from 0. On standard
 * input and output no descriptors can be sent, and this is refused.
 */
export interface SentStreams {
  /** Whether standard input is the caller's controlling terminal. */
  controlling_terminal?: boolean;
  /** The descriptor for standard error. */
  stderr?: number | null;
  /** The descriptor for standard input. */
  stdin?: number | null;
  /** The descriptor for standard output. */
  stdout?: number | null;
  /**
   * A socket (`SOCK_SEQPACKET`) for a terminal that the server makes, of the size that `terminal` has: streams that have no
   * descriptor of their own are that terminal. For each terminal, a packet `o` brings the server's side of it along,
   * for keys and sizes; packets that begin with `d` have what was printed behind that byte.
   */
  terminal?: number | null;
}

/** The server program. */
export interface ServerInfo {
  /** `stockade`. */
  name: string;
  /** Its version. */
  version: string;
}

/** The limits of the server. */
export interface ServerLimits {
  /** Bytes of responses and questions that are under way to one connection. Further ones wait. */
  answer_bytes: number;
  /** Running commands of a session. */
  commands: number;
  /** Running commands of all sessions. */
  commands_of_all_sessions: number;
  /** Connections at a time. */
  connections: number;
  /** Ended commands that a session keeps. */
  ended_commands: number;
  /** How long an ended command is kept, in milliseconds. */
  ended_commands_ms: number;
  /** Bytes of a line from a client. */
  frame_bytes: number;
  /** Bytes of those notifications. With more the connection is closed. */
  notification_bytes: number;
  /** Notifications, besides a command's output, that wait for one connection. With more it is closed. */
  notifications: number;
  /** Bytes of a command's output that are kept for `command/attach`. */
  output_kept_bytes: number;
  /**
   * Bytes of output that are kept of all commands of all sessions. With more, the ended commands that are the oldest of
   * all are dropped, and running commands keep half of `output_under_way_bytes` each.
   */
  output_kept_bytes_of_all_sessions: number;
  /** Bytes of output that are kept of the ended commands of a session. With more, the oldest commands are dropped. */
  output_kept_bytes_of_session: number;
  /** Bytes of a command's output that are under way to one connection. */
  output_under_way_bytes: number;
  /** Open questions of a session. */
  questions: number;
  /** Open questions of all sessions. */
  questions_of_all_sessions: number;
  /** Bytes of the requests of one connection at a time. Requests of at most 8192 bytes don't count. */
  request_bytes: number;
  /** Bytes of the requests of all connections at a time. Requests of at most 8192 bytes don't count. */
  request_bytes_of_all_connections: number;
  /** Requests of one connection at a time, besides `command/run`. */
  requests: number;
  /** `command/run` requests of one connection at a time. */
  runs: number;
  /** Sessions at a time. */
  sessions: number;
}

/** Joins a session. */
export interface SessionAttachParams {
  /** The secret that the opener was given. */
  capability: Capability;
  /** How long the session lives on without a client from now on, in milliseconds; what held before, if absent. */
  linger_ms?: number | null;
  /** The session. */
  session_id: SessionId;
}

/** A session's policy changed. */
export interface SessionChanged {
  /** When it asks. */
  ask: AskForApproval;
  /** How much commands are trusted with. */
  sandbox: SandboxPolicy;
  /** The session. */
  session_id: SessionId;
}

/** How a session was closed. */
export interface SessionCloseResult {
  /** How many running commands were ended. */
  ended_commands: number;
}

/** A session is closed. */
export interface SessionClosed {
  /** The session. */
  session_id: SessionId;
  /** Why. */
  why: string;
}

/** A session, chosen by the server. It is the `thread_id` of the session's records. */
export type SessionId = string;

/** Every session of the server. */
export interface SessionListResult {
  /** The sessions, the oldest first. */
  sessions: ListedSession[];
}

/** A session's name, chosen by the client that opens it. */
export type SessionName = string;

/** Something worth knowing, in a sentence for a person. */
export interface SessionNotice {
  /** The session. */
  session_id: SessionId;
  /** The sentence. */
  text: string;
}

/** A new session. What is absent is as the settings have it. */
export interface SessionOpenParams {
  /** Hosts that may be reached: `host`, `host:port`, `*.host`, with `/udp` behind it datagrams. */
  allow_hosts?: string[] | null;
  /** How long a question waits for an answer, in milliseconds. */
  answer_timeout_ms?: number | null;
  /** When to ask; `on-failure` if absent and this client answers, else `never`. */
  ask?: AskForApproval | null;
  /** Where commands start; the first directory of the workspace if absent. */
  cwd?: AbsPath | null;
  /** Paths and globs that are never read. */
  deny_read?: string[] | null;
  /** The caller's whole environment; the server's own if absent. The settings say what commands see of it. */
  environment?: Record<string, RawText> | null;
  /** How much of the machine a command may use. */
  limits?: ResourceLimits | null;
  /**
   * How long the session lives on without a client, in milliseconds; 0 on standard input and output, 10 minutes
   * on a socket if absent.
   */
  linger_ms?: number | null;
  /** A name, which no other session has. */
  name?: SessionName | null;
  /** The network. */
  network?: NetworkMode | null;
  /** The profile of the settings. */
  profile?: string | null;
  /** How much commands are trusted with. */
  sandbox?: SandboxMode | null;
  /** Variables that commands get in any case. */
  set?: Record<string, string> | null;
  /** How long a command may run, in milliseconds. */
  timeout_ms?: number | null;
  /** The permission profiles that every command has, such as `npm`. */
  with?: string[] | null;
  /**
   * The directories that commands work in. Absent, the server's directory on standard input and output; on a
   * socket `cwd`, where a home directory is not made writable.
   */
  workspace?: AbsPath[] | null;
  /** Directories that may be written besides the workspace. */
  writable?: AbsPath[] | null;
}

/** The new session, and the secret that lets others join it. */
export interface SessionOpenResult {
  /** When it asks. */
  ask: AskForApproval;
  /** The secret for `session/attach`. It is given out here and nowhere else. */
  capability: Capability;
  /** Where commands start. */
  cwd: AbsPath;
  /** What is worth knowing, in sentences for a person. */
  notices: string[];
  /** What that grants. */
  permissions: Permissions;
  /** How much commands are trusted with. */
  sandbox: SandboxPolicy;
  /** The session. */
  session_id: SessionId;
}

/** Which session is meant. */
export interface SessionParams {
  /** The session. */
  session_id: SessionId;
}

/** What a session is like. */
export interface SessionState {
  /** When it asks. */
  ask: AskForApproval;
  /** Where commands start. */
  cwd: AbsPath;
  /** What is worth knowing, in sentences for a person. */
  notices: string[];
  /** What that grants. */
  permissions: Permissions;
  /** How much commands are trusted with. */
  sandbox: SandboxPolicy;
  /** The session. */
  session_id: SessionId;
}

/** Changes a session from its next command on. What is absent stays; approvals are remembered on. */
export interface SessionUpdateParams {
  /** Hosts that may be reached, in place of those given before. */
  allow_hosts?: string[] | null;
  /** When to ask. */
  ask?: AskForApproval | null;
  /** Paths and globs that are never read, in place of those given before. */
  deny_read?: string[] | null;
  /** How much of the machine a command may use. */
  limits?: ResourceLimits | null;
  /** The network. */
  network?: NetworkMode | null;
  /** How much commands are trusted with. */
  sandbox?: SandboxMode | null;
  /** The session. */
  session_id: SessionId;
  /** Variables that commands get in any case, in place of those given before. */
  set?: Record<string, string> | null;
  /** How long a command may run, in milliseconds. */
  timeout_ms?: number | null;
  /** Directories that may be written besides the workspace, in place of those given before. */
  writable?: AbsPath[] | null;
}

/**
 * A signal.
 * - `interrupt`: SIGINT.
 * - `terminate`: SIGTERM.
 * - `quit`: SIGQUIT.
 * - `hangup`: SIGHUP.
 * - `kill`: SIGKILL.
 * - `stop`: SIGTSTP, as Ctrl-Z sends it.
 * - `continue`: SIGCONT.
 * - `usr1`: SIGUSR1.
 * - `usr2`: SIGUSR2.
 */
export type SignalName =
  | "interrupt"
  | "terminate"
  | "quit"
  | "hangup"
  | "kill"
  | "stop"
  | "continue"
  | "usr1"
  | "usr2";

/**
 * What the standard input of a command is.
 * - `none`: Empty.
 * - `pipe`: What `command/write` sends.
 */
export type StdinKind = "none" | "pipe";

/** The size of a pseudo-terminal, in characters. */
export interface TerminalSize {
  /** Characters in a line. */
  columns: number;
  /** Lines. */
  rows: number;
}

/** One conversation or session: approvals "for the session" are remembered by it. */
export type ThreadId = string;

/** A call of a tool. */
export interface ToolCallApproval {
  /** What it is called with. */
  arguments?: Record<string, unknown>;
  /** What an approval for the session would speak of. In a request, what that says counts. */
  remember?: RememberArguments;
  /** The MCP server that has the tool. */
  server: string;
  /** The tool. */
  tool: string;
}

/** A request to call a tool. */
export interface ToolCallRequest {
  /** A policy outside has approved it already: there is no question, and the trail says so. */
  approved_by_policy?: boolean;
  /** The call. */
  call: ToolCallApproval;
  /** The request's name in every event and record about it. */
  id: RequestId;
  /** What an approval for the session speaks of. */
  remember?: RememberArguments;
  /**
   * Whether the tool says itself whether a person has to be asked; absent, the approval policy
   * decides.
   */
  requires_approval?: boolean | null;
  /** What that policy found worth a warning. */
  sandbox_warnings?: string[];
  /** The session it belongs to. */
  thread_id: ThreadId;
}

/** Asks whether a tool may be called. The client makes the call itself. */
export interface ToolReviewParams {
  /** The call. */
  call: ToolCallApproval;
  /** Whether the tool says itself whether a person has to be asked; absent, the approval policy decides. */
  requires_approval?: boolean | null;
  /** The session. */
  session_id: SessionId;
}

/** Whether the tool may be called. */
export type ToolReviewResult = ToolReviewResultApproved | ToolReviewResultRefused;

/** It may. */
export interface ToolReviewResultApproved extends Without<"refused"> {
  approved: Record<string, unknown>;
}

/** It may not. */
export interface ToolReviewResultRefused extends Without<"approved"> {
  refused: Refusal;
}

/** What a writer found at the end of the trail. */
export type TrailDamage = TrailDamageUnfinished | TrailDamageUnexplained;

/**
 * The line before this record is the beginning of one that was never finished: its writer was
 * killed, or the disk was full. It is kept, and known by its hash.
 */
export interface TrailDamageUnfinished extends Without<"unexplained"> {
  unfinished: {
    /** How many bytes there are of it. */
    bytes: number;
    /** Their hash. */
    hash: RecordHash;
  };
}

/** Something that no writer leaves behind. */
export interface TrailDamageUnexplained extends Without<"unfinished"> {
  unexplained: {
    /** What. */
    what: string;
  };
}

/** A record that is not as it should be. */
export interface TrailFlaw {
  /** The file it stands in. */
  file: RawText;
  /** What is wrong, in words for a person. */
  flaw: string;
  /** The line, counted from 1. */
  line: number;
  /** The place in the trail that it has, or should have. */
  sequence: number;
}

/** The permissions that new files are denied: the file mode creation mask, as `umask` sets it. */
export type Umask = number;

/** A denied act, who tried it, what stood against it, and the least that would have allowed it. */
export interface Violation {
  /** The least that would have allowed it; absent where nothing may. */
  amendment?: PermissionAmendment | null;
  /** How it is known. */
  evidence: Evidence;
  /** What was tried. */
  operation: Operation;
  /** The process that tried. */
  pid?: number | null;
  /** The program of that process. */
  program?: RawText | null;
  /** What stood against it. */
  rule?: DenyingRule | null;
  /** On what. */
  target: ViolationTarget;
}

/** On what it was tried. */
export type ViolationTarget =
  | ViolationTargetPath
  | ViolationTargetDestination
  | ViolationTargetUnixSocket
  | ViolationTargetSystemCall
  | ViolationTargetProcess
  | ViolationTargetLimit
  | ViolationTargetCommand;

/** A file. */
export interface ViolationTargetPath extends Without<"destination" | "unix_socket" | "system_call" | "process" | "limit" | "command"> {
  path: AbsPath;
}

/** A destination on the network. */
export interface ViolationTargetDestination extends Without<"path" | "unix_socket" | "system_call" | "process" | "limit" | "command"> {
  destination: Destination;
}

/** A Unix socket. */
export interface ViolationTargetUnixSocket extends Without<"path" | "destination" | "system_call" | "process" | "limit" | "command"> {
  unix_socket: AbsPath;
}

/** A system call, by name. */
export interface ViolationTargetSystemCall extends Without<"path" | "destination" | "unix_socket" | "process" | "limit" | "command"> {
  system_call: string;
}

/** A process outside. */
export interface ViolationTargetProcess extends Without<"path" | "destination" | "unix_socket" | "system_call" | "limit" | "command"> {
  process: number;
}

/** A limit, by its field in `ResourceLimits`. */
export interface ViolationTargetLimit extends Without<"path" | "destination" | "unix_socket" | "system_call" | "process" | "command"> {
  limit: string;
}

/** A program that the command started, with its arguments. A long one is cut. */
export interface ViolationTargetCommand extends Without<"path" | "destination" | "unix_socket" | "system_call" | "process" | "limit"> {
  command: Argv;
}

/** A command that is too long for a record: what tells it from every other. */
export interface WholeCommand {
  /** How many bytes these have together. */
  bytes: number;
  /** The SHA-256 of all words, without secrets, each followed by a NUL byte. */
  sha256: RecordHash;
  /** How many words it has. */
  words: number;
}

/** One word of a command after quotes and escapes are gone. */
export type Word = RawText | null;

/** A write that a running command wants and its policy denies. */
export interface WriteApproval {
  /**
   * What may be written after a yes for the run or for the session: each of these and everything below it, but
   * for what stays protected there.
   */
  directories: AbsPath[];
  /** What is to be done. */
  operation: WriteOperation;
  /** Every path that has to be written for it: both ends of a move, the source of a hard link. */
  paths: AbsPath[];
  /** The program that wants it. */
  program?: RawText | null;
  /** A permission profile that would save this question in future. */
  proposed_profile_amendment?: ProfileAmendment | null;
}

/**
 * What a write does.
 * - `write`: Writes a file that exists, or changes its attributes.
 * - `create`: Makes a file or a link.
 * - `make_directory`: Makes a directory.
 * - `replace`: Removes, renames or replaces a name.
 */
export type WriteOperation =
  | "write"
  | "create"
  | "make_directory"
  | "replace";
