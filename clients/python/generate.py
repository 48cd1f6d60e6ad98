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
import keyword
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parent.parent / "schemas"
TARGET = HERE / "src" / "stockade" / "types.py"
BUNDLE = SCHEMAS / "StockadeServer.json"
WIDTH = 110

# Names that read better in a `match` than those of the schemas.
NAMES = {
    "Refusal": "Refused",
    "OutcomeExited": "Exited",
    "OutcomeDenied": "Denied",
    "OutcomeTimedOut": "TimedOut",
    "OutcomeSignaled": "Signaled",
    "FileChangeAdd": "AddFile",
    "FileChangeDelete": "DeleteFile",
    "FileChangeUpdate": "UpdateFile",
    "ReviewDecisionDenied": "DeniedBecause",
    "ReviewDecisionApprovedExecpolicyAmendment": "SaveCommandRule",
    "ReviewDecisionNetworkPolicyAmendment": "SaveNetworkRule",
    "PatchApplyResultApplied": "PatchApplied",
    "ToolReviewResultApproved": "ToolApproved",
    "PermissionsRequestResultGranted": "PermissionsGranted",
    "ElicitationRequestResultAccept": "ElicitationAccepted",
    "ElicitationRequestResultDecline": "ElicitationDeclined",
    "ElicitationRequestResultCancel": "ElicitationCancelled",
}

# What the client makes or takes apart itself, on the way from its methods' arguments to their results.
NOT_WRITTEN = re.compile(
    r"\w+Params|Rpc\w+|Error\w+|Empty|Client\w+|CallerLimit|SentStreams|RawBytes|OpenQuestion|ApprovalReply"
    r"|ApprovalUnusable|CommandOutput|CommandLost"
    r"|(ApprovalForget|ApprovalList|ApprovalRemembered|AuditList|CommandAttach|CommandCancel|SessionClose|SessionList)Result"
)

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


