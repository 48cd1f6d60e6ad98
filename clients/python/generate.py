#!/usr/bin/env python3
"""Writes `src/stockade/types.py` from the JSON Schemas in the repository's `schemas/`.

    python3 clients/python/generate.py           write the file
    python3 clients/python/generate.py --check   fail if the file is stale

It needs nothing but the standard library. Definitions become:

- an object: a frozen dataclass with `from_json` and `to_json`;
- an enumeration of words: a `Literal`;
- a choice (`{"exited": {...}}`, or `{"type": "read-only", ...}`): a union of dataclasses and words, with
  a function `decode_...` and a function `encode_...`. A variant that holds one of the other definitions is
  that definition's class, so that `match` needs no wrapper: `case Refused(reason=why)`;
- `RawText`: `str`, or `bytes` that are not UTF-8.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generator.schema import NOT_WRITTEN, Generator
from generator.text import module_text

HERE = Path(__file__).resolve().parent
BUNDLE = HERE.parent.parent / "schemas" / "StockadeServer.json"
TARGET = HERE / "src" / "stockade" / "types.py"


def generate() -> str:
    """The text of the file."""
    definitions = json.loads(BUNDLE.read_text())["$defs"]
    generator = Generator(definitions)
    for name in sorted(definitions):
        if not NOT_WRITTEN.fullmatch(name):
            generator.reference(f"#/$defs/{name}")
    return module_text(generator)


def main() -> int:
    text = generate()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET} is stale: run python3 clients/python/generate.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
