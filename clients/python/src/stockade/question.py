"""Questions that the server asks, and the answers to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import NotOfferedError
from .render import decision_text, question_text, question_title
from .types import (
    ApprovalRequest,
    ApprovalResolved,
    ApprovalSubject,
    DeniedBecause,
    ReviewDecision,
    SaveCommandRule,
    SaveNetworkRule,
    SaveProfile,
    encode_review_decision,
)

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Answer", "Handler", "Question"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler returns. The methods of `Question` make them."""

    decision: ReviewDecision
    """The decision."""
    content: Mapping[str, Any] | None = None
    """What is answered to an MCP server's question."""

    def to_json(self) -> dict[str, Any]:
        """Writes the wire's form, without the question's name."""
        out: dict[str, Any] = {"decision": encode_review_decision(self.decision)}
        if self.content is not None:
            out["content"] = dict(self.content)
        return out


class Question:
    """Something that a person has to decide.

    >>> async def on_question(question):
    ...     return question.approve() if await chat.confirm(question.text) else question.deny("not now")

    A handler is cancelled when the question needs no answer any more: another client answered, it took too long,
    or the command was cancelled. `resolved` then says which.
    """

    def __init__(
        self, session: Session, question_id: str, request: ApprovalRequest, command_id: str | None = None
    ) -> None:
        self.session = session
        self.id = question_id
        """The question's name, for `Session.answer`."""
        self.command_id = command_id
        """The command that caused it, if one did."""
        self.request = request
        """The question as the server sent it."""
        self.resolved: ApprovalResolved | None = None
        """Why it needs no answer any more."""
        self.problem: str | None = None
        """Why the answer before could not be used, if the handler is asked once more."""

    @property
    def subject(self) -> ApprovalSubject:
        """What is asked: `CommandApproval`, `PatchApproval`, `NetworkApproval`, `PermissionsApproval`,
        `ToolCallApproval` or `ElicitationApproval`."""
        return self.request.subject

    @property
    def title(self) -> str:
        """The question on one line. Safe to print."""
        return question_title(self.request)

    @property
    def text(self) -> str:
        """The whole question: what happens, why it is asked and what a yes grants. Safe to print: what a
        command could have chosen is escaped.
        """
        return question_text(self.request)

    def __str__(self) -> str:
        return self.text

    @property
    def choices(self) -> list[tuple[str, Answer]]:
        """The answers there are, each with its words, in the order to show them."""
        return [(decision_text(one), Answer(one)) for one in self.request.available_decisions]

    def offers(self, decision: ReviewDecision) -> bool:
        """Whether this answer can be given."""
        return decision in self.request.available_decisions

    def _offered(self, decision: ReviewDecision) -> Answer:
        if not self.offers(decision):
            offered = ", ".join(words for words, _ in self.choices)
            raise NotOfferedError(f"{decision_text(decision)!r} is no answer to this question; there are: {offered}")
        return Answer(decision)

    def approve(self) -> Answer:
        """Yes, this once."""
        return self._offered("approved")

    def approve_for_session(self) -> Answer:
        """Yes, and the same again for the rest of the session."""
        return self._offered("approved_for_session")

    def approve_always(self) -> Answer:
        """Yes, and save the rule or the permission profile that the question proposes."""
        for decision in self.request.available_decisions:
            if isinstance(decision, SaveCommandRule | SaveProfile):
                return Answer(decision)
            if isinstance(decision, SaveNetworkRule) and decision.network_policy_amendment.action == "allow":
                return Answer(decision)
        raise NotOfferedError("this question proposes nothing to save")

    def accept(self, content: Mapping[str, Any]) -> Answer:
        """Answers an MCP server's question."""
        return Answer(self.approve().decision, content)

    def deny(self, reason: str | None = None) -> Answer:
        """No; the session goes on. The reason is told to the requester."""
        return Answer("denied" if reason is None else DeniedBecause(reason))

    def abort(self) -> Answer:
        """No, and stop the session."""
        return self._offered("abort")


Handler: TypeAlias = "Callable[[Question], Answer | bool | Awaitable[Answer | bool | None] | None]"
"""Answers questions. `True` is `approve()`, `False` is `deny()`, and `None` leaves the question to other
clients.
"""


def answer_of(question: Question, given: Answer | bool | None) -> Answer | None:
    """What a handler meant."""
    if given is None or isinstance(given, Answer):
        return given
    if isinstance(given, bool):
        return question.approve() if given else question.deny()
    raise TypeError(f"a handler returns an Answer, True, False or None, and not {type(given).__name__}")