class Generator:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.records: dict[str, Record] = {}
        self.choices: dict[str, Choice] = {}
        self.resolved: dict[str, Type] = {}

    def name(self, schema_name: str) -> str:
        return NAMES.get(schema_name, schema_name)

    # Which Python type a schema is.

    def reference(self, ref: str) -> Type:
        name = ref.rsplit("/", 1)[-1]
        if name not in self.resolved:
            schema = self.definitions[name]
            if self.is_record(schema):
                # Known before its fields are: definitions may contain themselves.
                self.resolved[name] = self.record_type(self.name(name))
                self.add_record(self.name(name), schema)
            else:
                self.resolved[name] = self.type_of(schema, self.name(name), named=True)
        return self.resolved[name]

    @staticmethod
    def is_record(schema: Any) -> bool:
        return isinstance(schema, dict) and schema.get("type") == "object" and "properties" in schema

    @staticmethod
    def record_type(name: str) -> Type:
        return Type(name, lambda v: f"{name}.from_json({v})", lambda v: f"{v}.to_json()", plain=False)

    def type_of(self, schema: Any, context: str, named: bool = False) -> Type:
        if schema is True or schema == {}:
            return Type("Any")
        if "$ref" in schema:
            return self.reference(schema["$ref"])
        if len(schema.get("allOf", ())) == 1:
            return self.type_of(schema["allOf"][0], context, named)
        variants = schema.get("oneOf") or schema.get("anyOf")
        if variants:
            return self.choice_of(schema, variants, context)
        if "const" in schema:
            return Type(f"Literal[{json.dumps(schema['const'])}]")
        if "enum" in schema:
            return self.choice_of(schema, [schema], context)
        kind = schema.get("type")
        if isinstance(kind, list):
            rest = [one for one in kind if one != "null"]
            inner = self.type_of({**schema, "type": rest[0]}, context) if len(rest) == 1 else Type("Any")
            return optional(inner) if "null" in kind else inner
        if kind == "array":
            return list_of(self.type_of(schema.get("items", True), context + "Item"))
        if kind == "object":
            return self.object_of(schema, context)
        plain = {"string": "str", "integer": "int", "boolean": "bool", "number": "float", "null": "None"}
        if kind not in plain:
            return Type("Any")
        return Type(plain[kind], default="False" if kind == "boolean" else None)

    def object_of(self, schema: dict[str, Any], context: str) -> Type:
        if "properties" in schema:
            name = self.name(schema.get("title") or context)
            self.add_record(name, schema)
            return self.record_type(name)
        patterns = schema.get("patternProperties") or {}
        inner = next(iter(patterns.values()), schema.get("additionalProperties", True))
        if inner is True or inner is False:
            return Type("dict[str, Any]", default="dict")
        value = self.type_of(inner, context + "Value")
        if value.plain:
            return Type(f"dict[str, {value.name}]", default="dict")
        return Type(
            f"dict[str, {value.name}]",
            lambda v: f"{{key: {value.decode('item')} for key, item in {v}.items()}}",
            lambda v: f"{{key: {value.encode('item')} for key, item in {v}.items()}}",
            plain=False,
            default="dict",
        )

    def choice_of(self, schema: dict[str, Any], variants: list[Any], context: str) -> Type:
        flat = list(self.flatten(variants))
        if len(flat) > 1 and any(one.get("type") == "null" for one in flat):
            rest = [one for one in flat if one.get("type") != "null"]
            return optional(self.choice_of(schema, rest, context) if len(rest) > 1 else self.type_of(rest[0], context))
        if any(one.get("$ref", "").endswith("/RawBytes") for one in flat):
            return Type("RawText", lambda v: f"decode_text({v})", lambda v: f"encode_text({v})", plain=False)
        if len(flat) == 1 and "enum" not in flat[0]:
            return self.type_of(flat[0], context)
        name = self.name(schema.get("title") or context)
        if name not in self.choices:
            self.add_choice(name, schema, flat)
        choice = self.choices[name]
        if not choice.members:
            return Type(name)
        function = snake(name)
        return Type(name, lambda v: f"decode_{function}({v})", lambda v: f"encode_{function}({v})", plain=False)

    def flatten(self, variants: list[Any]) -> Any:
        for one in variants:
            inner = one.get("oneOf") or one.get("anyOf")
            if inner and "title" not in one:
                yield from self.flatten(inner)
            else:
                yield one

    # What is written for it.

    def add_record(self, name: str, schema: dict[str, Any], tag_key: str | None = None) -> None:
        if name in self.records:
            return
        record = Record(name, clean(schema.get("description", "")), [])
        self.records[name] = record
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        if tag_key is not None:
            record.tag = (tag_key, properties[tag_key]["const"])
        names = [*(key for key in required if key in properties), *(key for key in properties if key not in required)]
        for key in names:
            if key != tag_key:
                record.fields.append(self.field(name, key, properties[key], key in required))

    def field(self, owner: str, key: str, schema: Any, required: bool) -> Field:
        type_ = self.type_of(schema, owner + pascal(key))
        doc = clean(schema.get("description", "")) if isinstance(schema, dict) else ""
        default, omit = "", None
        if not required:
            stated = schema.get("default") if isinstance(schema, dict) else None
            if isinstance(stated, (bool, int, str)):
                default = repr(stated)
            elif type_.default in ("list", "dict"):
                default, omit = f"field(default_factory={type_.default})", "truth"
            elif type_.default == "False":
                default, omit = "False", "truth"
            else:
                type_, default, omit = optional(type_), "None", "none"
        return Field(identifier(key), key, type_, required, default, omit, doc)

    def add_choice(self, name: str, schema: dict[str, Any], variants: list[Any]) -> None:
        choice = Choice(name, clean(schema.get("description", "")))
        self.choices[name] = choice
        payloads = [ref_of(self.payload(one)[1]) for one in variants if "properties" in one]
        for one in variants:
            doc = clean(one.get("description", ""))
            if "const" in one:
                choice.words.append((one["const"], doc))
            elif "enum" in one:
                choice.words.extend((word, "") for word in one["enum"])
            elif "properties" in one:
                self.add_variant(choice, one, payloads)
            else:
                raise SystemExit(f"{name}: a variant is neither a word nor an object: {one}")

    def payload(self, variant: dict[str, Any]) -> tuple[str, Any]:
        properties = variant["properties"]
        return next(iter(properties.items())) if len(properties) == 1 else ("", variant)

    def add_variant(self, choice: Choice, variant: dict[str, Any], payloads: list[str | None]) -> None:
        properties = variant["properties"]
        tags = [key for key, value in properties.items() if "const" in value and key in variant.get("required", ())]
        class_name = variant.get("title") or choice.name + pascal(self.payload(variant)[0])
        if tags:
            choice.tag_key = tags[0]
            self.add_record(self.name(class_name), variant, tag_key=tags[0])
            choice.members.append((properties[tags[0]]["const"], self.name(class_name)))
            return
        tag, schema = self.payload(variant)
        ref = ref_of(schema)
        if ref and payloads.count(ref) == 1 and self.is_record(self.definitions[ref.rsplit("/", 1)[-1]]):
            choice.members.append((tag, self.reference(ref).name))
            return
        name = self.name(class_name)
        described = {**schema, "description": variant.get("description") or schema.get("description", "")}
        if schema.get("type") == "object" and ref is None and schema.get("additionalProperties") is not True:
            self.add_record(name, described)
        elif name not in self.records:
            inner = self.type_of(schema, name)
            fields = [Field(identifier(tag), tag, inner, True, "", None, "")]
            self.records[name] = Record(name, clean(described["description"]), fields, wraps=inner)
        choice.members.append((tag, name))


def ref_of(schema: Any) -> str | None:
    while isinstance(schema, dict) and len(schema.get("allOf", ())) == 1:
        schema = schema["allOf"][0]
    ref = schema.get("$ref") if isinstance(schema, dict) else None
    return ref if isinstance(ref, str) else None


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


# The text of the file.

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


def generate() -> str:
    definitions = json.loads(BUNDLE.read_text())["$defs"]
    generator = Generator(definitions)
    for name in sorted(definitions):
        if not NOT_WRITTEN.fullmatch(name):
            generator.reference(f"#/$defs/{name}")
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
