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
/** A piece of output. */
export declare class OutputChunk {
    /** Its number: pieces are counted from 1 and none is left out. */
    readonly seq: number;
    /** Where it was written. A terminal has one stream. */
    readonly stream: "stdout" | "stderr";
    /** As it was sent. */
    readonly data: RawText;
    /** As text; a character is never cut in two. */
    get text(): string;
    /** As bytes. */
    get bytes(): Uint8Array;
}
