"""From JSON Schemas to records and choices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .model import Choice, Field, Record, Type, clean, identifier, list_of, optional, pascal, snake

# Names that read better in a `match` than those of the schemas.
NAMES = {
    "Refusal": "Refused",
    "OutcomeExited": "Exited",
    "OutcomeDenied": "Denied",
    "OutcomeTimedOut": "TimedOut",
    "OutcomeCancelled": "Cancelled",
    "OutcomeSignaled": "Signaled",
    "FileChangeAdd": "AddFile",
    "FileChangeDelete": "DeleteFile",
    "FileChangeUpdate": "UpdateFile",
    "ReviewDecisionDenied": "DeniedBecause",
    "ReviewDecisionApprovedExecpolicyAmendment": "SaveCommandRule",
    "ReviewDecisionApprovedProfileAmendment": "SaveProfile",
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
    r"\w+Params|Rpc\w+|Error\w+|Empty|Client\w+|Rlimit|SentStreams|RawBytes|OpenQuestion|ApprovalReply|ApprovalRequestResult|CommandAck"
    r"|ApprovalUnusable|CommandOutput|CommandLost"
    r"|(ApprovalForget|ApprovalList|ApprovalRemembered|AuditList|CommandAttach|CommandCancel|SessionClose|SessionList)Result"
)


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

    def flatten(self, variants: list[Any]) -> Iterator[Any]:
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
