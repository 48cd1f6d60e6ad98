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
export { Stockade, type ConnectOptions } from "./client.js";
export { Command } from "./command.js";
export * from "./errors.js";
export type { CommandLine, OpenOptions, PolicyOptions, RunOptions, SessionHandlers, StartOptions } from "./options.js";
export { OutputChunk } from "./output.js";
export type * from "./protocol.js";
export { Question, type Answer, type DecisionKind, type QuestionHandler } from "./question.js";
export { CommandResult, type Status } from "./result.js";
export { Session, type SessionEvent } from "./session.js";
export { toBytes, toText, type Text } from "./text.js";
export { defaultSocket, type Transport } from "./transport.js";
