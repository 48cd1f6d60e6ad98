/**
 * The options of sessions and commands, and their wire format.
 *
 * @module
 */
import { resolve } from "node:path";
import { toRaw } from "./text.js";
/** @internal */
export function policyParams(options) {
    const { ask, sandbox, network, allowHosts, writable, denyRead, set, limits, timeoutMs } = options;
    return present({
        ask,
        sandbox,
        network,
        allow_hosts: change(allowHosts, (hosts) => [...hosts]),
        writable: change(writable, (paths) => paths.map(toPath)),
        deny_read: change(denyRead, (paths) => [...paths]),
        set: change(set, (variables) => ({ ...variables })),
        limits,
        timeout_ms: timeoutMs,
    });
}
/** @internal */
export function openParams(options) {
    const { name, workspace, cwd, profile, environment, lingerMs, answerTimeoutMs } = options;
    const many = (texts) => (typeof texts === "string" || texts instanceof Uint8Array ? [texts] : texts);
    return {
        ...policyParams(options),
        ...present({
            name,
            workspace: change(workspace, (paths) => many(paths).map(toPath)),
            cwd: change(cwd, toPath),
            profile,
            environment: change(environment, toEnvironment),
            linger_ms: lingerMs,
            answer_timeout_ms: answerTimeoutMs,
        }),
    };
}
/** @internal */
export function startParams(options) {
    const { cwd, timeoutMs, escalation, justification, terminal, stdin, environment } = options;
    return present({
        cwd: change(cwd, toPath),
        timeout_ms: timeoutMs,
        escalation,
        justification,
        terminal,
        stdin,
        environment: change(environment, toEnvironment),
    });
}
/** @internal An absolute path. */
export function toPath(path) {
    return typeof path === "string" ? resolve(path) : toRaw(path);
}
function toEnvironment(environment) {
    const entries = Object.entries(environment).filter((entry) => entry[1] !== undefined);
    return Object.fromEntries(entries.map(([name, value]) => [name, toRaw(value)]));
}
/** @internal The values that are there. */
export function present(values) {
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
/** @internal The value, changed, if there is one. */
export function change(value, how) {
    return value === undefined ? undefined : how(value);
}
