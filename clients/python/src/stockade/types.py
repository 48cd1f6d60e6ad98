"""The messages of Stockade's protocol. Written by `generate.py` from `schemas/`: do not edit."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias, cast

RawText: TypeAlias = str | bytes
"""Text from the operating system: `str`, or `bytes` where it is not UTF-8."""


def decode_text(value: Any) -> RawText:
    """The text or the bytes that a `RawText` of the wire stands for."""
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


def encode_text(value: RawText) -> Any:
    """The wire's form of text. A `str` may hold undecodable bytes as `os.fsdecode` leaves them."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode(errors="surrogateescape")
        else:
            return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


@dataclass(frozen=True, slots=True)
class AddFile:
    """A new file."""

    path: RawText
    """Where."""
    content: RawText
    """What will be in it."""

    @classmethod
    def from_json(cls, value: Any) -> AddFile:
        """Reads the wire's form."""
        return cls(
            path=decode_text(value["path"]),
            content=decode_text(value["content"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "path": encode_text(self.path),
            "content": encode_text(self.content),
        }


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question. It says what will really happen: resolved paths, every command of a line, what is
    granted, and which answers there are.
    """

    id: str
    """The name of the request that it is about."""
    thread_id: str
    """The session it belongs to."""
    subject: ApprovalSubject
    """What is asked."""
    available_decisions: list[ReviewDecision]
    """The answers there are, in the order to show them."""

    _: KW_ONLY
    reason: str | None = None
    """Why it is asked."""
    resolved_paths: list[ResolvedPath] = field(default_factory=list)
    """Paths that lead elsewhere than their names say."""
    risk: RiskAssessment | None = None
    """How risky a program took it to be. Nothing is decided by it."""

    @classmethod
    def from_json(cls, value: Any) -> ApprovalRequest:
        """Reads the wire's form."""
        return cls(
            id=value["id"],
            thread_id=value["thread_id"],
            subject=decode_approval_subject(value["subject"]),
            available_decisions=[decode_review_decision(item) for item in value["available_decisions"]],
            reason=value.get("reason"),
            resolved_paths=[ResolvedPath.from_json(item) for item in value.get("resolved_paths", ())],
            risk=None if (given := value.get("risk")) is None else RiskAssessment.from_json(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "id": self.id,
            "thread_id": self.thread_id,
            "subject": encode_approval_subject(self.subject),
            "available_decisions": [encode_review_decision(item) for item in self.available_decisions],
        }
        if self.reason is not None:
            out["reason"] = self.reason
        if self.resolved_paths:
            out["resolved_paths"] = [item.to_json() for item in self.resolved_paths]
        if self.risk is not None:
            out["risk"] = self.risk.to_json()
        return out


@dataclass(frozen=True, slots=True)
class ApprovalResolved:
    """A question needs no answer any more. Sent to every client of the session but the one that answered."""

    session_id: str
    """The session."""
    question_id: str
    """The question."""

    _: KW_ONLY
    answered_by: str | None = None
    """The name of the client that answered."""
    decision: ReviewDecision | None = None
    """The decision, if there is one."""
    why: str | None = None
    """Why there is no answer: `timed out`, `cancelled`, …."""

    @classmethod
    def from_json(cls, value: Any) -> ApprovalResolved:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            question_id=value["question_id"],
            answered_by=value.get("answered_by"),
            decision=None if (given := value.get("decision")) is None else decode_review_decision(given),
            why=value.get("why"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "question_id": self.question_id,
        }
        if self.answered_by is not None:
            out["answered_by"] = self.answered_by
        if self.decision is not None:
            out["decision"] = encode_review_decision(self.decision)
        if self.why is not None:
            out["why"] = self.why
        return out


@dataclass(frozen=True, slots=True)
class AuditEventAnswered:
    """The answer came."""

    decision: ReviewDecision
    """The decision."""
    in_time: bool
    """Whether it came in time. A late answer changes nothing."""
    duration_ms: int
    """How long it took, in milliseconds."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventAnswered:
        """Reads the wire's form."""
        return cls(
            decision=decode_review_decision(value["decision"]),
            in_time=value["in_time"],
            duration_ms=value["duration_ms"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "decision": encode_review_decision(self.decision),
            "in_time": self.in_time,
            "duration_ms": self.duration_ms,
        }


@dataclass(frozen=True, slots=True)
class AuditEventAsked:
    """A person was asked."""

    subject: ApprovalSubject
    """What."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventAsked:
        """Reads the wire's form."""
        return cls(
            subject=decode_approval_subject(value["subject"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "subject": encode_approval_subject(self.subject),
        }


@dataclass(frozen=True, slots=True)
class AuditEventConnected:
    """A connection was decided. Equal ones of a request are counted, and the count is written now and then
    and when the request ends.
    """

    destination: Destination
    """Where to."""
    decision: Decision
    """The decision."""
    source: DecisionSource
    """Who or what decided."""

    _: KW_ONLY
    times: int | None = None
    """How many equal connections there have been in this request; one if absent."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventConnected:
        """Reads the wire's form."""
        return cls(
            destination=Destination.from_json(value["destination"]),
            decision=value["decision"],
            source=decode_decision_source(value["source"]),
            times=value.get("times"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "destination": self.destination.to_json(),
            "decision": self.decision,
            "source": encode_decision_source(self.source),
        }
        if self.times is not None:
            out["times"] = self.times
        return out


@dataclass(frozen=True, slots=True)
class AuditEventDecided:
    """It was decided what has to happen before something runs or connects."""

    decision: Decision
    """The decision."""
    source: DecisionSource
    """Who or what decided."""

    _: KW_ONLY
    reason: str | None = None
    """Why."""
    sandbox_warnings: list[str] = field(default_factory=list)
    """What the policy outside that approved it found worth a warning."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventDecided:
        """Reads the wire's form."""
        return cls(
            decision=value["decision"],
            source=decode_decision_source(value["source"]),
            reason=value.get("reason"),
            sandbox_warnings=value.get("sandbox_warnings", []),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "decision": self.decision,
            "source": encode_decision_source(self.source),
        }
        if self.reason is not None:
            out["reason"] = self.reason
        if self.sandbox_warnings:
            out["sandbox_warnings"] = self.sandbox_warnings
        return out


@dataclass(frozen=True, slots=True)
class AuditEventEnded:
    """It ran and ended."""

    result: str
    """How: `exited`, `denied`, `timed_out`, `cancelled` or `signaled`."""
    duration_ms: int
    """How long it ran, in milliseconds."""
    enforcement: Enforcement
    """Which layers held."""

    _: KW_ONLY
    exit_code: int | None = None
    """Its exit code, or 128 and the signal's number."""
    violations: list[Violation] = field(default_factory=list)
    """What it was denied."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventEnded:
        """Reads the wire's form."""
        return cls(
            result=value["result"],
            duration_ms=value["duration_ms"],
            enforcement=Enforcement.from_json(value["enforcement"]),
            exit_code=value.get("exit_code"),
            violations=[Violation.from_json(item) for item in value.get("violations", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "result": self.result,
            "duration_ms": self.duration_ms,
            "enforcement": self.enforcement.to_json(),
        }
        if self.exit_code is not None:
            out["exit_code"] = self.exit_code
        if self.violations:
            out["violations"] = [item.to_json() for item in self.violations]
        return out


@dataclass(frozen=True, slots=True)
class AuditEventFailed:
    """A tool was called, or files were to be changed, and that failed; or a request was given up before
    its end.
    """

    reason: str
    """Why."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventFailed:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class AuditEventPatchRequested:
    """A change of files was asked for."""

    paths: list[RawText]
    """Every path that would change: both ends of a move."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventPatchRequested:
        """Reads the wire's form."""
        return cls(
            paths=[decode_text(item) for item in value["paths"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "paths": [encode_text(item) for item in self.paths],
        }


@dataclass(frozen=True, slots=True)
class AuditEventPatched:
    """Files were changed."""

    paths: list[RawText]
    """The files that were written or removed, where they really are."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventPatched:
        """Reads the wire's form."""
        return cls(
            paths=[decode_text(item) for item in value["paths"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "paths": [encode_text(item) for item in self.paths],
        }


@dataclass(frozen=True, slots=True)
class AuditEventPermissionsGranted:
    """Permissions that were asked for in advance were granted."""

    permissions: Permissions
    """On top of what the session has."""
    scope: PermissionsScope
    """How long they hold."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventPermissionsGranted:
        """Reads the wire's form."""
        return cls(
            permissions=Permissions.from_json(value["permissions"]),
            scope=value["scope"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "permissions": self.permissions.to_json(),
            "scope": self.scope,
        }


@dataclass(frozen=True, slots=True)
class AuditEventPermissionsRequested:
    """Permissions were asked for in advance."""

    permissions: Permissions
    """On top of what the session has."""

    _: KW_ONLY
    justification: str | None = None
    """Why, in the words of the requester."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventPermissionsRequested:
        """Reads the wire's form."""
        return cls(
            permissions=Permissions.from_json(value["permissions"]),
            justification=value.get("justification"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "permissions": self.permissions.to_json(),
        }
        if self.justification is not None:
            out["justification"] = self.justification
        return out


@dataclass(frozen=True, slots=True)
class AuditEventProgramJudged:
    """A rule that restricts, or gives something, was met by a program that the command started, and it was
    decided. Equal starts of a request are recorded once, but those that ran elsewhere.
    """

    command: list[RawText]
    """The program and its arguments."""
    cwd: RawText
    """Where it was started."""
    decision: Decision
    """The decision."""
    source: DecisionSource
    """Who or what decided."""

    _: KW_ONLY
    execution: EscalationExecution | None = None
    """What it ran with, elsewhere than its caller, if a rule gave it more."""
    pid: int | None = None
    """The process that started it, as the host numbers it."""
    reason: str | None = None
    """Why."""
    started_by: list[list[RawText]] = field(default_factory=list)
    """The programs above it, the command first."""
    whole: WholeCommand | None = None
    """How much there is of it, where this record holds only the beginning and the end. What lies beyond
    the words that are judged does not count.
    """

    @classmethod
    def from_json(cls, value: Any) -> AuditEventProgramJudged:
        """Reads the wire's form."""
        return cls(
            command=[decode_text(item) for item in value["command"]],
            cwd=decode_text(value["cwd"]),
            decision=value["decision"],
            source=decode_decision_source(value["source"]),
            execution=None if (given := value.get("execution")) is None else decode_escalation_execution(given),
            pid=value.get("pid"),
            reason=value.get("reason"),
            started_by=[[decode_text(item) for item in item] for item in value.get("started_by", ())],
            whole=None if (given := value.get("whole")) is None else WholeCommand.from_json(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "command": [encode_text(item) for item in self.command],
            "cwd": encode_text(self.cwd),
            "decision": self.decision,
            "source": encode_decision_source(self.source),
        }
        if self.execution is not None:
            out["execution"] = encode_escalation_execution(self.execution)
        if self.pid is not None:
            out["pid"] = self.pid
        if self.reason is not None:
            out["reason"] = self.reason
        if self.started_by:
            out["started_by"] = [[encode_text(item) for item in item] for item in self.started_by]
        if self.whole is not None:
            out["whole"] = self.whole.to_json()
        return out


@dataclass(frozen=True, slots=True)
class AuditEventRepaired:
    """The trail itself did not end as it should, and goes on from here. The ids are those of the request
    that found it so.
    """

    damage: TrailDamage
    """What was found."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventRepaired:
        """Reads the wire's form."""
        return cls(
            damage=decode_trail_damage(value["damage"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "damage": encode_trail_damage(self.damage),
        }


@dataclass(frozen=True, slots=True)
class AuditEventRequested:
    """A command was asked for."""

    command: list[RawText]
    """The program and its arguments."""
    cwd: RawText
    """Where it starts."""
    escalation: EscalationExecution
    """What it wants to run with."""

    _: KW_ONLY
    whole: WholeCommand | None = None
    """How much there is of it, where this record holds only the beginning and the end."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventRequested:
        """Reads the wire's form."""
        return cls(
            command=[decode_text(item) for item in value["command"]],
            cwd=decode_text(value["cwd"]),
            escalation=decode_escalation_execution(value["escalation"]),
            whole=None if (given := value.get("whole")) is None else WholeCommand.from_json(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "command": [encode_text(item) for item in self.command],
            "cwd": encode_text(self.cwd),
            "escalation": encode_escalation_execution(self.escalation),
        }
        if self.whole is not None:
            out["whole"] = self.whole.to_json()
        return out


@dataclass(frozen=True, slots=True)
class AuditEventSessionChanged:
    """A client changed the policy of a session, from its next request on."""

    client: str
    """The name of the client program, in its own words."""
    ask: AskForApproval
    """When it asks now."""
    sandbox: SandboxPolicy
    """How much its commands are trusted with now."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventSessionChanged:
        """Reads the wire's form."""
        return cls(
            client=value["client"],
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "client": self.client,
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
        }


@dataclass(frozen=True, slots=True)
class AuditEventSessionClosed:
    """A session was closed, with its commands and everything that it remembered."""

    reason: str
    """Why."""
    commands: int
    """How many commands were ended with it."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventSessionClosed:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
            commands=value["commands"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
            "commands": self.commands,
        }


@dataclass(frozen=True, slots=True)
class AuditEventSessionOpened:
    """A client of the server opened a session. The ids of it, of its changes and of its end are the
    session's.
    """

    client: str
    """The name of the client program, in its own words."""
    workspace: list[RawText]
    """The directories that its commands work in."""
    ask: AskForApproval
    """When it asks."""
    sandbox: SandboxPolicy
    """How much its commands are trusted with."""

    _: KW_ONLY
    name: str | None = None
    """The session's name, if it has one."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventSessionOpened:
        """Reads the wire's form."""
        return cls(
            client=value["client"],
            workspace=[decode_text(item) for item in value["workspace"]],
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
            name=value.get("name"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "client": self.client,
            "workspace": [encode_text(item) for item in self.workspace],
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
        }
        if self.name is not None:
            out["name"] = self.name
        return out


@dataclass(frozen=True, slots=True)
class AuditEventToolApproved:
    """A tool may be called, by a client that does so itself."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventToolApproved:
        """Reads the wire's form."""
        return cls()

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {}


@dataclass(frozen=True, slots=True)
class AuditEventToolCalled:
    """A tool was called, and answered. What it answered is not kept."""

    duration_ms: int
    """How long that took, in milliseconds."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventToolCalled:
        """Reads the wire's form."""
        return cls(
            duration_ms=value["duration_ms"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "duration_ms": self.duration_ms,
        }


@dataclass(frozen=True, slots=True)
class AuditEventToolRequested:
    """A call of a tool was asked for."""

    server: str
    """The MCP server that has the tool."""
    tool: str
    """The tool."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventToolRequested:
        """Reads the wire's form."""
        return cls(
            server=value["server"],
            tool=value["tool"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "server": self.server,
            "tool": self.tool,
        }


@dataclass(frozen=True, slots=True)
class AuditEventUnrecorded:
    """The run made more records than one run may have, so that no run pushes earlier ones out of the
    trail. What came after the limit is counted.
    """

    events: int
    """How many events have no record of their own."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventUnrecorded:
        """Reads the wire's form."""
        return cls(
            events=value["events"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "events": self.events,
        }


@dataclass(frozen=True, slots=True)
class AuditEventWrittenOutside:
    """Calls on files were made for a command outside of the sandbox, after a yes. Written when the run
    ends.
    """

    paths: list[RawText]
    """The files that were written, made or removed, without those beyond the first hundred."""
    calls: int
    """How many calls there were."""

    @classmethod
    def from_json(cls, value: Any) -> AuditEventWrittenOutside:
        """Reads the wire's form."""
        return cls(
            paths=[decode_text(item) for item in value["paths"]],
            calls=value["calls"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "paths": [encode_text(item) for item in self.paths],
            "calls": self.calls,
        }


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One decision or event. Each record carries the hash of the one before it, so that a line which was
    changed, removed or slipped in can be named.
    """

    sequence: int
    """Its place in the trail, counted from 0."""
    time_ms: int
    """When, in milliseconds since 1970 (UTC)."""
    thread_id: str
    """The session."""
    request_id: str
    """The request."""
    event: AuditEvent
    """What happened."""
    previous: str
    """The hash of the record before this one; all zero in the first."""
    hash: str
    """The hash of this record: of everything above, written as JSON."""

    @classmethod
    def from_json(cls, value: Any) -> AuditRecord:
        """Reads the wire's form."""
        return cls(
            sequence=value["sequence"],
            time_ms=value["time_ms"],
            thread_id=value["thread_id"],
            request_id=value["request_id"],
            event=decode_audit_event(value["event"]),
            previous=value["previous"],
            hash=value["hash"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "sequence": self.sequence,
            "time_ms": self.time_ms,
            "thread_id": self.thread_id,
            "request_id": self.request_id,
            "event": encode_audit_event(self.event),
            "previous": self.previous,
            "hash": self.hash,
        }


@dataclass(frozen=True, slots=True)
class AuditVerifyResult:
    """Whether the trail is whole."""

    whole: bool
    """Whether every record is as it was written and none is missing."""
    records: int
    """How many records are as they were written, up to the first that is not."""
    unfinished: int
    """How many records were begun by writers that died."""

    _: KW_ONLY
    bad: TrailFlaw | None = None
    """The first record that is not as it should be."""
    first_sequence: int | None = None
    """The number of the oldest record that is kept."""
    first_time_ms: int | None = None
    """When it was written, in milliseconds since 1970 (UTC)."""
    last_hash: str | None = None
    """Its hash."""
    last_sequence: int | None = None
    """The number of the last good record."""

    @classmethod
    def from_json(cls, value: Any) -> AuditVerifyResult:
        """Reads the wire's form."""
        return cls(
            whole=value["whole"],
            records=value["records"],
            unfinished=value["unfinished"],
            bad=None if (given := value.get("bad")) is None else TrailFlaw.from_json(given),
            first_sequence=value.get("first_sequence"),
            first_time_ms=value.get("first_time_ms"),
            last_hash=value.get("last_hash"),
            last_sequence=value.get("last_sequence"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "whole": self.whole,
            "records": self.records,
            "unfinished": self.unfinished,
        }
        if self.bad is not None:
            out["bad"] = self.bad.to_json()
        if self.first_sequence is not None:
            out["first_sequence"] = self.first_sequence
        if self.first_time_ms is not None:
            out["first_time_ms"] = self.first_time_ms
        if self.last_hash is not None:
            out["last_hash"] = self.last_hash
        if self.last_sequence is not None:
            out["last_sequence"] = self.last_sequence
        return out


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was ended on request: it was cancelled, or its session was ended."""

    reason: str
    """Why, in words."""
    execution: Execution
    """The run."""

    @classmethod
    def from_json(cls, value: Any) -> Cancelled:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
            execution=Execution.from_json(value["execution"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
            "execution": self.execution.to_json(),
        }


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """Output, whole or with its middle left out."""

    head: RawText
    """The whole, or its beginning."""

    _: KW_ONLY
    omitted_bytes: int | None = None
    """How many bytes stood between head and tail."""
    tail: RawText | None = None
    """Its end, where the middle was left out."""

    @classmethod
    def from_json(cls, value: Any) -> CapturedOutput:
        """Reads the wire's form."""
        return cls(
            head=decode_text(value["head"]),
            omitted_bytes=value.get("omitted_bytes"),
            tail=None if (given := value.get("tail")) is None else decode_text(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "head": encode_text(self.head),
        }
        if self.omitted_bytes is not None:
            out["omitted_bytes"] = self.omitted_bytes
        if self.tail is not None:
            out["tail"] = encode_text(self.tail)
        return out


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `execpolicy check` prints: `{"matchedRules":[…],"decision":"…"}`."""

    matched_rules: list[ReportedMatch]
    """Every match, in the order of the commands."""

    _: KW_ONLY
    decision: Decision | None = None
    """The strictest decision. Absent when nothing matched and no fallback was asked."""

    @classmethod
    def from_json(cls, value: Any) -> CheckReport:
        """Reads the wire's form."""
        return cls(
            matched_rules=[decode_reported_match(item) for item in value["matchedRules"]],
            decision=value.get("decision"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "matchedRules": [encode_reported_match(item) for item in self.matched_rules],
        }
        if self.decision is not None:
            out["decision"] = self.decision
        return out


@dataclass(frozen=True, slots=True)
class CommandApproval:
    """A command, before its first run or, after a denial, before a wider one."""

    command: list[RawText]
    """The program and its arguments."""
    cwd: RawText
    """Where it starts."""
    parsed: ParsedLine
    """What it runs, part by part."""
    escalation: EscalationExecution
    """What it will run with if approved."""

    _: KW_ONLY
    justification: str | None = None
    """Why, in the words of the requester. Nothing is decided by it."""
    proposed_execpolicy_amendment: list[RawText] | None = None
    """A rule that would save this question in future."""
    started_by: list[list[RawText]] = field(default_factory=list)
    """For a program that a running command starts: the programs above it, the command first. Its start
    waits for the answer. Long ones are cut.
    """
    violations: list[Violation] = field(default_factory=list)
    """What the sandbox denied the run before this one."""

    @classmethod
    def from_json(cls, value: Any) -> CommandApproval:
        """Reads the wire's form."""
        return cls(
            command=[decode_text(item) for item in value["command"]],
            cwd=decode_text(value["cwd"]),
            parsed=ParsedLine.from_json(value["parsed"]),
            escalation=decode_escalation_execution(value["escalation"]),
            justification=value.get("justification"),
            proposed_execpolicy_amendment=None if (given := value.get("proposed_execpolicy_amendment")) is None else [decode_text(item) for item in given],
            started_by=[[decode_text(item) for item in item] for item in value.get("started_by", ())],
            violations=[Violation.from_json(item) for item in value.get("violations", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "command": [encode_text(item) for item in self.command],
            "cwd": encode_text(self.cwd),
            "parsed": self.parsed.to_json(),
            "escalation": encode_escalation_execution(self.escalation),
        }
        if self.justification is not None:
            out["justification"] = self.justification
        if self.proposed_execpolicy_amendment is not None:
            out["proposed_execpolicy_amendment"] = [encode_text(item) for item in self.proposed_execpolicy_amendment]
        if self.started_by:
            out["started_by"] = [[encode_text(item) for item in item] for item in self.started_by]
        if self.violations:
            out["violations"] = [item.to_json() for item in self.violations]
        return out


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command ended. Sent to every client of the session but the one that ran it."""

    session_id: str
    """The session."""
    command_id: str
    """The command."""
    outcome: Outcome
    """How it ended."""
    last_seq: int
    """The number of its last piece of output; 0 if there was none."""

    @classmethod
    def from_json(cls, value: Any) -> CommandEnded:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            command_id=value["command_id"],
            outcome=decode_outcome(value["outcome"]),
            last_seq=value["last_seq"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "command_id": self.command_id,
            "outcome": encode_outcome(self.outcome),
            "last_seq": self.last_seq,
        }


@dataclass(frozen=True, slots=True)
class CommandRunResult:
    """How a command ended. All its output was sent before."""

    command_id: str
    """The command."""
    outcome: Outcome
    """How it ended."""
    last_seq: int
    """The number of its last piece of output; 0 if there was none."""

    @classmethod
    def from_json(cls, value: Any) -> CommandRunResult:
        """Reads the wire's form."""
        return cls(
            command_id=value["command_id"],
            outcome=decode_outcome(value["outcome"]),
            last_seq=value["last_seq"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "command_id": self.command_id,
            "outcome": encode_outcome(self.outcome),
            "last_seq": self.last_seq,
        }


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """A command was started. Sent to every client of the session but the one that ran it under a name of
    its own choice.
    """

    session_id: str
    """The session."""
    command_id: str
    """The command."""
    command: list[RawText]
    """Its words."""

    @classmethod
    def from_json(cls, value: Any) -> CommandStarted:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            command_id=value["command_id"],
            command=[decode_text(item) for item in value["command"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "command_id": self.command_id,
            "command": [encode_text(item) for item in self.command],
        }


@dataclass(frozen=True, slots=True)
class DecisionSourceRule:
    """A rule, by its text or place."""

    rule: str

    @classmethod
    def from_json(cls, value: Any) -> DecisionSourceRule:
        """Reads the wire's form."""
        return cls(value)

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return self.rule


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that goes away."""

    path: RawText
    """Where."""
    content: RawText
    """What is in it now."""

    @classmethod
    def from_json(cls, value: Any) -> DeleteFile:
        """Reads the wire's form."""
        return cls(
            path=decode_text(value["path"]),
            content=decode_text(value["content"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "path": encode_text(self.path),
            "content": encode_text(self.content),
        }


@dataclass(frozen=True, slots=True)
class Denied:
    """The command failed because the sandbox denied it something; the run names what."""

    execution: Execution
    """The run."""

    _: KW_ONLY
    exit_code: int | None = None
    """Its exit code, if it ended by itself."""
    signal: int | None = None
    """The number of the signal that ended it, if one did."""

    @classmethod
    def from_json(cls, value: Any) -> Denied:
        """Reads the wire's form."""
        return cls(
            execution=Execution.from_json(value["execution"]),
            exit_code=value.get("exit_code"),
            signal=value.get("signal"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "execution": self.execution.to_json(),
        }
        if self.exit_code is not None:
            out["exit_code"] = self.exit_code
        if self.signal is not None:
            out["signal"] = self.signal
        return out


@dataclass(frozen=True, slots=True)
class DeniedBecause:
    """DeniedBecause."""

    rejection: str

    @classmethod
    def from_json(cls, value: Any) -> DeniedBecause:
        """Reads the wire's form."""
        return cls(
            rejection=value["rejection"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "rejection": self.rejection,
        }


@dataclass(frozen=True, slots=True)
class DenyingRuleCommand:
    """A rule on commands, or the answer to the question that such a rule raised."""

    reason: str
    """Which rule, and why."""

    @classmethod
    def from_json(cls, value: Any) -> DenyingRuleCommand:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class DenyingRuleLayer:
    """A layer that does not depend on the policy, with its reason."""

    reason: str
    """Why the layer refuses it."""

    @classmethod
    def from_json(cls, value: Any) -> DenyingRuleLayer:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination on the network."""

    host: str
    """The host."""
    protocol: NetworkProtocol
    """What goes over the connection."""
    port: int
    """The port."""

    @classmethod
    def from_json(cls, value: Any) -> Destination:
        """Reads the wire's form."""
        return cls(
            host=value["host"],
            protocol=value["protocol"],
            port=value["port"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "host": self.host,
            "protocol": self.protocol,
            "port": self.port,
        }


@dataclass(frozen=True, slots=True)
class ElicitationAccepted:
    """The person answered."""

    content: dict[str, Any]
    """The answer."""

    @classmethod
    def from_json(cls, value: Any) -> ElicitationAccepted:
        """Reads the wire's form."""
        return cls(
            content=value["content"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "content": self.content,
        }


@dataclass(frozen=True, slots=True)
class ElicitationApproval:
    """A question that an MCP server passes on."""

    server: str
    """The server that asks."""
    message: str
    """The question, in its words."""

    _: KW_ONLY
    requested_schema: dict[str, Any] | None = None
    """The JSON Schema of the answer it expects."""

    @classmethod
    def from_json(cls, value: Any) -> ElicitationApproval:
        """Reads the wire's form."""
        return cls(
            server=value["server"],
            message=value["message"],
            requested_schema=value.get("requested_schema"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "server": self.server,
            "message": self.message,
        }
        if self.requested_schema is not None:
            out["requested_schema"] = self.requested_schema
        return out


@dataclass(frozen=True, slots=True)
class ElicitationCancelled:
    """There was no answer, or everything was stopped."""

    reason: str
    """Why."""

    @classmethod
    def from_json(cls, value: Any) -> ElicitationCancelled:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ElicitationDeclined:
    """The person, or the policy, said no."""

    reason: str
    """Why."""

    @classmethod
    def from_json(cls, value: Any) -> ElicitationDeclined:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Which layers stood around a run, read back from the system where it can be asked."""

    engine: str
    """What built the sandbox: `native`, `bwrap`, `landlock`, `seatbelt`, …, or `none`."""
    layers: list[LayerReport]
    """The layers, outermost first."""

    @classmethod
    def from_json(cls, value: Any) -> Enforcement:
        """Reads the wire's form."""
        return cls(
            engine=value["engine"],
            layers=[LayerReport.from_json(item) for item in value["layers"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "engine": self.engine,
            "layers": [item.to_json() for item in self.layers],
        }


@dataclass(frozen=True, slots=True)
class EnvironmentPolicy:
    """How the environment of a command is made. The steps apply in the order of the fields."""

    _: KW_ONLY
    exclude: list[str] = field(default_factory=list)
    """Inherited variables to drop."""
    ignore_default_excludes: bool = False
    """Keep inherited variables whose names usually hold a secret."""
    include_only: list[str] = field(default_factory=list)
    """If not empty, drop every variable that none of these matches."""
    inherit: EnvironmentInherit | None = None
    """What to start from."""
    set: dict[str, str] = field(default_factory=dict)
    """Variables to set, whatever was inherited."""

    @classmethod
    def from_json(cls, value: Any) -> EnvironmentPolicy:
        """Reads the wire's form."""
        return cls(
            exclude=value.get("exclude", []),
            ignore_default_excludes=value.get("ignore_default_excludes", False),
            include_only=value.get("include_only", []),
            inherit=value.get("inherit"),
            set=value.get("set", {}),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {}
        if self.exclude:
            out["exclude"] = self.exclude
        if self.ignore_default_excludes:
            out["ignore_default_excludes"] = self.ignore_default_excludes
        if self.include_only:
            out["include_only"] = self.include_only
        if self.inherit is not None:
            out["inherit"] = self.inherit
        if self.set:
            out["set"] = self.set
        return out


@dataclass(frozen=True, slots=True)
class ExecApprovalRequirementForbidden:
    """It does not run."""

    reason: str
    """Why not."""

    @classmethod
    def from_json(cls, value: Any) -> ExecApprovalRequirementForbidden:
        """Reads the wire's form."""
        return cls(
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ExecApprovalRequirementNeedsApproval:
    """A person is asked first."""

    _: KW_ONLY
    proposed_execpolicy_amendment: list[RawText] | None = None
    """A rule that the person may save along with the approval."""
    reason: str | None = None
    """Why, in words for that person."""

    @classmethod
    def from_json(cls, value: Any) -> ExecApprovalRequirementNeedsApproval:
        """Reads the wire's form."""
        return cls(
            proposed_execpolicy_amendment=None if (given := value.get("proposed_execpolicy_amendment")) is None else [decode_text(item) for item in given],
            reason=value.get("reason"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {}
        if self.proposed_execpolicy_amendment is not None:
            out["proposed_execpolicy_amendment"] = [encode_text(item) for item in self.proposed_execpolicy_amendment]
        if self.reason is not None:
            out["reason"] = self.reason
        return out


@dataclass(frozen=True, slots=True)
class ExecApprovalRequirementSkip:
    """There is no question."""

    _: KW_ONLY
    bypass_sandbox: bool = False
    """Whether the rules that allowed it also let it run without the sandbox."""
    proposed_execpolicy_amendment: list[RawText] | None = None
    """A rule that a person may want to save once a denial has been explained."""

    @classmethod
    def from_json(cls, value: Any) -> ExecApprovalRequirementSkip:
        """Reads the wire's form."""
        return cls(
            bypass_sandbox=value.get("bypass_sandbox", False),
            proposed_execpolicy_amendment=None if (given := value.get("proposed_execpolicy_amendment")) is None else [decode_text(item) for item in given],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "bypass_sandbox": self.bypass_sandbox,
        }
        if self.proposed_execpolicy_amendment is not None:
            out["proposed_execpolicy_amendment"] = [encode_text(item) for item in self.proposed_execpolicy_amendment]
        return out


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a command."""

    stdout: CapturedOutput
    """What it wrote to standard output."""
    stderr: CapturedOutput
    """What it wrote to standard error."""
    duration_ms: int
    """How long it ran, in milliseconds, without the time in which a person was asked."""
    enforcement: Enforcement
    """Which layers held."""

    _: KW_ONLY
    first_attempt: Execution | None = None
    """The run before this one, whose denial led to this wider one."""
    programs: list[JudgedProgram] = field(default_factory=list)
    """The programs that it started and that a rule spoke of, each with what was decided. Equal ones are
    told once.
    """
    violations: list[Violation] = field(default_factory=list)
    """What it tried and was denied, also where it went on regardless."""

    @classmethod
    def from_json(cls, value: Any) -> Execution:
        """Reads the wire's form."""
        return cls(
            stdout=CapturedOutput.from_json(value["stdout"]),
            stderr=CapturedOutput.from_json(value["stderr"]),
            duration_ms=value["duration_ms"],
            enforcement=Enforcement.from_json(value["enforcement"]),
            first_attempt=None if (given := value.get("first_attempt")) is None else Execution.from_json(given),
            programs=[JudgedProgram.from_json(item) for item in value.get("programs", ())],
            violations=[Violation.from_json(item) for item in value.get("violations", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "stdout": self.stdout.to_json(),
            "stderr": self.stderr.to_json(),
            "duration_ms": self.duration_ms,
            "enforcement": self.enforcement.to_json(),
        }
        if self.first_attempt is not None:
            out["first_attempt"] = self.first_attempt.to_json()
        if self.programs:
            out["programs"] = [item.to_json() for item in self.programs]
        if self.violations:
            out["violations"] = [item.to_json() for item in self.violations]
        return out


@dataclass(frozen=True, slots=True)
class Exited:
    """The command ended by itself, and nothing points to a denial as the cause."""

    exit_code: int
    """Its exit code."""
    execution: Execution
    """The run."""

    @classmethod
    def from_json(cls, value: Any) -> Exited:
        """Reads the wire's form."""
        return cls(
            exit_code=value["exit_code"],
            execution=Execution.from_json(value["execution"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "exit_code": self.exit_code,
            "execution": self.execution.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains what would happen to a command."""

    requirement: ExecApprovalRequirement
    """What happens before it runs."""
    source: DecisionSource
    """Who says so."""
    parsed: ParsedLine
    """What it runs, part by part."""
    rules: CheckReport
    """The rules that match, as `execpolicy check` prints them."""
    sandboxed: bool
    """Whether a sandbox would be built."""
    permissions: Permissions
    """What it would be held to. A network of hosts without a rule is one that is off, and asked for host
    by host.
    """
    asks_after_denial: bool
    """Whether a denial by the sandbox would lead to a question."""

    _: KW_ONLY
    hosts_through: HostsThrough | None = None
    """How it would reach the hosts that are granted; none where the network is off or open."""
    inside: list[str] = field(default_factory=list)
    """The rules that hold for the programs that it starts, each with its decision and its place; none
    where no rule restricts or grants, and where starts are not seen.
    """
    left_to_starts: str | None = None
    """The question about what the line does not show, if it is not asked: each program that it starts is
    judged when it is started.
    """
    skills: list[RawText] = field(default_factory=list)
    """Directories whose programs are asked about as scripts of a skill."""
    unenforceable: str | None = None
    """Why that can't be enforced here, if it can't: then it does not run."""
    warnings: list[str] = field(default_factory=list)
    """Ways around the permissions that no kernel can close, and what keeps it in the sandbox against its
    rules.
    """

    @classmethod
    def from_json(cls, value: Any) -> Explanation:
        """Reads the wire's form."""
        return cls(
            requirement=decode_exec_approval_requirement(value["requirement"]),
            source=decode_decision_source(value["source"]),
            parsed=ParsedLine.from_json(value["parsed"]),
            rules=CheckReport.from_json(value["rules"]),
            sandboxed=value["sandboxed"],
            permissions=Permissions.from_json(value["permissions"]),
            asks_after_denial=value["asks_after_denial"],
            hosts_through=value.get("hosts_through"),
            inside=value.get("inside", []),
            left_to_starts=value.get("left_to_starts"),
            skills=[decode_text(item) for item in value.get("skills", ())],
            unenforceable=value.get("unenforceable"),
            warnings=value.get("warnings", []),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "requirement": encode_exec_approval_requirement(self.requirement),
            "source": encode_decision_source(self.source),
            "parsed": self.parsed.to_json(),
            "rules": self.rules.to_json(),
            "sandboxed": self.sandboxed,
            "permissions": self.permissions.to_json(),
            "asks_after_denial": self.asks_after_denial,
        }
        if self.hosts_through is not None:
            out["hosts_through"] = self.hosts_through
        if self.inside:
            out["inside"] = self.inside
        if self.left_to_starts is not None:
            out["left_to_starts"] = self.left_to_starts
        if self.skills:
            out["skills"] = [encode_text(item) for item in self.skills]
        if self.unenforceable is not None:
            out["unenforceable"] = self.unenforceable
        if self.warnings:
            out["warnings"] = self.warnings
        return out


@dataclass(frozen=True, slots=True)
class FileRule:
    """One rule."""

    target: FileTarget
    """What it speaks of."""
    access: Access
    """What may be done with it. A glob may only have `none`."""

    _: KW_ONLY
    source: RuleSource | None = None
    """Where it comes from."""

    @classmethod
    def from_json(cls, value: Any) -> FileRule:
        """Reads the wire's form."""
        return cls(
            target=decode_file_target(value["target"]),
            access=value["access"],
            source=value.get("source"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "target": encode_file_target(self.target),
            "access": self.access,
        }
        if self.source is not None:
            out["source"] = self.source
        return out


@dataclass(frozen=True, slots=True)
class FileTargetGlob:
    """Every path that matches, and everything below those."""

    glob: str

    @classmethod
    def from_json(cls, value: Any) -> FileTargetGlob:
        """Reads the wire's form."""
        return cls(value)

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return self.glob


@dataclass(frozen=True, slots=True)
class FileTargetPath:
    """This path and everything below it."""

    path: RawText

    @classmethod
    def from_json(cls, value: Any) -> FileTargetPath:
        """Reads the wire's form."""
        return cls(decode_text(value))

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return encode_text(self.path)


@dataclass(frozen=True, slots=True)
class GranularConfig:
    """Categories of questions that are shown. Only read, never written."""

    _: KW_ONLY
    mcp_elicitations: bool = False
    request_permissions: bool = False
    rules: bool = False
    sandbox_approval: bool = False
    skill_approval: bool = False

    @classmethod
    def from_json(cls, value: Any) -> GranularConfig:
        """Reads the wire's form."""
        return cls(
            mcp_elicitations=value.get("mcp_elicitations", False),
            request_permissions=value.get("request_permissions", False),
            rules=value.get("rules", False),
            sandbox_approval=value.get("sandbox_approval", False),
            skill_approval=value.get("skill_approval", False),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "mcp_elicitations": self.mcp_elicitations,
            "request_permissions": self.request_permissions,
            "rules": self.rules,
            "sandbox_approval": self.sandbox_approval,
            "skill_approval": self.skill_approval,
        }


@dataclass(frozen=True, slots=True)
class HostRule:
    """One destination, or several, and what to do about it."""

    host: str
    """The host or hosts."""
    decision: Decision
    """The answer."""

    _: KW_ONLY
    port: int | None = None
    """The port; every port if absent."""
    protocol: NetworkProtocol | None = None
    """The protocol. If absent, every stream for a rule that allows, which has to say `udp` to let
    datagrams through, and every protocol for one that does not.
    """

    @classmethod
    def from_json(cls, value: Any) -> HostRule:
        """Reads the wire's form."""
        return cls(
            host=value["host"],
            decision=value["decision"],
            port=value.get("port"),
            protocol=value.get("protocol"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "host": self.host,
            "decision": self.decision,
        }
        if self.port is not None:
            out["port"] = self.port
        if self.protocol is not None:
            out["protocol"] = self.protocol
        return out


@dataclass(frozen=True, slots=True)
class HostRules:
    """Rules by host. The strictest matching rule decides; a destination that no rule names has to be asked
    for, and an address on this machine or its local network is refused unless it is named.
    """

    rules: list[HostRule]
    """The rules; their order means nothing."""

    _: KW_ONLY
    methods: HttpMethods | None = None
    """Which HTTP requests may be sent to an allowed host."""

    @classmethod
    def from_json(cls, value: Any) -> HostRules:
        """Reads the wire's form."""
        return cls(
            rules=[HostRule.from_json(item) for item in value["rules"]],
            methods=value.get("methods"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "rules": [item.to_json() for item in self.rules],
        }
        if self.methods is not None:
            out["methods"] = self.methods
        return out


@dataclass(frozen=True, slots=True)
class InitializeResult:
    """Who answers, and what can be asked for."""

    protocol_version: int
    """The version of the protocol that is spoken from here on."""
    server: ServerInfo
    """The server program."""
    methods: list[str]
    """The methods that a client can call on this connection."""
    limits: ServerLimits
    """The limits of the server."""

    @classmethod
    def from_json(cls, value: Any) -> InitializeResult:
        """Reads the wire's form."""
        return cls(
            protocol_version=value["protocol_version"],
            server=ServerInfo.from_json(value["server"]),
            methods=value["methods"],
            limits=ServerLimits.from_json(value["limits"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "protocol_version": self.protocol_version,
            "server": self.server.to_json(),
            "methods": self.methods,
            "limits": self.limits.to_json(),
        }


@dataclass(frozen=True, slots=True)
class JudgedProgram:
    """A program that a command started, and what was decided about it."""

    command: list[RawText]
    """The program and its arguments. A long one is cut."""
    decision: Decision
    """The decision."""
    source: DecisionSource
    """Who or what decided."""

    _: KW_ONLY
    execution: EscalationExecution | None = None
    """What it ran with in a place of its own: permissions in another sandbox, or none. Absent if it ran
    where its caller does.
    """
    reason: str | None = None
    """Why."""
    started_by: list[list[RawText]] = field(default_factory=list)
    """The programs above it, the command first."""

    @classmethod
    def from_json(cls, value: Any) -> JudgedProgram:
        """Reads the wire's form."""
        return cls(
            command=[decode_text(item) for item in value["command"]],
            decision=value["decision"],
            source=decode_decision_source(value["source"]),
            execution=None if (given := value.get("execution")) is None else decode_escalation_execution(given),
            reason=value.get("reason"),
            started_by=[[decode_text(item) for item in item] for item in value.get("started_by", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "command": [encode_text(item) for item in self.command],
            "decision": self.decision,
            "source": encode_decision_source(self.source),
        }
        if self.execution is not None:
            out["execution"] = encode_escalation_execution(self.execution)
        if self.reason is not None:
            out["reason"] = self.reason
        if self.started_by:
            out["started_by"] = [[encode_text(item) for item in item] for item in self.started_by]
        return out


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer."""

    layer: str
    """Its name: `user_namespace`, `landlock`, `seccomp`, …."""
    status: LayerStatus
    """Whether it held."""

    _: KW_ONLY
    detail: str | None = None
    """What is worth knowing: an ABI version, the reason for a gap."""

    @classmethod
    def from_json(cls, value: Any) -> LayerReport:
        """Reads the wire's form."""
        return cls(
            layer=value["layer"],
            status=value["status"],
            detail=value.get("detail"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "layer": self.layer,
            "status": self.status,
        }
        if self.detail is not None:
            out["detail"] = self.detail
        return out


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """A command in a list."""

    command_id: str
    """The command."""
    state: CommandState
    """Whether it still runs."""

    _: KW_ONLY
    command: list[RawText] | None = None
    """Its words; left out if this connection is not attached to the session."""

    @classmethod
    def from_json(cls, value: Any) -> ListedCommand:
        """Reads the wire's form."""
        return cls(
            command_id=value["command_id"],
            state=value["state"],
            command=None if (given := value.get("command")) is None else [decode_text(item) for item in given],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "command_id": self.command_id,
            "state": self.state,
        }
        if self.command is not None:
            out["command"] = [encode_text(item) for item in self.command]
        return out


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in a list."""

    session_id: str
    """The session."""
    workspace: list[RawText]
    """The directories that commands work in."""
    ask: AskForApproval
    """When it asks."""
    sandbox: SandboxPolicy
    """How much commands are trusted with."""
    clients: int
    """How many connections are attached."""
    commands: list[ListedCommand]
    """Its commands, the oldest first."""
    questions: int
    """How many questions are open."""
    opened_at_ms: int
    """When it was opened, in milliseconds since 1970 (UTC)."""
    idle_ms: int
    """How long nothing has run and no client was attached, in milliseconds."""

    _: KW_ONLY
    name: str | None = None
    """Its name, if it has one."""

    @classmethod
    def from_json(cls, value: Any) -> ListedSession:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            workspace=[decode_text(item) for item in value["workspace"]],
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
            clients=value["clients"],
            commands=[ListedCommand.from_json(item) for item in value["commands"]],
            questions=value["questions"],
            opened_at_ms=value["opened_at_ms"],
            idle_ms=value["idle_ms"],
            name=value.get("name"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "session_id": self.session_id,
            "workspace": [encode_text(item) for item in self.workspace],
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
            "clients": self.clients,
            "commands": [item.to_json() for item in self.commands],
            "questions": self.questions,
            "opened_at_ms": self.opened_at_ms,
            "idle_ms": self.idle_ms,
        }
        if self.name is not None:
            out["name"] = self.name
        return out


@dataclass(frozen=True, slots=True)
class NetworkApproval:
    """A destination that no rule names."""

    host: str
    """The host."""
    protocol: NetworkProtocol
    """What goes over the connection."""
    port: int
    """The port."""

    _: KW_ONLY
    leads_to: list[str] = field(default_factory=list)
    """Addresses on this machine's or other local networks that the name leads to, where those are asked
    for. The name itself is allowed already.
    """
    program: RawText | None = None
    """The program that wants to connect."""
    proposed_network_policy_amendments: list[NetworkPolicyAmendment] = field(default_factory=list)
    """Rules that would save this question in future."""

    @classmethod
    def from_json(cls, value: Any) -> NetworkApproval:
        """Reads the wire's form."""
        return cls(
            host=value["host"],
            protocol=value["protocol"],
            port=value["port"],
            leads_to=value.get("leads_to", []),
            program=None if (given := value.get("program")) is None else decode_text(given),
            proposed_network_policy_amendments=[NetworkPolicyAmendment.from_json(item) for item in value.get("proposed_network_policy_amendments", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "host": self.host,
            "protocol": self.protocol,
            "port": self.port,
        }
        if self.leads_to:
            out["leads_to"] = self.leads_to
        if self.program is not None:
            out["program"] = encode_text(self.program)
        if self.proposed_network_policy_amendments:
            out["proposed_network_policy_amendments"] = [item.to_json() for item in self.proposed_network_policy_amendments]
        return out


@dataclass(frozen=True, slots=True)
class NetworkPolicyAmendment:
    """A rule to be saved: this destination is allowed, or refused, from now on."""

    host: str
    """The host or hosts."""
    action: NetworkPolicyRuleAction
    """Whether to allow or refuse."""

    _: KW_ONLY
    port: int | None = None
    """The port; every port if absent."""
    protocol: NetworkProtocol | None = None
    """The protocol; every protocol if absent."""

    @classmethod
    def from_json(cls, value: Any) -> NetworkPolicyAmendment:
        """Reads the wire's form."""
        return cls(
            host=value["host"],
            action=value["action"],
            port=value.get("port"),
            protocol=value.get("protocol"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "host": self.host,
            "action": self.action,
        }
        if self.port is not None:
            out["port"] = self.port
        if self.protocol is not None:
            out["protocol"] = self.protocol
        return out


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command of a line."""

    words: list[RawText | None]
    """The program and its arguments."""

    _: KW_ONLY
    assigns: list[str] = field(default_factory=list)
    """Names of the variables that are set for it alone (`A=1 git status`, `env A=1 …`)."""
    reads: list[RawText | None] = field(default_factory=list)
    """Files that its input is redirected from."""
    role: CommandRole | None = None
    """Whether it does something itself."""
    via: str | None = None
    """What it was found inside of, when it does not stand in the line itself: `bash -c`, `find -exec`,
    `trap`, a substitution.
    """
    writes: list[RawText | None] = field(default_factory=list)
    """Files that its output is redirected to. `/dev/null` and other descriptors do not count."""

    @classmethod
    def from_json(cls, value: Any) -> ParsedCommand:
        """Reads the wire's form."""
        return cls(
            words=[None if item is None else decode_text(item) for item in value["words"]],
            assigns=value.get("assigns", []),
            reads=[None if item is None else decode_text(item) for item in value.get("reads", ())],
            role=value.get("role"),
            via=value.get("via"),
            writes=[None if item is None else decode_text(item) for item in value.get("writes", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "words": [None if item is None else encode_text(item) for item in self.words],
        }
        if self.assigns:
            out["assigns"] = self.assigns
        if self.reads:
            out["reads"] = [None if item is None else encode_text(item) for item in self.reads]
        if self.role is not None:
            out["role"] = self.role
        if self.via is not None:
            out["via"] = self.via
        if self.writes:
            out["writes"] = [None if item is None else encode_text(item) for item in self.writes]
        return out


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """Every command that a line may run."""

    commands: list[ParsedCommand]
    """The commands, in the order of the text; those found inside another stand right behind it."""

    _: KW_ONLY
    opaque: str | None = None
    """Why the line may run more than `commands`, if it may."""

    @classmethod
    def from_json(cls, value: Any) -> ParsedLine:
        """Reads the wire's form."""
        return cls(
            commands=[ParsedCommand.from_json(item) for item in value["commands"]],
            opaque=value.get("opaque"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "commands": [item.to_json() for item in self.commands],
        }
        if self.opaque is not None:
            out["opaque"] = self.opaque
        return out


@dataclass(frozen=True, slots=True)
class PatchApplied:
    """All were written."""

    paths: list[RawText]
    """The files that were written or removed, where they really are."""

    @classmethod
    def from_json(cls, value: Any) -> PatchApplied:
        """Reads the wire's form."""
        return cls(
            paths=[decode_text(item) for item in value["paths"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "paths": [encode_text(item) for item in self.paths],
        }


@dataclass(frozen=True, slots=True)
class PatchApproval:
    """File changes that the host is going to write."""

    changes: list[FileChange]
    """The changes, by file."""

    _: KW_ONLY
    grant_root: RawText | None = None
    """A directory that shall be writable for the rest of the session."""

    @classmethod
    def from_json(cls, value: Any) -> PatchApproval:
        """Reads the wire's form."""
        return cls(
            changes=[decode_file_change(item) for item in value["changes"]],
            grant_root=None if (given := value.get("grant_root")) is None else decode_text(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "changes": [encode_file_change(item) for item in self.changes],
        }
        if self.grant_root is not None:
            out["grant_root"] = encode_text(self.grant_root)
        return out


@dataclass(frozen=True, slots=True)
class PermissionAmendmentUnixSocket:
    """A Unix socket."""

    unix_socket: RawText

    @classmethod
    def from_json(cls, value: Any) -> PermissionAmendmentUnixSocket:
        """Reads the wire's form."""
        return cls(decode_text(value))

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return encode_text(self.unix_socket)


@dataclass(frozen=True, slots=True)
class Permissions:
    """Everything that a command may do. The default is nothing at all.

    A `SandboxPolicy` is what a person writes; resolving it is the only way to one of these. Additional
    permissions have the same type and are merged in, and an administrator's maximum has the same type
    and is intersected with.
    """

    _: KW_ONLY
    environment: EnvironmentPolicy | None = None
    """Which environment variables are seen."""
    files: list[FileRule] = field(default_factory=list)
    """Files, by path."""
    limits: ResourceLimits | None = None
    """How much of the machine may be used."""
    network: NetworkPolicy | None = None
    """Destinations on the network."""
    unix_sockets: list[RawText] = field(default_factory=list)
    """Unix sockets that may be connected to, by resolved path."""

    @classmethod
    def from_json(cls, value: Any) -> Permissions:
        """Reads the wire's form."""
        return cls(
            environment=None if (given := value.get("environment")) is None else EnvironmentPolicy.from_json(given),
            files=[FileRule.from_json(item) for item in value.get("files", ())],
            limits=None if (given := value.get("limits")) is None else ResourceLimits.from_json(given),
            network=None if (given := value.get("network")) is None else decode_network_policy(given),
            unix_sockets=[decode_text(item) for item in value.get("unix_sockets", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {}
        if self.environment is not None:
            out["environment"] = self.environment.to_json()
        if self.files:
            out["files"] = [item.to_json() for item in self.files]
        if self.limits is not None:
            out["limits"] = self.limits.to_json()
        if self.network is not None:
            out["network"] = encode_network_policy(self.network)
        if self.unix_sockets:
            out["unix_sockets"] = [encode_text(item) for item in self.unix_sockets]
        return out


@dataclass(frozen=True, slots=True)
class PermissionsApproval:
    """Permissions that a session wants in advance."""

    permissions: Permissions
    """What is asked for, on top of what the session has."""

    _: KW_ONLY
    justification: str | None = None
    """Why, in the words of the requester."""

    @classmethod
    def from_json(cls, value: Any) -> PermissionsApproval:
        """Reads the wire's form."""
        return cls(
            permissions=Permissions.from_json(value["permissions"]),
            justification=value.get("justification"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "permissions": self.permissions.to_json(),
        }
        if self.justification is not None:
            out["justification"] = self.justification
        return out


@dataclass(frozen=True, slots=True)
class PermissionsGranted:
    """They were granted."""

    permissions: Permissions
    """What was granted."""
    scope: PermissionsScope
    """For how long."""

    @classmethod
    def from_json(cls, value: Any) -> PermissionsGranted:
        """Reads the wire's form."""
        return cls(
            permissions=Permissions.from_json(value["permissions"]),
            scope=value["scope"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "permissions": self.permissions.to_json(),
            "scope": self.scope,
        }


@dataclass(frozen=True, slots=True)
class ProfileAmendment:
    """A permission profile to be saved: exactly this command, in exactly this workspace, may write these
    paths from now on.
    """

    file: RawText
    """The new file, among the user's profiles."""
    command: list[RawText]
    """The command, to the last word."""
    workspace: list[RawText]
    """The directories of the workspace."""
    write: list[RawText]
    """What may be written: each of these and everything below it, but for what stays protected there."""

    @classmethod
    def from_json(cls, value: Any) -> ProfileAmendment:
        """Reads the wire's form."""
        return cls(
            file=decode_text(value["file"]),
            command=[decode_text(item) for item in value["command"]],
            workspace=[decode_text(item) for item in value["workspace"]],
            write=[decode_text(item) for item in value["write"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "file": encode_text(self.file),
            "command": [encode_text(item) for item in self.command],
            "workspace": [encode_text(item) for item in self.workspace],
            "write": [encode_text(item) for item in self.write],
        }


@dataclass(frozen=True, slots=True)
class ReadOnlyAccessFullAccess:
    """Everything but credentials."""

    @classmethod
    def from_json(cls, value: Any) -> ReadOnlyAccessFullAccess:
        """Reads the wire's form."""
        return cls()

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "type": "full-access",
        }


@dataclass(frozen=True, slots=True)
class ReadOnlyAccessRestricted:
    """Only what is named."""

    _: KW_ONLY
    include_platform_defaults: bool = True
    """Also what ordinary programs need to start on this system."""
    readable_roots: list[RawText] = field(default_factory=list)
    """Directories that may be read."""

    @classmethod
    def from_json(cls, value: Any) -> ReadOnlyAccessRestricted:
        """Reads the wire's form."""
        return cls(
            include_platform_defaults=value.get("include_platform_defaults", True),
            readable_roots=[decode_text(item) for item in value.get("readable_roots", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "type": "restricted",
            "include_platform_defaults": self.include_platform_defaults,
        }
        if self.readable_roots:
            out["readable_roots"] = [encode_text(item) for item in self.readable_roots]
        return out


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a command was not run."""

    by: RefusedBy
    """Who refused."""
    reason: str
    """Why, and what to do about it."""

    @classmethod
    def from_json(cls, value: Any) -> Refused:
        """Reads the wire's form."""
        return cls(
            by=value["by"],
            reason=value["reason"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "by": self.by,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class RejectConfig:
    """Categories of questions that are refused instead of shown."""

    _: KW_ONLY
    mcp_elicitations: bool = False
    """Questions that an MCP server passes on."""
    request_permissions: bool = False
    """Requests for additional permissions."""
    rules: bool = False
    """Questions that a `prompt` rule asks."""
    sandbox_approval: bool = False
    """Questions to leave or widen the sandbox."""
    skill_approval: bool = False
    """Questions to run a skill's script."""

    @classmethod
    def from_json(cls, value: Any) -> RejectConfig:
        """Reads the wire's form."""
        return cls(
            mcp_elicitations=value.get("mcp_elicitations", False),
            request_permissions=value.get("request_permissions", False),
            rules=value.get("rules", False),
            sandbox_approval=value.get("sandbox_approval", False),
            skill_approval=value.get("skill_approval", False),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "mcp_elicitations": self.mcp_elicitations,
            "request_permissions": self.request_permissions,
            "rules": self.rules,
            "sandbox_approval": self.sandbox_approval,
            "skill_approval": self.skill_approval,
        }


@dataclass(frozen=True, slots=True)
class RememberedApproval:
    """An approval that holds for the session."""

    key: str
    """Its name, for `approval/forget`."""
    text: str
    """What it is for, in words for a person."""

    @classmethod
    def from_json(cls, value: Any) -> RememberedApproval:
        """Reads the wire's form."""
        return cls(
            key=value["key"],
            text=value["text"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "key": self.key,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class ReportedMatchHeuristicsRuleMatch:
    """No rule matched, and the fallback judged the command."""

    command: list[RawText | None]
    """The command. A word that is only known once the line runs is `null`."""
    decision: Decision
    """What the fallback said."""

    @classmethod
    def from_json(cls, value: Any) -> ReportedMatchHeuristicsRuleMatch:
        """Reads the wire's form."""
        return cls(
            command=[None if item is None else decode_text(item) for item in value["command"]],
            decision=value["decision"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "command": [None if item is None else encode_text(item) for item in self.command],
            "decision": self.decision,
        }


@dataclass(frozen=True, slots=True)
class ReportedMatchPrefixRuleMatch:
    """A prefix rule matched, or may match."""

    matched_prefix: list[RawText]
    """The words that matched."""
    decision: Decision
    """What the match asks for."""

    _: KW_ONLY
    justification: str | None = None
    """Why the rule exists."""
    outside: bool = False
    """Whether the rule says `outside = True`, which codex does not know. Absent where it does not."""
    profiles: list[str] = field(default_factory=list)
    """The permission profiles that the rule gives to the command, which codex does not know."""
    resolved_program: RawText | None = None
    """The path that was given, where the rule matched by the name of the program."""

    @classmethod
    def from_json(cls, value: Any) -> ReportedMatchPrefixRuleMatch:
        """Reads the wire's form."""
        return cls(
            matched_prefix=[decode_text(item) for item in value["matchedPrefix"]],
            decision=value["decision"],
            justification=value.get("justification"),
            outside=value.get("outside", False),
            profiles=value.get("profiles", []),
            resolved_program=None if (given := value.get("resolvedProgram")) is None else decode_text(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "matchedPrefix": [encode_text(item) for item in self.matched_prefix],
            "decision": self.decision,
        }
        if self.justification is not None:
            out["justification"] = self.justification
        if self.outside:
            out["outside"] = self.outside
        if self.profiles:
            out["profiles"] = self.profiles
        if self.resolved_program is not None:
            out["resolvedProgram"] = encode_text(self.resolved_program)
        return out


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path as it was given and where it really leads."""

    given: RawText
    """As it was given."""
    resolved: RawText
    """Where it leads, with all symbolic links followed."""

    @classmethod
    def from_json(cls, value: Any) -> ResolvedPath:
        """Reads the wire's form."""
        return cls(
            given=decode_text(value["given"]),
            resolved=decode_text(value["resolved"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "given": encode_text(self.given),
            "resolved": encode_text(self.resolved),
        }


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Upper limits. What is absent is not limited; a limit of zero is refused."""

    _: KW_ONLY
    cpu_seconds: int | None = None
    """Processor time of each process, in seconds."""
    file_size_bytes: int | None = None
    """Size of each file that is written, in bytes."""
    memory_bytes: int | None = None
    """Memory, in bytes: of the whole tree where the system can count that, else of each process."""
    open_files: int | None = None
    """Open files of each process."""
    processes: int | None = None
    """Processes and threads of the whole tree."""

    @classmethod
    def from_json(cls, value: Any) -> ResourceLimits:
        """Reads the wire's form."""
        return cls(
            cpu_seconds=value.get("cpu_seconds"),
            file_size_bytes=value.get("file_size_bytes"),
            memory_bytes=value.get("memory_bytes"),
            open_files=value.get("open_files"),
            processes=value.get("processes"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {}
        if self.cpu_seconds is not None:
            out["cpu_seconds"] = self.cpu_seconds
        if self.file_size_bytes is not None:
            out["file_size_bytes"] = self.file_size_bytes
        if self.memory_bytes is not None:
            out["memory_bytes"] = self.memory_bytes
        if self.open_files is not None:
            out["open_files"] = self.open_files
        if self.processes is not None:
            out["processes"] = self.processes
        return out


@dataclass(frozen=True, slots=True)
class RiskAssessment:
    """How risky a program took a request to be. It may be wrong, and it decides nothing."""

    level: RiskLevel
    """How much could go wrong."""
    category: str
    """What kind of harm is meant, such as `data_loss` or `network_access`."""
    summary: str
    """What could go wrong, in a sentence or two."""

    @classmethod
    def from_json(cls, value: Any) -> RiskAssessment:
        """Reads the wire's form."""
        return cls(
            level=value["level"],
            category=value["category"],
            summary=value["summary"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "level": self.level,
            "category": self.category,
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class SandboxPolicyDangerFullAccess:
    """No sandbox."""

    @classmethod
    def from_json(cls, value: Any) -> SandboxPolicyDangerFullAccess:
        """Reads the wire's form."""
        return cls()

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "type": "danger-full-access",
        }


@dataclass(frozen=True, slots=True)
class SandboxPolicyExternalSandbox:
    """Another program's sandbox is around this process already."""

    _: KW_ONLY
    network_access: NetworkAccess | None = None
    """Whether that one lets the network through."""

    @classmethod
    def from_json(cls, value: Any) -> SandboxPolicyExternalSandbox:
        """Reads the wire's form."""
        return cls(
            network_access=value.get("network_access"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "type": "external-sandbox",
        }
        if self.network_access is not None:
            out["network_access"] = self.network_access
        return out


@dataclass(frozen=True, slots=True)
class SandboxPolicyReadOnly:
    """Nothing is written."""

    _: KW_ONLY
    access: ReadOnlyAccess | None = None
    """What may be read."""
    network_access: bool = False
    """Whether the network may be used."""

    @classmethod
    def from_json(cls, value: Any) -> SandboxPolicyReadOnly:
        """Reads the wire's form."""
        return cls(
            access=None if (given := value.get("access")) is None else decode_read_only_access(given),
            network_access=value.get("network_access", False),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "type": "read-only",
            "network_access": self.network_access,
        }
        if self.access is not None:
            out["access"] = encode_read_only_access(self.access)
        return out


@dataclass(frozen=True, slots=True)
class SandboxPolicyWorkspaceWrite:
    """The workspace is written."""

    _: KW_ONLY
    exclude_slash_tmp: bool = False
    """Give the command no private `/tmp`."""
    exclude_tmpdir_env_var: bool = False
    """Give the command no private directory at `$TMPDIR`."""
    network_access: bool = False
    """Whether the network may be used."""
    read_only_access: ReadOnlyAccess | None = None
    """What may be read."""
    writable_roots: list[RawText] = field(default_factory=list)
    """Directories that may be written besides the session's workspace."""

    @classmethod
    def from_json(cls, value: Any) -> SandboxPolicyWorkspaceWrite:
        """Reads the wire's form."""
        return cls(
            exclude_slash_tmp=value.get("exclude_slash_tmp", False),
            exclude_tmpdir_env_var=value.get("exclude_tmpdir_env_var", False),
            network_access=value.get("network_access", False),
            read_only_access=None if (given := value.get("read_only_access")) is None else decode_read_only_access(given),
            writable_roots=[decode_text(item) for item in value.get("writable_roots", ())],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "type": "workspace-write",
            "exclude_slash_tmp": self.exclude_slash_tmp,
            "exclude_tmpdir_env_var": self.exclude_tmpdir_env_var,
            "network_access": self.network_access,
        }
        if self.read_only_access is not None:
            out["read_only_access"] = encode_read_only_access(self.read_only_access)
        if self.writable_roots:
            out["writable_roots"] = [encode_text(item) for item in self.writable_roots]
        return out


@dataclass(frozen=True, slots=True)
class SaveCommandRule:
    """SaveCommandRule."""

    proposed_execpolicy_amendment: list[RawText]

    @classmethod
    def from_json(cls, value: Any) -> SaveCommandRule:
        """Reads the wire's form."""
        return cls(
            proposed_execpolicy_amendment=[decode_text(item) for item in value["proposed_execpolicy_amendment"]],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "proposed_execpolicy_amendment": [encode_text(item) for item in self.proposed_execpolicy_amendment],
        }


@dataclass(frozen=True, slots=True)
class SaveNetworkRule:
    """SaveNetworkRule."""

    network_policy_amendment: NetworkPolicyAmendment

    @classmethod
    def from_json(cls, value: Any) -> SaveNetworkRule:
        """Reads the wire's form."""
        return cls(
            network_policy_amendment=NetworkPolicyAmendment.from_json(value["network_policy_amendment"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "network_policy_amendment": self.network_policy_amendment.to_json(),
        }


@dataclass(frozen=True, slots=True)
class SaveProfile:
    """SaveProfile."""

    proposed_profile_amendment: ProfileAmendment

    @classmethod
    def from_json(cls, value: Any) -> SaveProfile:
        """Reads the wire's form."""
        return cls(
            proposed_profile_amendment=ProfileAmendment.from_json(value["proposed_profile_amendment"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "proposed_profile_amendment": self.proposed_profile_amendment.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server program."""

    name: str
    """`stockade`."""
    version: str
    """Its version."""

    @classmethod
    def from_json(cls, value: Any) -> ServerInfo:
        """Reads the wire's form."""
        return cls(
            name=value["name"],
            version=value["version"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "name": self.name,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of the server."""

    frame_bytes: int
    """Bytes of a line from a client."""
    connections: int
    """Connections at a time."""
    requests: int
    """Requests of one connection at a time, besides `command/run`."""
    runs: int
    """`command/run` requests of one connection at a time."""
    request_bytes: int
    """Bytes of the requests of one connection at a time. Requests of at most 8192 bytes don't count."""
    request_bytes_of_all_connections: int
    """Bytes of the requests of all connections at a time. Requests of at most 8192 bytes don't count."""
    answer_bytes: int
    """Bytes of responses and questions that are under way to one connection. Further ones wait."""
    notifications: int
    """Notifications, besides a command's output, that wait for one connection. With more it is closed."""
    notification_bytes: int
    """Bytes of those notifications. With more the connection is closed."""
    sessions: int
    """Sessions at a time."""
    commands: int
    """Running commands of a session."""
    commands_of_all_sessions: int
    """Running commands of all sessions."""
    questions: int
    """Open questions of a session."""
    questions_of_all_sessions: int
    """Open questions of all sessions."""
    output_under_way_bytes: int
    """Bytes of a command's output that are under way to one connection."""
    output_kept_bytes: int
    """Bytes of a command's output that are kept for `command/attach`."""
    output_kept_bytes_of_session: int
    """Bytes of output that are kept of the ended commands of a session. With more, the oldest commands are
    dropped.
    """
    output_kept_bytes_of_all_sessions: int
    """Bytes of output that are kept of all commands of all sessions. With more, the ended commands that
    are the oldest of all are dropped, and running commands keep half of `output_under_way_bytes` each.
    """
    ended_commands: int
    """Ended commands that a session keeps."""
    ended_commands_ms: int
    """How long an ended command is kept, in milliseconds."""

    @classmethod
    def from_json(cls, value: Any) -> ServerLimits:
        """Reads the wire's form."""
        return cls(
            frame_bytes=value["frame_bytes"],
            connections=value["connections"],
            requests=value["requests"],
            runs=value["runs"],
            request_bytes=value["request_bytes"],
            request_bytes_of_all_connections=value["request_bytes_of_all_connections"],
            answer_bytes=value["answer_bytes"],
            notifications=value["notifications"],
            notification_bytes=value["notification_bytes"],
            sessions=value["sessions"],
            commands=value["commands"],
            commands_of_all_sessions=value["commands_of_all_sessions"],
            questions=value["questions"],
            questions_of_all_sessions=value["questions_of_all_sessions"],
            output_under_way_bytes=value["output_under_way_bytes"],
            output_kept_bytes=value["output_kept_bytes"],
            output_kept_bytes_of_session=value["output_kept_bytes_of_session"],
            output_kept_bytes_of_all_sessions=value["output_kept_bytes_of_all_sessions"],
            ended_commands=value["ended_commands"],
            ended_commands_ms=value["ended_commands_ms"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "frame_bytes": self.frame_bytes,
            "connections": self.connections,
            "requests": self.requests,
            "runs": self.runs,
            "request_bytes": self.request_bytes,
            "request_bytes_of_all_connections": self.request_bytes_of_all_connections,
            "answer_bytes": self.answer_bytes,
            "notifications": self.notifications,
            "notification_bytes": self.notification_bytes,
            "sessions": self.sessions,
            "commands": self.commands,
            "commands_of_all_sessions": self.commands_of_all_sessions,
            "questions": self.questions,
            "questions_of_all_sessions": self.questions_of_all_sessions,
            "output_under_way_bytes": self.output_under_way_bytes,
            "output_kept_bytes": self.output_kept_bytes,
            "output_kept_bytes_of_session": self.output_kept_bytes_of_session,
            "output_kept_bytes_of_all_sessions": self.output_kept_bytes_of_all_sessions,
            "ended_commands": self.ended_commands,
            "ended_commands_ms": self.ended_commands_ms,
        }


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A session's policy changed."""

    session_id: str
    """The session."""
    ask: AskForApproval
    """When it asks."""
    sandbox: SandboxPolicy
    """How much commands are trusted with."""

    @classmethod
    def from_json(cls, value: Any) -> SessionChanged:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
        }


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session is closed."""

    session_id: str
    """The session."""
    why: str
    """Why."""

    @classmethod
    def from_json(cls, value: Any) -> SessionClosed:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            why=value["why"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class SessionNotice:
    """Something worth knowing, in a sentence for a person."""

    session_id: str
    """The session."""
    text: str
    """The sentence."""

    @classmethod
    def from_json(cls, value: Any) -> SessionNotice:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            text=value["text"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class SessionOpenResult:
    """The new session, and the secret that lets others join it."""

    session_id: str
    """The session."""
    capability: str
    """The secret for `session/attach`. It is given out here and nowhere else."""
    cwd: RawText
    """Where commands start."""
    ask: AskForApproval
    """When it asks."""
    sandbox: SandboxPolicy
    """How much commands are trusted with."""
    permissions: Permissions
    """What that grants."""
    notices: list[str]
    """What is worth knowing, in sentences for a person."""

    @classmethod
    def from_json(cls, value: Any) -> SessionOpenResult:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            capability=value["capability"],
            cwd=decode_text(value["cwd"]),
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
            permissions=Permissions.from_json(value["permissions"]),
            notices=value["notices"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "capability": self.capability,
            "cwd": encode_text(self.cwd),
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
            "permissions": self.permissions.to_json(),
            "notices": self.notices,
        }


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session is like."""

    session_id: str
    """The session."""
    cwd: RawText
    """Where commands start."""
    ask: AskForApproval
    """When it asks."""
    sandbox: SandboxPolicy
    """How much commands are trusted with."""
    permissions: Permissions
    """What that grants."""
    notices: list[str]
    """What is worth knowing, in sentences for a person."""

    @classmethod
    def from_json(cls, value: Any) -> SessionState:
        """Reads the wire's form."""
        return cls(
            session_id=value["session_id"],
            cwd=decode_text(value["cwd"]),
            ask=decode_ask_for_approval(value["ask"]),
            sandbox=decode_sandbox_policy(value["sandbox"]),
            permissions=Permissions.from_json(value["permissions"]),
            notices=value["notices"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "session_id": self.session_id,
            "cwd": encode_text(self.cwd),
            "ask": encode_ask_for_approval(self.ask),
            "sandbox": encode_sandbox_policy(self.sandbox),
            "permissions": self.permissions.to_json(),
            "notices": self.notices,
        }


@dataclass(frozen=True, slots=True)
class Signaled:
    """A signal ended it."""

    signal: int
    """The signal's number."""
    execution: Execution
    """The run."""

    @classmethod
    def from_json(cls, value: Any) -> Signaled:
        """Reads the wire's form."""
        return cls(
            signal=value["signal"],
            execution=Execution.from_json(value["execution"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "signal": self.signal,
            "execution": self.execution.to_json(),
        }


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of a pseudo-terminal, in characters."""

    rows: int
    """Lines."""
    columns: int
    """Characters in a line."""

    @classmethod
    def from_json(cls, value: Any) -> TerminalSize:
        """Reads the wire's form."""
        return cls(
            rows=value["rows"],
            columns=value["columns"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "rows": self.rows,
            "columns": self.columns,
        }


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It took too long, and was ended."""

    execution: Execution
    """The run."""

    @classmethod
    def from_json(cls, value: Any) -> TimedOut:
        """Reads the wire's form."""
        return cls(
            execution=Execution.from_json(value["execution"]),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "execution": self.execution.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ToolApproved:
    """It may."""

    @classmethod
    def from_json(cls, value: Any) -> ToolApproved:
        """Reads the wire's form."""
        return cls()

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {}


@dataclass(frozen=True, slots=True)
class ToolCallApproval:
    """A call of a tool."""

    server: str
    """The MCP server that has the tool."""
    tool: str
    """The tool."""

    _: KW_ONLY
    arguments: dict[str, Any] = field(default_factory=dict)
    """What it is called with."""
    remember: RememberArguments | None = None
    """What an approval for the session would speak of. In a request, what that says counts."""

    @classmethod
    def from_json(cls, value: Any) -> ToolCallApproval:
        """Reads the wire's form."""
        return cls(
            server=value["server"],
            tool=value["tool"],
            arguments=value.get("arguments", {}),
            remember=value.get("remember"),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "server": self.server,
            "tool": self.tool,
        }
        if self.arguments:
            out["arguments"] = self.arguments
        if self.remember is not None:
            out["remember"] = self.remember
        return out


@dataclass(frozen=True, slots=True)
class TrailDamageUnexplained:
    """Something that no writer leaves behind."""

    what: str
    """What."""

    @classmethod
    def from_json(cls, value: Any) -> TrailDamageUnexplained:
        """Reads the wire's form."""
        return cls(
            what=value["what"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "what": self.what,
        }


@dataclass(frozen=True, slots=True)
class TrailDamageUnfinished:
    """The line before this record is the beginning of one that was never finished: its writer was killed,
    or the disk was full. It is kept, and known by its hash.
    """

    bytes: int
    """How many bytes there are of it."""
    hash: str
    """Their hash."""

    @classmethod
    def from_json(cls, value: Any) -> TrailDamageUnfinished:
        """Reads the wire's form."""
        return cls(
            bytes=value["bytes"],
            hash=value["hash"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "bytes": self.bytes,
            "hash": self.hash,
        }


@dataclass(frozen=True, slots=True)
class TrailFlaw:
    """A record that is not as it should be."""

    file: RawText
    """The file it stands in."""
    line: int
    """The line, counted from 1."""
    sequence: int
    """The place in the trail that it has, or should have."""
    flaw: str
    """What is wrong, in words for a person."""

    @classmethod
    def from_json(cls, value: Any) -> TrailFlaw:
        """Reads the wire's form."""
        return cls(
            file=decode_text(value["file"]),
            line=value["line"],
            sequence=value["sequence"],
            flaw=value["flaw"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "file": encode_text(self.file),
            "line": self.line,
            "sequence": self.sequence,
            "flaw": self.flaw,
        }


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A file that changes, and perhaps moves."""

    path: RawText
    """Where it is now."""
    unified_diff: RawText
    """What changes, as a unified diff."""

    _: KW_ONLY
    move_path: RawText | None = None
    """Where it will be, if it moves."""

    @classmethod
    def from_json(cls, value: Any) -> UpdateFile:
        """Reads the wire's form."""
        return cls(
            path=decode_text(value["path"]),
            unified_diff=decode_text(value["unified_diff"]),
            move_path=None if (given := value.get("move_path")) is None else decode_text(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "path": encode_text(self.path),
            "unified_diff": encode_text(self.unified_diff),
        }
        if self.move_path is not None:
            out["move_path"] = encode_text(self.move_path)
        return out


@dataclass(frozen=True, slots=True)
class Violation:
    """A denied act, who tried it, what stood against it, and the least that would have allowed it."""

    operation: Operation
    """What was tried."""
    target: ViolationTarget
    """On what."""
    evidence: Evidence
    """How it is known."""

    _: KW_ONLY
    amendment: PermissionAmendment | None = None
    """The least that would have allowed it; absent where nothing may."""
    pid: int | None = None
    """The process that tried."""
    program: RawText | None = None
    """The program of that process."""
    rule: DenyingRule | None = None
    """What stood against it."""

    @classmethod
    def from_json(cls, value: Any) -> Violation:
        """Reads the wire's form."""
        return cls(
            operation=value["operation"],
            target=decode_violation_target(value["target"]),
            evidence=value["evidence"],
            amendment=None if (given := value.get("amendment")) is None else decode_permission_amendment(given),
            pid=value.get("pid"),
            program=None if (given := value.get("program")) is None else decode_text(given),
            rule=None if (given := value.get("rule")) is None else decode_denying_rule(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "operation": self.operation,
            "target": encode_violation_target(self.target),
            "evidence": self.evidence,
        }
        if self.amendment is not None:
            out["amendment"] = encode_permission_amendment(self.amendment)
        if self.pid is not None:
            out["pid"] = self.pid
        if self.program is not None:
            out["program"] = encode_text(self.program)
        if self.rule is not None:
            out["rule"] = encode_denying_rule(self.rule)
        return out


@dataclass(frozen=True, slots=True)
class ViolationTargetCommand:
    """A program that the command started, with its arguments. A long one is cut."""

    command: list[RawText]

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetCommand:
        """Reads the wire's form."""
        return cls([decode_text(item) for item in value])

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return [encode_text(item) for item in self.command]


@dataclass(frozen=True, slots=True)
class ViolationTargetLimit:
    """A limit, by its field in `ResourceLimits`."""

    limit: str

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetLimit:
        """Reads the wire's form."""
        return cls(value)

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return self.limit


@dataclass(frozen=True, slots=True)
class ViolationTargetPath:
    """A file."""

    path: RawText

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetPath:
        """Reads the wire's form."""
        return cls(decode_text(value))

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return encode_text(self.path)


@dataclass(frozen=True, slots=True)
class ViolationTargetProcess:
    """A process outside."""

    process: int

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetProcess:
        """Reads the wire's form."""
        return cls(value)

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return self.process


@dataclass(frozen=True, slots=True)
class ViolationTargetSystemCall:
    """A system call, by name."""

    system_call: str

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetSystemCall:
        """Reads the wire's form."""
        return cls(value)

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return self.system_call


@dataclass(frozen=True, slots=True)
class ViolationTargetUnixSocket:
    """A Unix socket."""

    unix_socket: RawText

    @classmethod
    def from_json(cls, value: Any) -> ViolationTargetUnixSocket:
        """Reads the wire's form."""
        return cls(decode_text(value))

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return encode_text(self.unix_socket)


@dataclass(frozen=True, slots=True)
class WholeCommand:
    """A command that is too long for a record: what tells it from every other."""

    words: int
    """How many words it has."""
    bytes: int
    """How many bytes these have together."""
    sha256: str
    """The SHA-256 of all words, without secrets, each followed by a NUL byte."""

    @classmethod
    def from_json(cls, value: Any) -> WholeCommand:
        """Reads the wire's form."""
        return cls(
            words=value["words"],
            bytes=value["bytes"],
            sha256=value["sha256"],
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        return {
            "words": self.words,
            "bytes": self.bytes,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True)
class WriteApproval:
    """A write that a running command wants and its policy denies."""

    operation: WriteOperation
    """What is to be done."""
    paths: list[RawText]
    """Every path that has to be written for it: both ends of a move, the source of a hard link."""
    directories: list[RawText]
    """What may be written after a yes for the run or for the session: each of these and everything below
    it, but for what stays protected there.
    """

    _: KW_ONLY
    program: RawText | None = None
    """The program that wants it."""
    proposed_profile_amendment: ProfileAmendment | None = None
    """A permission profile that would save this question in future."""

    @classmethod
    def from_json(cls, value: Any) -> WriteApproval:
        """Reads the wire's form."""
        return cls(
            operation=value["operation"],
            paths=[decode_text(item) for item in value["paths"]],
            directories=[decode_text(item) for item in value["directories"]],
            program=None if (given := value.get("program")) is None else decode_text(given),
            proposed_profile_amendment=None if (given := value.get("proposed_profile_amendment")) is None else ProfileAmendment.from_json(given),
        )

    def to_json(self) -> Any:
        """Writes the wire's form."""
        out: dict[str, Any] = {
            "operation": self.operation,
            "paths": [encode_text(item) for item in self.paths],
            "directories": [encode_text(item) for item in self.directories],
        }
        if self.program is not None:
            out["program"] = encode_text(self.program)
        if self.proposed_profile_amendment is not None:
            out["proposed_profile_amendment"] = self.proposed_profile_amendment.to_json()
        return out


Access: TypeAlias = Literal["none", "scratch", "read", "write"]
"""What may be done with a file of the host, in the order of what is exposed.

- `none`: Nothing: it can neither be read nor written.
- `scratch`: The host's files are out of reach, but an empty private directory stands in their place. It
  can be written and is gone when the command ends.
- `read`: It can be read and executed.
- `write`: It can be read, written, created, renamed and removed.
"""


ApprovalSubject: TypeAlias = (
    CommandApproval
    | PatchApproval
    | NetworkApproval
    | WriteApproval
    | PermissionsApproval
    | ToolCallApproval
    | ElicitationApproval
)
"""What is asked."""


AskForApproval: TypeAlias = (
    Literal["untrusted", "on-failure", "on-request", "never"]
    | RejectConfig
    | GranularConfig
)
"""When to ask before, or after, a command is run.

- `untrusted`: Before everything that is not known to be a harmless read.
- `on-failure`: When the sandbox denied something that a wider run could do.
- `on-request`: When the command itself asks for more, or is dangerous.
- `never`: Never: what would have to be asked is refused.
"""


AuditEvent: TypeAlias = (
    AuditEventRequested
    | AuditEventPatchRequested
    | AuditEventToolRequested
    | AuditEventPermissionsRequested
    | AuditEventDecided
    | AuditEventAsked
    | AuditEventAnswered
    | AuditEventConnected
    | AuditEventProgramJudged
    | AuditEventWrittenOutside
    | AuditEventPatched
    | AuditEventToolCalled
    | AuditEventToolApproved
    | AuditEventPermissionsGranted
    | AuditEventFailed
    | Refused
    | AuditEventEnded
    | AuditEventSessionOpened
    | AuditEventSessionChanged
    | AuditEventSessionClosed
    | AuditEventUnrecorded
    | AuditEventRepaired
)
"""What happened. Secrets in arguments are redacted before a record is made."""


CommandRole: TypeAlias = Literal["runs", "wrapper"]
"""Whether a command does something itself or only starts another.

- `runs`: It does its own work and is judged in full.
- `wrapper`: It only starts the command behind it with the same rights (`timeout 5 git status`). That
  one is judged in its place; rules that restrict the wrapper still count.
"""


CommandState: TypeAlias = Literal["running", "ended"]
"""Whether a command still runs.

- `running`: It runs, or waits for an answer.
- `ended`: It has ended.
"""


Decision: TypeAlias = Literal["allow", "prompt", "forbidden"]
"""What a rule, or all rules together, say of a command. The strictest wins:

- `allow`: It may, without asking.
- `prompt`: A person has to be asked.
- `forbidden`: It may not, and there is no question.
"""


DecisionSource: TypeAlias = (
    Literal["fallback", "approval_policy", "reviewer", "session_memory", "external"]
    | DecisionSourceRule
)
"""Who or what decided.

- `fallback`: The table of known commands.
- `approval_policy`: The approval policy.
- `reviewer`: A person, or a program that answers in their place.
- `session_memory`: An earlier answer that holds for the session.
- `external`: A policy outside, before the request arrived.
"""


DenyingRule: TypeAlias = Literal["not_granted"] | FileRule | HostRule | DenyingRuleCommand | DenyingRuleLayer
"""What stood against an act.

- `not_granted`: No rule grants it.
"""


ElicitationRequestResult: TypeAlias = ElicitationAccepted | ElicitationDeclined | ElicitationCancelled
"""What the MCP server is told, in MCP's words."""


EnvironmentInherit: TypeAlias = Literal["none", "core", "all"]
"""What the environment of a command starts from.

- `none`: Nothing.
- `core`: The handful of variables that programs need to find their way.
- `all`: Everything.
"""


EscalationExecution: TypeAlias = Literal["turn_default", "unsandboxed"] | Permissions
"""What a run, or the run after a denial, may have. Never an overloaded "nothing".

- `turn_default`: What the session's policy grants.
- `unsandboxed`: No sandbox, but for denials that a person wrote.
"""


Evidence: TypeAlias = Literal["observed", "reported", "guessed"]
"""How a denial is known, the surest first.

- `observed`: The supervisor saw the act itself.
- `reported`: The backend or the kernel reported it.
- `guessed`: The command's output looks like it. Output can say anything.
"""


ExecApprovalRequirement: TypeAlias = (
    ExecApprovalRequirementSkip
    | ExecApprovalRequirementNeedsApproval
    | ExecApprovalRequirementForbidden
)
"""What has to happen before a command may start."""


FileChange: TypeAlias = AddFile | DeleteFile | UpdateFile
"""One file's change."""


FileTarget: TypeAlias = FileTargetPath | FileTargetGlob
"""What a rule speaks of."""


HostsThrough: TypeAlias = Literal["sandbox", "proxy"]
"""How a command reaches the hosts that are granted.

- `sandbox`: By itself: the sandbox sees its connections, whatever program makes them.
- `proxy`: By a proxy on this machine, for programs that look at the variables for one.
"""


HttpMethods: TypeAlias = Literal["read_only", "any"]
"""Which HTTP requests pass.

- `read_only`: Only `GET`, `HEAD` and `OPTIONS`. Where the method can't be seen, the connection is
  refused.
- `any`: Every method.
"""


LayerStatus: TypeAlias = Literal["not_enforced", "partly_enforced", "fully_enforced"]
"""Whether a layer held.

- `not_enforced`: It was not there.
- `partly_enforced`: It held in part; the detail says which.
- `fully_enforced`: It held.
"""


NetworkAccess: TypeAlias = Literal["restricted", "enabled"]
"""Whether an external sandbox lets the network through.

- `restricted`: It does not.
- `enabled`: It does.
"""


NetworkMode: TypeAlias = Literal["off", "limited", "hosts", "full"]
"""The network of a command.

- `off`: None at all.
- `limited`: The hosts of `allow_hosts`, others are asked for, and only `GET`, `HEAD` and `OPTIONS` of
  plain HTTP pass: what can't be seen is refused.
- `hosts`: The hosts of `allow_hosts`; others are asked for.
- `full`: Whatever the host itself can reach.
"""


NetworkPolicy: TypeAlias = Literal["off", "full"] | HostRules
"""The network of a command. Nothing is reachable that is not named.

- `off`: None at all.
- `full`: Whatever the host itself can reach.
"""


NetworkPolicyRuleAction: TypeAlias = Literal["allow", "deny"]
"""What a saved network rule does.

- `allow`: Lets the connection through.
- `deny`: Refuses it.
"""


NetworkProtocol: TypeAlias = Literal["http", "https", "tcp", "udp"]
"""What goes over a connection, as far as a rule cares.

- `http`: Plain HTTP, whose requests can be seen.
- `https`: TLS, usually HTTP inside it.
- `tcp`: Any other stream.
- `udp`: Datagrams.
"""


Operation: TypeAlias = (
    Literal["read", "write", "execute", "connect", "listen", "process", "system_call", "exceed"]
)
"""What was tried.

- `read`: Reading a file or listing a directory.
- `write`: Writing, creating, removing, renaming, or changing a file's attributes.
- `execute`: Running a program.
- `connect`: Connecting or sending to a destination.
- `listen`: Waiting for connections.
- `process`: Signalling or tracing another process.
- `system_call`: A system call that no sandboxed command may use.
- `exceed`: Using more of the machine than was granted.
"""


Outcome: TypeAlias = Exited | Denied | Refused | TimedOut | Cancelled | Signaled
"""How a request ended."""


OutputStream: TypeAlias = Literal["stdout", "stderr"]
"""Where a command writes to. A terminal is `stdout`.

- `stdout`: Standard output, or the terminal.
- `stderr`: Standard error.
"""


PatchApplyResult: TypeAlias = PatchApplied | Refused
"""What became of the changes."""


PermissionAmendment: TypeAlias = FileRule | HostRule | PermissionAmendmentUnixSocket
"""The least permission that would have allowed an act."""


PermissionsRequestResult: TypeAlias = PermissionsGranted | Refused
"""What became of the request for permissions."""


PermissionsScope: TypeAlias = Literal["session", "once"]
"""How long granted permissions hold.

- `session`: For every further command of the session.
- `once`: For one request that names them as its escalation.
"""


ProgramProblem: TypeAlias = Literal["not_found", "not_executable"]
"""Why a program could not be started.

- `not_found`: There is none of this name.
- `not_executable`: It can't be executed.
"""


ReadOnlyAccess: TypeAlias = ReadOnlyAccessFullAccess | ReadOnlyAccessRestricted
"""What a sandboxed command may read."""


RefusedBy: TypeAlias = (
    Literal["rule", "approval_policy", "reviewer", "timeout", "administrator", "sandbox", "audit", "usage"]
)
"""Who refused.

- `rule`: A rule forbids it.
- `approval_policy`: It would have to be asked, and the approval policy does not ask.
- `reviewer`: The person, or the program that answers in their place, said no.
- `timeout`: There was no answer in time.
- `administrator`: An administrator's maximum.
- `sandbox`: What was asked for can't be enforced on this host.
- `audit`: The audit trail is required and can't be written.
- `usage`: The arguments, the settings or the rules can't be understood, so that nothing was decided.
"""


RememberArguments: TypeAlias = Literal["exact", "any"]
"""What an approval of a tool call for the session speaks of.

- `exact`: Calls with exactly these arguments.
- `any`: Calls with any arguments.
"""


ReportedMatch: TypeAlias = ReportedMatchPrefixRuleMatch | ReportedMatchHeuristicsRuleMatch
"""One match of a report."""


ReviewDecision: TypeAlias = (
    Literal["approved", "approved_for_run", "approved_for_session", "denied", "denied_for_run", "timed_out", "abort"]
    | SaveCommandRule
    | SaveProfile
    | SaveNetworkRule
    | DeniedBecause
)
"""The answer to an approval request."""


RiskLevel: TypeAlias = Literal["low", "medium", "high"]
"""How much could go wrong.

- `low`: Little.
- `medium`: Something that takes work to undo.
- `high`: Something that can't be undone, or reaches beyond this machine.
"""


RuleSource: TypeAlias = (
    Literal["administrator", "policy", "protected_metadata", "credential_mask", "approval", "own_files", "own_files_link"]
)
"""Where a rule comes from, the firmest first.

- `administrator`: An administrator's upper bound.
- `policy`: A person wrote it, in a policy or on the command line.
- `protected_metadata`: Metadata that would let a command take over later (`.git`, …). Naming the path
  lifts it.
- `credential_mask`: Well-known credentials. Naming the path lifts it.
- `approval`: It was approved for this run.
- `own_files`: Stockade's own settings, rules, profiles, state and trail: an upper bound for the path
  and everything below it, which no other rule and no grant exceeds.
- `own_files_link`: A link on the way to those: an upper bound for the link, and not for what is behind
  it.
"""


SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "external-sandbox", "danger-full-access"]
"""How much a command is trusted with, the least first.

- `read-only`: Nothing is written.
- `workspace-write`: The workspace is written.
- `external-sandbox`: Another sandbox is around this process already.
- `danger-full-access`: No sandbox.
"""


SandboxPolicy: TypeAlias = (
    SandboxPolicyDangerFullAccess
    | SandboxPolicyReadOnly
    | SandboxPolicyExternalSandbox
    | SandboxPolicyWorkspaceWrite
)
"""How much a command is trusted with."""


SignalName: TypeAlias = (
    Literal["interrupt", "terminate", "quit", "hangup", "kill", "stop", "continue", "usr1", "usr2"]
)
"""A signal.

- `interrupt`: SIGINT.
- `terminate`: SIGTERM.
- `quit`: SIGQUIT.
- `hangup`: SIGHUP.
- `kill`: SIGKILL.
- `stop`: SIGTSTP, as Ctrl-Z sends it.
- `continue`: SIGCONT.
- `usr1`: SIGUSR1.
- `usr2`: SIGUSR2.
"""


StdinKind: TypeAlias = Literal["none", "pipe"]
"""What the standard input of a command is.

- `none`: Empty.
- `pipe`: What `command/write` sends.
"""


ToolReviewResult: TypeAlias = ToolApproved | Refused
"""Whether the tool may be called."""


TrailDamage: TypeAlias = TrailDamageUnfinished | TrailDamageUnexplained
"""What a writer found at the end of the trail."""


ViolationTarget: TypeAlias = (
    ViolationTargetPath
    | Destination
    | ViolationTargetUnixSocket
    | ViolationTargetSystemCall
    | ViolationTargetProcess
    | ViolationTargetLimit
    | ViolationTargetCommand
)
"""On what it was tried."""


WriteOperation: TypeAlias = Literal["write", "create", "make_directory", "replace"]
"""What a write does.

- `write`: Writes a file that exists, or changes its attributes.
- `create`: Makes a file or a link.
- `make_directory`: Makes a directory.
- `replace`: Removes, renames or replaces a name.
"""


def decode_approval_subject(value: Any) -> ApprovalSubject:
    """Reads the wire's form of `ApprovalSubject`."""
    ((tag, body),) = value.items()
    if tag == "command":
        return CommandApproval.from_json(body)
    if tag == "patch":
        return PatchApproval.from_json(body)
    if tag == "network":
        return NetworkApproval.from_json(body)
    if tag == "write":
        return WriteApproval.from_json(body)
    if tag == "permissions":
        return PermissionsApproval.from_json(body)
    if tag == "tool_call":
        return ToolCallApproval.from_json(body)
    if tag == "elicitation":
        return ElicitationApproval.from_json(body)
    raise ValueError(f"ApprovalSubject: unknown variant {tag!r}")


def encode_approval_subject(value: ApprovalSubject) -> Any:
    """Writes the wire's form of `ApprovalSubject`."""
    if isinstance(value, CommandApproval):
        return {"command": value.to_json()}
    if isinstance(value, PatchApproval):
        return {"patch": value.to_json()}
    if isinstance(value, NetworkApproval):
        return {"network": value.to_json()}
    if isinstance(value, WriteApproval):
        return {"write": value.to_json()}
    if isinstance(value, PermissionsApproval):
        return {"permissions": value.to_json()}
    if isinstance(value, ToolCallApproval):
        return {"tool_call": value.to_json()}
    return {"elicitation": value.to_json()}


def decode_ask_for_approval(value: Any) -> AskForApproval:
    """Reads the wire's form of `AskForApproval`."""
    if isinstance(value, str):
        return cast(AskForApproval, value)
    ((tag, body),) = value.items()
    if tag == "reject":
        return RejectConfig.from_json(body)
    if tag == "granular":
        return GranularConfig.from_json(body)
    raise ValueError(f"AskForApproval: unknown variant {tag!r}")


def encode_ask_for_approval(value: AskForApproval) -> Any:
    """Writes the wire's form of `AskForApproval`."""
    if isinstance(value, str):
        return value
    if isinstance(value, RejectConfig):
        return {"reject": value.to_json()}
    return {"granular": value.to_json()}


def decode_audit_event(value: Any) -> AuditEvent:
    """Reads the wire's form of `AuditEvent`."""
    ((tag, body),) = value.items()
    if tag == "requested":
        return AuditEventRequested.from_json(body)
    if tag == "patch_requested":
        return AuditEventPatchRequested.from_json(body)
    if tag == "tool_requested":
        return AuditEventToolRequested.from_json(body)
    if tag == "permissions_requested":
        return AuditEventPermissionsRequested.from_json(body)
    if tag == "decided":
        return AuditEventDecided.from_json(body)
    if tag == "asked":
        return AuditEventAsked.from_json(body)
    if tag == "answered":
        return AuditEventAnswered.from_json(body)
    if tag == "connected":
        return AuditEventConnected.from_json(body)
    if tag == "program_judged":
        return AuditEventProgramJudged.from_json(body)
    if tag == "written_outside":
        return AuditEventWrittenOutside.from_json(body)
    if tag == "patched":
        return AuditEventPatched.from_json(body)
    if tag == "tool_called":
        return AuditEventToolCalled.from_json(body)
    if tag == "tool_approved":
        return AuditEventToolApproved.from_json(body)
    if tag == "permissions_granted":
        return AuditEventPermissionsGranted.from_json(body)
    if tag == "failed":
        return AuditEventFailed.from_json(body)
    if tag == "refused":
        return Refused.from_json(body)
    if tag == "ended":
        return AuditEventEnded.from_json(body)
    if tag == "session_opened":
        return AuditEventSessionOpened.from_json(body)
    if tag == "session_changed":
        return AuditEventSessionChanged.from_json(body)
    if tag == "session_closed":
        return AuditEventSessionClosed.from_json(body)
    if tag == "unrecorded":
        return AuditEventUnrecorded.from_json(body)
    if tag == "repaired":
        return AuditEventRepaired.from_json(body)
    raise ValueError(f"AuditEvent: unknown variant {tag!r}")


def encode_audit_event(value: AuditEvent) -> Any:
    """Writes the wire's form of `AuditEvent`."""
    if isinstance(value, AuditEventRequested):
        return {"requested": value.to_json()}
    if isinstance(value, AuditEventPatchRequested):
        return {"patch_requested": value.to_json()}
    if isinstance(value, AuditEventToolRequested):
        return {"tool_requested": value.to_json()}
    if isinstance(value, AuditEventPermissionsRequested):
        return {"permissions_requested": value.to_json()}
    if isinstance(value, AuditEventDecided):
        return {"decided": value.to_json()}
    if isinstance(value, AuditEventAsked):
        return {"asked": value.to_json()}
    if isinstance(value, AuditEventAnswered):
        return {"answered": value.to_json()}
    if isinstance(value, AuditEventConnected):
        return {"connected": value.to_json()}
    if isinstance(value, AuditEventProgramJudged):
        return {"program_judged": value.to_json()}
    if isinstance(value, AuditEventWrittenOutside):
        return {"written_outside": value.to_json()}
    if isinstance(value, AuditEventPatched):
        return {"patched": value.to_json()}
    if isinstance(value, AuditEventToolCalled):
        return {"tool_called": value.to_json()}
    if isinstance(value, AuditEventToolApproved):
        return {"tool_approved": value.to_json()}
    if isinstance(value, AuditEventPermissionsGranted):
        return {"permissions_granted": value.to_json()}
    if isinstance(value, AuditEventFailed):
        return {"failed": value.to_json()}
    if isinstance(value, Refused):
        return {"refused": value.to_json()}
    if isinstance(value, AuditEventEnded):
        return {"ended": value.to_json()}
    if isinstance(value, AuditEventSessionOpened):
        return {"session_opened": value.to_json()}
    if isinstance(value, AuditEventSessionChanged):
        return {"session_changed": value.to_json()}
    if isinstance(value, AuditEventSessionClosed):
        return {"session_closed": value.to_json()}
    if isinstance(value, AuditEventUnrecorded):
        return {"unrecorded": value.to_json()}
    return {"repaired": value.to_json()}


def decode_decision_source(value: Any) -> DecisionSource:
    """Reads the wire's form of `DecisionSource`."""
    if isinstance(value, str):
        return cast(DecisionSource, value)
    ((tag, body),) = value.items()
    if tag == "rule":
        return DecisionSourceRule.from_json(body)
    raise ValueError(f"DecisionSource: unknown variant {tag!r}")


def encode_decision_source(value: DecisionSource) -> Any:
    """Writes the wire's form of `DecisionSource`."""
    if isinstance(value, str):
        return value
    return {"rule": value.to_json()}


def decode_denying_rule(value: Any) -> DenyingRule:
    """Reads the wire's form of `DenyingRule`."""
    if isinstance(value, str):
        return cast(DenyingRule, value)
    ((tag, body),) = value.items()
    if tag == "file":
        return FileRule.from_json(body)
    if tag == "network":
        return HostRule.from_json(body)
    if tag == "command":
        return DenyingRuleCommand.from_json(body)
    if tag == "layer":
        return DenyingRuleLayer.from_json(body)
    raise ValueError(f"DenyingRule: unknown variant {tag!r}")


def encode_denying_rule(value: DenyingRule) -> Any:
    """Writes the wire's form of `DenyingRule`."""
    if isinstance(value, str):
        return value
    if isinstance(value, FileRule):
        return {"file": value.to_json()}
    if isinstance(value, HostRule):
        return {"network": value.to_json()}
    if isinstance(value, DenyingRuleCommand):
        return {"command": value.to_json()}
    return {"layer": value.to_json()}


def decode_elicitation_request_result(value: Any) -> ElicitationRequestResult:
    """Reads the wire's form of `ElicitationRequestResult`."""
    ((tag, body),) = value.items()
    if tag == "accept":
        return ElicitationAccepted.from_json(body)
    if tag == "decline":
        return ElicitationDeclined.from_json(body)
    if tag == "cancel":
        return ElicitationCancelled.from_json(body)
    raise ValueError(f"ElicitationRequestResult: unknown variant {tag!r}")


def encode_elicitation_request_result(value: ElicitationRequestResult) -> Any:
    """Writes the wire's form of `ElicitationRequestResult`."""
    if isinstance(value, ElicitationAccepted):
        return {"accept": value.to_json()}
    if isinstance(value, ElicitationDeclined):
        return {"decline": value.to_json()}
    return {"cancel": value.to_json()}


def decode_escalation_execution(value: Any) -> EscalationExecution:
    """Reads the wire's form of `EscalationExecution`."""
    if isinstance(value, str):
        return cast(EscalationExecution, value)
    ((tag, body),) = value.items()
    if tag == "permissions":
        return Permissions.from_json(body)
    raise ValueError(f"EscalationExecution: unknown variant {tag!r}")


def encode_escalation_execution(value: EscalationExecution) -> Any:
    """Writes the wire's form of `EscalationExecution`."""
    if isinstance(value, str):
        return value
    return {"permissions": value.to_json()}


def decode_exec_approval_requirement(value: Any) -> ExecApprovalRequirement:
    """Reads the wire's form of `ExecApprovalRequirement`."""
    ((tag, body),) = value.items()
    if tag == "skip":
        return ExecApprovalRequirementSkip.from_json(body)
    if tag == "needs_approval":
        return ExecApprovalRequirementNeedsApproval.from_json(body)
    if tag == "forbidden":
        return ExecApprovalRequirementForbidden.from_json(body)
    raise ValueError(f"ExecApprovalRequirement: unknown variant {tag!r}")


def encode_exec_approval_requirement(value: ExecApprovalRequirement) -> Any:
    """Writes the wire's form of `ExecApprovalRequirement`."""
    if isinstance(value, ExecApprovalRequirementSkip):
        return {"skip": value.to_json()}
    if isinstance(value, ExecApprovalRequirementNeedsApproval):
        return {"needs_approval": value.to_json()}
    return {"forbidden": value.to_json()}


def decode_file_change(value: Any) -> FileChange:
    """Reads the wire's form of `FileChange`."""
    ((tag, body),) = value.items()
    if tag == "add":
        return AddFile.from_json(body)
    if tag == "delete":
        return DeleteFile.from_json(body)
    if tag == "update":
        return UpdateFile.from_json(body)
    raise ValueError(f"FileChange: unknown variant {tag!r}")


def encode_file_change(value: FileChange) -> Any:
    """Writes the wire's form of `FileChange`."""
    if isinstance(value, AddFile):
        return {"add": value.to_json()}
    if isinstance(value, DeleteFile):
        return {"delete": value.to_json()}
    return {"update": value.to_json()}


def decode_file_target(value: Any) -> FileTarget:
    """Reads the wire's form of `FileTarget`."""
    ((tag, body),) = value.items()
    if tag == "path":
        return FileTargetPath.from_json(body)
    if tag == "glob":
        return FileTargetGlob.from_json(body)
    raise ValueError(f"FileTarget: unknown variant {tag!r}")


def encode_file_target(value: FileTarget) -> Any:
    """Writes the wire's form of `FileTarget`."""
    if isinstance(value, FileTargetPath):
        return {"path": value.to_json()}
    return {"glob": value.to_json()}


def decode_network_policy(value: Any) -> NetworkPolicy:
    """Reads the wire's form of `NetworkPolicy`."""
    if isinstance(value, str):
        return cast(NetworkPolicy, value)
    ((tag, body),) = value.items()
    if tag == "hosts":
        return HostRules.from_json(body)
    raise ValueError(f"NetworkPolicy: unknown variant {tag!r}")


def encode_network_policy(value: NetworkPolicy) -> Any:
    """Writes the wire's form of `NetworkPolicy`."""
    if isinstance(value, str):
        return value
    return {"hosts": value.to_json()}


def decode_outcome(value: Any) -> Outcome:
    """Reads the wire's form of `Outcome`."""
    ((tag, body),) = value.items()
    if tag == "exited":
        return Exited.from_json(body)
    if tag == "denied":
        return Denied.from_json(body)
    if tag == "refused":
        return Refused.from_json(body)
    if tag == "timed_out":
        return TimedOut.from_json(body)
    if tag == "cancelled":
        return Cancelled.from_json(body)
    if tag == "signaled":
        return Signaled.from_json(body)
    raise ValueError(f"Outcome: unknown variant {tag!r}")


def encode_outcome(value: Outcome) -> Any:
    """Writes the wire's form of `Outcome`."""
    if isinstance(value, Exited):
        return {"exited": value.to_json()}
    if isinstance(value, Denied):
        return {"denied": value.to_json()}
    if isinstance(value, Refused):
        return {"refused": value.to_json()}
    if isinstance(value, TimedOut):
        return {"timed_out": value.to_json()}
    if isinstance(value, Cancelled):
        return {"cancelled": value.to_json()}
    return {"signaled": value.to_json()}


def decode_patch_apply_result(value: Any) -> PatchApplyResult:
    """Reads the wire's form of `PatchApplyResult`."""
    ((tag, body),) = value.items()
    if tag == "applied":
        return PatchApplied.from_json(body)
    if tag == "refused":
        return Refused.from_json(body)
    raise ValueError(f"PatchApplyResult: unknown variant {tag!r}")


def encode_patch_apply_result(value: PatchApplyResult) -> Any:
    """Writes the wire's form of `PatchApplyResult`."""
    if isinstance(value, PatchApplied):
        return {"applied": value.to_json()}
    return {"refused": value.to_json()}


def decode_permission_amendment(value: Any) -> PermissionAmendment:
    """Reads the wire's form of `PermissionAmendment`."""
    ((tag, body),) = value.items()
    if tag == "file":
        return FileRule.from_json(body)
    if tag == "network":
        return HostRule.from_json(body)
    if tag == "unix_socket":
        return PermissionAmendmentUnixSocket.from_json(body)
    raise ValueError(f"PermissionAmendment: unknown variant {tag!r}")


def encode_permission_amendment(value: PermissionAmendment) -> Any:
    """Writes the wire's form of `PermissionAmendment`."""
    if isinstance(value, FileRule):
        return {"file": value.to_json()}
    if isinstance(value, HostRule):
        return {"network": value.to_json()}
    return {"unix_socket": value.to_json()}


def decode_permissions_request_result(value: Any) -> PermissionsRequestResult:
    """Reads the wire's form of `PermissionsRequestResult`."""
    ((tag, body),) = value.items()
    if tag == "granted":
        return PermissionsGranted.from_json(body)
    if tag == "refused":
        return Refused.from_json(body)
    raise ValueError(f"PermissionsRequestResult: unknown variant {tag!r}")


def encode_permissions_request_result(value: PermissionsRequestResult) -> Any:
    """Writes the wire's form of `PermissionsRequestResult`."""
    if isinstance(value, PermissionsGranted):
        return {"granted": value.to_json()}
    return {"refused": value.to_json()}


def decode_read_only_access(value: Any) -> ReadOnlyAccess:
    """Reads the wire's form of `ReadOnlyAccess`."""
    tag, body = value["type"], value
    if tag == "full-access":
        return ReadOnlyAccessFullAccess.from_json(body)
    if tag == "restricted":
        return ReadOnlyAccessRestricted.from_json(body)
    raise ValueError(f"ReadOnlyAccess: unknown variant {tag!r}")


def encode_read_only_access(value: ReadOnlyAccess) -> Any:
    """Writes the wire's form of `ReadOnlyAccess`."""
    return value.to_json()


def decode_reported_match(value: Any) -> ReportedMatch:
    """Reads the wire's form of `ReportedMatch`."""
    ((tag, body),) = value.items()
    if tag == "prefixRuleMatch":
        return ReportedMatchPrefixRuleMatch.from_json(body)
    if tag == "heuristicsRuleMatch":
        return ReportedMatchHeuristicsRuleMatch.from_json(body)
    raise ValueError(f"ReportedMatch: unknown variant {tag!r}")


def encode_reported_match(value: ReportedMatch) -> Any:
    """Writes the wire's form of `ReportedMatch`."""
    if isinstance(value, ReportedMatchPrefixRuleMatch):
        return {"prefixRuleMatch": value.to_json()}
    return {"heuristicsRuleMatch": value.to_json()}


def decode_review_decision(value: Any) -> ReviewDecision:
    """Reads the wire's form of `ReviewDecision`."""
    if isinstance(value, str):
        return cast(ReviewDecision, value)
    ((tag, body),) = value.items()
    if tag == "approved_execpolicy_amendment":
        return SaveCommandRule.from_json(body)
    if tag == "approved_profile_amendment":
        return SaveProfile.from_json(body)
    if tag == "network_policy_amendment":
        return SaveNetworkRule.from_json(body)
    if tag == "denied":
        return DeniedBecause.from_json(body)
    raise ValueError(f"ReviewDecision: unknown variant {tag!r}")


def encode_review_decision(value: ReviewDecision) -> Any:
    """Writes the wire's form of `ReviewDecision`."""
    if isinstance(value, str):
        return value
    if isinstance(value, SaveCommandRule):
        return {"approved_execpolicy_amendment": value.to_json()}
    if isinstance(value, SaveProfile):
        return {"approved_profile_amendment": value.to_json()}
    if isinstance(value, SaveNetworkRule):
        return {"network_policy_amendment": value.to_json()}
    return {"denied": value.to_json()}


def decode_sandbox_policy(value: Any) -> SandboxPolicy:
    """Reads the wire's form of `SandboxPolicy`."""
    tag, body = value["type"], value
    if tag == "danger-full-access":
        return SandboxPolicyDangerFullAccess.from_json(body)
    if tag == "read-only":
        return SandboxPolicyReadOnly.from_json(body)
    if tag == "external-sandbox":
        return SandboxPolicyExternalSandbox.from_json(body)
    if tag == "workspace-write":
        return SandboxPolicyWorkspaceWrite.from_json(body)
    raise ValueError(f"SandboxPolicy: unknown variant {tag!r}")


def encode_sandbox_policy(value: SandboxPolicy) -> Any:
    """Writes the wire's form of `SandboxPolicy`."""
    return value.to_json()


def decode_tool_review_result(value: Any) -> ToolReviewResult:
    """Reads the wire's form of `ToolReviewResult`."""
    ((tag, body),) = value.items()
    if tag == "approved":
        return ToolApproved.from_json(body)
    if tag == "refused":
        return Refused.from_json(body)
    raise ValueError(f"ToolReviewResult: unknown variant {tag!r}")


def encode_tool_review_result(value: ToolReviewResult) -> Any:
    """Writes the wire's form of `ToolReviewResult`."""
    if isinstance(value, ToolApproved):
        return {"approved": value.to_json()}
    return {"refused": value.to_json()}


def decode_trail_damage(value: Any) -> TrailDamage:
    """Reads the wire's form of `TrailDamage`."""
    ((tag, body),) = value.items()
    if tag == "unfinished":
        return TrailDamageUnfinished.from_json(body)
    if tag == "unexplained":
        return TrailDamageUnexplained.from_json(body)
    raise ValueError(f"TrailDamage: unknown variant {tag!r}")


def encode_trail_damage(value: TrailDamage) -> Any:
    """Writes the wire's form of `TrailDamage`."""
    if isinstance(value, TrailDamageUnfinished):
        return {"unfinished": value.to_json()}
    return {"unexplained": value.to_json()}


def decode_violation_target(value: Any) -> ViolationTarget:
    """Reads the wire's form of `ViolationTarget`."""
    ((tag, body),) = value.items()
    if tag == "path":
        return ViolationTargetPath.from_json(body)
    if tag == "destination":
        return Destination.from_json(body)
    if tag == "unix_socket":
        return ViolationTargetUnixSocket.from_json(body)
    if tag == "system_call":
        return ViolationTargetSystemCall.from_json(body)
    if tag == "process":
        return ViolationTargetProcess.from_json(body)
    if tag == "limit":
        return ViolationTargetLimit.from_json(body)
    if tag == "command":
        return ViolationTargetCommand.from_json(body)
    raise ValueError(f"ViolationTarget: unknown variant {tag!r}")


def encode_violation_target(value: ViolationTarget) -> Any:
    """Writes the wire's form of `ViolationTarget`."""
    if isinstance(value, ViolationTargetPath):
        return {"path": value.to_json()}
    if isinstance(value, Destination):
        return {"destination": value.to_json()}
    if isinstance(value, ViolationTargetUnixSocket):
        return {"unix_socket": value.to_json()}
    if isinstance(value, ViolationTargetSystemCall):
        return {"system_call": value.to_json()}
    if isinstance(value, ViolationTargetProcess):
        return {"process": value.to_json()}
    if isinstance(value, ViolationTargetLimit):
        return {"limit": value.to_json()}
    return {"command": value.to_json()}


__all__ = [
    "Access",
    "AddFile",
    "ApprovalRequest",
    "ApprovalResolved",
    "ApprovalSubject",
    "AskForApproval",
    "AuditEvent",
    "AuditEventAnswered",
    "AuditEventAsked",
    "AuditEventConnected",
    "AuditEventDecided",
    "AuditEventEnded",
    "AuditEventFailed",
    "AuditEventPatchRequested",
    "AuditEventPatched",
    "AuditEventPermissionsGranted",
    "AuditEventPermissionsRequested",
    "AuditEventProgramJudged",
    "AuditEventRepaired",
    "AuditEventRequested",
    "AuditEventSessionChanged",
    "AuditEventSessionClosed",
    "AuditEventSessionOpened",
    "AuditEventToolApproved",
    "AuditEventToolCalled",
    "AuditEventToolRequested",
    "AuditEventUnrecorded",
    "AuditEventWrittenOutside",
    "AuditRecord",
    "AuditVerifyResult",
    "Cancelled",
    "CapturedOutput",
    "CheckReport",
    "CommandApproval",
    "CommandEnded",
    "CommandRole",
    "CommandRunResult",
    "CommandStarted",
    "CommandState",
    "Decision",
    "DecisionSource",
    "DecisionSourceRule",
    "DeleteFile",
    "Denied",
    "DeniedBecause",
    "DenyingRule",
    "DenyingRuleCommand",
    "DenyingRuleLayer",
    "Destination",
    "ElicitationAccepted",
    "ElicitationApproval",
    "ElicitationCancelled",
    "ElicitationDeclined",
    "ElicitationRequestResult",
    "Enforcement",
    "EnvironmentInherit",
    "EnvironmentPolicy",
    "EscalationExecution",
    "Evidence",
    "ExecApprovalRequirement",
    "ExecApprovalRequirementForbidden",
    "ExecApprovalRequirementNeedsApproval",
    "ExecApprovalRequirementSkip",
    "Execution",
    "Exited",
    "Explanation",
    "FileChange",
    "FileRule",
    "FileTarget",
    "FileTargetGlob",
    "FileTargetPath",
    "GranularConfig",
    "HostRule",
    "HostRules",
    "HostsThrough",
    "HttpMethods",
    "InitializeResult",
    "JudgedProgram",
    "LayerReport",
    "LayerStatus",
    "ListedCommand",
    "ListedSession",
    "NetworkAccess",
    "NetworkApproval",
    "NetworkMode",
    "NetworkPolicy",
    "NetworkPolicyAmendment",
    "NetworkPolicyRuleAction",
    "NetworkProtocol",
    "Operation",
    "Outcome",
    "OutputStream",
    "ParsedCommand",
    "ParsedLine",
    "PatchApplied",
    "PatchApplyResult",
    "PatchApproval",
    "PermissionAmendment",
    "PermissionAmendmentUnixSocket",
    "Permissions",
    "PermissionsApproval",
    "PermissionsGranted",
    "PermissionsRequestResult",
    "PermissionsScope",
    "ProfileAmendment",
    "ProgramProblem",
    "RawText",
    "ReadOnlyAccess",
    "ReadOnlyAccessFullAccess",
    "ReadOnlyAccessRestricted",
    "Refused",
    "RefusedBy",
    "RejectConfig",
    "RememberArguments",
    "RememberedApproval",
    "ReportedMatch",
    "ReportedMatchHeuristicsRuleMatch",
    "ReportedMatchPrefixRuleMatch",
    "ResolvedPath",
    "ResourceLimits",
    "ReviewDecision",
    "RiskAssessment",
    "RiskLevel",
    "RuleSource",
    "SandboxMode",
    "SandboxPolicy",
    "SandboxPolicyDangerFullAccess",
    "SandboxPolicyExternalSandbox",
    "SandboxPolicyReadOnly",
    "SandboxPolicyWorkspaceWrite",
    "SaveCommandRule",
    "SaveNetworkRule",
    "SaveProfile",
    "ServerInfo",
    "ServerLimits",
    "SessionChanged",
    "SessionClosed",
    "SessionNotice",
    "SessionOpenResult",
    "SessionState",
    "SignalName",
    "Signaled",
    "StdinKind",
    "TerminalSize",
    "TimedOut",
    "ToolApproved",
    "ToolCallApproval",
    "ToolReviewResult",
    "TrailDamage",
    "TrailDamageUnexplained",
    "TrailDamageUnfinished",
    "TrailFlaw",
    "UpdateFile",
    "Violation",
    "ViolationTarget",
    "ViolationTargetCommand",
    "ViolationTargetLimit",
    "ViolationTargetPath",
    "ViolationTargetProcess",
    "ViolationTargetSystemCall",
    "ViolationTargetUnixSocket",
    "WholeCommand",
    "WriteApproval",
    "WriteOperation",
    "decode_approval_subject",
    "decode_ask_for_approval",
    "decode_audit_event",
    "decode_decision_source",
    "decode_denying_rule",
    "decode_elicitation_request_result",
    "decode_escalation_execution",
    "decode_exec_approval_requirement",
    "decode_file_change",
    "decode_file_target",
    "decode_network_policy",
    "decode_outcome",
    "decode_patch_apply_result",
    "decode_permission_amendment",
    "decode_permissions_request_result",
    "decode_read_only_access",
    "decode_reported_match",
    "decode_review_decision",
    "decode_sandbox_policy",
    "decode_text",
    "decode_tool_review_result",
    "decode_trail_damage",
    "decode_violation_target",
    "encode_approval_subject",
    "encode_ask_for_approval",
    "encode_audit_event",
    "encode_decision_source",
    "encode_denying_rule",
    "encode_elicitation_request_result",
    "encode_escalation_execution",
    "encode_exec_approval_requirement",
    "encode_file_change",
    "encode_file_target",
    "encode_network_policy",
    "encode_outcome",
    "encode_patch_apply_result",
    "encode_permission_amendment",
    "encode_permissions_request_result",
    "encode_read_only_access",
    "encode_reported_match",
    "encode_review_decision",
    "encode_sandbox_policy",
    "encode_text",
    "encode_tool_review_result",
    "encode_trail_damage",
    "encode_violation_target",
]
