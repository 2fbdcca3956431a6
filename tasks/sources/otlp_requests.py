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


def found(content: bytes) -> Iterator[Found | Unreadable]:
    """Every span of a file, in its order, and every line that cannot be read."""
    with collector_off():
        for place, offset, line in _documents(content):
            try:
                held = payloads.decoded(line)
            except ValueError:
                yield Unreadable("bad_json", place, line, offset)
                continue
            lenient = held.encoding != "json"
            requests = held.value if isinstance(held.value, list) else [held.value]
            for number, request in enumerate(requests):
                listed = _first(request, _RESOURCE_SPANS) if isinstance(request, dict) else None
                if not isinstance(listed, list):
                    yield Unreadable("unknown_container", place, line, offset)
                    break
                at = f"{place}, request {number}" if len(requests) > 1 else place
                yield from _spans(listed, at, lenient=lenient, rounded="batches" in request, flags=held.flags)


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
