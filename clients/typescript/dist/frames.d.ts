/** Cuts a stream of bytes into lines. Only whole lines are decoded, so a character may be cut anywhere. */
export declare class FrameReader {
    #private;
    constructor(limit: number);
    /** The messages that `bytes` complete. Throws `ProtocolError` for a line that is too long or no JSON object. */
    read(bytes: Uint8Array): Generator<Record<string, unknown>>;
}
/** A message as a line. Throws `FrameTooLargeError` for more than `limit` bytes. */
export declare function encodeFrame(message: object, limit: number): Buffer;
