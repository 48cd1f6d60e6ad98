"""A command that runs, and its output while it is written."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import FailedError, UnknownCommandError
from .result import Result
from .types import OutputStream, RawText, SignalName, encode_text

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Chunk", "Command"]

_ACKNOWLEDGED_AFTER = 32 << 10
"""Bytes of output that are used before the server is told; it has at most eight times as many under way."""

_PIECE = 256 << 10
"""Bytes that are written to a command at once. In hexadecimal they still fit a frame."""

_CANCEL_GRACE = 5.0
"""Seconds that a cancelled task waits for the end of its command."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a command's output. A character is never split over two."""

    seq: int
    """Its number, from 1, without gaps, for both streams together."""
    stream: OutputStream
    """`stdout` (which a terminal is, too) or `stderr`."""
    data: bytes
    """What was written."""

    @property
    def text(self) -> str:
        """The same as text. It can hold control characters: `stockade.safe` escapes them."""
        return self.data.decode(errors="replace")


class Command:
    """A running command, from `Session.start` or `Session.follow`.

    >>> async with session.start(["make"]) as command:
    ...     async for chunk in command:
    ...         print(chunk.text, end="")
    ...     result = await command.wait()

    **Pace.** The server sends at most 256 KiB that have not been taken out of the iterator; beyond that the command
    blocks on its writes, and nothing else does. So a command that is neither iterated nor waited for comes to a
    halt once it has written that much. `wait` drops the output that nothing iterates; what was captured is in the
    result.

    **Cancellation.** Cancelling a task in `wait` or in `async for` cancels the command, and the task ends when the
    command has. Leaving `async with` ends a command that still runs. `read` takes a timeout that ends nothing.
    """

    def __init__(self, session: Session, command_id: str, *, acknowledges: bool) -> None:
        self.session = session
        self.id = command_id
        """The command's name in its session."""
        self.lost_before: int | None = None
        """Chunks before this number are gone: they were written before `follow` and not kept."""
        self._acknowledges = acknowledges
        self._chunks: deque[Chunk] = deque()
        self._used = 0
        self._discards = False
        self._abandoned = False
        self._consumer: asyncio.Task[Any] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._future: asyncio.Future[Result] = None  # type: ignore[assignment]

    # Events from the session.

    def _bind(self, future: asyncio.Future[Result]) -> None:
        self._future = future
        future.add_done_callback(self._ended)

    def _ended(self, future: asyncio.Future[Result]) -> None:
        self.session._forget_command(self)
        self._wake()
        gone = self._abandoned or self.session.client._closing or self.session.closed_because is not None
        if gone and not future.cancelled():
            # Retrieved, so that the event loop does not report it as lost.
            future.exception()

    def _output(self, params: Any) -> None:
        data = params["data"]
        data = data.encode() if isinstance(data, str) else bytes.fromhex(data["hex"])
        chunk = Chunk(params["seq"], params["stream"], data)
        if self._discards:
            self._use(chunk)
            return
        self._chunks.append(chunk)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _use(self, chunk: Chunk) -> None:
        self._used += len(chunk.data)
        if self._acknowledges and self._used >= _ACKNOWLEDGED_AFTER and not self._future.done():
            self._used = 0
            self.session._connection.notify("command/ack", {**self._names(), "seq": chunk.seq})

    def _names(self) -> dict[str, Any]:
        return {"session_id": self.session.id, "command_id": self.id}

    # Output.

    def __aiter__(self) -> Command:
        return self

    async def __anext__(self) -> Chunk:
        self._consumer = asyncio.current_task()
        try:
            chunk = await self._next()
        except asyncio.CancelledError:
            await self._abandon()
            raise
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def read(self, timeout: float | None = None) -> Chunk | None:
        """The next chunk; `None` at the end. Raises `asyncio.TimeoutError` after `timeout` seconds, and the command
        goes on."""
        self._consumer = asyncio.current_task()
        return await asyncio.wait_for(self._next(), timeout)

    async def _next(self) -> Chunk | None:
        while not self._chunks:
            if self._future.done():
                self._future.result()
                return None
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("another task is reading this command's output")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = self._chunks.popleft()
        self._use(chunk)
        return chunk

    # Its end.

    @property
    def running(self) -> bool:
        """Whether its end is still to come."""
        return not self._future.done()

    async def wait(self) -> Result:
        """Waits for its end. Output that nothing iterates is dropped meanwhile."""
        consumer = self._consumer
        if consumer is None or consumer is asyncio.current_task() or consumer.done():
            self._discard()
        try:
            return await asyncio.shield(self._future)
        except asyncio.CancelledError:
            await self._abandon()
            raise

    def _discard(self) -> None:
        self._discards = True
        while self._chunks:
            self._use(self._chunks.popleft())

    async def _abandon(self) -> None:
        """Ends it for a task that has been cancelled."""
        if self._future.done():
            return
        self._abandoned = True
        self._discard()
        self.session._connection.send_and_forget("command/cancel", self._names())
        await asyncio.wait({self._future}, timeout=_CANCEL_GRACE)

    async def __aenter__(self) -> Command:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._abandon()

    # Control.

    async def write(self, data: RawText, *, close: bool = False) -> None:
        """Writes to its standard input (`stdin="pipe"`) or its terminal; returns once the command has it, or the
        pipe does. `close` ends the input."""
        raw = data.encode(errors="surrogateescape") if isinstance(data, str) else bytes(data)
        pieces = [raw[at : at + _PIECE] for at in range(0, len(raw), _PIECE)] or [b""]
        for index, piece in enumerate(pieces):
            params = {**self._names(), "data": encode_text(piece)}
            if close and index == len(pieces) - 1:
                params["close"] = True
            await self.session._connection.request("command/write", params)

    async def close_stdin(self) -> None:
        """Ends its input."""
        await self.write(b"", close=True)

    async def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        params = {**self._names(), "size": {"rows": rows, "columns": columns}}
        await self.session._connection.request("command/resize", params)

    async def signal(self, signal: SignalName) -> None:
        """Sends it a signal, by its name: `interrupt`, `terminate`, `kill`, ..."""
        await self.session._connection.request("command/signal", {**self._names(), "signal": signal})

    async def cancel(self) -> bool:
        """Ends it and everything it started; whether it was still running. `wait` tells its outcome."""
        answer = await self.session._connection.request("command/cancel", self._names())
        return bool(answer["was_running"])

    async def _feed(self, data: RawText) -> None:
        """Writes all its input. A command that ends without reading it is no error."""
        with contextlib.suppress(FailedError, UnknownCommandError):
            await self.write(data, close=True)
