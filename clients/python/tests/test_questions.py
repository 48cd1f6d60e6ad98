"""Questions on their way to a handler and back."""

from __future__ import annotations

import asyncio
from typing import Any

from stockade import Answer, NotOfferedError, Question, errors

from .fake import STATE, FakeServerTest, question


class Questions(FakeServerTest):
    async def test_each_answer_has_its_form_on_the_wire(self) -> None:
        answers: dict[str, tuple[Any, Any]] = {
            "true": (lambda q: True, {"decision": "approved"}),
            "false": (lambda q: False, {"decision": "denied"}),
            "approve": (lambda q: q.approve(), {"decision": "approved"}),
            "session": (lambda q: q.approve_for_session(), {"decision": "approved_for_session"}),
            "deny": (lambda q: q.deny(), {"decision": "denied"}),
            "because": (lambda q: q.deny("no net"), {"decision": {"denied": {"rejection": "no net"}}}),
            "abort": (lambda q: q.abort(), {"decision": "abort"}),
            "content": (lambda q: q.accept({"a": 1}), {"decision": "approved", "content": {"a": 1}}),
        }
        async with self.client.open("/repo") as session:
            for name, (handler, expected) in answers.items():
                with self.subTest(name):
                    session.on_question(handler)
                    self.server.ask(name, question())
                    answer = await self.server.answer()
                    self.assertEqual((answer["id"], answer["result"]), (name, expected))

    async def test_handlers_may_take_their_time_beside_each_other(self) -> None:
        asked: list[Question] = []
        all_asked, go = asyncio.Event(), asyncio.Event()

        async def handler(one: Question) -> Answer:
            asked.append(one)
            if len(asked) == 2:
                all_asked.set()
            await go.wait()
            return one.approve()

        async with self.client.open("/repo", on_question=handler):
            self.server.ask(1, question("q1", command_id="c7"))
            self.server.ask(2, question("q2"))
            await asyncio.wait_for(all_asked.wait(), 5)
            self.assertEqual([(one.id, one.command_id) for one in asked], [("q1", "c7"), ("q2", None)])
            go.set()
            self.assertEqual({(await self.server.answer())["id"] for _ in range(2)}, {1, 2})

    async def test_a_session_without_a_handler_leaves_questions_to_others(self) -> None:
        async with self.client.open("/repo"):
            self.assertEqual((await self.server.called("session/open"))["ask"], "never")
            self.server.ask(1, question())
            self.assertEqual((await self.server.answer())["error"]["code"], -32000)
        self.server.ask(2, {**question(), "session_id": "another"})
        self.assertEqual((await self.server.answer())["error"]["code"], -32000)

    async def test_none_leaves_the_question_to_others(self) -> None:
        async with self.client.open("/repo", on_question=lambda one: None):
            self.server.ask(1, question())
            self.assertEqual((await self.server.answer())["error"]["code"], -32000)

    async def test_what_a_handler_raises_is_reported_and_nothing_is_answered(self) -> None:
        async def fails(one: Question) -> bool:
            raise ZeroDivisionError("oh")

        async with self.client.open("/repo", on_question=fails) as session:
            self.server.ask(1, question())
            self.assertIn("ZeroDivisionError", (await self.server.answer())["error"]["message"])
            session.on_question(lambda one: "yes")  # type: ignore[arg-type, return-value]
            self.server.ask(2, question())
            self.assertIn("TypeError", (await self.server.answer())["error"]["message"])
        self.assertEqual([type(one["exception"]) for one in self.reported], [ZeroDivisionError, TypeError])
        self.reported.clear()

    async def test_a_question_that_is_resolved_elsewhere_calls_the_handler_off(self) -> None:
        called_off = asyncio.Event()

        async def handler(one: Question) -> bool:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert one.resolved is not None and one.resolved.answered_by == "typescript"
                called_off.set()
                raise
            return True

        async with self.client.open("/repo", on_question=handler) as session:
            events = session.events()
            self.server.ask(1, question())
            await asyncio.sleep(0.01)
            resolved = {"session_id": "s1", "question_id": "q1", "decision": "approved", "answered_by": "typescript"}
            self.server.notify("approval/resolved", resolved)
            await asyncio.wait_for(called_off.wait(), 5)
            self.assertEqual(getattr(await events.__anext__(), "question_id", None), "q1")
            self.assertTrue(self.server.answers.empty())

    async def test_an_answer_that_can_not_be_used_is_asked_for_once_more(self) -> None:
        problems: list[str | None] = []

        def handler(one: Question) -> Answer:
            problems.append(one.problem)
            return one.accept({"n": len(problems)})

        self.server.methods["approval/answer"] = lambda params: {}
        async with self.client.open("/repo", on_question=handler):
            self.server.ask(1, question())
            await self.server.answer()
            with self.assertLogs("stockade", "WARNING"):
                self.server.notify(
                    "approval/unusable", {"session_id": "s1", "question_id": "q1", "why": "n is too small"}
                )
                again = await self.server.called("approval/answer")
            self.assertEqual(problems, [None, "n is too small"])
            self.assertEqual(
                again, {"session_id": "s1", "question_id": "q1", "decision": "approved", "content": {"n": 2}}
            )

    async def test_a_question_that_can_not_be_understood_is_left_to_others(self) -> None:
        strange = question()
        strange["request"]["subject"] = {"novelty": {}}
        async with self.client.open("/repo", on_question=lambda one: True):
            with self.assertLogs("stockade", "ERROR"):
                self.server.ask(1, strange)
                self.assertEqual((await self.server.answer())["error"]["code"], -32000)

    async def test_only_offered_answers_can_be_given(self) -> None:
        seen: list[Question] = []
        async with self.client.open("/repo", on_question=lambda one: seen.append(one)) as session:
            only_no = question()
            only_no["request"]["available_decisions"] = ["denied"]
            self.server.ask(1, only_no)
            await self.server.answer()
            for method in (seen[0].approve, seen[0].approve_for_session, seen[0].approve_always, seen[0].abort):
                with self.assertRaises(NotOfferedError):
                    method()
            self.assertEqual([words for words, _ in seen[0].choices], ["no"])
            self.server.methods["approval/list"] = lambda params: {"questions": [{**only_no, "asked_ms_ago": 5}]}
            self.assertEqual([one.id for one in await session.questions()], ["q1"])

    async def test_closing_calls_handlers_off(self) -> None:
        async def handler(one: Question) -> bool:
            await asyncio.Event().wait()
            return True

        await self.client.open("/repo", on_question=handler)
        self.server.ask(1, question())
        await asyncio.sleep(0.01)
        await self.client.close()
        with self.assertRaises(errors.ConnectionLostError):
            await self.client.sessions()

    async def test_open_questions_may_come_before_the_answer_to_attach(self) -> None:
        def attach(params: Any) -> Any:
            self.server.ask(1, question())
            return STATE

        self.server.methods["session/attach"] = attach
        async with self.client.attach("s1", "ab" * 32, on_question=lambda one: True):
            self.assertEqual((await self.server.answer())["result"]["decision"], "approved")
        self.assertEqual(len(self.server.named("session/detach")), 1)
