/**
 * A connection to a server.
 *
 * @module
 */
import { Connection, Unanswered } from "./connection.js";
import { ConnectionError, StockadeError } from "./errors.js";
import { openParams, present } from "./options.js";
import { auditRecords, Session } from "./session.js";
import { toRaw } from "./text.js";
import { connectToSocket, defaultSocket, spawnServer, within } from "./transport.js";
const PROTOCOL_VERSION = 1;
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
/** How long a server may take to answer `initialize`. */
const INITIALIZE_MS = 30_000;
/** How long a server may take to close its sessions. */
const SHUTDOWN_MS = 5000;
const nothing = () => { };
/** A client of a Stockade server. */
export class Stockade {
    #transport;
    #connection;
    #sessions = new Map();
    #options;
    #server;
    constructor(transport, options) {
        this.#transport = transport;
        this.#options = options;
        const peer = {
            notified: (method, params) => this.#notified(method, params),
            requested: (method, params) => this.#requested(method, params),
            ended: (error) => {
                for (const session of [...this.#sessions.values()])
                    session.lost(error);
            },
        };
        this.#connection = new Connection(transport, peer, options.maxFrameBytes ?? MAX_FRAME_BYTES);
    }
    /** Starts a server, or connects to one, and introduces this program to it. */
    static async connect(options = {}) {
        options.signal?.throwIfAborted();
        const client = new Stockade(await reach(options), options);
        try {
            await client.#initialize();
        }
        catch (error) {
            await client.#connection.close();
            throw error;
        }
        return client;
    }
    /** The server's name, version, methods and limits. */
    get server() {
        if (this.#server === undefined)
            throw new TypeError("the connection is not initialized yet");
        return this.#server;
    }
    /** Opens a session. It asks with `on-failure` if it has `onQuestion`, and never if it has not. */
    open(options = {}) {
        const answers = options.onQuestion !== undefined && this.#options.answers !== false;
        // A server that was started here has this program's directory and environment; another has its own.
        const own = this.#transport.ownsServer ? {} : { workspace: process.cwd(), environment: process.env };
        const params = openParams({ ask: answers ? "on-failure" : "never", ...own, ...present(options) });
        return this.#connection.request("session/open", params, ({ capability, ...state }) => this.#add(state.session_id, capability, options).attached(state));
    }
    /** Joins a session that another client opened, or that this program opened over a connection that was lost. */
    async attach(sessionId, capability, handlers = {}) {
        if (this.#sessions.has(sessionId))
            throw new StockadeError(`this connection is attached to ${sessionId} already`);
        // Its open questions may arrive before the answer does.
        const session = this.#add(sessionId, capability, handlers);
        try {
            return await this.#connection.request("session/attach", { session_id: sessionId, capability }, (state) => session.attached(state));
        }
        catch (error) {
            session.lost(error);
            throw error;
        }
    }
    /** The sessions of the server, the oldest first. */
    async sessions() {
        return (await this.#connection.request("session/list", {})).sessions;
    }
    /** The open questions of all sessions that this connection is attached to. */
    async questions() {
        return (await this.#connection.request("approval/list", {})).questions;
    }
    /** The whole trail, the oldest record first. */
    audit() {
        return auditRecords(this.#connection, {});
    }
    /** Checks whether the trail is whole. */
    verifyAudit() {
        return this.#connection.request("audit/verify", {});
    }
    /** Evaluates the rules of the system and the user for a command. */
    checkRules(command) {
        return this.#connection.request("rules/check", { command: command.map(toRaw) });
    }
    /**
     * Ends the connection. A server that this client started closes its sessions and ends; sessions of another
     * server live on for their time.
     */
    async close() {
        if (this.#connection.open && this.#transport.ownsServer) {
            const told = this.#connection.request("shutdown", {}).then(nothing, nothing);
            await within(told, SHUTDOWN_MS);
        }
        await this.#connection.close();
    }
    /** The same as {@link close}. */
    [Symbol.asyncDispose]() {
        return this.close();
    }
    async #initialize() {
        const { name = "@stockade/client", version, answers = true, terminal = false, signal } = this.#options;
        const initialized = this.#connection.request("initialize", {
            protocol_version: PROTOCOL_VERSION,
            client: { name, ...present({ version }) },
            capabilities: { answers, terminal },
        }, (server) => {
            this.#server = server;
            this.#connection.frameLimit = server.limits.frame_bytes;
        });
        await inTime(initialized, signal);
    }
    #add(id, capability, handlers) {
        const context = {
            connection: this.#connection,
            report: (error) => this.#report(error),
            left: (session) => {
                if (this.#sessions.get(session.id) === session)
                    this.#sessions.delete(session.id);
            },
        };
        const session = new Session(context, id, capability, handlers);
        this.#sessions.set(id, session);
        return session;
    }
    #notified(method, params) {
        // A newer server may send unknown notifications.
        const { session_id } = params;
        this.#sessions.get(session_id ?? "")?.notified(method, params);
    }
    async #requested(method, params) {
        if (method !== "approval/request")
            throw new Unanswered(-32601, `this client has no method \`${method}\``);
        const question = params;
        const session = this.#sessions.get(question.session_id);
        if (session === undefined)
            throw new Unanswered(-32001, "this client is not attached to the session");
        return session.asked(question);
    }
    #report(error) {
        const { onError } = this.#options;
        if (onError === undefined)
            return warn(error);
        try {
            onError(error);
        }
        catch (another) {
            warn(another);
        }
    }
}
function warn(error) {
    process.emitWarning(error instanceof Error ? error : String(error));
}
async function reach(options) {
    const { command, socket, transport, env, cwd } = options;
    if ([command, socket, transport].filter((way) => way !== undefined).length > 1) {
        throw new TypeError("one of `command`, `socket` and `transport` can be given");
    }
    if (transport !== undefined)
        return transport;
    if (socket !== undefined)
        return connectToSocket(socket === true ? defaultSocket() : socket);
    return spawnServer(command ?? ["stockade", "serve"], present({ env, cwd }));
}
/** The promise, unless the signal is aborted or the server takes too long to answer `initialize`. */
async function inTime(promise, signal) {
    promise.catch(() => { });
    let stop = () => { };
    const given = new Promise((_, reject) => {
        const late = new ConnectionError(`the server did not answer within ${INITIALIZE_MS / 1000} seconds`);
        const timer = setTimeout(() => reject(late), INITIALIZE_MS);
        const abort = () => reject(signal?.reason);
        signal?.addEventListener("abort", abort, { once: true });
        stop = () => {
            clearTimeout(timer);
            signal?.removeEventListener("abort", abort);
        };
    });
    try {
        return await Promise.race([promise, given]);
    }
    finally {
        stop();
    }
}
