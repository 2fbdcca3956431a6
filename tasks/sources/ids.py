"""Ids of sources that are no 16 or 8 bytes of hex: stripped to hex where they hold it, else derived, which is flagged."""

from __future__ import annotations

import re
from typing import Any

from tasks.sources.otlp_fields import SPAN_BYTES, TRACE_BYTES, BadSpan, hex_id
from twiceshy.identity import digest

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"(?:trace|span|tr|run|req)[_-]", re.IGNORECASE)


def trace_id(held: Any, source: str, flags: set[str]) -> str:
    """A trace id as 32 hex digits; `id_derived` is added to `flags` where it is a digest of (source, id). Raises BadSpan where there is none."""
    if held is None or held == "":
        raise BadSpan("no_trace_id")
    return _id(held, source, TRACE_BYTES, flags)


def span_id(held: Any, source: str, flags: set[str]) -> str:
    """A span id as 16 hex digits. A UUID has twice as many, so it is always derived. Raises BadSpan where there is none."""
    if held is None or held == "":
        raise BadSpan("bad_id")
    return _id(held, source, SPAN_BYTES, flags)


def parent_id(held: Any, source: str) -> str | None:
    """The id of the span above, as that span has it; None where there is none, which some write as zeros."""
    if held is None or held == "" or not str(held).strip("0"):
        return None
    return _id(held, source, SPAN_BYTES, set())


def _id(held: Any, source: str, width: int, flags: set[str]) -> str:
    text = str(held)
    bare = text.replace("-", "") if _UUID.fullmatch(text) else _PREFIX.sub("", text, count=1)
    try:
        found = hex_id(bare, width)
    except BadSpan:
        found = None
    if found is not None and found.strip("0"):
        return found
    flags.add("id_derived")
    return digest([source, text])[: 2 * width]
