"""A server of this client's own: `stockade serve` on a pair of sockets as its standard input and output."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence

from .errors import ServerNotFoundError

logger = logging.getLogger("stockade.server")

_KEPT_LINES = 20
"""Lines of the server's standard error that are told with its death."""

ENDS_BY_ITSELF_SECONDS = 10.0
"""How long a server may take to end once its input has."""

PROGRAM_VARIABLE = "STOCKADE_PROGRAM"


def find_program(program: str | os.PathLike[str] | None) -> str:
    """The program to start: the one given, the one that `STOCKADE_PROGRAM` names, or `stockade` on the path."""
    wanted = os.fspath(program) if program is not None else os.environ.get(PROGRAM_VARIABLE) or "stockade"
    found = shutil.which(wanted)
    if found is None:
        raise ServerNotFoundError(
            f"there is no program `{wanted}`: install Stockade, or name it with "
            f"`connect(program=...)` or the variable {PROGRAM_VARIABLE}"
        )
    return found


class ServerProcess:
    """The running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._stderr = asyncio.create_task(self._read_stderr(), name="stockade: the server's standard error")

    @classmethod
    async def start(
        cls,
        program: str | os.PathLike[str] | None,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
    ) -> tuple[ServerProcess, socket.socket]:
        """Starts it, in a session of its own so that Ctrl-C reaches this program alone."""
        path = find_program(program)
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                "serve",
                *arguments,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ServerNotFoundError(f"`{path}` can't be started: {error}") from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process), ours

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    async def _read_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                # A line that is longer than the stream's limit; it was dropped.
                continue
            if not line:
                return
            text = line.decode(errors="backslashreplace").rstrip("\n")
            self._last_lines.append(text)
            logger.info("%s", text)

    async def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it came in time."""
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        # Its last output may still be in the pipe; a leftover process may hold that open.
        await asyncio.wait({self._stderr}, timeout=1)
        return True

    async def stop(self) -> None:
        """Ends it, however it behaves, and leaves no task behind."""
        try:
            if not await self.wait(ENDS_BY_ITSELF_SECONDS):
                logger.warning("the server does not end by itself; it is terminated")
                self._signal(signal.SIGTERM)
                if not await self.wait(3):
                    self._signal(signal.SIGKILL)
                    await self.wait(3)
        finally:
            if self._process.returncode is None:
                self._signal(signal.SIGKILL)
            self._stderr.cancel()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    def epitaph(self) -> str:
        """How it ended and what it said last."""
        code = self._process.returncode
        if code is None:
            how = "the server closed the connection"
        elif code < 0:
            how = f"the server was killed by signal {-code}"
        else:
            how = f"the server exited with {code}"
        return "\n  ".join([how + (":" if self._last_lines else ""), *self._last_lines])
