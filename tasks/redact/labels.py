"""Argument buckets of a trace's calls, computed on raw values and checked on redacted ones (signatures.md §8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tasks import buckets
from tasks.buckets.semantic import Surroundings, clock_of
from tasks.redact.findings import effective_rule
from twiceshy import identity
from twiceshy.redaction.canonicalforms import month_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twiceshy.redaction import Policy

Row = dict[str, Any]

# What an agent may have an id from: its input and prompts, and what came back to it. Not what it proposed itself.
_HEARD = ("system_text", "messages_in", "raw", "shown")


class Labelled:
    """The buckets of the tool calls of one trace. schemas: tool name -> JSON Schema of its arguments."""

    def __init__(self, rows: Sequence[Row], policy: Policy, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._first = month_first(policy.default_region)
        self._schemas = schemas
        self._clock = next((clock for row in rows if (clock := self._clock_of(row)) is not None), None)
        self._heard: dict[str, None] = {}
        self.by_row: list[dict[str, tuple[str, ...]]] = []
        for row in rows:
            self.by_row.append(self._of(row))
            self._heard |= dict.fromkeys(row[column] for column in _HEARD if row[column])
            if row["kind"] == "agent" and row["seen"]:
                self._heard[row["seen"]] = None

    def _clock_of(self, row: Row) -> Any:
        if row["clock_ns"] is None and not row["clock_text"]:
            return None
        return clock_of(row["clock_ns"], row["clock_tz"] or row["zone"], row["clock_text"], month_first=self._first)

    def _of(self, row: Row) -> dict[str, tuple[str, ...]]:
        asked = row["seen"] or row["proposed"]
        if row["kind"] != "tool" or asked is None:
            return {}
        reference = buckets.Reference(
            schema=self._schemas.get(row["tool_name"] or row["name"]),
            around=Surroundings(clock=self._clock, grounded=self._grounded, month_first=self._first),
        )
        return buckets.argument_buckets(identity.untagged(msgspec.json.decode(asked)), reference).labels

    def _grounded(self, text: str) -> bool:
        """Whether an id was heard as a whole: the front of somebody's e-mail address is not the id that an agent makes of it."""
        whole = re.compile(rf"(?<![\w@]){re.escape(text)}(?![\w@])")
        return any(text in heard and whole.search(heard) for heard in reversed(self._heard))


def column(labels: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Labels as the `bucket_labels` column holds them."""
    return [{"path": path, "labels": list(found)} for path, found in sorted(labels.items())]


def renamed(labels: Mapping[str, tuple[str, ...]], keys: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The labels under redacted paths: a key that is a value has its pseudonym in a path too."""
    made: dict[str, tuple[str, ...]] = {}
    for path, found in labels.items():
        new = path
        for raw in sorted(keys, key=len, reverse=True):
            new = new.replace(raw, keys[raw])
        made[new] = found
    return made


def changed(
    raw: Mapping[str, tuple[str, ...]], redacted: Mapping[str, tuple[str, ...]], tool: str, policy: Policy
) -> list[str]:
    """The paths whose buckets redaction changed. A leaf that was dropped, restricted or generalized has no bucket of its own: its stored label counts."""
    withheld = {"drop", "restrict", "generalize"}

    def compared(path: str) -> bool:
        rule = effective_rule(policy, f"tool.{tool}.args.{path.replace('[]', '.[]')}")
        return rule is None or rule.action not in withheld

    paths = {path for path in {*raw, *redacted} if compared(path)}
    return sorted(path for path in paths if raw.get(path) != redacted.get(path))
