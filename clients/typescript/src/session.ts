/**
 * A session: commands, changes and questions under one policy and one memory.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import { Command } from "./command.js";
import { Unanswered, type Connection } from "./connection.js";
import { SessionClosedError, StockadeError, UnusableAnswerError } from "./errors.js";
import { change, present, policyParams, startParams, toPath } from "./options.js";
import type { CommandLine, PolicyOptions, RunOptions, SessionHandlers, StartOptions } from "./options.js";
import { OutputChunk } from "./output.js";
import type {
  ApprovalReply,
  ApprovalRequestParams,
  ApprovalResolved,
  Argv,
  AskForApproval,
  AuditRecord,
  CommandRunParams,
  ElicitationRequestResult,
  EscalationExecution,
  Explanation,
  FileChange,
  CheckReport,
  Notifications,
  OpenQuestion,
  PatchApplyResult,
  Permissions,
  PermissionsRequestResult,
  RememberedApproval,
  SandboxPolicy,
  SessionState,
  SessionUpdateParams,
  ToolCallApproval,
  ToolReviewResult,
} from "./protocol.js";
import { Question, type Answer } from "./question.js";
import { CommandResult } from "./result.js";
import { toRaw, type Text } from "./text.js";

/** Something that happened in a session. */
export type SessionEvent =
  /** A command was started, here or by another client. */
  | { type: "command_started"; commandId: string; command: Argv }
  /** A command that another client started has ended. */
  | { type: "command_ended"; commandId: string; result: CommandResult }
  /** Output of a command that is followed is gone: pieces before `firstSeq` will not come. */
  | { type: "output_lost"; commandId: string; firstSeq: number }
  /** A question needs no answer any more. */
  | { type: "question_resolved"; resolved: ApprovalResolved }
  /** The policy was changed. */
  | { type: "changed"; ask: AskForApproval; sandbox: SandboxPolicy }
  /** The session is closed. */
  | { type: "closed"; why: string }
  /** Something worth knowing, in a sentence. */
  | { type: "notice"; text: string };

/** The client as a session uses it. */
export interface SessionContext {
  connection: Connection;
  report(error: unknown): void;
  left(session: Session): void;
}

/** A session of the server. */
export class Session implements AsyncDisposable {
  /** Its name on the wire. */
  readonly id: string;
  readonly #capability: string;
  readonly #context: SessionContext;
  readonly #handlers: SessionHandlers;
  /** Commands that this client started, until the server says how they ended; and those that it follows. */
  readonly #started = new Map<string, Command>();
  readonly #followed = new Map<string, Command>();
  readonly #questions = new Map<string, AbortController>();
  #state: SessionState | undefined;
  #over = false;

  /** @internal */
  constructor(context: SessionContext, id: string, capability: string, handlers: SessionHandlers) {
    this.#context = context;
    this.id = id;
    this.#capability = capability;
    this.#handlers = handlers;
  }

  /** The secret that lets another client {@link Stockade.attach | attach}. Its holder can answer questions. */
  get capability(): string {
    return this.#capability;
  }

