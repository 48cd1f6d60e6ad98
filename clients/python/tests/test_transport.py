"""The connection: frames, answers, the end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import stockade
from stockade import errors

from .fake import OPENED, RAN, FakeServerTest, Refuse, output, question


class Frames(FakeServerTest):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.server.methods["session/list"] = lambda params: {"sessions": []}

    async def hanging(self, method: str = "session/list") -> asyncio.Task[Any]:
        """A request that gets no answer."""
        forever = asyncio.Event()
        self.server.methods[method] = lambda params: forever.wait()
        task = asyncio.create_task(self.client.sessions())
        await self.server.called(method)
        return task

    async def test_a_line_that_is_no_json_ends_the_connection_with_its_reason(self) -> None:
        for line in (b"hello\n", b"[]\n", b'"x"\n', b"\xff\n", b"[" * 100_000 + b"\n", b'{"method": 1}\n', b"{}\n"):
            with self.subTest(line=line[:20]):
                async with stockade.connect(socket=self.server.path) as client:
                    self.client, old = client, self.client
                    await old.close()
                    task = await self.hanging()
                    with self.assertLogs("stockade", "ERROR"):
                        self.server.write(line)
                        with self.assertRaises(errors.ProtocolError):
                            await task
                    with self.assertRaises(errors.ProtocolError):
                        await client.sessions()
                    self.server.calls.clear()

    async def test_an_answer_to_a_request_that_was_not_made_ends_the_connection(self) -> None:
        task = await self.hanging()
        with self.assertLogs("stockade", "ERROR"):
            self.server.send({"jsonrpc": "2.0", "id": 99, "result": {}})
            with self.assertRaisesRegex(errors.ProtocolError, "99"):
                await task

    async def test_an_answer_that_can_not_be_understood_concerns_its_request_alone(self) -> None:
        self.server.methods["audit/verify"] = lambda params: {"whole": True}
        with self.assertRaises(errors.ProtocolError):
            await self.client.verify_audit()
        self.assertEqual(await self.client.sessions(), [])

    async def test_a_line_that_is_too_long_ends_the_connection(self) -> None:
        task = await self.hanging()
        with mock.patch("stockade._connection.LONGEST_FRAME", 1000), self.assertLogs("stockade", "ERROR"):
            self.server.write(b"x" * 2000)
            with self.assertRaisesRegex(errors.ProtocolError, "more than"):
                await task

    async def test_a_large_answer_arrives_whole(self) -> None:
        text = "ä" * (3 << 20)
        big = {"exited": {"exit_code": 0, "execution": {**RAN, "stdout": {"head": text}}}}
        self.server.methods["command/run"] = lambda p: {"command_id": p["command_id"], "outcome": big, "last_seq": 1}
        async with self.client.open("/repo") as session:
            self.assertEqual((await session.run(["x"])).stdout, text)

    async def test_frames_may_arrive_in_any_pieces(self) -> None:
        async with self.client.open("/repo") as session:
            events = session.events()
            line = json.dumps(
                {"method": "session/notice", "params": {"session_id": "s1", "text": "äöü"}}, ensure_ascii=False
            ).encode()
            data = (line + b"\n") * 3
            for at in range(len(data)):
                self.server.write(data[at : at + 1])
                if at % 7 == 0:
                    await asyncio.sleep(0)
            self.server.write(data)
            for _ in range(6):
                self.assertEqual(getattr(await events.__anext__(), "text", None), "äöü")

    async def test_a_request_that_is_too_long_is_not_sent(self) -> None:
        async with self.client.open("/repo") as session:
            with self.assertRaisesRegex(errors.FrameTooLargeError, "4194304"):
                await session.run(["echo", "x" * (5 << 20)])
            self.assertEqual(self.server.named("command/run"), [])
            self.assertEqual(await self.client.sessions(), [])

    async def test_an_answer_that_comes_after_its_task_was_cancelled_is_no_news(self) -> None:
        go = asyncio.Event()

        async def late(params: Any) -> Any:
            await go.wait()
            return {"sessions": []}

        self.server.methods["session/list"] = late
        task = asyncio.create_task(self.client.sessions())
        await self.server.called("session/list")
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        go.set()
        self.assertEqual(await self.client.sessions(), [])

    async def test_unknown_notifications_are_ignored_and_unknown_requests_declined(self) -> None:
        self.server.notify("session/novelty", {"session_id": "s1"})
        self.server.notify("command/output", output(1, "x"))
        self.server.send({"jsonrpc": "2.0", "id": "x", "method": "client/novelty", "params": {}})
        answer = await self.server.answer()
        self.assertEqual((answer["id"], answer["error"]["code"]), ("x", -32601))
        self.assertEqual(await self.client.sessions(), [])

    async def test_every_kind_of_error_has_its_exception(self) -> None:
        kinds = {
            "invalid_params": (-32602, errors.InvalidParamsError),
            "unknown_session": (-32001, errors.UnknownSessionError),
            "not_permitted": (-32002, errors.NotPermittedError),
            "busy": (-32004, errors.BusyError),
            "failed": (-32005, errors.FailedError),
            "closed": (-32008, errors.SessionClosedError),
            "novelty": (-31999, errors.ServerError),
        }
        for kind, (code, expected) in kinds.items():

            def refuse(params: Any, code: int = code, kind: str = kind) -> Any:
                raise Refuse(code, kind, "do that", causes=["this", "that"])

            self.server.methods["session/list"] = refuse
            with self.assertRaises(errors.ServerError) as caught:
                await self.client.sessions()
            self.assertIs(type(caught.exception), expected)
            self.assertEqual(caught.exception.code, code)
            self.assertEqual(str(caught.exception), "do that: this: that")

    async def test_what_follows_the_answer_to_open_finds_the_session(self) -> None:
        def opened(params: Any) -> Any:
            loop = asyncio.get_running_loop()
            loop.call_soon(self.server.ask, 1, question())
            return OPENED

        self.server.methods["session/open"] = opened
        async with self.client.open("/repo", on_question=lambda question: True):
            self.assertEqual((await self.server.answer())["result"], {"decision": "approved"})


class TheEnd(FakeServerTest):
    async def test_a_server_that_dies_ends_every_wait(self) -> None:
        forever = asyncio.Event()
        self.server.methods["command/run"] = lambda params: forever.wait()
        self.server.methods["command/attach"] = lambda params: {"state": "running", "first_seq": 1, "last_seq": 0}
        session = await self.client.open("/repo")
        run = asyncio.create_task(session.run(["x"]))
        started = session.start(["y"])
        followed = await session.follow("z")
        events = session.events()
        await self.server.called("command/run", 2)
        self.server.hang_up()
        for waiting in (run, started.wait(), started.read(), followed.wait(), followed.read(), events.__anext__()):
            with self.assertRaisesRegex(errors.ConnectionLostError, "the server closed the connection"):
                await waiting
        with self.assertRaises(errors.ConnectionLostError):
            await session.run(["x"])
        with self.assertRaises(errors.ConnectionLostError):
            session.start(["x"])

    async def test_a_body_that_fails_is_told_and_not_the_lost_connection(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            async with self.client.open("/repo"):
                self.server.hang_up()
                await asyncio.sleep(0.01)
                raise ZeroDivisionError

    async def test_closing_the_client_ends_what_waits(self) -> None:
        forever = asyncio.Event()
        self.server.methods["command/run"] = lambda params: forever.wait()
        session = await self.client.open("/repo")
        run = asyncio.create_task(session.run(["x"]))
        await self.server.called("command/run")
        await self.client.close()
        with self.assertRaisesRegex(errors.ConnectionLostError, "this client was closed"):
            await run

    async def test_a_session_that_another_client_has_closed_is_left_quietly(self) -> None:
        def gone(params: Any) -> Any:
            raise Refuse(-32001, "unknown_session")

        async with self.client.open("/repo") as session:
            events = session.events()
            self.server.notify("session/closed", {"session_id": "s1", "why": "closed by x"})
            self.assertEqual([getattr(event, "why", None) async for event in events], ["closed by x"])
            self.server.methods["session/close"] = gone
        self.assertEqual(session.closed_because, "closed by x")

    async def test_there_is_no_server_at_the_socket(self) -> None:
        with self.assertRaisesRegex(errors.ServerNotFoundError, "stockade serve"):
            await stockade.connect(socket="/nonexistent/sock")


class Spawned(FakeServerTest):
    """Servers that are started, and behave badly."""

    def script(self, body: str) -> str:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "server")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + body)
        os.chmod(path, 0o755)
        return path

    async def test_there_is_no_such_program(self) -> None:
        with self.assertRaisesRegex(errors.ServerNotFoundError, "STOCKADE_PROGRAM"):
            await stockade.connect(program="stockade-that-is-not-there")

    async def test_a_program_that_dies_is_told_with_its_last_words(self) -> None:
        with self.assertRaisesRegex(errors.ConnectionLostError, "exited with 3:\n  no home"):
            await stockade.connect(program=self.script("echo no home >&2; exit 3"))

    async def test_a_program_that_is_killed_is_told(self) -> None:
        with self.assertRaisesRegex(errors.ConnectionLostError, "killed by signal 9"):
            await stockade.connect(program=self.script("kill -9 $$"))

    async def test_a_program_that_speaks_something_else_is_told(self) -> None:
        with self.assertLogs("stockade", "ERROR"), self.assertRaisesRegex(errors.ProtocolError, "Usage"):
            await stockade.connect(program=self.script("echo 'Usage: serve'; exec sleep 1"))

    async def test_a_program_that_does_not_answer_is_ended(self) -> None:
        with (
            mock.patch("stockade.client._INITIALIZE_SECONDS", 0.2),
            mock.patch("stockade._process.ENDS_BY_ITSELF_SECONDS", 0.2),
            self.assertLogs("stockade.server", "WARNING"),
            self.assertRaisesRegex(errors.ServerNotFoundError, "did not answer"),
        ):
            await stockade.connect(program=self.script("exec sleep 60"))

    async def test_being_cancelled_while_it_starts_leaves_no_process(self) -> None:
        with (
            mock.patch("stockade._process.ENDS_BY_ITSELF_SECONDS", 0.1),
            mock.patch.object(logging.getLogger("stockade.server"), "disabled", True),
            tempfile.TemporaryDirectory() as directory,
        ):
            script = self.script(f"echo $$ > {directory}/pid; exec sleep 60")
            task = asyncio.ensure_future(_opened(script))
            pid = int(await asyncio.to_thread(_written, Path(directory, "pid")))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)

    async def test_being_cancelled_while_it_is_ended_leaves_no_process(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            script = self.script(f"echo $$ > {directory}/pid; echo nonsense; exec sleep 60")
            with self.assertLogs("stockade", "ERROR"):
                task = asyncio.ensure_future(_opened(script))
                pid = int(await asyncio.to_thread(_written, Path(directory, "pid")))
                # It has failed, and waits for the server to end.
                await asyncio.sleep(0.3)
                self.assertFalse(task.done())
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(_gone, pid)


def _gone(pid: int) -> None:
    """Waits until there is no such process."""
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def _written(path: Path) -> str:
    """What a file holds, once it holds something."""
    while not (path.exists() and (text := path.read_text())):
        time.sleep(0.01)
    return text


async def _opened(script: str) -> stockade.Client:
    return await stockade.connect(program=script)
