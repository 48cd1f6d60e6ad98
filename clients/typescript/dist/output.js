import { byteLength, toBytes, toText } from "./text.js";
/** A piece of output. */
export class OutputChunk {
    /** Its number: pieces are counted from 1 and none is left out. */
    seq;
    /** Where it was written. A terminal has one stream. */
    stream;
    /** As it was sent. */
    data;
    /** @internal */
    constructor(seq, stream, data) {
        this.seq = seq;
        this.stream = stream;
        this.data = data;
    }
    /** As text; a character is never cut in two. */
    get text() {
        return toText(this.data);
    }
    /** As bytes. */
    get bytes() {
        return toBytes(this.data);
    }
}
/** Acknowledge after this much, well below the server's window. */
const ACKNOWLEDGE_BYTES = 64 * 1024;
const COMPACT_AFTER = 1024;
/** @internal */
export class OutputQueue {
    #acknowledge;
    #kept = [];
    /** How many of those were taken already. */
    #taken = 0;
    #mode = "keeping";
    #used = 0;
    #wake;
    #ended;
    /** `acknowledge` is told the number up to which everything was used. */
    constructor(acknowledge) {
        this.#acknowledge = acknowledge;
    }
    push(chunk) {
        if (this.#mode === "discarding")
            this.#use(chunk);
        else
            this.#kept.push(chunk);
        this.#wake?.();
    }
    /** No more comes; an error, if there is one, is thrown to the reader behind what there is. */
    end(failure = {}) {
        this.#ended ??= failure;
        this.#wake?.();
    }
    /** Nothing is read any more, unless there is a reader. */
    discardUnlessRead() {
        if (this.#mode === "keeping")
            this.#discard();
    }
    async *read() {
        try {
            for (;;) {
                for (let chunk = this.#take(); chunk !== undefined; chunk = this.#take()) {
                    yield chunk;
                    // The next is asked for, so this one has been used.
                    this.#use(chunk);
                }
                if (this.#ended !== undefined) {
                    if ("error" in this.#ended)
                        throw this.#ended.error;
                    return;
                }
                await new Promise((resolve) => {
                    this.#wake = resolve;
                });
            }
        }
        finally {
            this.#discard();
        }
    }
    /** Says that there is a reader; there is one at most. */
    claim() {
        if (this.#mode !== "keeping") {
            const why = this.#mode === "read" ? "it is read already" : "read it before `wait()`, which throws it away otherwise";
            throw new TypeError(`the command's output can't be read: ${why}`);
        }
        this.#mode = "read";
    }
    #take() {
        // Taking the first of a long list one by one would move all others each time.
        if (this.#taken === this.#kept.length || this.#taken === COMPACT_AFTER) {
            this.#kept = this.#kept.slice(this.#taken);
            this.#taken = 0;
        }
        const chunk = this.#kept[this.#taken];
        if (chunk !== undefined)
            this.#taken++;
        return chunk;
    }
    #discard() {
        this.#mode = "discarding";
        for (let chunk = this.#take(); chunk !== undefined; chunk = this.#take())
            this.#use(chunk);
    }
    #use(chunk) {
        this.#used += byteLength(chunk.data);
        if (this.#used < ACKNOWLEDGE_BYTES || this.#ended !== undefined)
            return;
        this.#used = 0;
        this.#acknowledge(chunk.seq);
    }
}
