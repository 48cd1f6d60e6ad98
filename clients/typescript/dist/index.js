/**
 * Runs commands in Stockade's sandbox and answers its questions, from Node.
 *
 * @example
 * ```ts
 * await using client = await Stockade.connect();
 * await using session = await client.open({ workspace: ".", onQuestion: (question) => question.approve() });
 * const { ok, stdout } = await session.run(["npm", "test"]);
 * ```
 *
 * @module
 */
export { Stockade } from "./client.js";
export { Command } from "./command.js";
export * from "./errors.js";
export { OutputChunk } from "./output.js";
export { Question } from "./question.js";
export { CommandResult } from "./result.js";
export { Session } from "./session.js";
export { toBytes, toText } from "./text.js";
export { defaultSocket } from "./transport.js";
