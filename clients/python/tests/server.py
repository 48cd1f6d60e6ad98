"""A real server for tests: its own home, its own state, a workspace and a directory outside."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import unittest
from pathlib import Path

import stockade

REPOSITORY = Path(__file__).resolve().parents[3]


def program() -> str:
    """The program under test."""
    wanted = os.environ.get("STOCKADE_PROGRAM") or str(REPOSITORY / "target/debug/stockade")
    found = shutil.which(wanted)
    if found is None:
        raise AssertionError(f"{wanted} is missing: run `cargo build -p stockade-cli`, or set STOCKADE_PROGRAM")
    return os.path.abspath(found)


class ServerTest(unittest.IsolatedAsyncioTestCase):
    """A test with directories of its own; it notices tasks and exceptions that are left behind."""

    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="stockade-python-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for name in ("home", "runtime", "workspace", "outside"):
            (self.root / name).mkdir(mode=0o700)
        self.workspace, self.outside = self.root / "workspace", self.root / "outside"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.root / "runtime"),
            "XDG_STATE_HOME": str(self.root / "home/state"),
            "XDG_CONFIG_HOME": str(self.root / "home/config"),
        }
        self.reported: list[object] = []
        self.clients: list[stockade.Client] = []

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.reported.append(context))

    async def asyncTearDown(self) -> None:
        for client in self.clients:
            await client.close()
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("stockade")]
        self.assertEqual((left, self.reported), ([], []))

    async def connect(self) -> stockade.Client:
        """A client with a server of its own."""
        client = await stockade.connect(program=program(), env=self.env, cwd=self.workspace)
        self.clients.append(client)
        return client

    async def listen(self) -> asyncio.subprocess.Process:
        """A server on the socket `self.socket`."""
        self.socket = self.root / "runtime/stockade/serve.sock"
        server = await asyncio.create_subprocess_exec(
            program(),
            "serve",
            "--socket",
            str(self.socket),
            env=self.env,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

        async def end() -> None:
            if server.returncode is None:
                server.terminate()
            await server.wait()

        self.addAsyncCleanup(end)
        for _ in range(500):
            if self.socket.exists():
                return server
            await asyncio.sleep(0.02)
        raise AssertionError(f"the server does not listen at {self.socket}")

    async def join(self) -> stockade.Client:
        """A client of the server on the socket."""
        client = await stockade.connect(socket=self.socket)
        self.clients.append(client)
        return client
