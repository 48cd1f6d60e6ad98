/**
 * Questions that a session asks before something runs, connects or is changed.
 *
 * @module
 */
import { UnusableAnswerError } from "./errors.js";
import type {
  ApprovalRequest,
  ApprovalRequestParams,
  ApprovalSubject,
  EscalationExecution,
  HostRule,
  NetworkPolicyAmendment,
  Permissions,
  RawText,
  ReviewDecision,
} from "./protocol.js";
import { toText } from "./text.js";

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
export class Question {
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

  /** @internal */
  constructor({ session_id, question_id, command_id, request }: ApprovalRequestParams, signal: AbortSignal) {
    this.sessionId = session_id;
    this.id = question_id;
    this.commandId = command_id ?? undefined;
    this.request = request;
    this.signal = signal;
  }

  /** What is asked: `subject.command`, `subject.patch`, `subject.network`, … is there, and only one of them. */
  get subject(): ApprovalSubject {
    return this.request.subject;
  }

  /** The offered answers, in display order. */
  get decisions(): readonly ReviewDecision[] {
    return this.request.available_decisions;
  }

  /**
   * The question in a line, to be shown as it is: what would happen, why it is asked, which paths lead elsewhere, and
   * what the requester says about it. Characters that could hide any of it are made visible.
   */
  get text(): string {
    const { reason, resolved_paths = [] } = this.request;
    const parts = [ask(this.subject)];
    if (typeof reason === "string") parts.push(`(${show(reason)})`);
    for (const { given, resolved } of resolved_paths) parts.push(`${show(given)} leads to ${show(resolved)}.`);
    const justification = (this.subject.command ?? this.subject.permissions)?.justification;
    if (typeof justification === "string") parts.push(`The requester says: "${show(justification)}"`);
    return parts.join(" ");
  }

  /** Whether this answer can be given. */
  offers(decision: DecisionKind): boolean {
    return this.#offered(decision) !== undefined;
  }

