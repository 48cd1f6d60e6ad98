"""JSON-RPC 2.0 over a socket, one object a line.

There is no reader task: the event loop hands over what has arrived, and each line is handled where it stands,
in its order. A slow consumer of one command's output therefore delays nothing else; its command is slowed down
by acknowledgements instead (see `Command`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast, overload

from .errors import ConnectionLostError, FrameTooLargeError, ProtocolError, server_error

logger = logging.getLogger("stockade")

LONGEST_FRAME = 64 << 20
"""Bytes of a line from the server. Outcomes hold captured output and can be large."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode

T = TypeVar("T")
Decoder = Callable[[Any], Any]


class Receiver(Protocol):
    """What is told of the server's own messages."""

    def notified(self, method: str, params: Mapping[str, Any]) -> None: ...

    def requested(self, request_id: int | str, method: str, params: Mapping[str, Any]) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...


class Connection(asyncio.Protocol):
    """One conversation with a server."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._next_id = 0
        self._pending: dict[int, tuple[asyncio.Future[Any], Decoder | None]] = {}
        self._writable: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._violation: ProtocolError | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.longest_request = 4 << 20

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start, scanned = 0, self._scanned
        try:
            while (end := buffer.find(b"\n", scanned)) >= 0:
                line = buffer[start:end]
                start = scanned = end + 1
                self._frame(line)
            if len(buffer) - start > LONGEST_FRAME:
                raise ProtocolError(f"the server sent a line of more than {LONGEST_FRAME >> 20} MiB")
        except ProtocolError as error:
            logger.error("%s", error)
            self._violation = error
            self.abort()
            return
        del buffer[:start]
        self._scanned = len(buffer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.lost.done():
            self.lost.set_result(None)
        self._receiver.disconnected(self._violation or exc)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Lines from the server.

    def _frame(self, line: bytearray) -> None:
        try:
            message = _decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"the server sent a line that is no JSON: {bytes(line[:80])!r}") from error
        if not isinstance(message, dict):
            raise ProtocolError(f"the server sent a line that is no object: {bytes(line[:80])!r}")
        method = message.get("method")
        if method is None:
            self._answered(message)
            return
        params = message.get("params") or {}
        if not isinstance(method, str) or not isinstance(params, dict):
            raise ProtocolError(f"the server sent a call that is none: {bytes(line[:80])!r}")
        try:
            if "id" in message:
                self._receiver.requested(message["id"], method, params)
            else:
                self._receiver.notified(method, params)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"`{method}` of the server can't be understood: {error!r}") from error

    def _answered(self, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        error = message.get("error")
        if request_id is None and error is not None:
            logger.error("the server can't read a request of this client: %s", error)
            return
        if not isinstance(request_id, int) or not 0 < request_id <= self._next_id:
            raise ProtocolError(f"the server answered a request that was not made: {request_id!r}")
        future, decoder = self._pending.pop(request_id, (None, None))
        # The task that waited for it has been cancelled, or it is the second answer.
        if future is None or future.done():
            return
        try:
            if error is not None:
                future.set_exception(server_error(error))
            else:
                result = message["result"]
                future.set_result(decoder(result) if decoder is not None else result)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            problem = ProtocolError(f"an answer of the server can't be understood: {wrong!r}")
            problem.__cause__ = wrong
            future.set_exception(problem)

    # Lines to the server.

    def call(self, method: str, params: Mapping[str, Any], decoder: Decoder | None = None) -> asyncio.Future[Any]:
        """Sends a request now. `decoder` is called where the answer arrives, before the next line is looked at."""
        self._next_id = request_id = self._next_id + 1
        future: asyncio.Future[Any] = self._loop.create_future()
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        self._pending[request_id] = (future, decoder)
        return future

    def send_and_forget(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a request whose answer does not matter, such as a cancellation."""
        try:
            future = self.call(method, params)
        except ConnectionLostError:
            return
        # Retrieved, so that the event loop does not report it as lost.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    @overload
    async def request(self, method: str, params: Mapping[str, Any]) -> Any: ...

    @overload
    async def request(self, method: str, params: Mapping[str, Any], decoder: Callable[[Any], T]) -> T: ...

    async def request(self, method: str, params: Mapping[str, Any], decoder: Decoder | None = None) -> Any:
        """Sends a request, once the ones before have left, and waits for its answer."""
        await self.drained()
        return await self.call(method, params, decoder)

    async def drained(self) -> None:
        """Waits until the server has taken enough of what was sent."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification; on a lost connection there is nothing to tell."""
        if self._error is None and self._transport is not None:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, request_id: int | str, result: Any) -> None:
        """Answers a request of the server."""
        if self._error is None and self._transport is not None:
            self._send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def decline(self, request_id: int | str, code: int, message: str) -> None:
        """Answers a request of the server with an error."""
        if self._error is None and self._transport is not None:
            self._send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._error is not None:
            raise self._again(self._error)
        if self._transport is None or self._transport.is_closing():
            # `fail` follows, with the reason, and ends the wait for the answer.
            return
        try:
            line = _encode(message).encode() + b"\n"
        except UnicodeEncodeError as error:
            raise ValueError(f"text with bytes that are no UTF-8 can't be sent here: {error.object!r}") from None
        if len(line) > self.longest_request:
            raise FrameTooLargeError(
                f"`{message.get('method', 'the answer')}` needs {len(line)} bytes, and the server reads "
                f"{self.longest_request} at a time: send less at once"
            )
        self._transport.write(line)

    @staticmethod
    def _again(error: Exception) -> Exception:
        # An exception that is raised in several tasks must not collect all their tracebacks.
        return type(error)(*error.args)

    # The end.

    def fail(self, error: Exception) -> None:
        """Ends every wait with this error; what is sent from now on raises it."""
        if self._error is not None:
            return
        self._error = error
        pending, self._pending = self._pending, {}
        for future, _ in pending.values():
            if not future.done():
                future.set_exception(self._again(error))
        self.resume_writing()

    def close(self) -> None:
        """Closes the connection after what was sent has left."""
        if self._transport is not None:
            self._transport.close()

    def end_of_input(self) -> None:
        """Tells the server that nothing follows, and goes on reading."""
        if self._transport is not None and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()
