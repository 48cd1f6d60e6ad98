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
export declare class Unanswered extends Error {
    readonly code: number;
    constructor(code: number, message: string);
}
export declare class Connection {
    #private;
    /** The server's limit on a line. */
    frameLimit: number;
    constructor(transport: Transport, peer: Peer, maxFrameBytes: number);
    /** Whether calls can still be made. */
    get open(): boolean;
    /**
     * Calls a method. `accept` is run on its result before anything that the server said after it is looked at,
     * so that what belongs together is known by then.
     */
    request<Method extends keyof Requests, Value = Requests[Method]["result"]>(method: Method, params: Requests[Method]["params"], accept?: (result: Requests[Method]["result"]) => Value): Promise<Value>;
    /** Sends a notification. */
    notify<Method extends keyof ClientNotifications>(method: Method, params: ClientNotifications[Method]): void;
    /** Ends the connection. Pending calls are rejected. */
    close(): Promise<void>;
}
