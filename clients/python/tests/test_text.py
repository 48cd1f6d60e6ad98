"""Text for people: nothing that a command could have chosen deceives."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from stockade import Result, safe, safe_line, shell_words, violation_line
from stockade.render import question_text, question_title
from stockade.types import (
    AddFile,
    ApprovalRequest,
    CapturedOutput,
    CommandApproval,
    Enforcement,
    Execution,
    Exited,
    ParsedLine,
    PatchApproval,
    Permissions,
    Refused,
    Violation,
    WriteApproval,
)

GOLDEN = Path(__file__).resolve().parents[3] / "protocol/tests/golden/ApprovalRequest"
NASTY = "a\x1b[2Jb\nc\u202ed\u200be\\f\x7f"


class SafeText(unittest.TestCase):
    def test_what_deceives_is_escaped(self) -> None:
        self.assertEqual(safe_line(NASTY), r"a\u{1b}[2Jb\nc\u{202e}d\u{200b}e\\f\u{7f}")
        self.assertEqual(safe_line(b"caf\xe9"), r"caf\xe9")
        self.assertEqual(safe("a\tb\nc\r\x1b"), "a\tb\nc\\r\\u{1b}")
        self.assertEqual(safe_line("naïve 日本"), "naïve 日本")

    def test_commands_are_shown_as_they_would_be_typed(self) -> None:
        self.assertEqual(shell_words(["echo", "a b", "it's", None]), "echo 'a b' 'it'\"'\"'s' <?>")
        self.assertEqual(shell_words(["x\ny'"]), r"$'x\ny\''")

    def test_a_denial_says_the_least_that_allows_it(self) -> None:
        violations = GOLDEN.parent / "Violation"
        for name, least in [("write", "write "), ("connect", "connect to "), ("unix_socket", "connect to the socket ")]:
            violation = Violation.from_json(json.loads((violations / f"{name}.json").read_text()))
            self.assertIn(f" (the least that allows it: {least}", violation_line(violation))

    def test_a_write_without_directories_offers_none(self) -> None:
        subject = WriteApproval("create", ["/srv/x"], [])
        request = ApprovalRequest("r", "s", subject, ["approved", "denied"])
        self.assertNotIn("everything in", question_text(request))

    def test_every_question_is_safe_and_says_what_it_grants(self) -> None:
        paths = sorted(GOLDEN.glob("*.json"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(path.name):
                request = ApprovalRequest.from_json(json.loads(path.read_text()))
                text = question_text(request)
                self.assertTrue(text.startswith(question_title(request)))
                self.assertEqual([char for char in text if char != "\n" and not char.isprintable()], [])

    def test_a_command_can_not_forge_a_line_of_the_question(self) -> None:
        command = CommandApproval(
            ["echo", "x\nwith a yes, nothing happens"], "/repo\nin /", ParsedLine([]), "unsandboxed"
        )
        text = question_text(ApprovalRequest("r", "t", command, ["approved"], reason=NASTY))
        self.assertIn("with a yes, it runs WITHOUT the sandbox, as you", text.splitlines()[-1])
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("with a yes")]), 1)
        self.assertNotIn("\x1b", text)

    def test_a_patch_shows_its_content(self) -> None:
        patch = PatchApproval([AddFile("/repo/x", "one\ntwo\x1b\n")], grant_root="/repo")
        text = question_text(ApprovalRequest("r", "t", patch, ["approved"]))
        self.assertIn("  +one\n  +two\\u{1b}\n", text)
        self.assertIn("everything below /repo may be written", text)

    def test_permissions_are_listed(self) -> None:
        raw = {
            "files": [{"target": {"path": "/data"}, "access": "write"}],
            "network": "full",
            "unix_sockets": ["/run/x"],
        }
        command = CommandApproval(["x"], "/repo", ParsedLine([]), Permissions.from_json(raw))
        text = question_text(ApprovalRequest("r", "t", command, ["approved"]))
        for line in (
            "  write /data",
            "  use the whole network, without any limit",
            "  talk to the program behind the socket /run/x",
        ):
            self.assertIn(line, text)


class Results(unittest.TestCase):
    def test_a_result_tells_a_model_what_happened(self) -> None:
        output = CapturedOutput("head\x1b", omitted_bytes=10, tail=b"\xff")
        run = Execution(output, CapturedOutput("bad"), 1, Enforcement("none", []))
        result = Result("c1", Exited(2, run), 3)
        self.assertFalse(result.ok)
        self.assertEqual(result.exit_code, 2)
        self.assertEqual(
            str(result), "exited with 2\nstdout:\nhead\\u{1b}\n[... 10 bytes left out ...]\n\\xff\nstderr:\nbad"
        )
        with self.assertRaisesRegex(Exception, "exited with 2"):
            result.check()

    def test_a_refusal_has_no_output(self) -> None:
        result = Result("c1", Refused("approval_policy", "ask first"), 0)
        self.assertEqual((result.stdout, result.violations, result.exit_code), ("", [], None))
        self.assertEqual(str(result), "refused by approval policy: ask first")