  /** Yes, once. */
  approve(): Answer {
    return this.answer(this.#pick("approved"));
  }

  /** Yes, and to what belongs with it, until the command ends. */
  approveForRun(): Answer {
    return this.answer(this.#pick("approved_for_run"));
  }

  /** Yes, and the same is not asked again in this session. */
  approveForSession(): Answer {
    return this.answer(this.#pick("approved_for_session"));
  }

  /** Yes, and a rule is saved that allows exactly this command from now on. */
  approveAndSaveRule(): Answer {
    return this.answer(this.#pick("approved_execpolicy_amendment"));
  }

  /** Yes, and a permission profile is saved that lets exactly this command write there, in this workspace, from now on. */
  approveAndSaveProfile(): Answer {
    return this.answer(this.#pick("approved_profile_amendment"));
  }

  /** Yes or no to a destination, saved as a rule: one of those that the question proposes. */
  saveNetworkRule(action: NetworkPolicyAmendment["action"]): Answer {
    const rule = this.decisions.find(
      (decision) => typeof decision === "object" && decision.network_policy_amendment?.network_policy_amendment.action === action,
    );
    return this.answer(rule ?? this.#refuse("network_policy_amendment"));
  }

  /** No, with words for the program that asked. The command is not run, or not run again. */
  deny(reason?: string): Answer {
    return this.answer(reason === undefined ? "denied" : { denied: { rejection: reason } });
  }

  /** No, and the request that led to the question should stop. */
  abort(): Answer {
    return this.answer("abort");
  }

  /** The answer to an MCP server's question: `content` fits the schema that it sent. */
  accept(content: Record<string, unknown>): Answer {
    return { ...this.answer(this.#pick("approved")), content };
  }

  /** Any answer. */
  answer(decision: ReviewDecision): Answer {
    return { decision };
  }

  #offered(kind: DecisionKind): ReviewDecision | undefined {
    return this.decisions.find((decision) => kindOf(decision) === kind);
  }

  #pick(kind: DecisionKind): ReviewDecision {
    return this.#offered(kind) ?? this.#refuse(kind);
  }

  #refuse(kind: DecisionKind): never {
    const offered = this.decisions.map(kindOf).join(", ");
    const message = `\`${kind}\` is not offered for this question: there are ${offered}`;
    throw new UnusableAnswerError(-32007, message, { kind: "unusable_answer" });
  }
}

type Keys<Union> = Union extends object ? { [Name in keyof Union]-?: [Union[Name]] extends [never | undefined] ? never : Name }[keyof Union] : never;

/** A decision's name, without its payload. */
export type DecisionKind = Extract<ReviewDecision, string> | Keys<Exclude<ReviewDecision, string>>;

function kindOf(decision: ReviewDecision): DecisionKind {
  return typeof decision === "string" ? decision : (Object.keys(decision)[0] as DecisionKind);
}

function ask(subject: ApprovalSubject): string {
  if (subject.command !== undefined) {
    const { command, cwd, escalation } = subject.command;
    return `Run \`${command.map(word).join(" ")}\` in ${show(cwd)}${extent(escalation)}?`;
  }
  if (subject.patch !== undefined) {
    const { changes, grant_root } = subject.patch;
    const paths = changes.map((change) => show((change.add ?? change.delete ?? change.update).path));
    const root = grant_root === undefined || grant_root === null ? "" : `, and let the session write ${show(grant_root)}`;
    return `Change ${paths.join(", ")}${root}?`;
  }
  if (subject.network !== undefined) {
    const { host, port, protocol, leads_to = [] } = subject.network;
    if (leads_to.length > 0) return `Connect to ${leads_to.map(show).join(", ")} on a local network, for ${show(host)}:${port} (${protocol})?`;
    return `Connect to ${show(host)}:${port} (${protocol})?`;
  }
  if (subject.write !== undefined) {
    const { operation, paths, program } = subject.write;
    const verb = operation === "write" ? "write" : operation === "replace" ? "remove or replace" : "create";
    const who = typeof program === "string" ? show(program) : "the command";
    return `Let ${who} ${verb} ${paths.map(show).join(", ")}?`;
  }
  if (subject.tool_call !== undefined) return `Call the tool ${show(subject.tool_call.tool)} of ${show(subject.tool_call.server)}?`;
  if (subject.elicitation !== undefined) return `${show(subject.elicitation.server)} asks: ${show(subject.elicitation.message)}`;
  return `Let the session have ${listed(subject.permissions.permissions)}?`;
}

/** The permissions of a command's escalation. */
function extent(escalation: EscalationExecution): string {
  if (escalation === "turn_default") return "";
  if (escalation === "unsandboxed") return " without the sandbox";
  return ` with ${listed(escalation.permissions)}`;
}

/** Permissions, one after the other. */
function listed({ files = [], network, unix_sockets = [], environment = {}, limits = {} }: Permissions): string {
  const parts = files.map(({ access, target }) => `${access} access to ${show(target.path ?? target.glob)}`);
  if (network === "full") parts.push("the whole network");
  else if (network !== undefined && network !== "off") {
    const allowed = network.hosts.rules.filter(({ decision }) => decision === "allow");
    parts.push(...allowed.map((rule) => `a connection to ${destination(rule)}`));
  }
  parts.push(...unix_sockets.map((path) => `the socket ${show(path)}`));
  for (const [name, limit] of Object.entries(limits)) parts.push(`up to ${limit} ${name.replaceAll("_", " ")}`);
  // Values may be secrets.
  parts.push(...Object.keys(environment.set ?? {}).map((name) => `the variable ${show(name)}`));
  parts.push(...(environment.include_only ?? []).map((name) => `inherited variables named ${show(name)}`));
  return parts.length === 0 ? "nothing more" : parts.join(", ");
}

function destination({ host, port, protocol }: HostRule): string {
  return `${show(host)}${typeof port === "number" ? `:${port}` : ""}${typeof protocol === "string" ? ` (${protocol})` : ""}`;
}

/** A word quoted for a shell. */
function word(raw: RawText): string {
  const text = toText(raw);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${show(text).replaceAll("'", "'\\''")}'`;
}

/** Text with visible characters only: none moves the cursor, ends the line or changes the writing direction. */
function show(raw: RawText): string {
  return toText(raw).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}
