import { capturedText } from "./text.js";
/** How a command ended. A refusal or a denial is a result like any other, and no error. */
export class CommandResult {
    /** The command's name. */
    commandId;
    /** The whole outcome. */
    outcome;
    /**
     * - `exited`: it ended by itself, and nothing points to a denial as the cause.
     * - `denied`: it failed because the sandbox denied it something; {@link violations} says what.
     * - `refused`: it was not run; {@link refusal} says why.
     * - `timed_out`: it took too long, and was ended.
     * - `cancelled`: it was cancelled, or its session was ended; {@link reason} says which.
     * - `signaled`: a signal ended it.
     */
    status;
    /** Its exit code, if it ended by itself. */
    exitCode;
    /** The number of the signal that ended it, if one did. */
    signal;
    /** The run, unless it was refused. */
    execution;
    /** Why it was ended before its own end, if it was cancelled. */
    reason;
    /** Why it was not run, if it was not. */
    refusal;
    /** The number of the last piece of output. */
    lastSeq;
    /** @internal */
    constructor(commandId, outcome, lastSeq) {
        const { exited, denied, timed_out, cancelled, signaled, refused } = outcome;
        this.commandId = commandId;
        this.outcome = outcome;
        this.status = exited ? "exited" : denied ? "denied" : timed_out ? "timed_out" : cancelled ? "cancelled" : signaled ? "signaled" : "refused";
        this.exitCode = exited?.exit_code ?? denied?.exit_code ?? undefined;
        this.signal = signaled?.signal ?? denied?.signal ?? undefined;
        this.execution = (exited ?? denied ?? timed_out ?? cancelled ?? signaled)?.execution;
        this.refusal = refused;
        this.reason = cancelled?.reason;
        this.lastSeq = lastSeq;
    }
    /** Whether it ran and ended with exit code 0. */
    get ok() {
        return this.status === "exited" && this.exitCode === 0;
    }
    /** What it wrote to standard output, as text; a long middle is left out, and says so. */
    get stdout() {
        return capturedText(this.execution?.stdout);
    }
    /** What it wrote to standard error, as text; a long middle is left out, and says so. */
    get stderr() {
        return capturedText(this.execution?.stderr);
    }
    /** What it tried and was denied, also where it went on regardless. */
    get violations() {
        return this.execution?.violations ?? [];
    }
}
