"""The rows in a Langfuse file, whatever it is: a UI download, a page or dump of the v2 API, or an export as JSON, JSON lines, CSV or Parquet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import otlp_requests, payloads, tabular
from tasks.sources.otlp_requests import Unreadable
from twiceshy.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tasks.sources.otlp_requests import Document
    from tasks.sources.source import Raw

OBSERVATION, SCORE, TRACE = "observation", "score", "trace"
DOWNLOAD, PAGE, EXPORT = "ui_download", "observations", "blob_export"
CONTENT = ("input", "output", "metadata")
_FULL = (50, 100, 500, 1000)
"""Limits that pages are asked for with. A page that is just full and names no next one may have been cut there: whether it was, nobody can tell."""

_SNAKE = re.compile(r"_([a-z])")


class Row(NamedTuple):
    """One row of a file. kind: observation, score or trace; trace: what stands around it in a UI download."""

    kind: str
    value: Any
    trace: dict[str, Any]
    container: str
    locator: str
    flags: frozenset[str]


def rows(raw: Raw) -> Iterator[Row | Unreadable]:
    """Every row, in its order, and every line that is none. Raises FormatError for an export without inputs and outputs."""
    listed = tabular.rows(raw)
    if listed is not None:
        found = [
            _listed(row, EXPORT, f"row {at}", frozenset(), repr(row).encode()) for at, row in enumerate(listed, start=1)
        ]
        return iter(_with_content(raw, found))
    with otlp_requests.collector_off():
        return iter(
            _with_content(raw, [row for document in otlp_requests.documents(raw.content) for row in _of(raw, document)])
        )


def _of(raw: Raw, document: Document | Unreadable) -> Iterator[Row | Unreadable]:
    if isinstance(document, Unreadable):
        yield document
        return
    marks: set[str] = set(document.flags)
    value = payloads.whole_text(document.value, marks) if document.lenient else document.value
    around = _around(value)
    if around is not None:
        yield from _download(raw, around, document.place, frozenset(marks))
        return
    held = value
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        held, meta = value["data"], value.get("meta")
        marks |= (
            {"trace_capped"} if len(held) in _FULL and not (isinstance(meta, dict) and meta.get("cursor")) else set()
        )
    for number, row in enumerate(held if isinstance(held, list) else [held]):
        yield _listed(
            row, PAGE, f"{document.place}, row {number}", frozenset(marks), document.content, document.byte_offset
        )


def _around(value: Any) -> dict[str, Any] | None:
    """The trace with its observations: as the UI downloads them, or as `GET /traces/{id}` answered."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("trace"), dict):
        listed = value.get("observations")
        return dict(value["trace"]) | {"observations": listed if isinstance(listed, list) else []}
    alone = isinstance(value.get("observations"), list) and "id" in value and "traceId" not in value
    return dict(value) if alone else None


def _download(raw: Raw, trace: dict[str, Any], place: str, marks: frozenset[str]) -> Iterator[Row]:
    observations = trace["observations"]
    if not any(isinstance(row, dict) and _holds(row) for row in observations):
        raise FormatError.at(
            raw.name, "a download of the trace alone: its observations come without input, output and metadata.",
            hint="Download the trace together with its observations, or pull it from the API.",
        )  # fmt: skip
    yield Row(TRACE, trace, trace, DOWNLOAD, place, marks)
    for number, row in enumerate(observations):
        yield Row(OBSERVATION, row, trace, DOWNLOAD, f"{place}, observation {number}", marks)
    for number, row in enumerate([*_list(trace.get("scores")), *_list(trace.get("corrections"))]):
        yield Row(SCORE, row, trace, DOWNLOAD, f"{place}, score {number}", marks)


def _listed(
    held: Any, container: str, locator: str, marks: frozenset[str], content: bytes, byte_offset: int = 0
) -> Row | Unreadable:
    """A row that stands alone."""
    if not isinstance(held, dict):
        return Unreadable("unknown_container", locator, content, byte_offset)
    named = {_SNAKE.sub(lambda hit: hit[1].upper(), name): value for name, value in held.items()}
    kind = _kind(named)
    return (
        Row(kind, named, {}, container, locator, marks)
        if kind
        else Unreadable("unknown_container", locator, content, byte_offset)
    )


def _kind(row: dict[str, Any]) -> str:
    if "dataType" in row and "source" in row:
        return SCORE
    if "id" in row and "type" in row and ("traceId" in row or "startTime" in row):
        return OBSERVATION
    return TRACE if "id" in row and "timestamp" in row and "traceId" not in row else ""


def _with_content(raw: Raw, found: list[Row | Unreadable]) -> list[Row | Unreadable]:
    """A dump made with the default fields of the API has no inputs and outputs at all: nothing in it could be replayed."""
    observations = [
        row for row in found if isinstance(row, Row) and row.kind == OBSERVATION and row.container != DOWNLOAD
    ]
    if observations and not any(_tells(row.value) for row in observations):
        raise FormatError.at(
            raw.name, "its observations have no field for input, output or metadata.",
            hint="Dump them with fields=core,basic,time,io,metadata,model,usage,prompt,trace_context; in an export switch on the field groups io and metadata.",
        )  # fmt: skip
    return found


def _holds(row: dict[str, Any]) -> bool:
    held = [row.get("input"), row.get("output"), row.get("metadata") not in ("{}", {}) and row.get("metadata")]
    return any(value not in (None, "", False) for value in held)


def _tells(row: Any) -> bool:
    return any(name in row for name in CONTENT)


def _list(held: Any) -> Iterable[Any]:
    found = payloads.parsed(held).value if isinstance(held, str) else held
    return found if isinstance(found, list) else []
