"""Text that a person can be shown: what is read is what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from .types import RawText

__all__ = ["safe", "safe_line", "shell_words"]

# Characters that are invisible, or that change the order in which others are shown.
_DECEPTIVE = (
    (0x00A0, 0x00A0),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x1680, 0x1680),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2000, 0x200F),
    (0x2028, 0x202F),
    (0x205F, 0x206F),
    (0x3000, 0x3000),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
_RANGES = "".join(f"{chr(first)}-{chr(last)}" for first, last in _DECEPTIVE)
_CONTROL = "\x00-\x1f\x7f-\x9f\ud800-\udfff"
_UNSAFE_ON_A_LINE = re.compile(f"[{_CONTROL}{_RANGES}\\\\]")
_UNSAFE = re.compile(f"(?![\n\t])[{_CONTROL}{_RANGES}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    # A byte that is not UTF-8, as `surrogateescape` leaves it.
    named = f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{{{code:x}}}"
    return _NAMED.get(char, named)


def _text(text: RawText) -> str:
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text


def safe_line(text: RawText) -> str:
    """The text on one line. Control characters, invisible characters, characters that change the reading
    direction, backslashes and bytes that are not UTF-8 are escaped."""
    return _UNSAFE_ON_A_LINE.sub(_escaped, _text(text))


def safe(text: RawText) -> str:
    """Like `safe_line`, but line breaks, tabs and backslashes stay as they are: for output and for diffs."""
    return _UNSAFE.sub(_escaped, _text(text))


def shell_words(words: Iterable[RawText | None]) -> str:
    """A command as it would be typed, escaped like `safe_line`. A word that is not known before is `<?>`."""
    return " ".join("<?>" if word is None else _word(word) for word in words)


def _word(word: RawText) -> str:
    text = _text(word)
    if "\n" not in text and "\t" not in text and _UNSAFE.search(text) is None:
        return shlex.quote(text)
    return "$'" + safe_line(text).replace("'", "\\'") + "'"
