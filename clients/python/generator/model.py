"""Python's side of a schema: types, records and choices."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass, field

Expression = Callable[[str], str]


def same(value: str) -> str:
    return value


@dataclass
class Type:
    """A Python type, and the expressions that turn JSON into a value of it and back."""

    name: str
    decode: Expression = same
    encode: Expression = same
    plain: bool = True
    default: str | None = None


@dataclass
class Field:
    name: str
    key: str
    type: Type
    required: bool
    default: str
    omit: str | None
    doc: str


@dataclass
class Record:
    name: str
    doc: str
    fields: list[Field]
    tag: tuple[str, str] | None = None
    wraps: Type | None = None


@dataclass
class Choice:
    name: str
    doc: str
    words: list[tuple[str, str]] = field(default_factory=list)
    members: list[tuple[str, str]] = field(default_factory=list)
    tag_key: str | None = None


def pascal(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))


def snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def identifier(key: str) -> str:
    name = snake(re.sub(r"\W", "_", key))
    return name + "_" if keyword.iskeyword(name) else name


def clean(text: str) -> str:
    """A description without the links of the Rust documentation."""
    text = re.sub(r"\[`([^`\]]+)`\](\([^)]*\))?", r"`\1`", text)
    return text.replace("\\", "\\\\").replace('"""', "'''").strip()


def optional(inner: Type) -> Type:
    if inner.name.endswith("| None") or inner.name == "Any":
        return inner
    if inner.plain:
        return Type(f"{inner.name} | None")
    return Type(
        f"{inner.name} | None",
        lambda v: f"None if {v} is None else {inner.decode(v)}",
        lambda v: f"None if {v} is None else {inner.encode(v)}",
        plain=False,
    )


def list_of(inner: Type) -> Type:
    if inner.plain:
        return Type(f"list[{inner.name}]", default="list")
    return Type(
        f"list[{inner.name}]",
        lambda v: f"[{inner.decode('item')} for item in {v}]",
        lambda v: f"[{inner.encode('item')} for item in {v}]",
        plain=False,
        default="list",
    )
