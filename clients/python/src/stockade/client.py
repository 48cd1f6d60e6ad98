"""A connection to a server, and what does not belong to one session."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import socket as sockets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ._asking import DOES_NOT_ANSWER
from ._connection import Connection
from ._opening import Opening
from ._params import Text, argv, environment, milliseconds, paths, without_none
from ._process import ServerProcess
from .errors import ConnectionLostError, ProtocolError, ServerError, ServerNotFoundError, StockadeError
from .question import Handler, Question
from .session import Session
from .types import (
    ApprovalRequest,
    ApprovalResolved,
    AskForApproval,
    AuditRecord,
    AuditVerifyResult,
    CheckReport,
    CommandStarted,
    InitializeResult,
    ListedSession,
    NetworkMode,
    RawText,
    ResourceLimits,
    SandboxMode,
    SessionChanged,
    SessionNotice,
    SessionOpenResult,
    SessionState,
    encode_ask_for_approval,
)

__all__ = ["Client", "connect", "default_socket"]

logger = logging.getLogger("stockade")

PROTOCOL_VERSION = 1
_INITIALIZE_SECONDS = 30.0
_SHUTDOWN_SECONDS = 10.0


def default_socket() -> Path:
    """Where a server of this user listens."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime, "stockade", "serve.sock")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "stockade", "run", "serve.sock")


def connect(
    *,
    socket: str | os.PathLike[str] | bool | None = None,
    program: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str = "python",
    version: str | None = None,
) -> Opening[Client]:
    """Connects to a server: `async with stockade.connect() as client`, or `client = await
    stockade.connect()`.

    Without `socket` it starts `stockade serve` and ends it with the client: `program` (else
    `$STOCKADE_PROGRAM`, else `stockade` on the path) with further `arguments`, in the environment `env` and
    the directory `cwd`. With `socket=True`, or the path of a socket, it connects to a server that is running.
    Other clients are told `name` when this one answers a question.
    """

    async def make() -> Client:
        client = Client()
        try:
            if socket:
                await client._connect(default_socket() if socket is True else Path(socket))
            else:
                await client._start(program, arguments, env, cwd)
            await client._initialize(name, version)
        except BaseException:
            await client.close()
            raise
        return client

    return Opening(make)


