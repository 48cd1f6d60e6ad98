"""How a command ended, with the questions that programs ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import CommandFailedError
from .text import safe, safe_line
from .types import (
    Cancelled,
    CapturedOutput,
    Denied,
    Execution,
    Exited,
    Outcome,
    RawText,
    Refused,
    Signaled,
    TimedOut,
    Violation,
)

__all__ = ["Result", "output_bytes"]


def _bytes(text: RawText | None) -> bytes:
    if text is None:
        return b""
    return text.encode() if isinstance(text, str) else text


def output_bytes(output: CapturedOutput) -> bytes:
    """What was captured; a note stands where the middle was left out."""
    head, tail = _bytes(output.head), _bytes(output.tail)
    if not output.omitted_bytes:
        return head + tail
    return b"%s\n[... %d bytes left out ...]\n%s" % (head, output.omitted_bytes, tail)


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. `outcome` tells it all:

    >>> match result.outcome:
    ...     case Exited(exit_code=0): ...
    ...     case Denied(execution=run): run.violations
    ...     case Refused(reason=why): ...

    `str(result)` is text for a model or a person: how it ended, what it wrote, what it was denied, with control
    characters escaped.
    """

    command_id: str
    """The command's name in its session."""
    outcome: Outcome
    """How it ended."""
    last_seq: int
    """The number of its last chunk of output; 0 if there was none."""

    @property
    def ok(self) -> bool:
        """Whether it ran and exited with 0."""
        return isinstance(self.outcome, Exited) and self.outcome.exit_code == 0

    @property
    def exit_code(self) -> int | None:
        """Its exit code, if it ended by itself."""
        return self.outcome.exit_code if isinstance(self.outcome, (Exited, Denied)) else None

    @property
    def execution(self) -> Execution | None:
        """The run; `None` if it was refused."""
        return None if isinstance(self.outcome, Refused) else self.outcome.execution

    @property
    def stdout_bytes(self) -> bytes:
        """What it wrote to standard output, as far as it was captured."""
        return b"" if self.execution is None else output_bytes(self.execution.stdout)

    @property
    def stderr_bytes(self) -> bytes:
        """What it wrote to standard error, as far as it was captured."""
        return b"" if self.execution is None else output_bytes(self.execution.stderr)

    @property
    def stdout(self) -> str:
        """Standard output as text. It can hold control characters: `stockade.safe` escapes them."""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error as text. It can hold control characters: `stockade.safe` escapes them."""
        return self.stderr_bytes.decode(errors="replace")

    @property
    def violations(self) -> list[Violation]:
        """What it tried and was denied, also where it went on regardless."""
        return [] if self.execution is None else self.execution.violations

    def check(self) -> Result:
        """Itself if it is `ok`; raises `CommandFailedError` otherwise."""
        if not self.ok:
            raise CommandFailedError(str(self))
        return self

    @property
    def headline(self) -> str:
        """How it ended, on one line."""
        match self.outcome:
            case Exited(exit_code=code):
                return f"exited with {code}"
            case Denied(exit_code=code, signal=number):
                how = f"exited with {code}" if code is not None else f"ended by signal {number}"
                return f"denied by the sandbox ({how})"
            case Refused(reason=reason, by=by):
                return f"refused by {by.replace('_', ' ')}: {safe_line(reason)}"
            case TimedOut():
                return "took too long"
            case Cancelled(reason=reason):
                return f"ended early: {safe_line(reason)}"
            case Signaled(signal=number):
                return f"ended by signal {number}"

    def __str__(self) -> str:
        from .render import violation_line

        parts = [self.headline]
        parts += [f"denied: {violation_line(one)}" for one in self.violations]
        for name, output in (("stdout", self.stdout_bytes), ("stderr", self.stderr_bytes)):
            if output:
                parts.append(f"{name}:\n{safe(output).rstrip()}")
        return "\n".join(parts)
