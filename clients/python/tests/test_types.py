"""The generated types: they are those of the schemas, and every golden message passes through them unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from stockade import types

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent.parent
GOLDEN = (REPOSITORY / "protocol/tests/golden", REPOSITORY / "server/tests/golden")


def passed_through(name: str, message: Any) -> Any:
    """Read and written again."""
    words = "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")
    decode = getattr(types, f"decode_{words}", None)
    if decode is not None:
        return getattr(types, f"encode_{words}")(decode(message))
    return getattr(types, name).from_json(message).to_json()


def essence(message: Any) -> Any:
    """A message without empty lists and nulls, which may as well be left out."""
    if isinstance(message, dict):
        return {key: essence(value) for key, value in message.items() if value != [] and value is not None}
    return [essence(one) for one in message] if isinstance(message, list) else message


class Types(unittest.TestCase):
    def test_the_file_is_what_the_generator_writes(self) -> None:
        done = subprocess.run([sys.executable, PACKAGE / "generate.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_golden_message_passes_through_unchanged(self) -> None:
        messages = [path for folder in GOLDEN for path in sorted(folder.glob("*/*.json"))]
        known = [path for path in messages if path.parent.name in types.__all__]
        self.assertGreater(len(known), 50)
        for path in known:
            with self.subTest(path.relative_to(REPOSITORY)):
                message = json.loads(path.read_text())
                self.assertEqual(essence(passed_through(path.parent.name, message)), essence(message))

    def test_an_unknown_variant_is_an_error_and_an_unknown_field_is_not(self) -> None:
        with self.assertRaisesRegex(ValueError, "Outcome: unknown variant 'novel'"):
            types.decode_outcome({"novel": {}})
        self.assertEqual(types.Refused.from_json({"by": "rule", "reason": "x", "novel": 1}), types.Refused("rule", "x"))

    def test_text_keeps_its_bytes(self) -> None:
        for data, wire in ((b"caf\xc3\xa9", "café"), (b"caf\xe9", {"hex": "636166e9"})):
            self.assertEqual(types.encode_text(data), wire)
            back = types.decode_text(wire)
            self.assertEqual(back.encode() if isinstance(back, str) else back, data)
        self.assertEqual(types.encode_text("caf\udce9"), {"hex": "636166e9"})

    def test_names_have_no_numbers(self) -> None:
        self.assertEqual([name for name in types.__all__ if any(char.isdigit() for char in name)], [])