class Client:
    """A connection to a server, from `connect`."""

    def __init__(self) -> None:
        self._connection = Connection(self)
        self._process: ServerProcess | None = None
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._initialized = False
        self._command_ids = itertools.count(1)
        self._prefix = secrets.token_hex(4)

    # Its beginning.

    async def _connect(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self._connection, os.fspath(path))
        except OSError as error:
            raise ServerNotFoundError(
                f"no server answers at {path} ({error.strerror or error}): start `stockade serve --socket`"
            ) from error

    async def _start(
        self,
        program: str | os.PathLike[str] | None,
        arguments: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
    ) -> None:
        self._process, ours = await ServerProcess.start(program, arguments, env, cwd)
        await self._adopt(ours)

    async def _adopt(self, ours: sockets.socket) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self._connection, sock=ours)
        except BaseException:
            ours.close()
            raise

    async def _initialize(self, name: str, version: str | None) -> None:
        params = {
            "protocol_version": PROTOCOL_VERSION,
            "client": without_none(name=name, version=version),
            "capabilities": {"answers": True},
        }
        request = self._connection.request("initialize", params, InitializeResult.from_json)
        try:
            self.server_info: InitializeResult = await asyncio.wait_for(request, _INITIALIZE_SECONDS)
        except asyncio.TimeoutError:
            raise ServerNotFoundError(f"the server did not answer within {_INITIALIZE_SECONDS:.0f} seconds") from None
        self._connection.longest_request = self.server_info.limits.frame_bytes
        self._initialized = True

    @property
    def pid(self) -> int | None:
        """The process id of a server that this client started."""
        return None if self._process is None else self._process.pid

    def _command_id(self) -> str:
        # The prefix tells the clients of a session apart.
        return f"{self._prefix}-{next(self._command_ids)}"

    # Sessions.

    def open(
        self,
        workspace: Text | Sequence[Text] | None = None,
        *,
        on_question: Handler | None = None,
        ask: AskForApproval | None = None,
        name: str | None = None,
        cwd: Text | None = None,
        profile: str | None = None,
        sandbox: SandboxMode | None = None,
        network: NetworkMode | None = None,
        allow_hosts: Sequence[str] | None = None,
        writable: Sequence[Text] | None = None,
        deny_read: Sequence[str] | None = None,
        env: Mapping[str, RawText] | None = None,
        set: Mapping[str, str] | None = None,
        limits: ResourceLimits | None = None,
        timeout: float | None = None,
        linger: float | None = None,
        answer_timeout: float | None = None,
    ) -> Opening[Session]:
        """Opens a session: `async with client.open("/repo", on_question=handler) as session`. Leaving it
        closes the session.

        `workspace` is the directory, or directories, that commands work in; this process's directory if
        absent. `on_question` answers questions. `ask` says when there are any: `on-failure` if absent and
        there is a handler, else `never`. What else is absent is as the settings have it. `env` is the
        environment to choose from (the settings say what commands see), and `set` what commands get in any
        case. Times are in seconds: `timeout` for each command, `linger` for a session without clients,
        `answer_timeout` for a question.
        """
        if ask is None:
            ask = "on-failure" if on_question is not None else "never"
        if env is None and self._process is None:
            # The server's own environment belongs to another program.
            env = os.environ
        params = without_none(
            name=name,
            workspace=paths(os.getcwdb() if workspace is None else workspace),
            cwd=None if cwd is None else paths(cwd)[0],
            profile=profile,
            sandbox=sandbox,
            ask=encode_ask_for_approval(ask),
            network=network,
            allow_hosts=None if allow_hosts is None else list(allow_hosts),
            writable=None if writable is None else paths(writable),
            deny_read=None if deny_read is None else list(deny_read),
            environment=None if env is None else environment(env),
            set=None if set is None else dict(set),
            limits=None if limits is None else limits.to_json(),
            timeout_ms=None if timeout is None else milliseconds(timeout),
            linger_ms=None if linger is None else round(linger * 1000),
            answer_timeout_ms=None if answer_timeout is None else milliseconds(answer_timeout),
        )

        def opened(value: Any) -> Session:
            # Called when the response arrives, so that a notification right after it finds the session.
            state = SessionOpenResult.from_json(value)
            session = Session(self, state, state.session_id)
            session.capability = state.capability
            session.on_question(on_question)
            self._sessions[session.id] = session
            return session

        async def make() -> Session:
            return await self._connection.request("session/open", params, opened)

        return Opening(make)

    def attach(self, session_id: str, capability: str, *, on_question: Handler | None = None) -> Opening[Session]:
        """Joins a session that another client has opened. Leaving it detaches this client from it."""

        async def make() -> Session:
            if session_id in self._sessions:
                raise ValueError(f"this client is attached to `{session_id}` already")
            session = Session(self, None, session_id)
            session.on_question(on_question)
            # Registered before the request: its open questions may arrive with the response.
            self._sessions[session_id] = session
            params = {"session_id": session_id, "capability": capability}
            try:
                session._take(await self._connection.request("session/attach", params, SessionState.from_json))
            except BaseException:
                self._sessions.pop(session_id, None)
                session._asking.stop()
                raise
            return session

        return Opening(make)

    async def sessions(self) -> list[ListedSession]:
        """Every session of the server."""
        answer = await self._connection.request("session/list", {})
        return [ListedSession.from_json(one) for one in answer["sessions"]]

    async def questions(self, session_id: str | None = None) -> list[Question]:
        """The open questions of this client's sessions, the oldest first."""
        answer = await self._connection.request("approval/list", without_none(session_id=session_id))
        return [
            Question(session, one["question_id"], ApprovalRequest.from_json(one["request"]), one.get("command_id"))
            for one in answer["questions"]
            if (session := self._sessions.get(one["session_id"])) is not None
        ]

    # The trail and the rules.

    async def audit(
        self, *, session_id: str | None = None, after: int | None = None, limit: int | None = None
    ) -> AsyncIterator[AuditRecord]:
        """The records of the trail, the oldest first: `async for record in client.audit()`."""
        left = limit
        while left is None or left > 0:
            params = without_none(session_id=session_id, after=after, limit=None if left is None else min(left, 1000))
            page = await self._connection.request("audit/list", params)
            for record in page["records"]:
                yield AuditRecord.from_json(record)
            after = page.get("next")
            if after is None or not page["records"]:
                return
            left = None if left is None else left - len(page["records"])

    async def verify_audit(self) -> AuditVerifyResult:
        """Whether the trail is whole."""
        return await self._connection.request("audit/verify", {}, AuditVerifyResult.from_json)

    async def check_rules(self, command: Sequence[Text]) -> CheckReport:
        """What the rules of the system and the user say of a command."""
        return await self._check_rules(command, None)

    async def _check_rules(self, command: Sequence[Text], session_id: str | None) -> CheckReport:
        params = without_none(session_id=session_id, command=argv(command))
        return await self._connection.request("rules/check", params, CheckReport.from_json)

    # Messages that the server sends by itself.

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Passes on a notification. Those of sessions that this client has left are no news."""
        session = self._sessions.get(params.get("session_id", ""))
        if session is None:
            return
        if method == "command/output":
            command = session._commands.get(params["command_id"])
            if command is not None:
                command._output(params)
        elif method == "command/lost":
            command = session._commands.get(params["command_id"])
            if command is not None:
                command.lost_before = params["first_seq"]
        elif method == "command/ended":
            session._command_ended(params)
        elif method == "command/started":
            session._happened(CommandStarted.from_json(params))
        elif method == "approval/resolved":
            event = ApprovalResolved.from_json(params)
            session._asking.resolved(event)
            session._happened(event)
        elif method == "approval/unusable":
            session._asking.unusable(params)
        elif method == "session/changed":
            session._changed(params)
            session._happened(SessionChanged.from_json(params))
        elif method == "session/closed":
            session._was_closed(params)
        elif method == "session/notice":
            logger.info("%s", params["text"])
            session._happened(SessionNotice.from_json(params))

    def requested(self, request_id: int | str, method: str, params: Mapping[str, Any]) -> None:
        """Passes on a question."""
        if method != "approval/request":
            self._connection.decline(request_id, -32601, f"this client does not have the method {method}")
            return
        session = self._sessions.get(params["session_id"])
        if session is None:
            self._connection.decline(request_id, DOES_NOT_ANSWER, "this client is not attached to the session")
            return
        session._asking.asked(request_id, params)

    # Its end.

    def disconnected(self, error: Exception | None) -> None:
        """The connection is gone: every wait ends with the reason."""
        if isinstance(error, ProtocolError):
            self._fail(error)
        elif self._closing:
            self._fail(ConnectionLostError("this client was closed"))
        elif self._process is None:
            self._fail(ConnectionLostError(f"the server closed the connection{f': {error}' if error else ''}"))
        else:
            task = asyncio.get_running_loop().create_task(self._mourn(), name="stockade: the server's end")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _mourn(self) -> None:
        assert self._process is not None
        try:
            await self._process.wait(2)
        finally:
            self._fail(ConnectionLostError(self._process.epitaph()))

    def _fail(self, error: StockadeError) -> None:
        self._connection.fail(error)
        for session in tuple(self._sessions.values()):
            session._lost(error)

    async def close(self) -> None:
        """Ends the connection, and the server if this client started it. It can be called twice."""
        if self._closing:
            return
        self._closing = True
        try:
            for session in tuple(self._sessions.values()):
                session._asking.stop()
            if self._process is not None and self._initialized:
                request = self._connection.request("shutdown", {})
                with contextlib.suppress(ServerError, ConnectionLostError, ProtocolError, asyncio.TimeoutError):
                    await asyncio.wait_for(request, _SHUTDOWN_SECONDS)
        finally:
            self._fail(ConnectionLostError("this client was closed"))
            self._connection.close()
            try:
                if self._process is not None:
                    await self._process.stop()
            finally:
                self._connection.abort()
                tasks = [task for task in self._tasks if task is not asyncio.current_task()]
                for task in tasks:
                    task.cancel()
                if tasks:
                    await asyncio.wait(tasks)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
