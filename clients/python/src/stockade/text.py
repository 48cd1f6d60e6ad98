"""Text that a person can be shown: what is read is what is there."""

from __future__ import annotations

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
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def _shown(char: str) -> str:
    if " " <= char <= "~":
        return "\\\\" if char == "\\" else char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    is_control = code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF
    if is_control or any(first <= code <= last for first, last in _DECEPTIVE):
        return f"\\u{{{code:x}}}"
    return char


def safe_line(text: RawText) -> str:
    """The text on one line. Control characters, invisible characters, characters that change the reading
    direction, backslashes and bytes that are not UTF-8 are escaped."""
    if isinstance(text, bytes):
        text = text.decode(errors="surrogateescape")
    return "".join(map(_shown, text))


def safe(text: RawText) -> str:
    """Like `safe_line`, but line breaks, tabs and backslashes stay as they are: for output and for diffs."""
    if isinstance(text, bytes):
        text = text.decode(errors="surrogateescape")
    return "".join(char if char in "\n\t\\" else _shown(char) for char in text)


def shell_words(words: Iterable[RawText | None]) -> str:
    """A command as it would be typed, escaped like `safe_line`. A word that is not known before is `<?>`."""
    return " ".join("<?>" if word is None else _word(word) for word in words)


def _word(word: RawText) -> str:
    text = word.decode(errors="surrogateescape") if isinstance(word, bytes) else word
    if all(char == "\\" or _shown(char) == char for char in text):
        return shlex.quote(text)
    return "$'" + safe_line(text).replace("'", "\\'") + "'"
