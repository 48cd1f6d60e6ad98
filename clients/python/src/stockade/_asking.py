"""The questions of one session on their way to a handler and back."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import StockadeError
from .question import Answer, Handler, Question, answer_of
from .types import ApprovalRequest, ApprovalResolved

if TYPE_CHECKING:
    from .session import Session

logger = logging.getLogger("stockade")

DOES_NOT_ANSWER = -32000
"""The code of the error that leaves a question to other clients."""

_ANSWERED_KEPT = 64
"""Answered questions that are kept, in case an answer can't be used."""


class Asking:
    """Calls the handler, a task for each question."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.handler: Handler | None = None
        self._open: dict[str, tuple[Question, asyncio.Task[None]]] = {}
        self._answered: OrderedDict[str, Question] = OrderedDict()

    def asked(self, request_id: int | str, params: Mapping[str, Any]) -> None:
        """Takes a question of the server."""
        connection = self._session._connection
        if self.handler is None:
            connection.decline(request_id, DOES_NOT_ANSWER, "this client has no handler for questions")
            return
        try:
            request = ApprovalRequest.from_json(params["request"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.error("a question can't be understood, and is left to other clients: %r", error)
            connection.decline(request_id, DOES_NOT_ANSWER, "this client does not understand the question")
            return
        question = Question(self._session, params["question_id"], request, params.get("command_id"))
        self._begin(question, self._ask(request_id, question))

    def _begin(self, question: Question, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"stockade: question {question.id}")
        self._session.client._tasks.add(task)
        self._open[question.id] = (question, task)
        task.add_done_callback(lambda done: self._ended(question, done))

    def _ended(self, question: Question, task: asyncio.Task[None]) -> None:
        self._session.client._tasks.discard(task)
        if question.id in self._open and self._open[question.id][1] is task:
            del self._open[question.id]

    async def _ask(self, request_id: int | str, question: Question) -> None:
        connection = self._session._connection
        try:
            answer = await self._answer(question)
        except asyncio.CancelledError:
            if question.resolved is None:
                connection.decline(request_id, DOES_NOT_ANSWER, "the client's handler was cancelled")
            raise
        except Exception as error:
            connection.decline(request_id, DOES_NOT_ANSWER, f"the client's handler failed: {type(error).__name__}")
            self._report(question, error)
            return
        if question.resolved is not None:
            return
        if answer is None:
            connection.decline(request_id, DOES_NOT_ANSWER, "this client leaves the question to others")
            return
        connection.reply(request_id, answer.to_json())
        self._answered[question.id] = question
        while len(self._answered) > _ANSWERED_KEPT:
            self._answered.popitem(last=False)

    async def _answer(self, question: Question) -> Answer | None:
        if self.handler is None:
            return None
        given = self.handler(question)
        return answer_of(question, await given if inspect.isawaitable(given) else given)

    def unusable(self, params: Mapping[str, Any]) -> None:
        """Asks the handler once more."""
        question = self._answered.pop(params["question_id"], None)
        if question is None:
            return
        question.problem = params["why"]
        logger.warning("an answer can't be used: %s", question.problem)
        self._begin(question, self._ask_again(question))

    async def _ask_again(self, question: Question) -> None:
        try:
            answer = await self._answer(question)
            if answer is not None and question.resolved is None:
                await self._session.answer(question, answer)
        except Exception as error:
            self._report(question, error)

    def _report(self, question: Question, error: Exception) -> None:
        if isinstance(error, StockadeError) and question.resolved is not None:
            return
        # Nothing awaits a handler; the event loop reports what it raises, as it does for every callback.
        context = {"message": f"the handler of the question {question.id} failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    def resolved(self, event: ApprovalResolved) -> None:
        """Calls a handler off."""
        self._answered.pop(event.question_id, None)
        if event.question_id in self._open:
            question, task = self._open[event.question_id]
            question.resolved = event
            task.cancel()

    def stop(self) -> None:
        """Calls all handlers off."""
        for _, task in tuple(self._open.values()):
            task.cancel()
