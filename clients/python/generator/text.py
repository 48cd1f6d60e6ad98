"""From records and choices to the text of the file."""

from __future__ import annotations

import json
import re
import textwrap

from .model import Choice, Field, Record, snake
from .schema import Generator

WIDTH = 110

HEADER = '''"""The messages of Stockade's protocol. Written by `generate.py` from `schemas/`: do not edit."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias, cast

RawText: TypeAlias = str | bytes
"""Text from the operating system: `str`, or `bytes` where it is not UTF-8."""


def decode_text(value: Any) -> RawText:
    """The text or the bytes that a `RawText` of the wire stands for."""
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


def encode_text(value: RawText) -> Any:
    """The wire's form of text. A `str` may hold undecodable bytes as `os.fsdecode` leaves them."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode(errors="surrogateescape")
        else:
            return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}
'''


def docstring(text: str, indent: str) -> list[str]:
    if not text:
        return []
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", text):
        bullet = paragraph.startswith("- ")
        if lines and not (bullet and lines[-1].startswith(("- ", "  "))):
            lines.append("")
        width, indented = WIDTH - len(indent) - 6, "  " if bullet else ""
        lines += textwrap.wrap(" ".join(paragraph.split()), width, subsequent_indent=indented, break_on_hyphens=False)
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *(indent + line if line else "" for line in lines[1:]), f'{indent}"""']


def record_text(record: Record) -> list[str]:
    lines = ["", "", "@dataclass(frozen=True, slots=True)", f"class {record.name}:"]
    lines += docstring(record.doc or record.name + ".", "    ")
    keyword_only = False
    for one in record.fields:
        if not one.required and not keyword_only:
            lines += ["", "    _: KW_ONLY"]
            keyword_only = True
        elif one is record.fields[0]:
            lines.append("")
        default = f" = {one.default}" if one.default else ""
        lines.append(f"    {one.name}: {one.type.name}{default}")
        lines += docstring(one.doc, "    ")
    return lines + decoder_text(record) + encoder_text(record)


def decoder_text(record: Record) -> list[str]:
    name = record.name
    lines = ["", "    @classmethod", f"    def from_json(cls, value: Any) -> {name}:"]
    lines.append('        """Reads the wire\'s form."""')
    if record.wraps is not None:
        return [*lines, f"        return cls({record.wraps.decode('value')})"]
    if not record.fields:
        return [*lines, "        return cls()"]
    lines.append("        return cls(")
    for one in record.fields:
        key = f'"{one.key}"'
        if one.required:
            expression = one.type.decode(f"value[{key}]")
        elif one.omit == "none" and one.type.plain:
            expression = f"value.get({key})"
        elif one.omit == "none":
            inner = one.type.decode("given")
            expression = inner.replace("None if given is None", f"None if (given := value.get({key})) is None", 1)
        elif one.omit == "truth":
            expression = one.type.decode(f"value.get({key}, {empty(one)})")
        else:
            expression = one.type.decode(f"value.get({key}, {one.default})")
        lines.append(f"            {one.name}={expression},")
    return [*lines, "        )"]


def empty(one: Field) -> str:
    return {"list": "[]" if one.type.plain else "()", "dict": "{}"}.get(str(one.type.default), "False")


def encoder_text(record: Record) -> list[str]:
    lines = ["", "    def to_json(self) -> Any:", '        """Writes the wire\'s form."""']
    if record.wraps is not None:
        return [*lines, "        return " + record.wraps.encode(f"self.{record.fields[0].name}")]
    fixed = [f'"{key}": {json.dumps(tag)}' for key, tag in ([record.tag] if record.tag else [])]
    fixed += [f'"{f.key}": {f.type.encode("self." + f.name)}' for f in record.fields if f.omit is None]
    rest = [f for f in record.fields if f.omit is not None]
    start = ["            " + item + "," for item in fixed]
    if not rest:
        return [*lines, "        return {", *start, "        }"] if fixed else [*lines, "        return {}"]
    lines += ["        out: dict[str, Any] = {", *start, "        }"] if fixed else ["        out: dict[str, Any] = {}"]
    for one in rest:
        test = f"self.{one.name}" + (" is not None" if one.omit == "none" else "")
        encoded = one.type.encode(f"self.{one.name}")
        if one.omit == "none":
            encoded = encoded.removeprefix(f"None if self.{one.name} is None else ")
        lines += [f"        if {test}:", f'            out["{one.key}"] = {encoded}']
    return [*lines, "        return out"]


def choice_text(choice: Choice) -> list[str]:
    words = ", ".join(json.dumps(word) for word, _ in choice.words)
    parts = ([f"Literal[{words}]"] if words else []) + [name for _, name in choice.members]
    lines = ["", "", f"{choice.name}: TypeAlias = " + " | ".join(parts)]
    if len(lines[-1]) > WIDTH:
        lines[-1:] = [f"{choice.name}: TypeAlias = (", "    " + "\n    | ".join(parts), ")"]
    doc = choice.doc or choice.name + "."
    told = [f"- `{word}`: {' '.join(text.split())}" for word, text in choice.words if text]
    lines += docstring("\n\n".join([doc, "\n".join(told)]) if told else doc, "")
    return lines


def choice_functions(choice: Choice) -> list[str]:
    name = choice.name
    lines = ["", "", f"def decode_{snake(name)}(value: Any) -> {name}:"]
    lines.append(f'    """Reads the wire\'s form of `{name}`."""')
    if choice.words:
        lines += ["    if isinstance(value, str):", f"        return cast({name}, value)"]
    tagged = f'value["{choice.tag_key}"], value'
    lines.append(f"    tag, body = {tagged}" if choice.tag_key else "    ((tag, body),) = value.items()")
    for tag, member in choice.members:
        lines += [f"    if tag == {json.dumps(tag)}:", f"        return {member}.from_json(body)"]
    lines.append(f'    raise ValueError(f"{name}: unknown variant {{tag!r}}")')
    lines += ["", "", f"def encode_{snake(name)}(value: {name}) -> Any:"]
    lines.append(f'    """Writes the wire\'s form of `{name}`."""')
    if choice.tag_key:
        return [*lines, "    return value.to_json()"]
    if choice.words:
        lines += ["    if isinstance(value, str):", "        return value"]
    for tag, member in choice.members[:-1]:
        lines += [f"    if isinstance(value, {member}):", f"        return {{{json.dumps(tag)}: value.to_json()}}"]
    return [*lines, f"    return {{{json.dumps(choice.members[-1][0])}: value.to_json()}}"]


def module_text(generator: Generator) -> str:
    """The whole file."""
    lines = HEADER.splitlines()
    for name in sorted(generator.records):
        lines += record_text(generator.records[name])
    # A union is made of the classes above and of no other union.
    for name in sorted(generator.choices):
        lines += choice_text(generator.choices[name])
    for name in sorted(generator.choices):
        if generator.choices[name].members:
            lines += choice_functions(generator.choices[name])
    names = sorted([*generator.records, *generator.choices, "RawText"])
    lines += ["", "", "__all__ = [", *(f'    "{name}",' for name in names)]
    coded = [snake(name) for name, one in generator.choices.items() if one.members]
    functions = [f"{verb}_{name}" for name in coded for verb in ("decode", "encode")]
    lines += [f'    "{name}",' for name in sorted([*functions, "decode_text", "encode_text"])] + ["]"]
    return "\n".join(lines) + "\n"
