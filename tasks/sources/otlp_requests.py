"""OTLP containers unwrapped: one object, an array of requests, or one of either a line; with the names that other exporters use for the same structure."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import payloads
from tasks.sources.otlp_fields import Attributes, BadSpan, attributes, member
from tasks.sources.source import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_RESOURCE_SPANS = ("resourceSpans", "batches")
_SCOPE_SPANS = ("scopeSpans", "instrumentationLibrarySpans")
_NO_ATTRIBUTES = Attributes({}, frozenset())


class Found(NamedTuple):
    """One span as it stands, with what stands around it. rounded: its times are JSON numbers, which one exporter is known to round."""

    span: Any
    resource: Attributes
    scope: dict[str, Any]
    locator: str
    flags: frozenset[str]
    rounded: bool


class Unreadable(NamedTuple):
    """A line that holds no request."""

    reason: str
    locator: str
    content: bytes
    byte_offset: int


class Document(NamedTuple):
    """One JSON document. lenient: its texts may hold lone surrogates, which `payloads.whole_text` has to replace."""

    value: Any
    place: str
    lenient: bool
    flags: frozenset[str]
    content: bytes
    byte_offset: int


def documents(content: bytes) -> Iterator[Document | Unreadable]:
    """The JSON documents of a file: its lines, or the whole of it; and every line that cannot be read."""
    for place, offset, line in _documents(content):
        try:
            held = payloads.decoded(line)
        except ValueError:
            yield Unreadable("bad_json", place, line, offset)
        else:
            yield Document(held.value, place, held.encoding != "json", held.flags, line, offset)


def requests_in(document: Document) -> list[Any] | None:
    """The OTLP requests of a document; None where not all of it is OTLP."""
    listed = document.value if isinstance(document.value, list) else [document.value]
    whole = all(isinstance(item, dict) and isinstance(_first(item, _RESOURCE_SPANS), list) for item in listed)
    return listed if listed and whole else None


def spans_in(document: Document, requests: list[Any]) -> Iterator[Found]:
    """Every span of these requests, in their order."""
    for number, request in enumerate(requests):
        at = f"{document.place}, request {number}" if len(requests) > 1 else document.place
        yield from _spans(
            _first(request, _RESOURCE_SPANS), at, lenient=document.lenient, rounded="batches" in request, flags=document.flags
        )  # fmt: skip


@contextmanager
def collector_off() -> Iterator[None]:
    """Decoding makes many objects and no rings; with the collector on it costs half the throughput (formats.md §11)."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _documents(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    """The lines of a file of lines; the whole of it where its first line is no JSON by itself but the whole is."""
    listed = list(lines(content.removeprefix(b"\xef\xbb\xbf")))
    if len(listed) > 1 and not _is_json(listed[0][2]) and _is_json(content):
        yield "document", 0, content
        return
    for number, offset, line in listed:
        yield f"line {number}", offset, line


def _is_json(text: bytes) -> bool:
    try:
        payloads.decoded(text)
    except ValueError:
        return False
    return True


def _spans(listed: list[Any], place: str, *, lenient: bool, rounded: bool, flags: frozenset[str]) -> Iterator[Found]:
    number = 0
    for held in listed:
        resource = _attributes_of(held.get("resource") if isinstance(held, dict) else None)
        for scoped in _items(_first(held, _SCOPE_SPANS) if isinstance(held, dict) else None):
            scope = _first(scoped, ("scope", "instrumentationLibrary")) if isinstance(scoped, dict) else None
            for span in _items(member(scoped, "spans") if isinstance(scoped, dict) else None):
                marks = set(flags)
                whole = payloads.whole_text(span, marks) if lenient else span
                yield Found(
                    whole,
                    resource,
                    scope if isinstance(scope, dict) else {},
                    f"{place}, span {number}",
                    frozenset(marks),
                    rounded,
                )
                number += 1


def _attributes_of(resource: Any) -> Attributes:
    """A damaged resource loses its attributes, not the spans under it."""
    try:
        return attributes(resource.get("attributes")) if isinstance(resource, dict) else _NO_ATTRIBUTES
    except BadSpan:
        return _NO_ATTRIBUTES


def _items(held: Any) -> list[Any]:
    return held if isinstance(held, list) else []


def _first(held: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := member(held, name)) is not None), None)
