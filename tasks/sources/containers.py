"""The spans of a file, whatever container they lie in: OTLP as JSON or protobuf, Tempo, Jaeger, flat objects. One file may mix them, a document each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import flat_spans, jaeger_spans, otlp_requests, otlp_spans, payloads
from tasks.sources.otlp_fields import BadSpan, spelled
from tasks.sources.otlp_requests import Document, Unreadable
from tasks.sources.source import MAX_SPAN_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tasks.sources.carried import Carried


class Item(NamedTuple):
    """One span as it stands. read: makes the carried span of it, or raises BadSpan; content: its bytes, for the digest of a span set aside."""

    locator: str
    content: Callable[[], bytes]
    read: Callable[[], Carried]
    ids: Callable[[], tuple[str | None, str | None]]


def items(content: bytes, source: str) -> Iterator[Item | Unreadable]:
    """Every span of a file, in its order, and every line of no known container. source: of ids that have to be derived."""
    if b"\x00" in content[:64] or content[:1] == b"\n":
        found = _of_protobuf(content)
        if found is not None:
            yield from found
            return
    with otlp_requests.collector_off():
        for document in otlp_requests.documents(content):
            yield from [document] if isinstance(document, Unreadable) else _of(document, source)


def _of(document: Document, source: str) -> Iterator[Item | Unreadable]:
    requests = otlp_requests.requests_in(document)
    if requests is not None:
        yield from map(_otlp, otlp_requests.spans_in(document, requests))
        return
    for read, listed in (
        (flat_spans.carried, flat_spans.spans_in(document.value)), (jaeger_spans.carried, jaeger_spans.spans_in(document.value))
    ):  # fmt: skip
        if listed is not None:
            for number, held in enumerate(listed):
                yield _one(document, number, held, read, source)
            return
    yield Unreadable("unknown_container", document.place, document.content, document.byte_offset)


def _otlp(item: otlp_requests.Found) -> Item:
    content = partial(spelled, item.span)
    return Item(
        item.locator,
        content,
        partial(_sized, content, partial(otlp_spans.carried, item)),
        partial(otlp_spans.ids, item.span),
    )


def _one(document: Document, number: int, held: Any, read: Callable[..., Carried], source: str) -> Item:
    span = held.span if isinstance(held, jaeger_spans.Held) else held
    marks = set(document.flags)
    if document.lenient:
        span = payloads.whole_text(span, marks)
        held = held._replace(span=span) if isinstance(held, jaeger_spans.Held) else span
    content = partial(spelled, span)
    made = partial(read, held, source, frozenset(marks))
    return Item(f"{document.place}, span {number}", content, partial(_sized, content, made), lambda: (None, None))


def _of_protobuf(content: bytes) -> Iterator[Item] | None:
    from tasks.sources import protobuf_spans  # 60 ms to import, for the few files that are protobuf

    requests = protobuf_spans.requests(content)
    if requests is None:
        return None
    return (
        _message(f"request {number}, span {at}", held)
        for number, request in enumerate(requests)
        for at, held in enumerate(protobuf_spans.spans_in(request))
    )


def _message(locator: str, held: Any) -> Item:
    from tasks.sources import protobuf_spans

    content = held[0].SerializeToString
    ids = (held[0].trace_id.hex() or None, held[0].span_id.hex() or None)
    return Item(locator, content, partial(_sized, content, partial(protobuf_spans.carried, *held)), lambda: ids)


def _sized(content: Callable[[], bytes], read: Callable[[], Carried]) -> Carried:
    if len(content()) > MAX_SPAN_BYTES:
        raise BadSpan("too_large")
    return read()
