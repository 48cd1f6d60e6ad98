"""A server that does what a test tells it to, also what no real one does."""

from __future__ import annotations

import asyncio
import json
import tempfile
import unittest
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import stockade

LIMITS = {
    "frame_bytes": 4 << 20, "connections": 64, "requests": 64, "sessions": 256, "commands": 256, "questions": 1000,
    "questions_of_all_sessions": 4000, "output_under_way_bytes": 256 << 10, "output_kept_bytes": 1 << 20,
    "ended_commands": 64, "ended_commands_ms": 600_000, "runs": 64, "request_bytes": 16 << 20,
    "request_bytes_of_all_connections": 64 << 20, "answer_bytes": 16 << 20, "notifications": 4096,
    "notification_bytes": 4 << 20, "commands_of_all_sessions": 1024, "output_kept_bytes_of_session": 8 << 20,
    "output_kept_bytes_of_all_sessions": 128 << 20,
}  # fmt: skip
INITIALIZED = {
    "protocol_version": 1, "server": {"name": "fake", "version": "0"}, "methods": [], "limits": LIMITS,
}  # fmt: skip
STATE: dict[str, Any] = {
    "session_id": "s1", "cwd": "/repo", "ask": "on-failure", "sandbox": {"type": "read-only"}, "permissions": {},
    "notices": [],
}  # fmt: skip
OPENED = {**STATE, "capability": "ab" * 32}
RAN = {
    "stdout": {"head": "out"},
    "stderr": {"head": ""},
    "duration_ms": 1,
    "enforcement": {"engine": "none", "layers": []},
}
EXITED = {"exited": {"exit_code": 0, "execution": RAN}}


def question(question_id: str = "q1", **more: Any) -> dict[str, Any]:
    """The parameters of `approval/request`."""
    request = {
        "id": "r1",
        "thread_id": "t1",
        "subject": {"network": {"host": "example.com", "protocol": "https", "port": 443}},
        "available_decisions": ["approved", "approved_for_session", "denied", "abort"],
    }
    return {"session_id": "s1", "question_id": question_id, "request": request, **more}


def output(seq: int, data: Any, command_id: str = "c1", stream: str = "stdout") -> dict[str, Any]:
    """The parameters of `command/output`."""
    return {"session_id": "s1", "command_id": command_id, "seq": seq, "stream": stream, "data": data}


class Refuse(Exception):
    """Raised by a method to answer with an error."""

    def __init__(self, code: int, kind: str, message: str = "no", **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": {"kind": kind, **data}}


Method = Callable[[dict[str, Any]], Any]


class FakeServer:
    """Answers on a unix socket, with one connection at a time."""

    def __init__(self) -> None:
        self.methods: dict[str, Method] = {
            "initialize": lambda params: INITIALIZED,
            "session/open": lambda params: OPENED,
            "session/attach": lambda params: STATE,
            "session/close": lambda params: {"ended_commands": 0},
            "session/detach": lambda params: {},
            "command/cancel": lambda params: {"was_running": True},
            "command/write": lambda params: {},
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name, "sock")

    async def __aenter__(self) -> FakeServer:
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=64 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.sleep(0)
        self._directory.cleanup()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        while line := await reader.readline():
            message = json.loads(line)
            if "method" not in message:
                self.answers.put_nowait(message)
                continue
            task = asyncio.create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        writer.close()

    async def _answer(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        async with self.arrived:
            self.calls.append((method, params))
            self.arrived.notify_all()
        if "id" not in message:
            return
        try:
            result = self.methods[method](params)
            if isinstance(result, Awaitable):
                result = await result
        except Refuse as refused:
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": refused.error})
        else:
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def called(self, method: str, times: int = 1) -> dict[str, Any]:
        """Waits for a call of a method; its parameters."""
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: len(self.named(method)) >= times), 5)
        return self.named(method)[times - 1]

    def named(self, method: str) -> list[dict[str, Any]]:
        """The calls of a method so far."""
        return [params for name, params in self.calls if name == method]

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, request_id: int | str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": request_id, "method": "approval/request", "params": params})

    async def answer(self) -> dict[str, Any]:
        """The client's next answer."""
        return await asyncio.wait_for(self.answers.get(), 5)

    def hang_up(self) -> None:
        if hasattr(self, "writer"):
            self.writer.transport.abort()


class FakeServerTest(unittest.IsolatedAsyncioTestCase):
    """A test with a fake server, which notices tasks and exceptions that are left behind."""

    async def asyncSetUp(self) -> None:
        self.reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.reported.append(context))
        self.server = await self.enterAsyncContext(FakeServer()) if hasattr(self, "enterAsyncContext") else FakeServer()
        if not hasattr(self, "enterAsyncContext"):
            await self.server.__aenter__()
            self.addAsyncCleanup(self.server.__aexit__)
        self.client = await stockade.connect(socket=self.server.path)
        self.addAsyncCleanup(self.client.close)

    async def asyncTearDown(self) -> None:
        await self.client.close()
        left = [task for task in asyncio.all_tasks() if (task.get_name() or "").startswith("stockade")]
        self.assertEqual(left, [])
        self.assertEqual(self.reported, [])
