/**
 * How a command ended.
 *
 * @module
 */
import type { Execution, Outcome, Refusal, Violation } from "./protocol.js";
/** What can become of a command. */
export type Status = "exited" | "denied" | "refused" | "timed_out" | "cancelled" | "signaled";
/** How a command ended. A refusal or a denial is a result like any other, and no error. */
export declare class CommandResult {
    /** The command's name. */
    readonly commandId: string;
    /** The whole outcome. */
    readonly outcome: Outcome;
    /**
     * - `exited`: it ended by itself, and nothing points to a denial as the cause.
     * - `denied`: it failed because the sandbox denied it something; {@link violations} says what.
     * - `refused`: it was not run; {@link refusal} says why.
     * - `timed_out`: it took too long, and was ended.
     * - `cancelled`: it was cancelled, or its session was ended; {@link reason} says which.
     * - `signaled`: a signal ended it.
     */
    readonly status: Status;
    /** Its exit code, if it ended by itself. */
    readonly exitCode: number | undefined;
    /** The number of the signal that ended it, if one did. */
    readonly signal: number | undefined;
    /** The run, unless it was refused. */
    readonly execution: Execution | undefined;
    /** Why it was ended before its own end, if it was cancelled. */
    readonly reason: string | undefined;
    /** Why it was not run, if it was not. */
    readonly refusal: Refusal | undefined;
    /** The number of the last piece of output. */
    readonly lastSeq: number;
    /** Whether it ran and ended with exit code 0. */
    get ok(): boolean;
    /** What it wrote to standard output, as text; a long middle is left out, and says so. */
    get stdout(): string;
    /** What it wrote to standard error, as text; a long middle is left out, and says so. */
    get stderr(): string;
    /** What it tried and was denied, also where it went on regardless. */
    get violations(): readonly Violation[];
}
