/**
 * A command's output between the connection and the `for await` that reads it.
 *
 * The server sends at most a window of a command's output (256 KiB) beyond what was acknowledged, and a piece is
 * acknowledged when it is used. So what is kept here is bounded by the server, an idle reader slows down its own
 * command, and the connection itself is never held up.
 *
 * @module
 */
import type { RawText } from "./protocol.js";
import { byteLength, toBytes, toText } from "./text.js";

/** A piece of output. */
export class OutputChunk {
  /** Its number: pieces are counted from 1 and none is left out. */
  readonly seq: number;
  /** Where it was written. A terminal has one stream. */
  readonly stream: "stdout" | "stderr";
  /** As it was sent. */
  readonly data: RawText;

  /** @internal */
  constructor(seq: number, stream: "stdout" | "stderr", data: RawText) {
    this.seq = seq;
    this.stream = stream;
    this.data = data;
  }

  /** As text; a character is never cut in two. */
  get text(): string {
    return toText(this.data);
  }

  /** As bytes. */
  get bytes(): Uint8Array {
    return toBytes(this.data);
  }
}

/** Acknowledge after this much, well below the server's window. */
const ACKNOWLEDGE_BYTES = 64 * 1024;

const COMPACT_AFTER = 1024;

type Mode = "keeping" | "read" | "discarding";

/** @internal */
export class OutputQueue {
  readonly #acknowledge: (seq: number) => void;
  #kept: OutputChunk[] = [];
  /** How many of those were taken already. */
  #taken = 0;
  #mode: Mode = "keeping";
  #used = 0;
  #wake: (() => void) | undefined;
  #ended: { error?: unknown } | undefined;

  /** `acknowledge` is told the number up to which everything was used. */
  constructor(acknowledge: (seq: number) => void) {
    this.#acknowledge = acknowledge;
  }

  push(chunk: OutputChunk): void {
    if (this.#mode === "discarding") this.#use(chunk);
    else this.#kept.push(chunk);
    this.#wake?.();
  }

  /** No more comes; an error, if there is one, is thrown to the reader behind what there is. */
  end(failure: { error?: unknown } = {}): void {
    this.#ended ??= failure;
    this.#wake?.();
  }

  /** Nothing is read any more, unless there is a reader. */
  discardUnlessRead(): void {
    if (this.#mode === "keeping") this.#discard();
  }

  async *read(): AsyncGenerator<OutputChunk, void, undefined> {
    try {
      for (;;) {
        for (let chunk = this.#take(); chunk !== undefined; chunk = this.#take()) {
          yield chunk;
          // The next is asked for, so this one has been used.
          this.#use(chunk);
        }
        if (this.#ended !== undefined) {
          if ("error" in this.#ended) throw this.#ended.error;
          return;
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#discard();
    }
  }

  /** Says that there is a reader; there is one at most. */
  claim(): void {
    if (this.#mode !== "keeping") {
      const why = this.#mode === "read" ? "it is read already" : "read it before `wait()`, which throws it away otherwise";
      throw new TypeError(`the command's output can't be read: ${why}`);
    }
    this.#mode = "read";
  }

  #take(): OutputChunk | undefined {
    // Taking the first of a long list one by one would move all others each time.
    if (this.#taken === this.#kept.length || this.#taken === COMPACT_AFTER) {
      this.#kept = this.#kept.slice(this.#taken);
      this.#taken = 0;
    }
    const chunk = this.#kept[this.#taken];
    if (chunk !== undefined) this.#taken++;
    return chunk;
  }

  #discard(): void {
    this.#mode = "discarding";
    for (let chunk = this.#take(); chunk !== undefined; chunk = this.#take()) this.#use(chunk);
  }

  #use(chunk: OutputChunk): void {
    this.#used += byteLength(chunk.data);
    if (this.#used < ACKNOWLEDGE_BYTES || this.#ended !== undefined) return;
    this.#used = 0;
    this.#acknowledge(chunk.seq);
  }
}
