/**
 * Text of the operating system: words, file names and output are bytes, and mostly UTF-8.
 *
 * @module
 */
import type { CapturedOutput, RawText } from "./protocol.js";
/** A word, a name or input: text, or bytes where they are not UTF-8. */
export type Text = string | Uint8Array;
/** As it is written on the wire: a string if it is UTF-8, else its bytes in hexadecimal. */
export declare function toRaw(text: Text): RawText;
/** Text to show: bytes that are not UTF-8 become `\ufffd`. */
export declare function toText(raw: RawText): string;
/** The bytes themselves. */
export declare function toBytes(raw: RawText): Uint8Array;
/** How many bytes it has. */
export declare function byteLength(raw: RawText): number;
/** Captured output to show, with a note where its middle was left out. */
export declare function capturedText(output: CapturedOutput | undefined): string;