  /** The session as the server described it last: its directory, policy, permissions and notices. */
  get state(): SessionState {
    if (this.#state === undefined) throw new TypeError("the session is not attached yet");
    return this.#state;
  }

  /** Runs a command to its end. A refusal or a denial is a result, not an error. */
  async run(command: CommandLine, options: RunOptions = {}): Promise<CommandResult> {
    const { input, onOutput, ...rest } = options;
    const running = this.#start(command, input === undefined ? rest : { ...rest, stdin: "pipe" }, onOutput !== undefined);
    // A command need not read its input.
    if (input !== undefined) running.end(input).catch(() => {});
    if (onOutput === undefined) return running.wait();
    try {
      for await (const chunk of running) await onOutput(chunk);
    } catch (error) {
      await running[Symbol.asyncDispose]();
      throw error;
    }
    return running.wait();
  }

  /** Starts a command whose output is read, or whose input is written, while it runs. */
  start(command: CommandLine, options: StartOptions = {}): Command {
    return this.#start(command, options, true);
  }

  /** Follows a command of the session from the piece of output behind `afterSeq` on. */
  async follow(commandId: string, options: { afterSeq?: number | undefined; signal?: AbortSignal | undefined } = {}): Promise<Command> {
    options.signal?.throwIfAborted();
    if (this.#command(commandId) !== undefined) throw new StockadeError(`this connection follows ${commandId} already`);
    const command = new Command(this.#context.connection, this.id, commandId, options.signal);
    this.#followed.set(commandId, command);
    try {
      await this.#context.connection.request("command/attach", {
        session_id: this.id,
        command_id: commandId,
        after_seq: options.afterSeq ?? 0,
        acknowledge: true,
      });
    } catch (error) {
      this.#followed.delete(commandId);
      command.failed(error);
      throw error;
    }
    return command;
  }

  /** Says what would happen to a command, and why. */
  explain(command: CommandLine, options: { cwd?: Text | undefined; escalation?: EscalationExecution | undefined } = {}): Promise<Explanation> {
    return this.#context.connection.request("command/explain", {
      session_id: this.id,
      command: command.map(toRaw),
      ...present({ cwd: change(options.cwd, toPath), escalation: options.escalation }),
    });
  }

  /** Changes files, all or none: a list of changes, or the text that `stockade patch` reads. */
  patch(changes: readonly FileChange[] | string): Promise<PatchApplyResult> {
    const what = typeof changes === "string" ? { patch: changes } : { changes: [...changes] };
    return this.#context.connection.request("patch/apply", { session_id: this.id, ...what });
  }

  /** Asks whether a tool may be called. The program makes the call itself. */
  reviewTool(call: ToolCallApproval, options: { requiresApproval?: boolean | undefined } = {}): Promise<ToolReviewResult> {
    return this.#context.connection.request("tool/review", {
      session_id: this.id,
      call,
      ...present({ requires_approval: options.requiresApproval }),
    });
  }

  /** Asks for permissions in advance. */
  requestPermissions(permissions: Permissions, justification?: string): Promise<PermissionsRequestResult> {
    return this.#context.connection.request("permissions/request", {
      session_id: this.id,
      permissions,
      ...present({ justification }),
    });
  }

  /** Passes on a question of an MCP server. */
  elicit(server: string, message: string, requestedSchema?: Record<string, unknown>): Promise<ElicitationRequestResult> {
    return this.#context.connection.request("elicitation/request", {
      session_id: this.id,
      server,
      message,
      ...present({ requested_schema: requestedSchema }),
    });
  }

  /** Changes the policy from the next command on. What was approved for the session stays approved. */
  update(options: PolicyOptions): Promise<SessionState> {
    const params: SessionUpdateParams = { session_id: this.id, ...policyParams(options) };
    return this.#context.connection.request("session/update", params, (state) => (this.#state = state));
  }

  /** What was approved for the session. */
  async remembered(): Promise<RememberedApproval[]> {
    return (await this.#context.connection.request("approval/remembered", { session_id: this.id })).approvals;
  }

  /** Forgets an approval by its key, or all of them. Says how many. */
  async forget(key?: string): Promise<number> {
    const what = { session_id: this.id, ...present({ key }) };
    return (await this.#context.connection.request("approval/forget", what)).forgotten;
  }

  /** The session's open questions. */
  async questions(): Promise<OpenQuestion[]> {
    return (await this.#context.connection.request("approval/list", { session_id: this.id })).questions;
  }

  /** Answers a question outside of its handler, such as one of {@link questions}. */
  async answer(questionId: string, answer: Answer): Promise<void> {
    await this.#context.connection.request("approval/answer", { session_id: this.id, question_id: questionId, ...answer });
  }

  /** The trail of the session, the oldest record first. */
  audit(): AsyncGenerator<AuditRecord, void, undefined> {
    return auditRecords(this.#context.connection, { session_id: this.id });
  }

  /** What the rules say of a command in this session's directory. */
  checkRules(command: CommandLine): Promise<CheckReport> {
    return this.#context.connection.request("rules/check", { session_id: this.id, command: command.map(toRaw) });
  }

  /** Leaves the session to its other clients, or to itself. */
  async detach(): Promise<void> {
    await this.#context.connection.request("session/detach", { session_id: this.id }, () =>
      this.#leave(new StockadeError("this client left the session")),
    );
  }

  /** Ends the session's commands, refuses its questions and forgets its approvals. Says how many commands were ended. */
  async close(): Promise<number> {
    const closed = await this.#context.connection.request("session/close", { session_id: this.id }, (result) => {
      this.#leave(new SessionClosedError(-32008, "the session was closed", { kind: "closed" }));
      return result;
    });
    return closed.ended_commands;
  }

  /** Closes the session; one that is closed already, or whose server has gone, stays so. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => {});
  }

  #start(line: CommandLine, options: StartOptions, stream: boolean): Command {
    const { signal } = options;
    signal?.throwIfAborted();
    const command = new Command(this.#context.connection, this.id, randomUUID(), signal);
    const params: CommandRunParams = {
      session_id: this.id,
      command_id: command.id,
      command: line.map(toRaw),
      stream,
      ...(stream ? { acknowledge: true } : {}),
      ...startParams(options),
    };
    this.#started.set(command.id, command);
    this.#context.connection
      .request("command/run", params, ({ command_id, outcome, last_seq }) => command.ended(new CommandResult(command_id, outcome, last_seq)))
      .catch((error: unknown) => command.failed(error))
      .finally(() => {
        this.#started.delete(command.id);
        this.#forgetIfOver();
      });
    return command;
  }

  #command(id: string): Command | undefined {
    return this.#started.get(id) ?? this.#followed.get(id);
  }

  /** @internal */
  attached(state: SessionState): this {
    this.#state = state;
    return this;
  }

  /** @internal */
  async asked(params: ApprovalRequestParams): Promise<ApprovalReply> {
    const handler = this.#handlers.onQuestion;
    if (handler === undefined) throw new Unanswered(-32000, "this client does not answer questions of this session");
    const gone = new AbortController();
    this.#questions.set(params.question_id, gone);
    try {
      const answer = await handler(new Question(params, gone.signal));
      if (!answer) throw new Unanswered(-32000, "this client leaves the question to others");
      return { id: params.request.id, ...answer };
    } catch (error) {
      // A question that was answered elsewhere may well have ended its handler with an error.
      if (!(error instanceof Unanswered) && !gone.signal.aborted) this.#context.report(error);
      throw error;
    } finally {
      if (this.#questions.get(params.question_id) === gone) this.#questions.delete(params.question_id);
    }
  }

  /** @internal */
  notified<Method extends keyof Notifications>(method: Method, params: Notifications[Method]): void {
    const handle = this.#notifications[method] as ((params: Notifications[Method]) => void) | undefined;
    handle?.(params);
  }

  /** @internal The connection, or this client's part in the session, is over. */
  lost(error: unknown): void {
    this.#leave(error);
  }

  readonly #notifications: { [Method in keyof Notifications]: (params: Notifications[Method]) => void } = {
    "command/output": ({ command_id, seq, stream, data }) => this.#command(command_id)?.received(new OutputChunk(seq, stream, data)),
    "command/started": ({ command_id, command }) => this.#tell({ type: "command_started", commandId: command_id, command }),
    "command/lost": ({ command_id, first_seq }) => this.#tell({ type: "output_lost", commandId: command_id, firstSeq: first_seq }),
    "command/ended": ({ command_id, outcome, last_seq }) => {
      const result = new CommandResult(command_id, outcome, last_seq);
      this.#followed.get(command_id)?.ended(result);
      this.#followed.delete(command_id);
      this.#tell({ type: "command_ended", commandId: command_id, result });
    },
    "approval/resolved": (resolved) => {
      this.#questions.get(resolved.question_id)?.abort(new Error(resolved.why ?? "the question was answered elsewhere"));
      this.#tell({ type: "question_resolved", resolved });
    },
    "approval/unusable": ({ why }) => this.#context.report(new UnusableAnswerError(-32007, why, { kind: "unusable_answer" })),
    "session/changed": ({ ask, sandbox }) => {
      if (this.#state !== undefined) this.#state = { ...this.#state, ask, sandbox };
      this.#tell({ type: "changed", ask, sandbox });
    },
    "session/closed": ({ why }) => {
      this.#leave(new SessionClosedError(-32008, `the session was closed: ${why}`, { kind: "closed" }));
      this.#tell({ type: "closed", why });
    },
    "session/notice": ({ text }) => this.#tell({ type: "notice", text }),
  };

  #tell(event: SessionEvent): void {
    try {
      this.#handlers.onEvent?.(event);
    } catch (error) {
      this.#context.report(error);
    }
  }

  /** How commands that were started here have ended is still said; of those that are followed no more is. */
  #leave(error: unknown): void {
    this.#over = true;
    for (const command of this.#followed.values()) command.failed(error);
    this.#followed.clear();
    for (const question of this.#questions.values()) question.abort(error);
    this.#questions.clear();
    this.#forgetIfOver();
  }

  #forgetIfOver(): void {
    if (this.#over && this.#started.size === 0) this.#context.left(this);
  }
}

/** @internal */
export async function* auditRecords(
  connection: Connection,
  filter: { session_id?: string },
): AsyncGenerator<AuditRecord, void, undefined> {
  let after: number | undefined;
  do {
    const page = await connection.request("audit/list", { ...filter, ...present({ after }) });
    yield* page.records;
    after = page.records.length === 0 ? undefined : (page.next ?? undefined);
  } while (after !== undefined);
}
