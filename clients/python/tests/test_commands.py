"""Commands: the pace of their output, and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import stockade
from stockade.types import Exited

from .fake import EXITED, FakeServerTest, output


class Pace(FakeServerTest):
    """Output that is not consumed."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.ends = asyncio.Event()

        async def run(params: dict[str, Any]) -> Any:
            await self.ends.wait()
            return {"command_id": params["command_id"], "outcome": EXITED, "last_seq": 8}

        self.server.methods["command/run"] = run
        self.server.methods["session/list"] = lambda params: {"sessions": []}
        self.session = await self.client.open("/repo")

    def write(self, command: stockade.Command, chunks: int) -> None:
        for seq in range(1, chunks + 1):
            self.server.notify("command/output", output(seq, "x" * (16 << 10), command.id))

    async def test_only_what_is_consumed_is_acknowledged_and_others_are_not_delayed(self) -> None:
        command = self.session.start(["x"])
        self.assertTrue((await self.server.called("command/run"))["acknowledge"])
        self.write(command, 8)
        self.assertEqual(await self.client.sessions(), [])
        self.assertEqual(self.server.named("command/ack"), [])
        for _ in range(5):
            await command.read()
        await self.server.called("command/ack", 2)
        self.assertEqual([ack["seq"] for ack in self.server.named("command/ack")], [2, 4])
        self.ends.set()
        self.assertEqual([chunk.seq async for chunk in command], [6, 7, 8])
        self.assertIsInstance((await command.wait()).outcome, Exited)

    async def test_waiting_drops_what_nothing_iterates(self) -> None:
        command = self.session.start(["x"])
        await self.server.called("command/run")
        self.write(command, 4)
        waiting = asyncio.create_task(command.wait())
        await self.server.called("command/ack", 2)
        self.ends.set()
        self.assertTrue((await waiting).ok)

    async def test_waiting_after_a_loop_that_was_left_drops_the_rest(self) -> None:
        command = self.session.start(["x"])
        await self.server.called("command/run")
        self.write(command, 4)
        async for _ in command:
            break
        waiting = asyncio.create_task(command.wait())
        await asyncio.sleep(0.01)
        self.assertEqual(self.server.named("command/ack"), [])
        waiting.cancel()
        self.ends.set()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        await self.server.called("command/cancel")

    async def test_text_bytes_and_streams(self) -> None:
        command = self.session.start(["x"])
        await self.server.called("command/run")
        self.server.notify("command/output", output(1, "ä", command.id))
        self.server.notify("command/output", output(2, {"hex": "ff00"}, command.id, "stderr"))
        self.ends.set()
        chunks = [chunk async for chunk in command]
        self.assertEqual([(one.stream, one.data) for one in chunks], [("stdout", "ä".encode()), ("stderr", b"\xff\0")])
        self.assertEqual(chunks[1].text, "\ufffd\0")

    async def test_two_tasks_can_not_iterate_one_command(self) -> None:
        command = self.session.start(["x"])
        first = asyncio.create_task(command.read())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with self.assertRaisesRegex(RuntimeError, "another task"):
            await command.read()
        self.ends.set()
        self.assertIsNone(await first)

    async def test_a_timeout_of_read_ends_nothing(self) -> None:
        command = self.session.start(["x"])
        with self.assertRaises(asyncio.TimeoutError):
            await command.read(0.01)
        self.assertEqual(self.server.named("command/cancel"), [])
        self.ends.set()
        self.assertTrue((await command.wait()).ok)


class Cancellation(FakeServerTest):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.ends = asyncio.Event()

        async def run(params: dict[str, Any]) -> Any:
            await self.ends.wait()
            return {"command_id": params["command_id"], "outcome": {"timed_out": EXITED["exited"]}, "last_seq": 0}

        def cancel(params: dict[str, Any]) -> Any:
            self.ends.set()
            return {"was_running": True}

        self.server.methods["command/run"] = run
        self.server.methods["command/cancel"] = cancel
        self.session = await self.client.open("/repo")

    async def test_cancelling_run_cancels_the_command_and_waits_for_its_end(self) -> None:
        task = asyncio.create_task(self.session.run(["x"]))
        params = await self.server.called("command/run")
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(self.ends.is_set())
        self.assertEqual(self.server.named("command/cancel")[0]["command_id"], params["command_id"])

    async def test_cancelling_a_loop_cancels_the_command(self) -> None:
        async def loop() -> None:
            async for _ in self.session.start(["x"]):
                pass

        task = asyncio.create_task(loop())
        await self.server.called("command/run")
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(len(self.server.named("command/cancel")), 1)

    async def test_leaving_the_block_cancels_the_command(self) -> None:
        async with self.session.start(["x"]) as command:
            self.assertTrue(command.running)
        self.assertFalse(command.running)
        self.assertEqual(len(self.server.named("command/cancel")), 1)

    async def test_a_server_that_does_not_cancel_does_not_hold_the_task_for_ever(self) -> None:
        self.server.methods["command/cancel"] = lambda params: {"was_running": True}
        with mock.patch("stockade.command._CANCEL_GRACE", 0.05):
            task = asyncio.create_task(self.session.run(["x"]))
            await self.server.called("command/run")
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

    async def test_input_is_written_in_pieces_and_closed(self) -> None:
        task = asyncio.create_task(self.session.run(["cat"], input=b"\xff" * (600 << 10)))
        await self.server.called("command/write", 3)
        self.ends.set()
        await task
        writes = self.server.named("command/write")
        self.assertEqual([write.get("close", False) for write in writes], [False, False, True])
        self.assertEqual(b"".join(bytes.fromhex(one["data"]["hex"]) for one in writes), b"\xff" * (600 << 10))

    async def test_a_line_in_place_of_a_list_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "bash"):
            await self.session.run("npm test")
        with self.assertRaises(ValueError):
            await self.session.run([])
