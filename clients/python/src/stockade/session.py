"""A session: a workspace, a policy, and what was approved in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._asking import Asking
from ._params import Text, argv, environment, milliseconds, path_in, paths, without_none
from .command import Command
from .errors import SessionClosedError, StockadeError, UnknownSessionError
from .events import Event, EventStream
from .question import Answer, Handler, Question
from .result import Result
from .types import (
    AskForApproval,
    AuditRecord,
    CheckReport,
    CommandEnded,
    CommandRunResult,
    ElicitationRequestResult,
    EscalationExecution,
    Explanation,
    FileChange,
    NetworkMode,
    PatchApplyResult,
    Permissions,
    PermissionsRequestResult,
    RawText,
    RememberedApproval,
    ResourceLimits,
    SandboxMode,
    SessionClosed,
    SessionOpenResult,
    SessionState,
    StdinKind,
    ToolCallApproval,
    ToolReviewResult,
    decode_ask_for_approval,
    decode_elicitation_request_result,
    decode_patch_apply_result,
    decode_permissions_request_result,
    decode_sandbox_policy,
    decode_tool_review_result,
    encode_ask_for_approval,
    encode_escalation_execution,
    encode_file_change,
)

if TYPE_CHECKING:
    from ._connection import Connection
    from .client import Client

__all__ = ["Session"]


def _result(value: Any) -> Result:
    ended = CommandRunResult.from_json(value)
    return Result(ended.command_id, ended.outcome, ended.last_seq)


class Session:
    """A session of the server, from `Client.open` or `Client.attach`."""

    def __init__(self, client: Client, state: SessionOpenResult | SessionState | None, session_id: str) -> None:
        self.client = client
        self.id = session_id
        """The session's name on the wire, for `Client.attach`."""
        self.capability: str | None = None
        """The secret for `Client.attach`, in the client that opened the session. Who has it may answer
        questions.
        """
        self.closed_because: str | None = None
        """Why the session was closed, once it was."""
        self._connection: Connection = client._connection
        self._commands: dict[str, Command] = {}
        self._events: set[EventStream] = set()
        self._attached = True
        self._asking = Asking(self)
        if state is not None:
            self._take(state)

    def _take(self, state: SessionOpenResult | SessionState) -> None:
        self.cwd: RawText = state.cwd
        """Where commands start."""
        self.ask: AskForApproval = state.ask
        """When it asks."""
        self.sandbox = state.sandbox
        """How much commands are trusted with."""
        self.permissions = state.permissions
        """What that grants."""
        self.notices = state.notices
        """What is worth knowing, in sentences for a person."""

    def __repr__(self) -> str:
        return f"<stockade.Session {self.id}>"

    # Commands.

    async def run(
        self,
        command: Sequence[Text],
        *,
        cwd: Text | None = None,
        timeout: float | None = None,
        input: RawText | None = None,
        escalation: EscalationExecution | None = None,
        justification: str | None = None,
        env: Mapping[str, RawText] | None = None,
    ) -> Result:
        """Runs a command and waits for its end. Cancelling the task cancels the command.

        `command` is the program and its arguments; a line for a shell is `["bash", "-c", line]`. `timeout` is
        in seconds and does not run while a person is asked. `input` is what it reads; nothing if absent.
        `escalation` asks for more than the session grants, and `justification` says why. `env` is the whole
        environment to choose from, in place of the session's.
        """
        stdin: StdinKind = "none" if input is None else "pipe"
        running = self._run(command, cwd, timeout, escalation, justification, env, stdin, None, None, stream=False)
        if input is not None:
            try:
                await running._feed(input)
            except BaseException:
                await running._abandon()
                raise
        return await running.wait()

    def start(
        self,
        command: Sequence[Text],
        *,
        cwd: Text | None = None,
        timeout: float | None = None,
        stdin: StdinKind = "none",
        terminal: tuple[int, int] | None = None,
        escalation: EscalationExecution | None = None,
        justification: str | None = None,
        env: Mapping[str, RawText] | None = None,
        command_id: str | None = None,
    ) -> Command:
        """Starts a command whose output is read while it is written: `async for chunk in
        session.start([...])`.

        The arguments are those of `run`. `stdin="pipe"` opens its input for `Command.write`; `terminal=(rows,
        columns)` gives it a terminal.
        """
        return self._run(
            command, cwd, timeout, escalation, justification, env, stdin, terminal, command_id, stream=True
        )

    def _run(
        self,
        command: Sequence[Text],
        cwd: Text | None,
        timeout: float | None,
        escalation: EscalationExecution | None,
        justification: str | None,
        env: Mapping[str, RawText] | None,
        stdin: StdinKind,
        terminal: tuple[int, int] | None,
        command_id: str | None,
        *,
        stream: bool,
    ) -> Command:
        command_id = command_id or self.client._command_id()
        if command_id in self._commands:
            raise ValueError(f"a command `{command_id}` is running: choose another `command_id`")
        params: dict[str, Any] = {"session_id": self.id, "command_id": command_id, "command": argv(command)}
        if cwd is not None:
            params["cwd"] = path_in(self.cwd, cwd)
        if timeout is not None:
            params["timeout_ms"] = milliseconds(timeout)
        if escalation is not None:
            params["escalation"] = encode_escalation_execution(escalation)
        if justification is not None:
            params["justification"] = justification
        if env is not None:
            params["environment"] = environment(env)
        if stdin != "none":
            params["stdin"] = stdin
        if terminal is not None:
            params["terminal"] = {"rows": terminal[0], "columns": terminal[1]}
        if stream:
            params["acknowledge"] = True
        else:
            params["stream"] = False
        running = Command(self, command_id, acknowledges=stream)
        running._bind(self._connection.call("command/run", params, _result))
        self._commands[command_id] = running
        return running

    async def follow(self, command_id: str, *, after_seq: int = 0) -> Command:
        """Joins a command that another client runs, or that was running when this client's connection was lost.

        It gives the chunks after `after_seq` that the server still has, and then the new ones.
        """
        if command_id in self._commands:
            raise ValueError(f"this client follows `{command_id}` already")
        command = Command(self, command_id, acknowledges=True)
        command._bind(asyncio.get_running_loop().create_future())
        self._commands[command_id] = command
        params = {
            "session_id": self.id, "command_id": command_id, "after_seq": after_seq, "acknowledge": True,
        }  # fmt: skip
        try:
            await self._connection.request("command/attach", params)
        except BaseException:
            self._forget_command(command)
            raise
        return command

    def _forget_command(self, command: Command) -> None:
        if self._commands.get(command.id) is command:
            del self._commands[command.id]

    async def explain(
        self, command: Sequence[Text], *, cwd: Text | None = None, escalation: EscalationExecution | None = None
    ) -> Explanation:
        """What would happen to a command, without running it."""
        params = without_none(
            session_id=self.id,
            command=argv(command),
            cwd=None if cwd is None else path_in(self.cwd, cwd),
            escalation=None if escalation is None else encode_escalation_execution(escalation),
        )
        return await self._connection.request("command/explain", params, Explanation.from_json)

    async def check_rules(self, command: Sequence[Text]) -> CheckReport:
        """What the rules say of a command."""
        return await self.client._check_rules(command, self.id)

    # Requests other than commands.

    async def patch(self, changes: str | Sequence[FileChange]) -> PatchApplyResult:
        """Changes files on the host, all or none: `PatchApplied` or `Refused`. The changes are a list of
        `AddFile`, `DeleteFile` and `UpdateFile`, or text as `stockade patch` reads it.
        """
        params: dict[str, Any] = {"session_id": self.id}
        if isinstance(changes, str):
            params["patch"] = changes
        else:
            params["changes"] = [encode_file_change(change) for change in changes]
        return await self._connection.request("patch/apply", params, decode_patch_apply_result)

    async def review_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        requires_approval: bool | None = None,
    ) -> ToolReviewResult:
        """Whether a tool of an MCP server may be called: `ToolApproved` or `Refused`. The call itself is yours."""
        call = ToolCallApproval(server, tool, arguments=dict(arguments or {}))
        params = without_none(session_id=self.id, call=call.to_json(), requires_approval=requires_approval)
        return await self._connection.request("tool/review", params, decode_tool_review_result)

    async def request_permissions(
        self, permissions: Permissions, *, justification: str | None = None
    ) -> PermissionsRequestResult:
        """Asks for permissions in advance: `PermissionsGranted` or `Refused`."""
        params = without_none(session_id=self.id, permissions=permissions.to_json(), justification=justification)
        return await self._connection.request("permissions/request", params, decode_permissions_request_result)

    async def elicit(
        self, server: str, message: str, *, requested_schema: Mapping[str, Any] | None = None
    ) -> ElicitationRequestResult:
        """Passes on a question of an MCP server: `ElicitationAccepted`, `ElicitationDeclined` or
        `ElicitationCancelled`.
        """
        schema = None if requested_schema is None else dict(requested_schema)
        params = without_none(session_id=self.id, server=server, message=message, requested_schema=schema)
        return await self._connection.request("elicitation/request", params, decode_elicitation_request_result)

    # Its policy and its memory.

    async def update(
        self,
        *,
        ask: AskForApproval | None = None,
        sandbox: SandboxMode | None = None,
        network: NetworkMode | None = None,
        allow_hosts: Sequence[str] | None = None,
        writable: Sequence[Text] | None = None,
        deny_read: Sequence[str] | None = None,
        set: Mapping[str, str] | None = None,
        limits: ResourceLimits | None = None,
        timeout: float | None = None,
    ) -> None:
        """Changes the policy from the next command on. What is absent stays; approvals are remembered."""
        params = without_none(
            session_id=self.id,
            ask=None if ask is None else encode_ask_for_approval(ask),
            sandbox=sandbox,
            network=network,
            allow_hosts=None if allow_hosts is None else list(allow_hosts),
            writable=None if writable is None else paths(writable),
            deny_read=None if deny_read is None else list(deny_read),
            set=None if set is None else dict(set),
            limits=None if limits is None else limits.to_json(),
            timeout_ms=None if timeout is None else milliseconds(timeout),
        )
        self._take(await self._connection.request("session/update", params, SessionState.from_json))

    async def remembered(self) -> list[RememberedApproval]:
        """The approvals that hold for the session."""
        answer = await self._connection.request("approval/remembered", {"session_id": self.id})
        return [RememberedApproval.from_json(one) for one in answer["approvals"]]

    async def forget(self, approval: RememberedApproval | str | None = None) -> int:
        """Forgets an approval, or all of them; how many there were."""
        key = approval.key if isinstance(approval, RememberedApproval) else approval
        answer = await self._connection.request("approval/forget", without_none(session_id=self.id, key=key))
        return int(answer["forgotten"])

    # Questions.

    async def questions(self) -> list[Question]:
        """The open questions, the oldest first, for programs that answer with `answer` and not with a handler."""
        return await self.client.questions(self.id)

    async def answer(self, question: Question | str, answer: Answer) -> None:
        """Answers an open question."""
        question_id = question.id if isinstance(question, Question) else question
        params = {"session_id": self.id, "question_id": question_id, **answer.to_json()}
        await self._connection.request("approval/answer", params)

    def on_question(self, handler: Handler | None) -> None:
        """Sets the handler for the questions from now on."""
        self._asking.handler = handler

    # Its events.

    def events(self) -> EventStream:
        """What happens in the session from now on, also by other clients: `async for event in session.events()`."""
        stream = EventStream(self._events.discard)
        self._events.add(stream)
        return stream

    async def audit(self, *, after: int | None = None) -> list[AuditRecord]:
        """The trail's records of this session, the oldest first, behind the one numbered `after`."""
        return [record async for record in self.client.audit(session_id=self.id, after=after)]

    def _happened(self, event: Event) -> None:
        for stream in tuple(self._events):
            stream._put(event)

    def _command_ended(self, params: Mapping[str, Any]) -> None:
        ended = CommandEnded.from_json(params)
        command = self._commands.get(ended.command_id)
        if command is not None and not command._future.done():
            command._future.set_result(Result(ended.command_id, ended.outcome, ended.last_seq))
        self._happened(ended)

    def _changed(self, params: Mapping[str, Any]) -> None:
        self.ask = decode_ask_for_approval(params["ask"])
        self.sandbox = decode_sandbox_policy(params["sandbox"])

    # Its end.

    def _lost(self, error: StockadeError) -> None:
        """No more is heard of it."""
        self._attached = False
        self._asking.stop()
        for command in tuple(self._commands.values()):
            if not command._future.done():
                command._future.set_exception(type(error)(*error.args))
        for stream in tuple(self._events):
            stream._end(error)
        self.client._sessions.pop(self.id, None)

    def _was_closed(self, params: Mapping[str, Any]) -> None:
        closed = SessionClosed.from_json(params)
        self.closed_because = closed.why
        self._happened(closed)
        for stream in tuple(self._events):
            stream._end(None)
        self._asking.stop()

    async def detach(self) -> None:
        """Leaves the session, which lives on as long as it has clients, and then as long as `linger` says."""
        if not self._attached:
            return
        await self._connection.request("session/detach", {"session_id": self.id})
        self._left("this client has left the session")

    async def close(self) -> int:
        """Ends the session with its commands and questions, for all clients; how many commands were ended."""
        if not self._attached:
            return 0
        answer = await self._connection.request("session/close", {"session_id": self.id})
        self._left("the session was closed")
        return int(answer["ended_commands"])

    def _left(self, why: str) -> None:
        self.closed_because = self.closed_because or why
        self._lost(SessionClosedError(why))

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes a session that this client opened, and leaves one that it has attached to."""
        try:
            await (self.detach() if self.capability is None else self.close())
        except (SessionClosedError, UnknownSessionError):
            # Another client was faster.
            self._left("the session was closed")
        except StockadeError:
            if error is None:
                raise
