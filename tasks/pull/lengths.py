"""The truncation alarm of a whole source: a spike of different values at one exact length, the longest there is, says that an exporter cuts there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEAST = 128
"""Shorter values of one length are ids and digests."""

SPIKE = 5
"""Different values of the longest length that make a spike; equal ones are one text used again."""


def caps(spans: pl.DataFrame) -> dict[str, int]:
    """The length at which the values of each attribute key are cut, in characters; keys whose values are not cut are left out.

    spans: `SpanRecords`. A value that still parses counts too: a cut of plain text shows in nothing else (formats.md §8).
    """
    longest: dict[str, int] = defaultdict(int)
    values: dict[str, set[int]] = defaultdict(set)
    for held in spans["attributes_json"].drop_nulls():
        for key, text in _texts(held):
            if len(text) > longest[key]:
                longest[key] = len(text)
                values[key] = set()
            if len(text) == longest[key] >= LEAST:
                values[key].add(hash(text))
    return {key: longest[key] for key, found in sorted(values.items()) if len(found) >= SPIKE}


def marked(spans: pl.DataFrame, found: Mapping[str, int]) -> pl.DataFrame:
    """The spans, with `truncated` on each that holds a value of a cut key at its cap."""
    if not found:
        return spans
    cut = [
        held is not None and any(found.get(key) == len(text) for key, text in _texts(held))
        for held in spans["attributes_json"]
    ]
    flags = pl.col("flags").list.concat(pl.lit(["truncated"])).list.unique().list.sort()
    return spans.with_columns(flags=pl.when(pl.Series(cut, dtype=pl.Boolean)).then(flags).otherwise("flags"))


def _texts(held: str) -> Iterator[tuple[str, str]]:
    """The text values among the raw attributes of a span, by key; those of a message by its member."""
    raw: Any = msgspec.json.decode(held)
    if not isinstance(raw, dict):
        return
    for pair in raw.get("attributes") or ():
        if isinstance(pair, dict) and isinstance(pair.get("value"), dict):
            text = pair["value"].get("stringValue", pair["value"].get("string_value"))
            if isinstance(text, str):
                yield str(pair.get("key")), text
    for name, text in raw.items():
        if isinstance(text, str):
            yield str(name), text
