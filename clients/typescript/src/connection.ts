/**
 * JSON-RPC 2.0 in both directions over one connection.
 *
 * The connection is always read, independent of how the program uses the data: unread output of a command
 * is held back by the command's own flow control (see `command.ts`), so it blocks no other call.
 *
 * @module
 */
import { ConnectionError, ProtocolError, serverError, StockadeError } from "./errors.js";
import { encodeFrame, FrameReader } from "./frames.js";
import type { ClientNotifications, Requests } from "./protocol.js";
import type { Transport } from "./transport.js";

/** Handlers for messages that the server sends by itself. */
export interface Peer {
  /** A notification. */
  notified(method: string, params: unknown): void;
  /** A request; the promise's value is sent back, and a rejection as an error. */
  requested(method: string, params: unknown): Promise<object>;
  /** The connection has ended; `error` says why if it was not closed on purpose. */
  ended(error: Error): void;
}

/** A request of the server that this side does not serve. */
export class Unanswered extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

interface Pending {
  accept(result: unknown): void;
  reject(error: Error): void;
}

function closed(): ConnectionError {
  return new ConnectionError("the connection was closed");
}

/** How long input is still read after the output has failed. */
const LAST_WORDS_MS = 1000;

export class Connection {
  /** The server's limit on a line. */
  frameLimit = 4 * 1024 * 1024;
  readonly #transport: Transport;
  readonly #peer: Peer;
  readonly #frames: FrameReader;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #ended: Error | undefined;
  #closing: Promise<void> | undefined;

  constructor(transport: Transport, peer: Peer, maxFrameBytes: number) {
    this.#transport = transport;
    this.#peer = peer;
    this.#frames = new FrameReader(maxFrameBytes);
    const { input, output } = transport;
    input.on("data", (bytes: Uint8Array) => this.#receive(bytes));
    input.once("close", () => void this.#lost());
    input.once("end", () => void this.#lost());
    input.on("error", () => void this.#lost());
    output.on("error", () => {
      // The server may have sent the reason before it stopped reading.
      setTimeout(() => void this.#lost(), LAST_WORDS_MS).unref();
    });
  }

  /** Whether calls can still be made. */
  get open(): boolean {
    return this.#ended === undefined && this.#closing === undefined;
  }

  /**
   * Calls a method. `accept` is run on its result before anything that the server said after it is looked at,
   * so that what belongs together is known by then.
   */
  request<Method extends keyof Requests, Value = Requests[Method]["result"]>(
    method: Method,
    params: Requests[Method]["params"],
    accept?: (result: Requests[Method]["result"]) => Value,
  ): Promise<Value> {
    return new Promise((resolve, reject) => {
      if (!this.open) throw this.#ended ?? closed();
      const id = ++this.#lastId;
      const line = encodeFrame({ jsonrpc: "2.0", id, method, params }, this.frameLimit);
      this.#pending.set(id, {
        accept: (result) => {
          try {
            resolve(accept === undefined ? (result as Value) : accept(result as Requests[Method]["result"]));
          } catch (cause) {
            reject(new ProtocolError(`the server's answer to \`${method}\` can't be used`, { cause }));
          }
        },
        reject,
      });
      this.#send(line);
    });
  }

  /** Sends a notification. */
  notify<Method extends keyof ClientNotifications>(method: Method, params: ClientNotifications[Method]): void {
    if (this.open) this.#send(encodeFrame({ jsonrpc: "2.0", method, params }, this.frameLimit));
  }

  /** Ends the connection. Pending calls are rejected. */
  close(): Promise<void> {
    this.#closing ??= this.#transport.end().finally(() => this.#end(closed()));
    return this.#closing;
  }

  #send(line: Buffer): void {
    const { output } = this.#transport;
    if (output.writable) output.write(line);
  }

  #receive(bytes: Uint8Array): void {
    if (this.#ended !== undefined) return;
    try {
      for (const message of this.#frames.read(bytes)) this.#dispatch(message);
    } catch (cause) {
      this.#fail(cause instanceof StockadeError ? cause : new ProtocolError("what the server said can't be used", { cause }));
    }
  }

  #dispatch(message: Record<string, unknown>): void {
    const { id, method } = message;
    if (typeof method === "string") {
      if (id === undefined) this.#peer.notified(method, message["params"] ?? {});
      else if (typeof id === "string" || typeof id === "number") void this.#answer(id, method, message["params"] ?? {});
      else throw new ProtocolError(`the server sent a request with the id ${JSON.stringify(id)}`);
      return;
    }
    const pending = typeof id === "number" ? this.#pending.get(id) : undefined;
    if (pending === undefined || typeof id !== "number") {
      // An error without an id is about a line that the server could not read: it belongs to no call.
      throw "error" in message && id === null
        ? serverError(message["error"])
        : new ProtocolError(`the server answered a call that was not made: ${JSON.stringify(id)}`);
    }
    this.#pending.delete(id);
    if ("error" in message) pending.reject(serverError(message["error"]));
    else if ("result" in message) pending.accept(message["result"]);
    else pending.reject(new ProtocolError("the server answered with neither a result nor an error"));
  }

  async #answer(id: string | number, method: string, params: unknown): Promise<void> {
    let line: Buffer;
    try {
      line = encodeFrame({ jsonrpc: "2.0", id, result: await this.#peer.requested(method, params) }, this.frameLimit);
    } catch (error) {
      const code = error instanceof Unanswered ? error.code : -32603;
      const message = error instanceof Error ? error.message : String(error);
      line = encodeFrame({ jsonrpc: "2.0", id, error: { code, message } }, this.frameLimit);
    }
    if (this.open) this.#send(line);
  }

  /** The server has gone. */
  async #lost(): Promise<void> {
    if (this.#ended !== undefined) return;
    if (this.#closing !== undefined) return this.#end(closed());
    const why = await this.#transport.whyEnded();
    this.#fail(new ConnectionError(why));
  }

  #fail(error: Error): void {
    if (this.#ended !== undefined) return;
    this.#end(error);
    this.#closing ??= this.#transport.end();
    this.#closing.catch(() => {});
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of pending) reject(error);
    this.#peer.ended(error);
  }
}
