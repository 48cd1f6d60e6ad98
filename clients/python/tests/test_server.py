"""The real server: run, stream, be asked, answer, cancel, terminal, input, patch, two clients, and its death."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time

import stockade
from stockade import Question
from stockade.types import (
    AddFile,
    AuditEventAnswered,
    Cancelled,
    CommandEnded,
    CommandStarted,
    Denied,
    ElicitationAccepted,
    ElicitationDeclined,
    Exited,
    FileRule,
    FileTargetPath,
    PatchApplied,
    Permissions,
    PermissionsGranted,
    Refused,
    Signaled,
    TimedOut,
    ToolApproved,
    UpdateFile,
    WriteApproval,
)

from .server import ServerTest


class Commands(ServerTest):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.client = await self.connect()
        self.session = await self.client.open(self.workspace)

    async def test_run(self) -> None:
        result = await self.session.run(["sh", "-c", "echo out; echo err >&2; echo x > made; pwd; exit 3"])
        self.assertEqual(result.exit_code, 3, result)
        self.assertEqual(result.stdout, f"out\n{self.workspace}\n")
        self.assertEqual(result.stderr, "err\n")
        self.assertEqual((self.workspace / "made").read_text(), "x\n")
        self.assertTrue((await self.session.run(["true"])).check().ok)

    async def test_many_at_once(self) -> None:
        results = await asyncio.gather(*(self.session.run(["echo", str(n)]) for n in range(20)))
        self.assertEqual([result.stdout for result in results], [f"{n}\n" for n in range(20)])

    async def test_words_and_output_may_be_any_bytes(self) -> None:
        result = await self.session.run([b"printf", b"%s", b"caf\xe9"])
        self.assertEqual(result.stdout_bytes, b"caf\xe9")
        result = await self.session.run(["printf", "%s", "caf\udce9 ä"])
        self.assertEqual(result.stdout_bytes, b"caf\xe9 \xc3\xa4")

    async def test_input(self) -> None:
        data = os.urandom(700 << 10)
        result = await self.session.run(["sha256sum"], input=data)
        self.assertEqual(result.stdout.split()[0], hashlib.sha256(data).hexdigest())
        self.assertTrue((await self.session.run(["true"], input=data)).ok)

    async def test_directory_environment_and_time(self) -> None:
        (self.workspace / "sub").mkdir()
        self.assertEqual((await self.session.run(["pwd"], cwd="sub")).stdout, f"{self.workspace}/sub\n")
        result = await self.session.run(["sh", "-c", "echo $GREETING"], env={**self.env, "GREETING": "hi"})
        self.assertEqual(result.stdout, "hi\n")
        result = await self.session.run(["sleep", "60"], timeout=0.2)
        self.assertIsInstance(result.outcome, TimedOut)

    async def test_stream(self) -> None:
        script = "echo one; echo two >&2; read line; echo got $line"
        async with self.session.start(["sh", "-c", script], stdin="pipe") as command:
            seen: list[tuple[str, str]] = []
            async for chunk in command:
                seen.append((chunk.stream, chunk.text))
                if len(seen) == 2:
                    await command.write("three\n", close=True)
            result = await command.wait()
        self.assertCountEqual(seen[:2], [("stdout", "one\n"), ("stderr", "two\n")])
        self.assertEqual(seen[2:], [("stdout", "got three\n")])
        self.assertTrue(result.ok)
        self.assertEqual(result.last_seq, 3)

    async def test_a_consumer_that_does_not_read_slows_its_command_and_nothing_else(self) -> None:
        script = "dd if=/dev/zero bs=64k count=256 2>/dev/null; echo done > done"
        async with self.session.start(["sh", "-c", script]) as command:
            first = await command.read()
            assert first is not None
            started = time.monotonic()
            self.assertTrue((await self.session.run(["true"])).ok)
            self.assertLess(time.monotonic() - started, 5)
            await asyncio.sleep(0.5)
            self.assertFalse((self.workspace / "done").exists())
            held = sum(len(chunk.data) for chunk in command._chunks)
            self.assertLess(held, 1 << 20)
            total = len(first.data)
            async for chunk in command:
                total += len(chunk.data)
            self.assertEqual(total, 256 * (64 << 10))
        self.assertTrue((self.workspace / "done").exists())

    async def test_output_that_nothing_reads_does_not_hold_wait(self) -> None:
        command = self.session.start(["sh", "-c", "dd if=/dev/zero bs=64k count=64 2>/dev/null"])
        self.assertTrue((await asyncio.wait_for(command.wait(), 30)).ok)

    async def test_cancel_and_signal(self) -> None:
        command = self.session.start(["sleep", "60"])
        await asyncio.sleep(0.3)
        self.assertTrue(await command.cancel())
        self.assertIsInstance((await command.wait()).outcome, Cancelled)
        command = self.session.start(
            ["sh", "-c", "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.1; done"]
        )
        self.assertEqual((await command.__anext__()).text, "ready\n")
        await command.signal("usr1")
        self.assertEqual((await command.__anext__()).text, "caught\n")
        self.assertEqual((await command.wait()).exit_code, 5)
        command = self.session.start(["sh", "-c", "echo ready; kill -TERM $$"])
        outcome = (await command.wait()).outcome
        self.assertIsInstance(outcome, Signaled)
        with self.assertRaises(stockade.UnknownCommandError):
            await self.session._connection.request(
                "command/signal", {"session_id": self.session.id, "command_id": "nix", "signal": "kill"}
            )

    async def test_cancelling_the_task_ends_the_command(self) -> None:
        script = "echo $$ > pid; while :; do echo x >> ticks; sleep 0.05; done"
        task = asyncio.create_task(self.session.run(["sh", "-c", script]))
        while not (self.workspace / "ticks").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        ticks = (self.workspace / "ticks").stat().st_size
        await asyncio.sleep(0.3)
        self.assertEqual((self.workspace / "ticks").stat().st_size, ticks)

    async def test_cancelled_at_once(self) -> None:
        tasks = [asyncio.create_task(self.session.run(["sleep", "60"])) for _ in range(40)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=30)
        self.assertTrue(all(task.cancelled() for task in tasks))
        (listed,) = await self.client.sessions()
        self.assertEqual([one for one in listed.commands if one.state == "running"], [])

    async def test_input_right_behind(self) -> None:
        runs = [self.session.run(["cat"], input=str(number)) for number in range(40)]
        results = await asyncio.wait_for(asyncio.gather(*runs), 60)
        self.assertEqual([result.stdout for result in results], [str(number) for number in range(40)])

    async def test_terminal(self) -> None:
        script = "test -t 0 && test -t 1 && stty size; read line; stty size; echo got $line"
        async with self.session.start(["sh", "-c", script], terminal=(24, 80)) as command:
            first = await command.__anext__()
            self.assertIn("24 80", first.text)
            await command.resize(40, 100)
            await command.write("hello\n")
            rest = "".join([chunk.text async for chunk in command])
            self.assertIn("40 100", rest)
            self.assertIn("got hello", rest)
            self.assertTrue((await command.wait()).ok)

    async def test_explain_and_rules(self) -> None:
        explanation = await self.session.explain(["echo", "hi"])
        self.assertTrue(explanation.sandboxed)
        self.assertEqual(explanation.parsed.commands[0].words, ["echo", "hi"])
        await self.session.check_rules(["git", "status"])
        await self.client.check_rules(["git", "status"])

    async def test_mistakes_have_names(self) -> None:
        with self.assertRaises(stockade.InvalidParamsError):
            await self.client.open(self.workspace, name="no such/name\n")
        with self.assertRaises(stockade.UnknownSessionError):
            await self.client.attach("another", "ab" * 32)
        with self.assertRaises(stockade.FailedError):
            await self.session.run(["true"], cwd=self.root / "nowhere")


class Questions(ServerTest):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.client = await self.connect()
        self.asked: list[Question] = []

    def write_outside(self, name: str = "file") -> list[str]:
        return ["sh", "-c", f"echo x > {self.outside / name}"]

    async def test_denied_asked_and_remembered(self) -> None:
        def handler(question: Question) -> stockade.Answer:
            self.asked.append(question)
            return question.approve_for_session()

        async with self.client.open(self.workspace, ask="on-failure", on_question=handler) as session:
            result = await session.run(self.write_outside())
            self.assertTrue(result.ok, result)
            self.assertEqual((self.outside / "file").read_text(), "x\n")
            self.assertEqual(len(self.asked), 1)
            self.assertIsInstance(self.asked[0].subject, WriteApproval)
            self.assertIn(str(self.outside), self.asked[0].text)
            self.assertTrue((await session.run(self.write_outside())).ok)
            self.assertEqual(len(self.asked), 1)
            remembered = await session.remembered()
            self.assertGreaterEqual(len(remembered), 1)
            self.assertEqual(await session.forget(), len(remembered))
            await session.run(self.write_outside())
            self.assertEqual(len(self.asked), 2)
            events = [record.event for record in await session.audit()]
            self.assertEqual(len([one for one in events if isinstance(one, AuditEventAnswered)]), 2)
        self.assertTrue((await self.client.verify_audit()).whole)

    async def test_no_is_no(self) -> None:
        async def handler(question: Question) -> stockade.Answer:
            await asyncio.sleep(0.05)
            return question.deny("not today")

        async with self.client.open(self.workspace, ask="on-failure", on_question=handler) as session:
            result = await session.run(self.write_outside())
            self.assertIsInstance(result.outcome, (Denied, Refused))
            self.assertFalse((self.outside / "file").exists())
            self.assertIn("denied", str(result))

    async def test_without_a_handler_it_is_denied(self) -> None:
        async with self.client.open(self.workspace) as session:
            result = await session.run(self.write_outside())
            self.assertIsInstance(result.outcome, Denied)
            self.assertIn(str(self.outside), str(result))

    async def test_cancelling_a_command_calls_its_question_off(self) -> None:
        asked, called_off = asyncio.Event(), asyncio.Event()

        async def handler(question: Question) -> bool:
            asked.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                called_off.set()
                raise
            return True

        async with self.client.open(self.workspace, ask="untrusted", on_question=handler) as session:
            task = asyncio.create_task(session.run(self.write_outside()))
            await asyncio.wait_for(asked.wait(), 10)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(called_off.wait(), 10)

    async def test_a_question_can_be_listed_and_answered(self) -> None:
        async def never(question: Question) -> bool:
            await asyncio.sleep(60)
            return False

        async with self.client.open(self.workspace, ask="untrusted", on_question=never) as session:
            task = asyncio.create_task(session.run(self.write_outside(), timeout=20))
            while not (questions := await session.questions()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await session.answer(questions[0], questions[0].deny("no"))
            self.assertIsInstance((await task).outcome, Refused)
            with self.assertRaises(stockade.UnknownQuestionError):
                await session.answer(questions[0], questions[0].deny("no"))

    async def test_patch(self) -> None:
        async with self.client.open(self.workspace) as session:
            applied = await session.patch([AddFile(str(self.workspace / "a.txt"), "one\n")])
            self.assertIsInstance(applied, PatchApplied)
            diff = "@@ -1 +1 @@\n-one\n+two\n"
            applied = await session.patch([UpdateFile(str(self.workspace / "a.txt"), diff)])
            self.assertIsInstance(applied, PatchApplied)
            self.assertEqual((self.workspace / "a.txt").read_text(), "two\n")
            refused = await session.patch([AddFile(str(self.outside / "b.txt"), "x\n")])
            self.assertIsInstance(refused, Refused)
            text = "*** Begin Patch\n*** Add File: c.txt\n+three\n*** End Patch\n"
            self.assertIsInstance(await session.patch(text), PatchApplied)
            self.assertEqual((self.workspace / "c.txt").read_text(), "three\n")

    async def test_tools_permissions_and_forms(self) -> None:
        def handler(question: Question) -> stockade.Answer:
            self.asked.append(question)
            if question.title.startswith("Will you answer"):
                return question.accept({"name": "stockade"})
            return question.approve_for_session()

        async with self.client.open(self.workspace, ask="on-request", on_question=handler) as session:
            reviewed = await session.review_tool("github", "create_issue", {"title": "x"}, requires_approval=True)
            self.assertIsInstance(reviewed, ToolApproved)
            wanted = Permissions(files=[FileRule(FileTargetPath(str(self.outside)), "write")])
            granted = await session.request_permissions(wanted, justification="to write a file")
            self.assertIsInstance(granted, PermissionsGranted)
            self.assertTrue((await session.run(self.write_outside("granted"))).ok)
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            said = await session.elicit("github", "Which repository?", requested_schema=schema)
            self.assertEqual(said, ElicitationAccepted({"name": "stockade"}))
            self.assertEqual(len(self.asked), 3)
            await session.update(ask="never")
            self.assertEqual(session.ask, "never")
            self.assertIsInstance(await session.review_tool("github", "drop", requires_approval=True), Refused)
            self.assertIsInstance(await session.elicit("github", "And now?"), ElicitationDeclined)


class Shared(ServerTest):
    """Several clients of one server."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.server = await self.listen()

    async def test_two_clients_share_a_session(self) -> None:
        first, second = await self.join(), await self.join()
        called_off = asyncio.Event()

        async def waits(question: Question) -> bool:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                called_off.set()
                raise
            return False

        async with first.open(self.workspace, ask="on-failure", on_question=waits) as session:
            assert session.capability is not None
            with self.assertRaises(stockade.NotPermittedError):
                await second.attach(session.id, "00" * 32)
            async with second.attach(session.id, session.capability, on_question=lambda one: True) as shared:
                events = shared.events()
                outside = self.outside / "file"
                result = await session.run(["sh", "-c", f"echo x > {outside}"])
                self.assertTrue(result.ok, result)
                await asyncio.wait_for(called_off.wait(), 10)
                self.assertIsInstance(await events.__anext__(), CommandStarted)
                ended = await events.__anext__()
                assert isinstance(ended, CommandEnded)
                self.assertEqual(ended.command_id, result.command_id)
                self.assertEqual([one.session_id for one in await second.sessions()], [session.id])
                await session.update(ask="never")
                self.assertEqual(getattr(await events.__anext__(), "ask", None), "never")
                self.assertEqual(shared.ask, "never")

    async def test_a_client_that_was_cut_off_attaches_again_and_misses_nothing(self) -> None:
        first = await self.join()
        session = await first.open(self.workspace, linger=60)
        assert session.capability is not None
        script = "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.1; done"
        command = session.start(["sh", "-c", script])
        head = await command.__anext__()
        first._connection.abort()
        with self.assertRaises(stockade.ConnectionLostError):
            await command.wait()
        second = await self.join()
        async with second.attach(session.id, session.capability) as again:
            followed = await again.follow(command.id, after_seq=head.seq)
            rest = "".join([chunk.text async for chunk in followed])
            self.assertEqual(head.text + rest, "".join(f"line {i}\n" for i in range(1, 10)))
            self.assertIsInstance((await followed.wait()).outcome, Exited)
            await again.close()

    async def test_a_server_that_is_killed_ends_every_wait(self) -> None:
        client = await self.join()
        session = await client.open(self.workspace)
        waiting = asyncio.create_task(session.run(["sleep", "60"]))
        await asyncio.sleep(0.3)
        self.server.send_signal(signal.SIGKILL)
        with self.assertRaises(stockade.ConnectionLostError):
            await waiting


class Life(ServerTest):
    async def test_a_server_that_is_killed_is_told_with_the_signal(self) -> None:
        client = await self.connect()
        session = await client.open(self.workspace)
        waiting = asyncio.create_task(session.run(["sleep", "60"]))
        await asyncio.sleep(0.3)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with self.assertRaisesRegex(stockade.ConnectionLostError, "killed by signal 9"):
            await waiting

    async def test_closing_the_client_ends_the_server_and_its_commands(self) -> None:
        client = await self.connect()
        session = await client.open(self.workspace)
        session.start(["sh", "-c", "while :; do echo x >> ticks; sleep 0.05; done"])
        while not (self.workspace / "ticks").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        pid = client.pid
        assert pid is not None
        await client.close()
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)
        ticks = (self.workspace / "ticks").stat().st_size
        await asyncio.sleep(0.3)
        self.assertEqual((self.workspace / "ticks").stat().st_size, ticks)
