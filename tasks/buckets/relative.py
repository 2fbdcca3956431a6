"""Layer 1: what a value is in the eyes of the tool's own JSON Schema, violations from `iter_errors`, valid boundaries from the schema itself."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LABELS = (
    "missing_required",
    "unknown_field",
    "wrong_type",
    "null_disallowed",
    "enum_unknown",
    "enum_case_variant",
    "format_invalid",
    "pattern_fail",
    "below_min",
    "at_min",
    "at_max",
    "above_max",
    "not_multiple",
    "len_over",
    "len_at_max",
    "items_over",
    "items_dup",
)

_BY_KEYWORD = {
    "enum": "enum_unknown",
    "const": "enum_unknown",
    "format": "format_invalid",
    "pattern": "pattern_fail",
    "minimum": "below_min",
    "exclusiveMinimum": "below_min",
    "minLength": "below_min",
    "minItems": "below_min",
    "maximum": "above_max",
    "exclusiveMaximum": "above_max",
    "multipleOf": "not_multiple",
    "maxLength": "len_over",
    "maxItems": "items_over",
    "uniqueItems": "items_dup",
}
_COMBINERS = frozenset({"anyOf", "oneOf", "allOf", "if", "not"})
_INDEX = re.compile(r"\[\d+\]")
_encode = msgspec.json.Encoder(order="deterministic").encode


def without_indices(path: str) -> str:
    """`flights[0].date` as `flights[].date`."""
    return _INDEX.sub("[]", path)


def labels(arguments: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(leaf path, label) for every violation and for every valid value that stands on a boundary."""
    text = _encode(schema)
    for error in _validator(text).iter_errors(arguments):
        yield from _violation(error)
    yield from _boundaries(arguments, schema, schema, "")


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Draft202012Validator:
    strict = _strict(msgspec.json.decode(schema))
    return Draft202012Validator(strict, format_checker=Draft202012Validator.FORMAT_CHECKER)


def _strict(schema: Any) -> Any:
    """The schema with unknown members refused wherever it lists members and says nothing of others."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: part if name in {"enum", "const", "default", "examples"} else _strict(part)
        for name, part in schema.items()
    }
    silent = {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}
    if isinstance(schema.get("properties"), dict) and not silent & set(schema):
        made["additionalProperties"] = False
    return made


def _violation(error: Any) -> Iterator[tuple[str, str]]:
    path = _path(error.absolute_path)
    keyword = error.validator
    if keyword in _COMBINERS and error.context:
        nearest = best_match(error.context)
        if nearest is not None:
            nearest.parent = error
            yield from _violation(nearest)
        return
    if keyword == "required":
        # The message names one property, `validator_value` all of them: the instance says which are missing.
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from ((_joined(path, name), "missing_required") for name in missing)
    elif keyword in {"additionalProperties", "unevaluatedProperties"}:
        known = error.schema.get("properties", {})
        yield from ((_joined(path, name), "unknown_field") for name in error.instance if name not in known)
    elif keyword == "type":
        yield path, "null_disallowed" if error.instance is None else "wrong_type"
    elif keyword in _BY_KEYWORD:
        yield path, _BY_KEYWORD[keyword]
        if keyword == "enum" and _folded(error.instance) in {_folded(value) for value in error.validator_value}:
            yield path, "enum_case_variant"


def _folded(value: object) -> object:
    return "".join(value.casefold().split()) if isinstance(value, str) else value


def _path(parts: Iterable[str | int]) -> str:
    path = ""
    for part in parts:
        path = f"{path}[]" if isinstance(part, int) else _joined(path, part)
    return path


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _boundaries(value: Any, schema: Any, root: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    here = _resolved(schema, root)
    if not isinstance(here, dict):
        return
    yield from ((path, label) for label in _on_boundary(value, here))
    if isinstance(value, dict):
        members = here.get("properties", {})
        for name, member in value.items():
            if name in members:
                yield from _boundaries(member, members[name], root, _joined(path, name))
    elif isinstance(value, list):
        for item in value:
            yield from _boundaries(item, here.get("items"), root, f"{path}[]")


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """The schema behind a local reference; of alternatives the first that is not null."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            schema = _at(root, reference)
        elif (options := schema.get("anyOf") or schema.get("oneOf")) and isinstance(options, list):
            schema = next((option for option in options if option != {"type": "null"}), None)
        else:
            return schema
    return schema


def _at(root: Any, reference: str) -> Any:
    for name in reference.removeprefix("#/").split("/"):
        root = root.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root


def _on_boundary(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) == schema.get("maxLength"):
            yield "len_at_max"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value == schema.get("minimum"):
            yield "at_min"
        if value == schema.get("maximum"):
            yield "at_max"
        if isinstance(value, float) and schema.get("type") == "integer":
            yield "float_for_int"
