/**
 * The errors, one class per kind. A refusal or a denial is not an error: it is an outcome.
 *
 * @module
 */
/** Every error of this package. */
export declare class StockadeError extends Error {
    constructor(message: string, options?: ErrorOptions);
}
/** The server can't be reached, or has gone: the results of pending calls are unknown. */
export declare class ConnectionError extends StockadeError {
}
/** The server sent something that is not its protocol. The connection is closed. */
export declare class ProtocolError extends StockadeError {
}
/** A message was not sent, since the server would skip it: it is longer than the server's limit. */
export declare class FrameTooLargeError extends StockadeError {
}
/** The server answered a call with an error. */
export declare class ServerError extends StockadeError {
    /** The number of the error. */
    readonly code: number;
    /** Its kind, a word for each number. */
    readonly kind: string;
    /** Further details from the server. */
    readonly data: Readonly<Record<string, unknown>>;
    constructor(code: number, message: string, data: Readonly<Record<string, unknown>>);
}
/** The server could not read the message as JSON. */
export declare class ParseError extends ServerError {
}
/** The message is no request, or longer than the limit. */
export declare class InvalidRequestError extends ServerError {
}
/** The server has no such method. */
export declare class UnknownMethodError extends ServerError {
}
/** An argument can't be used; the message has its path. */
export declare class InvalidParamsError extends ServerError {
    /** The versions of the protocol that the server speaks, if the version was what it can't use. */
    get supported(): readonly unknown[] | undefined;
}
/** A mistake of the server. */
export declare class InternalError extends ServerError {
}
/** The connection was not initialized. */
export declare class NotInitializedError extends ServerError {
}
/** There is no such session, or no longer. */
export declare class UnknownSessionError extends ServerError {
}
/** The connection is not attached to the session, or the capability is wrong. */
export declare class NotPermittedError extends ServerError {
}
/** There is no such command, or no longer. */
export declare class UnknownCommandError extends ServerError {
}
/** A limit was reached; the message says which. */
export declare class BusyError extends ServerError {
}
/** The call was fine and could not be carried out. */
export declare class FailedError extends ServerError {
    /** Its causes, the nearest first. */
    get causes(): readonly string[];
}
/** There is no such question, or it was answered already. */
export declare class UnknownQuestionError extends ServerError {
}
/** The answer is not one that was offered. The question stays open. */
export declare class UnusableAnswerError extends ServerError {
}
/** The session was closed meanwhile. */
export declare class SessionClosedError extends ServerError {
}
