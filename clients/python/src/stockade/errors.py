"""What can go wrong, one class a kind.

A command that is refused, denied or fails raises nothing: that is its outcome. What is raised is a request
that the server could not carry out (`ServerError` and its subclasses) or a server that can't be reached
(`ConnectionLostError`, `ServerNotFoundError`, `ProtocolError`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "BusyError",
    "CommandFailedError",
    "ConnectionLostError",
    "FailedError",
    "FrameTooLargeError",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "NotInitializedError",
    "NotOfferedError",
    "NotPermittedError",
    "ParseError",
    "ProtocolError",
    "ServerError",
    "ServerNotFoundError",
    "SessionClosedError",
    "StockadeError",
    "UnknownCommandError",
    "UnknownMethodError",
    "UnknownQuestionError",
    "UnknownSessionError",
    "UnusableAnswerError",
]


class StockadeError(Exception):
    """Everything that this package raises."""


class ServerNotFoundError(StockadeError):
    """The server can't be started or its socket can't be reached."""


class ConnectionLostError(StockadeError, ConnectionError):
    """The server ended, or this client was closed, before the answer came."""


class ProtocolError(StockadeError):
    """The server sent something that is not in the protocol. The connection is closed."""


class FrameTooLargeError(StockadeError, ValueError):
    """The request is longer than the server reads. Nothing was sent."""


class NotOfferedError(StockadeError, ValueError):
    """The answer is not one of those that the question offers."""


class CommandFailedError(StockadeError):
    """`Result.check` found a command that did not exit with 0."""


class ServerError(StockadeError):
    """The server's answer to a request is an error. Its message says what to do next."""

    def __init__(self, message: str, *, code: int = 0, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data: Mapping[str, Any] = data or {}

    @property
    def causes(self) -> list[str]:
        """What led to it, the nearest cause first."""
        return list(self.data.get("causes", ()))

    def __str__(self) -> str:
        return ": ".join([self.message, *self.causes])


class ParseError(ServerError):
    """The line is no JSON."""


class InvalidRequestError(ServerError):
    """The line is no request."""


class UnknownMethodError(ServerError):
    """The server does not have this method."""


class InvalidParamsError(ServerError):
    """The parameters don't fit; the message names the field."""


class InternalError(ServerError):
    """The server failed."""


class NotInitializedError(ServerError):
    """`initialize` comes first."""


class UnknownSessionError(ServerError):
    """There is no such session."""


class NotPermittedError(ServerError):
    """This client is not attached to the session, or the capability is wrong."""


class UnknownCommandError(ServerError):
    """The session has no such command."""


class BusyError(ServerError):
    """A limit of the server is reached; the message says which."""


class FailedError(ServerError):
    """The request was fine and could not be carried out; `causes` says why."""


class UnknownQuestionError(ServerError):
    """The question does not exist, or was answered already."""


class UnusableAnswerError(ServerError):
    """The answer is not one of those that were offered. The question stays open."""


class SessionClosedError(ServerError):
    """The session was closed meanwhile."""


_KINDS: dict[str, tuple[int, type[ServerError]]] = {
    "parse": (-32700, ParseError),
    "invalid_request": (-32600, InvalidRequestError),
    "unknown_method": (-32601, UnknownMethodError),
    "invalid_params": (-32602, InvalidParamsError),
    "internal": (-32603, InternalError),
    "not_initialized": (-32000, NotInitializedError),
    "unknown_session": (-32001, UnknownSessionError),
    "not_permitted": (-32002, NotPermittedError),
    "unknown_command": (-32003, UnknownCommandError),
    "busy": (-32004, BusyError),
    "failed": (-32005, FailedError),
    "unknown_question": (-32006, UnknownQuestionError),
    "unusable_answer": (-32007, UnusableAnswerError),
    "closed": (-32008, SessionClosedError),
}
_CODES = dict(_KINDS.values())


def server_error(error: Mapping[str, Any]) -> ServerError:
    """The exception for the `error` of a response."""
    code, data = error["code"], error.get("data") or {}
    kind = data.get("kind") if isinstance(data, dict) else None
    known = _KINDS[kind][1] if kind in _KINDS else _CODES.get(code, ServerError)
    return known(error["message"], code=code, data=data if isinstance(data, dict) else {})
