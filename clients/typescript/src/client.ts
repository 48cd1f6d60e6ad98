/**
 * A connection to a server.
 *
 * @module
 */
import { Connection, Unanswered, type Peer } from "./connection.js";
import { ConnectionError, StockadeError } from "./errors.js";
import type {
  ApprovalRequestParams,
  AuditRecord,
  AuditVerifyResult,
  CheckReport,
  InitializeResult,
  ListedSession,
  Notifications,
  OpenQuestion,
} from "./protocol.js";
import { openParams, present, type CommandLine, type OpenOptions, type SessionHandlers } from "./options.js";
import { auditRecords, Session, type SessionContext } from "./session.js";
import { toRaw } from "./text.js";
import { connectToSocket, defaultSocket, spawnServer, within, type Transport } from "./transport.js";

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

const PROTOCOL_VERSION = 1;
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
/** How long a server may take to answer `initialize`. */
const INITIALIZE_MS = 30_000;

/** How long a server may take to close its sessions. */
const SHUTDOWN_MS = 5000;
const nothing = (): void => {};

/** A client of a Stockade server. */
export class Stockade implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #connection: Connection;
  readonly #sessions = new Map<string, Session>();
  readonly #options: ConnectOptions;
  #server: InitializeResult | undefined;

  private constructor(transport: Transport, options: ConnectOptions) {
    this.#transport = transport;
    this.#options = options;
    const peer: Peer = {
      notified: (method, params) => this.#notified(method, params),
      requested: (method, params) => this.#requested(method, params),
      ended: (error) => {
        for (const session of [...this.#sessions.values()]) session.lost(error);
      },
    };
    this.#connection = new Connection(transport, peer, options.maxFrameBytes ?? MAX_FRAME_BYTES);
  }

  /** Starts a server, or connects to one, and introduces this program to it. */
  static async connect(options: ConnectOptions = {}): Promise<Stockade> {
    options.signal?.throwIfAborted();
    const client = new Stockade(await reach(options), options);
    try {
      await client.#initialize();
    } catch (error) {
      await client.#connection.close();
      throw error;
    }
    return client;
  }

  /** The server's name, version, methods and limits. */
  get server(): InitializeResult {
    if (this.#server === undefined) throw new TypeError("the connection is not initialized yet");
    return this.#server;
  }

  /** Opens a session. It asks with `on-failure` if it has `onQuestion`, and never if it has not. */
  open(options: OpenOptions = {}): Promise<Session> {
    const answers = options.onQuestion !== undefined && this.#options.answers !== false;
    // A server that was started here has this program's directory and environment; another has its own.
    const own = this.#transport.ownsServer ? {} : { workspace: process.cwd(), environment: process.env };
    const params = openParams({ ask: answers ? "on-failure" : "never", ...own, ...present(options) });
    return this.#connection.request("session/open", params, ({ capability, ...state }) =>
      this.#add(state.session_id, capability, options).attached(state),
    );
  }

  /** Joins a session that another client opened, or that this program opened over a connection that was lost. */
  async attach(sessionId: string, capability: string, handlers: SessionHandlers = {}): Promise<Session> {
    if (this.#sessions.has(sessionId)) throw new StockadeError(`this connection is attached to ${sessionId} already`);
    // Its open questions may arrive before the answer does.
    const session = this.#add(sessionId, capability, handlers);
    try {
      return await this.#connection.request("session/attach", { session_id: sessionId, capability }, (state) => session.attached(state));
    } catch (error) {
      session.lost(error);
      throw error;
    }
  }

  /** The sessions of the server, the oldest first. */
  async sessions(): Promise<ListedSession[]> {
    return (await this.#connection.request("session/list", {})).sessions;
  }

  /** The open questions of all sessions that this connection is attached to. */
  async questions(): Promise<OpenQuestion[]> {
    return (await this.#connection.request("approval/list", {})).questions;
  }

  /** The whole trail, the oldest record first. */
  audit(): AsyncGenerator<AuditRecord, void, undefined> {
    return auditRecords(this.#connection, {});
  }

  /** Checks whether the trail is whole. */
  verifyAudit(): Promise<AuditVerifyResult> {
    return this.#connection.request("audit/verify", {});
  }

  /** Evaluates the rules of the system and the user for a command. */
  checkRules(command: CommandLine): Promise<CheckReport> {
    return this.#connection.request("rules/check", { command: command.map(toRaw) });
  }

  /**
   * Ends the connection. A server that this client started closes its sessions and ends; sessions of another
   * server live on for their time.
   */
  async close(): Promise<void> {
    if (this.#connection.open && this.#transport.ownsServer) {
      const told = this.#connection.request("shutdown", {}).then(nothing, nothing);
      await within(told, SHUTDOWN_MS);
    }
    await this.#connection.close();
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #initialize(): Promise<void> {
    const { name = "@stockade/client", version, answers = true, terminal = false, signal } = this.#options;
    const initialized = this.#connection.request(
      "initialize",
      {
        protocol_version: PROTOCOL_VERSION,
        client: { name, ...present({ version }) },
        capabilities: { answers, terminal },
      },
      (server) => {
        this.#server = server;
        this.#connection.frameLimit = server.limits.frame_bytes;
      },
    );
    await inTime(initialized, signal);
  }

  #add(id: string, capability: string, handlers: SessionHandlers): Session {
    const context: SessionContext = {
      connection: this.#connection,
      report: (error) => this.#report(error),
      left: (session) => {
        if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
      },
    };
    const session = new Session(context, id, capability, handlers);
    this.#sessions.set(id, session);
    return session;
  }

  #notified(method: string, params: unknown): void {
    // A newer server may send unknown notifications.
    const { session_id } = params as { session_id?: string };
    this.#sessions.get(session_id ?? "")?.notified(method as keyof Notifications, params as never);
  }

  async #requested(method: string, params: unknown): Promise<object> {
    if (method !== "approval/request") throw new Unanswered(-32601, `this client has no method \`${method}\``);
    const question = params as ApprovalRequestParams;
    const session = this.#sessions.get(question.session_id);
    if (session === undefined) throw new Unanswered(-32001, "this client is not attached to the session");
    return session.asked(question);
  }

  #report(error: unknown): void {
    const { onError } = this.#options;
    if (onError === undefined) return warn(error);
    try {
      onError(error);
    } catch (another) {
      warn(another);
    }
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}

async function reach(options: ConnectOptions): Promise<Transport> {
  const { command, socket, transport, env, cwd } = options;
  if ([command, socket, transport].filter((way) => way !== undefined).length > 1) {
    throw new TypeError("one of `command`, `socket` and `transport` can be given");
  }
  if (transport !== undefined) return transport;
  if (socket !== undefined) return connectToSocket(socket === true ? defaultSocket() : socket);
  return spawnServer(command ?? ["stockade", "serve"], present({ env, cwd }));
}

/** The promise, unless the signal is aborted or the server takes too long to answer `initialize`. */
async function inTime<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  promise.catch(() => {});
  let stop = (): void => {};
  const given = new Promise<never>((_, reject) => {
    const late = new ConnectionError(`the server did not answer within ${INITIALIZE_MS / 1000} seconds`);
    const timer = setTimeout(() => reject(late), INITIALIZE_MS);
    const abort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    stop = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
  });
  try {
    return await Promise.race([promise, given]);
  } finally {
    stop();
  }
}
