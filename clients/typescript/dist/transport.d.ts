import type { Readable, Writable } from "node:stream";
/** A transport to a server. */
export interface Transport {
    /** The stream from the server. */
    readonly input: Readable;
    /** The stream to the server. */
    readonly output: Writable;
    /** Whether the server ends with this connection, and may be told to shut down. */
    readonly ownsServer: boolean;
    /** Ends the connection, and the server if it is this connection's own. */
    end(): Promise<void>;
    /** Why the connection has ended, once it has. */
    whyEnded(): Promise<string>;
}
/** Starts a server and connects to its standard input and output. */
export declare function spawnServer(command: readonly string[], options: {
    env?: NodeJS.ProcessEnv;
    cwd?: string;
}): Promise<Transport>;
/** Connects to a server that is running already. */
export declare function connectToSocket(path: string): Promise<Transport>;
/** The default path of `stockade serve --socket`. */
export declare function defaultSocket(env?: NodeJS.ProcessEnv): string;
/** Whether it is done in time. */
export declare function within(done: Promise<void>, milliseconds: number): Promise<boolean>;
