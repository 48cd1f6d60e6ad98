#!/usr/bin/env python3
"""One session, two clients in two languages, and what the trail tells of it.

A Python client opens a session and runs a command that the sandbox stops. It is asked, says yes for the
session, and the same command runs again unasked. A TypeScript client joins, watches, and answers the next
question. Then the policy becomes `never`: the next command is not asked about. Everything is on record.

    PYTHONPATH=clients/python/src STOCKADE_PROGRAM=target/debug/stockade python3 clients/story/story.py
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import stockade
from stockade.types import AuditEventAnswered, AuditEventAsked, AuditEventDecided, AuditEventRequested

HERE = Path(__file__).resolve().parent
PIPE = asyncio.subprocess.PIPE


@asynccontextmanager
async def server(root: Path) -> AsyncIterator[Path]:
    """A server that listens on a socket, with a home of its own."""
    program = shutil.which(os.environ.get("STOCKADE_PROGRAM", "stockade"))
    assert program is not None, "set STOCKADE_PROGRAM"
    for name in ("home", "runtime", "workspace", "outside"):
        (root / name).mkdir(mode=0o700)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(root / "home"),
        "XDG_RUNTIME_DIR": str(root / "runtime"),
        "XDG_STATE_HOME": str(root / "home/state"),
        "XDG_CONFIG_HOME": str(root / "home/config"),
    }
    socket = root / "runtime/stockade/serve.sock"
    process = await asyncio.create_subprocess_exec(program, "serve", "--socket", str(socket), env=env)
    try:
        while not socket.exists():
            assert process.returncode is None, "the server ended"
            await asyncio.sleep(0.02)
        yield socket
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class Watcher:
    """The TypeScript client, a program of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []

    @classmethod
    async def start(cls, socket: Path, session: stockade.Session) -> Watcher:
        process = await asyncio.create_subprocess_exec("node", HERE / "watcher.mjs", stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        where = {"socket": str(socket), "session_id": session.id, "capability": session.capability}
        process.stdin.write(json.dumps(where).encode() + b"\n")
        return cls(process)

    async def sees(self, event: str) -> dict[str, Any]:
        """Waits until it says that something happened."""
        assert self.process.stdout is not None
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), 30)
            assert line, f"the watcher ended before it saw `{event}`; it saw {self.seen}"
            self.seen.append(json.loads(line))
            if self.seen[-1]["event"] == event:
                return self.seen[-1]

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert await asyncio.wait_for(self.process.wait(), 30) == 0


async def story(root: Path) -> None:
    asked: list[str] = []

    def says_yes_for_the_session(question: stockade.Question) -> stockade.Answer:
        asked.append(question.title)
        return question.approve_for_session()

    def leaves_it_to_others(question: stockade.Question) -> None:
        asked.append("left: " + question.title)

    async with (
        server(root) as socket,
        stockade.connect(socket=socket, name="story") as client,
        client.open(root / "workspace", ask="on-failure", on_question=says_yes_for_the_session) as session,
    ):
        first = ["sh", "-c", f"echo 1 >> {root}/outside/first"]
        result = await session.run(first)
        assert result.ok, f"the approved command: {result}"
        assert len(asked) == 1 and "The sandbox stopped this command" in asked[0], asked

        result = await session.run(first)
        assert result.ok and len(asked) == 1, f"the remembered command: {result}; asked: {asked}"
        assert (root / "outside/first").read_text() == "1\n1\n"

        session.on_question(leaves_it_to_others)
        watcher = await Watcher.start(socket, session)
        await watcher.sees("attached")
        result = await session.run(["sh", "-c", f"echo 2 >> {root}/outside/second"])
        assert result.ok, f"the command that the watcher approves: {result}"
        question = await watcher.sees("question")
        assert f"{root}/outside/second" in question["text"], question
        assert len(asked) == 2 and asked[1].startswith("left: "), asked

        await session.update(ask="never")
        result = await session.run(["sh", "-c", f"echo 3 >> {root}/outside/third"])
        assert isinstance(result.outcome, (stockade.Denied, stockade.Refused)), f"nothing is asked any more: {result}"
        assert not (root / "outside/third").exists() and len(asked) == 2, asked
        await watcher.end()

        await trail_tells(client, session)


async def trail_tells(client: stockade.Client, session: stockade.Session) -> None:
    """Four requests; two questions, each answered; one decided from memory."""
    events = [record.event for record in await session.audit()]
    requested = [one for one in events if isinstance(one, AuditEventRequested)]
    answered = [one for one in events if isinstance(one, AuditEventAnswered)]
    remembered = [one for one in events if isinstance(one, AuditEventDecided) and one.source == "session_memory"]
    assert len(requested) == 4, requested
    assert len([one for one in events if isinstance(one, AuditEventAsked)]) == 2
    assert [one.decision for one in answered] == ["approved_for_session"] * 2, answered
    assert len(remembered) == 1, events
    verified = await client.verify_audit()
    assert verified.whole, verified


def main() -> int:
    # Not below /tmp, which is private in a sandbox.
    root = Path(tempfile.mkdtemp(prefix="stockade-story-", dir="/var/tmp"))
    try:
        asyncio.run(story(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("the story is true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
