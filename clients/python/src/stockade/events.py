"""What happens in a session, for clients that watch it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from .errors import StockadeError
from .types import ApprovalResolved, CommandEnded, CommandStarted, SessionChanged, SessionClosed, SessionNotice

__all__ = ["Event", "EventStream"]

Event: TypeAlias = CommandStarted | CommandEnded | ApprovalResolved | SessionChanged | SessionClosed | SessionNotice
"""Commands of other clients that start and end, questions that are resolved, changes of the policy, the end."""

_KEPT = 1000


class EventStream:
    """The events of a session from `Session.events` on. It ends with the session; `close` ends it before.

    It keeps 1,000 events that have not been looked at; `dropped` counts older ones.
    """

    def __init__(self, closed: Callable[[EventStream], None]) -> None:
        self._closed = closed
        self._queue: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: StockadeError | None = None
        self._over = False
        self.dropped = 0
        """How many events are gone because they were not looked at in time."""

    def _put(self, event: Event) -> None:
        if len(self._queue) >= _KEPT:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(event)
        self._wake()

    def _end(self, error: StockadeError | None) -> None:
        if not self._over:
            self._error = error
        self.close()

    def close(self) -> None:
        """Ends it: what has arrived can still be read."""
        self._over = True
        self._closed(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("another task is reading these events")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._queue.popleft()
