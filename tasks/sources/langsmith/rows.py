"""The runs and feedback in a LangSmith file; a run that came in halves, `{post, patch}`, is one again: patch over post, inputs from post."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import otlp_requests, payloads, tabular
from tasks.sources.otlp_requests import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.otlp_requests import Document
    from tasks.sources.source import Raw

RUN, FEEDBACK = "run", "feedback"
PAGE, EXPORT, HALVES = "runs", "bulk_export", "post_patch"


_FULL = 100
"""Runs of a full page. One that names no next page may have been cut there."""


class Row(NamedTuple):
    """One row of a file: a run or one feedback. paged: whether it is of a page of the API, whose feedback comes by itself."""

    kind: str
    value: dict[str, Any]
    container: str
    locator: str
    flags: frozenset[str]
    paged: bool = False


def rows(raw: Raw) -> Iterator[Row | Unreadable]:
    """Every run and feedback, in the order of the file, and every line that is neither."""
    listed = tabular.rows(raw)
    if listed is not None:
        yield from (
            _row(row, EXPORT, f"row {at}", frozenset(), repr(row).encode(), 0) for at, row in enumerate(listed, start=1)
        )
        return
    halves: dict[str, Row] = {}
    with otlp_requests.collector_off():
        for document in otlp_requests.documents(raw.content):
            if isinstance(document, Unreadable):
                yield document
            elif isinstance(document.value, dict) and {"post", "patch"} & document.value.keys():
                yield from _halves(document, halves)
            else:
                yield from _of(document)
    yield from halves.values()


def last_of(dotted_order: Any) -> str | None:
    """The id of the run itself in its `dotted_order`: the part after the time of its last level."""
    ids = levels(dotted_order)
    return ids[-1] if ids else None


def levels(dotted_order: Any) -> list[str]:
    """The ids of a `dotted_order`, the root's first; empty where it is none."""
    if not isinstance(dotted_order, str) or not dotted_order:
        return []
    return [level.partition("Z")[2] for level in dotted_order.split(".")]


def _of(document: Document) -> Iterator[Row | Unreadable]:
    marks: set[str] = set(document.flags)
    value = payloads.whole_text(document.value, marks) if document.lenient else document.value
    paged = isinstance(value, dict) and isinstance(value.get("runs"), list)
    held = value["runs"] if paged else value
    if paged and len(held) == _FULL and not (isinstance(value.get("cursors"), dict) and value["cursors"].get("next")):
        marks.add("trace_capped")
    for number, row in enumerate(held if isinstance(held, list) else [held]):
        place = f"{document.place}, row {number}"
        found = _row(row, PAGE, place, frozenset(marks), document.content, document.byte_offset)
        yield found._replace(paged=True) if paged and isinstance(found, Row) else found


def _halves(document: Document, halves: dict[str, Row]) -> Iterator[Unreadable]:
    marks: set[str] = set(document.flags)
    value = payloads.whole_text(document.value, marks) if document.lenient else document.value
    for half in ("post", "patch"):
        listed = value.get(half)
        for number, run in enumerate(listed if isinstance(listed, list) else []):
            place = f"{document.place}, {half} {number}"
            key = run.get("id") or last_of(run.get("dotted_order")) if isinstance(run, dict) else None
            if key is None:
                yield Unreadable("bad_id", place, document.content, document.byte_offset)
                continue
            before = halves.get(str(key))
            halves[str(key)] = Row(
                RUN, _joined(before.value, run, half) if before else dict(run, id=key), HALVES, before.locator if before else place,
                frozenset(marks) | (before.flags if before else frozenset()),
            )  # fmt: skip


def _joined(held: dict[str, Any], run: dict[str, Any], half: str) -> dict[str, Any]:
    """Two halves in whichever order they came: what patch says wins, but for the inputs that post had."""
    post, patch = (run, held) if half == "post" else (held, run)
    said = {name: value for name, value in patch.items() if value not in (None, {}, [])}
    made = post | said
    return made | {"inputs": post["inputs"]} if post.get("inputs") else made


def _row(
    held: Any, container: str, locator: str, marks: frozenset[str], content: bytes, byte_offset: int
) -> Row | Unreadable:
    if isinstance(held, dict) and "run_type" in held and ("id" in held or "dotted_order" in held):
        return Row(RUN, held, container, locator, marks)
    if isinstance(held, dict) and "key" in held and "run_id" in held:
        return Row(FEEDBACK, held, container, locator, marks)
    return Unreadable("unknown_container", locator, content, byte_offset)
