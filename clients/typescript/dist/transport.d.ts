import type { Readable, Writable } from "node:stream";
/** A way to a server. */
export interface Transport {
    /** What the server says. */
    readonly input: Readable;
    /** What the server is told. */
    readonly output: Writable;
    /** Whether the server ends with this connection, and may be told to shut down. */
    readonly ownsServer: boolean;
    /** Ends the connection, and the server if it is this connection's own. */
    end(): Promise<void>;
    /** Why the connection has ended, once it has. */
    whyEnded(): Promise<string>;
}
/** Starts a server and speaks with it over its standard input and output. */
export declare function spawnServer(command: readonly string[], options: {
    env?: NodeJS.ProcessEnv;
    cwd?: string;
}): Promise<Transport>;
/** Connects to a server that is running already. */
export declare function connectToSocket(path: string): Promise<Transport>;
/** Where `stockade serve --socket` listens if it is not told where. */
export declare function defaultSocket(env?: NodeJS.ProcessEnv): string;
/** Whether it is done in time. */
export declare function within(done: Promise<void>, milliseconds: number): Promise<boolean>;
