"""A session from its first denial to its last refusal, with two clients in two languages.

A Python client opens a session on a server's socket, runs a command that is denied, is asked and says yes for
the session; the same command runs again unasked. A TypeScript client joins, watches, and answers the next
question. Then the policy is changed to `never`, the next command is refused, and the trail tells it all.

    STOCKADE_PROGRAM=target/debug/stockade PYTHONPATH=clients/python/src python3 clients/story/story.py
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import unittest
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

import stockade
from stockade.types import AuditEventAnswered, AuditEventAsked, AuditEventRequested

HERE = Path(__file__).resolve().parent
PROGRAM = os.path.abspath(os.environ.get("STOCKADE_PROGRAM", HERE.parents[1] / "target/debug/stockade"))
#: How long any one step may take.
PATIENCE = 60


class Watcher:
    """The TypeScript client."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.seen: list[dict[str, Any]] = []

    @classmethod
    async def join(cls, socket: Path, session: stockade.Session) -> Watcher:
        watcher = cls(await asyncio.create_subprocess_exec("node", str(HERE / "watcher.mjs"), stdin=PIPE, stdout=PIPE))
        # Arguments and environments can be read by other programs.
        place = {"socket": str(socket), "session_id": session.id, "capability": session.capability}
        assert watcher._process.stdin is not None
        watcher._process.stdin.write(json.dumps(place).encode() + b"\n")
        await watcher.sees("attached")
        return watcher

    async def sees(self, event: str) -> dict[str, Any]:
        """The next thing of this kind that it says."""
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
            assert line, f"the watcher ended before it saw {event}: it saw {self.seen}"
            self.seen.append(json.loads(line))
            if self.seen[-1]["event"] == event:
                return self.seen[-1]

    async def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await asyncio.wait_for(self._process.wait(), PATIENCE) == 0


class Story(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        # Not below /tmp, which commands have one of their own of.
        self.root = Path(tempfile.mkdtemp(prefix="stockade-story-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for name in ("home", "state", "config", "run", "workspace", "outside/first", "outside/second", "outside/third"):
            (self.root / name).mkdir(mode=0o700, parents=True)
        self.socket = self.root / "run/stockade/serve.sock"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
        }

    def write_to(self, name: str) -> list[str]:
        """A command that the sandbox denies."""
        return ["sh", "-c", f"echo hello >> {self.root}/outside/{name}/file"]

    def written(self, name: str) -> str:
        path = self.root / "outside" / name / "file"
        return path.read_text() if path.exists() else ""

    async def serve(self) -> None:
        server = await asyncio.create_subprocess_exec(PROGRAM, "serve", "--socket", str(self.socket), env=self.env, stdin=DEVNULL)

        async def end() -> None:
            if server.returncode is None:
                server.terminate()
            await server.wait()

        self.addAsyncCleanup(end)
        for _ in range(PATIENCE * 50):
            if self.socket.exists():
                return
            assert server.returncode is None, f"the server ended with {server.returncode}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"the server does not listen at {self.socket}")

    async def test_the_story(self) -> None:
        await self.serve()
        asked: list[str] = []
        answers = True

        def answer(question: stockade.Question) -> stockade.Answer | None:
            asked.append(question.text)
            return question.approve_for_session() if answers else None

        async with stockade.connect(socket=self.socket, name="story") as client:
            session = await client.open(self.root / "workspace", env=self.env, on_question=answer)

            # It is denied, asked about, and approved for the session.
            result = await session.run(self.write_to("first"))
            self.assertTrue(result.ok, result)
            self.assertEqual((len(asked), self.written("first")), (1, "hello\n"))
            # The same again is not asked.
            self.assertTrue((await session.run(self.write_to("first"))).ok)
            self.assertEqual((len(asked), self.written("first")), (1, "hello\nhello\n"))

            # Another client sees what happens, and answers what this one leaves to it.
            answers = False
            watcher = await Watcher.join(self.socket, session)
            result = await session.run(self.write_to("second"))
            self.assertTrue(result.ok, result)
            self.assertEqual((len(asked), self.written("second")), (2, "hello\n"))
            question = await watcher.sees("question")
            self.assertIn("outside/second", question["text"])
            self.assertEqual((await watcher.sees("command_ended"))["status"], "exited")

            # From now on nothing is asked.
            await session.update(ask="never")
            self.assertEqual((await watcher.sees("changed"))["ask"], "never")
            result = await session.run(self.write_to("third"))
            self.assertFalse(result.ok, result)
            self.assertEqual((len(asked), self.written("third")), (2, ""))
            ended = await watcher.sees("command_ended")
            self.assertIn(ended["status"], ("denied", "refused"))
            self.assertEqual(len([event for event in watcher.seen if event["event"] == "question"]), 1)
            await watcher.leave()

            await self.check_the_trail(client, session)
            await session.close()

    async def check_the_trail(self, client: stockade.Client, session: stockade.Session) -> None:
        """Four commands, and two questions with their answers: what was granted to the session is not asked again."""
        events = [record.event for record in await session.audit()]

        def those(kind: type[Any]) -> list[Any]:
            return [event for event in events if isinstance(event, kind)]

        commands = [event.command for event in those(AuditEventRequested)]
        names = ("first", "first", "second", "third")
        self.assertEqual(commands, [self.write_to(name) for name in names])
        self.assertEqual(len(those(AuditEventAsked)), 2, events)
        decisions = [event.decision for event in those(AuditEventAnswered)]
        self.assertEqual(decisions, ["approved_for_session", "approved_for_session"])
        self.assertEqual(len(await session.remembered()), 2, events)
        self.assertTrue((await client.verify_audit()).whole)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
