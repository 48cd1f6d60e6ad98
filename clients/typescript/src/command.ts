/**
 * A command that runs.
 *
 * @module
 */
import type { Connection } from "./connection.js";
import { OutputQueue, type OutputChunk } from "./output.js";
import type { SignalName, TerminalSize } from "./protocol.js";
import type { CommandResult } from "./result.js";
import { toRaw, type Text } from "./text.js";

interface Settle {
  resolve(result: CommandResult): void;
  reject(error: unknown): void;
}

/** Input is sent in pieces of this many bytes, far below the server's limit on a message. */
const WRITE_BYTES = 256 * 1024;

/**
 * A command of a session: its output as `for await (const chunk of command)`, its end as `await command.wait()`.
 *
 * Output that is not read slows down this command and nothing else: the server holds it back after 256 KiB. So a
 * command whose output does not matter has to be waited for with {@link wait}, or started with {@link Session.run}.
 */
export class Command implements AsyncIterable<OutputChunk>, AsyncDisposable {
  /** Its name in the session. */
  readonly id: string;
  /** The session's name. */
  readonly sessionId: string;
  readonly #connection: Connection;
  readonly #output: OutputQueue;
  readonly #signal: AbortSignal | undefined;
  readonly #result: Promise<CommandResult>;
  readonly #cancelOnAbort = (): void => void this.cancel().catch(() => {});
  #settle: Settle | undefined;
  #writes: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(connection: Connection, sessionId: string, id: string, signal: AbortSignal | undefined) {
    this.#connection = connection;
    this.sessionId = sessionId;
    this.id = id;
    this.#output = new OutputQueue((seq) => connection.notify("command/ack", { ...this.#name, seq }));
    this.#result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // A command that is not waited for may fail without ending the program.
    this.#result.catch(() => {});
    this.#signal = signal;
    signal?.addEventListener("abort", this.#cancelOnAbort, { once: true });
  }

  /** Whether it has not ended yet, as far as is known here. */
  get running(): boolean {
    return this.#settle !== undefined;
  }

  /**
   * Its output from the first piece on, until it ends. There can be one reader. A reader that stops early lets the
   * command run on, and the rest of its output is thrown away.
   */
  [Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void, undefined> {
    this.#output.claim();
    return this.#output.read();
  }

  /** Waits for its end. Output that has no reader by then is thrown away, so that the command can end. */
  wait(): Promise<CommandResult> {
    this.#output.discardUnlessRead();
    return this.#result;
  }

  /** Writes to its standard input (`stdin: "pipe"`) or its terminal. Resolves when the command's pipe has taken it. */
  write(data: Text): Promise<void> {
    return this.#enqueue(data, false);
  }

  /** Writes `data`, if given, and closes the command's standard input. */
  end(data: Text = ""): Promise<void> {
    return this.#enqueue(data, true);
  }

  /** Changes the size of its terminal. */
  async resize(size: TerminalSize): Promise<void> {
    await this.#connection.request("command/resize", { ...this.#name, size });
  }

  /** Sends it a signal. */
  async signal(signal: SignalName): Promise<void> {
    await this.#connection.request("command/signal", { ...this.#name, signal });
  }

  /** Ends it with everything that it started. Says whether it was still running. */
  async cancel(): Promise<boolean> {
    const { was_running } = await this.#connection.request("command/cancel", this.#name);
    return was_running;
  }

  /** Ends it if it still runs, and waits until it has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.running) return;
    await this.cancel().catch(() => {});
    await this.wait().catch(() => {});
  }

  /** @internal */
  received(chunk: OutputChunk): void {
    this.#output.push(chunk);
  }

  /** @internal */
  ended(result: CommandResult): void {
    // An aborting caller wants no result; the command has ended by now.
    if (this.#signal?.aborted) this.failed(this.#signal.reason);
    else this.#finish({}, (settle) => settle.resolve(result));
  }

  /** @internal */
  failed(error: unknown): void {
    const reason: unknown = this.#signal?.aborted ? this.#signal.reason : error;
    this.#finish({ error: reason }, (settle) => settle.reject(reason));
  }

  get #name(): { session_id: string; command_id: string } {
    return { session_id: this.sessionId, command_id: this.id };
  }

  #finish(failure: { error?: unknown }, settle: (settle: Settle) => void): void {
    if (this.#settle === undefined) return;
    this.#signal?.removeEventListener("abort", this.#cancelOnAbort);
    this.#output.end(failure);
    settle(this.#settle);
    this.#settle = undefined;
  }

  /** Pieces stay in the order of the calls. */
  #enqueue(data: Text, close: boolean): Promise<void> {
    const written = this.#writes.then(() => this.#send(data, close));
    this.#writes = written.catch(() => {});
    return written;
  }

  async #send(data: Text, close: boolean): Promise<void> {
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
