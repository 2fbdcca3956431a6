"""Every cell that could be: tools, declared error codes, and the buckets that a tool's schema makes reachable; drawn from traffic it would read about 100 %."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tasks.buckets import TYPICAL
from tasks.workflows import Workflows
from twiceshy.policy import ToolPolicy

OK = "ok"
CELLS = pl.Schema({"workflow": pl.String, "tool": pl.String, "error_code": pl.String, "bucket": pl.String})
"""One cell."""

_BY_KEYWORD: Mapping[str, tuple[str, ...]] = {
    "required": ("missing_required",),
    "enum": ("enum_unknown", "enum_case_variant"),
    "format": ("format_invalid",),
    "pattern": ("pattern_fail",),
    "minimum": ("below_min", "at_min"),
    "exclusiveMinimum": ("below_min",),
    "maximum": ("above_max", "at_max"),
    "exclusiveMaximum": ("above_max",),
    "multipleOf": ("not_multiple",),
    "maxLength": ("len_over", "len_at_max"),
    "maxItems": ("items_over",),
    "uniqueItems": ("items_dup",),
}
_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ("wrong_type", "empty", "non_ascii", "injection_like"),
    "number": ("wrong_type", "negative", "zero"),
    "integer": ("wrong_type", "negative", "zero", "float_for_int"),
    "array": ("wrong_type", "list0"),
    "boolean": ("wrong_type",),
    "object": ("wrong_type",),
}
_DATES = ("date_impossible", "date_relative")


def universe(workflows: Workflows) -> pl.DataFrame:
    """The cells of every tool in tools.yaml, as `CELLS`: `ok` and each definite error, by `typical` and each bucket that its schema makes reachable."""
    rows = [
        (name, tool, code, bucket)
        for name, workflow in workflows.items()
        for tool, policy in workflow.policy.tools.items()
        for code in (OK, *sorted(set(policy.definite_errors)))
        for bucket in sorted(reachable(policy))
    ]
    return pl.DataFrame(rows, schema=CELLS, orient="row")


def reachable(policy: ToolPolicy) -> set[str]:
    """The primary buckets that a tool's arguments can fall into, as far as its schema tells; `typical` always."""
    found = {TYPICAL}
    for schema in _parts(policy.schema or {}):
        for keyword, labels in _BY_KEYWORD.items():
            if schema.get(keyword):
                found.update(labels)
        found.update(_BY_TYPE.get(str(schema.get("type")), ()))
        if schema.get("additionalProperties") is False:
            found.add("unknown_field")
        if str(schema.get("format", "")).startswith("date"):
            found.update(_DATES)
    return found


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and every schema inside it."""
    if isinstance(schema, list):
        for item in schema:
            yield from _parts(item)
    if not isinstance(schema, dict):
        return
    yield schema
    for name, item in schema.items():
        yield from _parts(list(item.values()) if name in ("properties", "$defs") and isinstance(item, dict) else item)
