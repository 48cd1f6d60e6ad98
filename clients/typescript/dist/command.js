import { OutputQueue } from "./output.js";
import { toRaw } from "./text.js";
/** Input is sent in pieces of this many bytes, far below the server's limit on a message. */
const WRITE_BYTES = 256 * 1024;
/**
 * A command of a session: its output as `for await (const chunk of command)`, its end as `await command.wait()`.
 *
 * Output that is not read slows down this command and nothing else: the server holds it back after 256 KiB. So a
 * command whose output does not matter has to be waited for with {@link wait}, or started with {@link Session.run}.
 */
export class Command {
    /** Its name in the session. */
    id;
    /** The session's name. */
    sessionId;
    #connection;
    #output;
    #signal;
    #result;
    #cancelOnAbort = () => void this.cancel().catch(() => { });
    #settle;
    #writes = Promise.resolve();
    /** @internal */
    constructor(connection, sessionId, id, signal) {
        this.#connection = connection;
        this.sessionId = sessionId;
        this.id = id;
        this.#output = new OutputQueue((seq) => connection.notify("command/ack", { ...this.#name, seq }));
        this.#result = new Promise((resolve, reject) => {
            this.#settle = { resolve, reject };
        });
        // A command that is not waited for may fail without ending the program.
        this.#result.catch(() => { });
        this.#signal = signal;
        signal?.addEventListener("abort", this.#cancelOnAbort, { once: true });
    }
    /** Whether it has not ended yet, as far as is known here. */
    get running() {
        return this.#settle !== undefined;
    }
    /**
     * Its output from the first piece on, until it ends. There can be one reader. A reader that stops early lets the
     * command run on, and the rest of its output is thrown away.
     */
    [Symbol.asyncIterator]() {
        this.#output.claim();
        return this.#output.read();
    }
    /** Waits for its end. Output that has no reader by then is thrown away, so that the command can end. */
    wait() {
        this.#output.discardUnlessRead();
        return this.#result;
    }
    /** Writes to its standard input (`stdin: "pipe"`) or its terminal. Resolves when the command's pipe has taken it. */
    write(data) {
        return this.#enqueue(data, false);
    }
    /** Writes `data`, if given, and closes the command's standard input. */
    end(data = "") {
        return this.#enqueue(data, true);
    }
    /** Changes the size of its terminal. */
    async resize(size) {
        await this.#connection.request("command/resize", { ...this.#name, size });
    }
    /** Sends it a signal. */
    async signal(signal) {
        await this.#connection.request("command/signal", { ...this.#name, signal });
    }
    /** Ends it with everything that it started. Says whether it was still running. */
    async cancel() {
        const { was_running } = await this.#connection.request("command/cancel", this.#name);
        return was_running;
    }
    /** Ends it if it still runs, and waits until it has ended. */
    async [Symbol.asyncDispose]() {
        if (!this.running)
            return;
        await this.cancel().catch(() => { });
        await this.wait().catch(() => { });
    }
    /** @internal */
    received(chunk) {
        this.#output.push(chunk);
    }
    /** @internal */
    ended(result) {
        // An aborting caller wants no result; the command has ended by now.
        if (this.#signal?.aborted)
            this.failed(this.#signal.reason);
        else
            this.#finish({}, (settle) => settle.resolve(result));
    }
    /** @internal */
    failed(error) {
        const reason = this.#signal?.aborted ? this.#signal.reason : error;
        this.#finish({ error: reason }, (settle) => settle.reject(reason));
    }
    get #name() {
        return { session_id: this.sessionId, command_id: this.id };
    }
    #finish(failure, settle) {
        if (this.#settle === undefined)
            return;
        this.#signal?.removeEventListener("abort", this.#cancelOnAbort);
        this.#output.end(failure);
        settle(this.#settle);
        this.#settle = undefined;
    }
    /** Pieces stay in the order of the calls. */
    #enqueue(data, close) {
        const written = this.#writes.then(() => this.#send(data, close));
        this.#writes = written.catch(() => { });
        return written;
    }
    async #send(data, close) {
        const bytes = typeof data === "string" ? Buffer.from(data, "utf8") : data;
        let start = 0;
        do {
            const end = Math.min(start + WRITE_BYTES, bytes.length);
            const last = end === bytes.length;
            await this.#connection.request("command/write", { ...this.#name, data: toRaw(bytes.subarray(start, end)), close: close && last });
            start = end;
        } while (start < bytes.length);
    }
}
