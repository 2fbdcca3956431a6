"""What of a value violates a JSON Schema: keyword and path, never the value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.envelope import Record
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INDEX = re.compile(r"\[\d+\]")


class SchemaBreak(Record, frozen=True, kw_only=True, order=True):
    """One violation: the schema keyword and the path of what violates it, list indices removed.

    `required` and `additionalProperties` name the missing or unknown property, not its parent (signatures.md §1).
    """

    keyword: str
    path: str

    def __str__(self) -> str:
        return f"{self.keyword} at {self.path}"


def breaks(schema: Mapping[str, Any], value: Any) -> list[SchemaBreak]:
    """Every violation of a schema (draft 2020-12), sorted, each once."""
    import jsonschema

    instance = msgspec.json.decode(canonical(value))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(instance)
    return sorted({found for error in errors for found in _breaks(error)})


def _breaks(error: Any) -> Iterator[SchemaBreak]:
    path = _INDEX.sub("", error.json_path)
    keyword = str(error.validator)
    if keyword == "required":
        yield from (
            SchemaBreak(keyword=keyword, path=f"{path}.{name}")
            for name in error.validator_value
            if name not in error.instance
        )
    elif keyword == "additionalProperties" and error.validator_value is False:
        yield from (
            SchemaBreak(keyword=keyword, path=f"{path}.{name}") for name in _unknown(error.schema, error.instance)
        )
    else:
        yield SchemaBreak(keyword=keyword, path=path)


def _unknown(schema: Mapping[str, Any], instance: Mapping[str, Any]) -> Iterator[str]:
    patterns = list(schema.get("patternProperties", ()))
    for name in instance:
        if name not in schema.get("properties", {}) and not any(re.search(pattern, name) for pattern in patterns):
            yield name
