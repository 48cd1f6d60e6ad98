/**
 * Frames: one JSON object a line.
 *
 * @module
 */
import { FrameTooLargeError, ProtocolError } from "./errors.js";
const NEWLINE = 0x0a;
/** Cuts a stream of bytes into lines. Only whole lines are decoded, so a character may be cut anywhere. */
export class FrameReader {
    #limit;
    #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    #parts = [];
    #length = 0;
    constructor(limit) {
        this.#limit = limit;
    }
    /** The messages that `bytes` complete. Throws `ProtocolError` for a line that is too long or no JSON object. */
    *read(bytes) {
        let start = 0;
        for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
            this.#keep(bytes.subarray(start, end));
            start = end + 1;
            const line = this.#take();
            if (line.length > 0)
                yield this.#parse(line);
        }
        this.#keep(bytes.subarray(start));
    }
    #keep(part) {
        this.#length += part.length;
        if (this.#length > this.#limit) {
            throw new ProtocolError(`the server sent a message of more than ${this.#limit} bytes: raise \`maxFrameBytes\` if it may be that long`);
        }
        if (part.length > 0)
            this.#parts.push(part);
    }
    #take() {
        const [only] = this.#parts;
        const line = this.#parts.length === 1 && only !== undefined ? only : Buffer.concat(this.#parts);
        this.#parts = [];
        this.#length = 0;
        return line;
    }
    #parse(line) {
        let message;
        try {
            message = JSON.parse(this.#decoder.decode(line));
        }
        catch (cause) {
            throw new ProtocolError("the server sent a line that is not JSON", { cause });
        }
        if (typeof message !== "object" || message === null || Array.isArray(message)) {
            throw new ProtocolError("the server sent a line that is not a JSON object");
        }
        return message;
    }
}
/** A message as a line. Throws `FrameTooLargeError` for more than `limit` bytes. */
export function encodeFrame(message, limit) {
    const line = Buffer.from(`${JSON.stringify(message)}\n`, "utf8");
    // The limit is on the line without its end.
    if (line.length - 1 > limit) {
        throw new FrameTooLargeError(`the message has ${line.length - 1} bytes, and the server takes ${limit}: send less at a time`);
    }
    return line;
}
