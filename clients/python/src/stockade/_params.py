"""Values of Python in the wire's form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .types import RawText, encode_text

Text: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""An argument or a path."""


def argv(command: Sequence[Text]) -> list[Any]:
    """The program and its arguments."""
    if isinstance(command, (str, bytes)):
        raise TypeError('a command is a list of words; a line for a shell is ["bash", "-c", line]')
    words = [word if isinstance(word, str) and word.isascii() else encode_text(os.fspath(word)) for word in command]
    if not words:
        raise ValueError("a command needs a program")
    return words


def path_in(base: RawText, path: Text) -> Any:
    """An absolute path in its only form; a relative one begins at `base`."""
    raw = os.fsencode(os.fspath(path))
    return encode_text(os.path.normpath(os.path.join(os.fsencode(base), raw)))


def paths(given: Text | Iterable[Text]) -> list[Any]:
    """One path or several, from this process's directory."""
    several = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    return [path_in(os.getcwdb(), one) for one in several]


def environment(variables: Mapping[str, RawText]) -> dict[str, Any]:
    """An environment. A name that is not UTF-8 can't be passed on."""
    return {name: encode_text(value) for name, value in variables.items() if _is_text(name)}


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def milliseconds(seconds: float) -> int:
    """At least one: zero would mean something else."""
    if seconds <= 0:
        raise ValueError(f"a time of {seconds} seconds is none")
    return max(1, round(seconds * 1000))


def without_none(**params: Any) -> dict[str, Any]:
    """What is given."""
    return {name: value for name, value in params.items() if value is not None}
