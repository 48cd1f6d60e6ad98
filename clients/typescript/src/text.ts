/**
 * Text of the operating system: words, file names and output are bytes, and mostly UTF-8.
 *
 * @module
 */
import type { CapturedOutput, RawText } from "./protocol.js";

/** A word, a name or input: text, or bytes where they are not UTF-8. */
export type Text = string | Uint8Array;

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

/** As it is written on the wire: a string if it is UTF-8, else its bytes in hexadecimal. */
export function toRaw(text: Text): RawText {
  if (typeof text === "string") return text;
  try {
    return strict.decode(text);
  } catch {
    return { hex: Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString("hex") };
  }
}

/** Text to show: bytes that are not UTF-8 become `\ufffd`. */
export function toText(raw: RawText): string {
  return typeof raw === "string" ? raw : lossy.decode(Buffer.from(raw.hex, "hex"));
}

/** The bytes themselves. */
export function toBytes(raw: RawText): Uint8Array {
  return typeof raw === "string" ? Buffer.from(raw, "utf8") : Buffer.from(raw.hex, "hex");
}

/** How many bytes it has. */
export function byteLength(raw: RawText): number {
  return typeof raw === "string" ? Buffer.byteLength(raw, "utf8") : raw.hex.length / 2;
}

/** Captured output to show, with a note where its middle was left out. */
export function capturedText(output: CapturedOutput | undefined): string {
  if (output === undefined) return "";
  const head = toText(output.head);
  const omitted = output.omitted_bytes ?? 0;
  const tail = output.tail === undefined ? "" : toText(output.tail);
  return omitted === 0 ? head + tail : `${head}\n[${omitted} bytes left out]\n${tail}`;
}
