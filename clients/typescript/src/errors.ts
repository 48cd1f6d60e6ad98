/**
 * The errors, one class per kind. A refusal or a denial is not an error: it is an outcome.
 *
 * @module
 */

/** Every error of this package. */
export class StockadeError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server can't be reached, or has gone: the results of pending calls are unknown. */
export class ConnectionError extends StockadeError {}

/** The server sent something that is not its protocol. The connection is closed. */
export class ProtocolError extends StockadeError {}

/** A message was not sent, since the server would skip it: it is longer than the server's limit. */
export class FrameTooLargeError extends StockadeError {}

/** The server answered a call with an error. */
export class ServerError extends StockadeError {
  /** The number of the error. */
  readonly code: number;
  /** Its kind, a word for each number. */
  readonly kind: string;
  /** Further details from the server. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: number, message: string, data: Readonly<Record<string, unknown>>) {
    super(message);
    this.code = code;
    this.kind = typeof data["kind"] === "string" ? data["kind"] : "unknown";
    this.data = data;
  }
}

/** The server could not read the message as JSON. */
export class ParseError extends ServerError {}
/** The message is no request, or longer than the limit. */
export class InvalidRequestError extends ServerError {}
/** The server has no such method. */
export class UnknownMethodError extends ServerError {}
/** An argument can't be used; the message has its path. */
export class InvalidParamsError extends ServerError {
  /** The versions of the protocol that the server speaks, if the version was what it can't use. */
  get supported(): readonly unknown[] | undefined {
    return Array.isArray(this.data["supported"]) ? this.data["supported"] : undefined;
  }
}
/** A mistake of the server. */
export class InternalError extends ServerError {}
/** The connection was not initialized. */
export class NotInitializedError extends ServerError {}
/** There is no such session, or no longer. */
export class UnknownSessionError extends ServerError {}
/** The connection is not attached to the session, or the capability is wrong. */
export class NotPermittedError extends ServerError {}
/** There is no such command, or no longer. */
export class UnknownCommandError extends ServerError {}
/** A limit was reached; the message says which. */
export class BusyError extends ServerError {}
/** The call was fine and could not be carried out. */
export class FailedError extends ServerError {
  /** Its causes, the nearest first. */
  get causes(): readonly string[] {
    const causes = this.data["causes"];
    return Array.isArray(causes) ? causes.map(String) : [];
  }
}
/** There is no such question, or it was answered already. */
export class UnknownQuestionError extends ServerError {}
/** The answer is not one that was offered. The question stays open. */
export class UnusableAnswerError extends ServerError {}
/** The session was closed meanwhile. */
export class SessionClosedError extends ServerError {}

const BY_CODE: ReadonlyMap<number, typeof ServerError> = new Map<number, typeof ServerError>([
  [-32700, ParseError],
  [-32600, InvalidRequestError],
  [-32601, UnknownMethodError],
  [-32602, InvalidParamsError],
  [-32603, InternalError],
  [-32000, NotInitializedError],
  [-32001, UnknownSessionError],
  [-32002, NotPermittedError],
  [-32003, UnknownCommandError],
  [-32004, BusyError],
  [-32005, FailedError],
  [-32006, UnknownQuestionError],
  [-32007, UnusableAnswerError],
  [-32008, SessionClosedError],
]);

/** @internal The error class of a server's error response. */
export function serverError(error: unknown): ServerError {
  const { code, message, data } = (error ?? {}) as { code?: unknown; message?: unknown; data?: unknown };
  const number = typeof code === "number" ? code : -32603;
  const kind = BY_CODE.get(number) ?? ServerError;
  const details = typeof data === "object" && data !== null ? (data as Record<string, unknown>) : {};
  return new kind(number, typeof message === "string" ? message : "the server gave no reason", details);
}
