import { type OutputChunk } from "./output.js";
import type { SignalName, TerminalSize } from "./protocol.js";
import type { CommandResult } from "./result.js";
import { type Text } from "./text.js";
/**
 * A command of a session: its output as `for await (const chunk of command)`, its end as `await command.wait()`.
 *
 * Output that is not read slows down this command and nothing else: the server holds it back after 256 KiB. So a
 * command whose output does not matter has to be waited for with {@link wait}, or started with {@link Session.run}.
 */
export declare class Command implements AsyncIterable<OutputChunk>, AsyncDisposable {
    #private;
    /** Its name in the session. */
    readonly id: string;
    /** The session's name. */
    readonly sessionId: string;
    /** Whether it has not ended yet, as far as is known here. */
    get running(): boolean;
    /**
     * Its output from the first piece on, until it ends. There can be one reader. A reader that stops early lets the
     * command run on, and the rest of its output is thrown away.
     */
    [Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void, undefined>;
    /** Waits for its end. Output that has no reader by then is thrown away, so that the command can end. */
    wait(): Promise<CommandResult>;
    /** Writes to its standard input (`stdin: "pipe"`) or its terminal. Resolves when the command's pipe has taken it. */
    write(data: Text): Promise<void>;
    /** Writes `data`, if given, and closes the command's standard input. */
    end(data?: Text): Promise<void>;
    /** Changes the size of its terminal. */
    resize(size: TerminalSize): Promise<void>;
    /** Sends it a signal. */
    signal(signal: SignalName): Promise<void>;
    /** Ends it with everything that it started. Says whether it was still running. */
    cancel(): Promise<boolean>;
    /** Ends it if it still runs, and waits until it has ended. */
    [Symbol.asyncDispose](): Promise<void>;
}
