"""What goes wrong between an agent and a file of traces: each blemish is applied to a few sound traces, which must then be held, set aside or collapsed."""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from examples.samples.export import Span, Trace, request, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Line(NamedTuple):
    """One line of a file: how many days after the run it was exported, and its bytes."""

    days_late: int
    content: bytes


# Attribute values longer than this are cut by some exporters.
_CAP = 128


def sound(trace: Trace) -> list[Line]:
    """The trace as it should be: one request."""
    return [Line(0, request(trace))]


def truncated(trace: Trace) -> list[Line]:
    """Results of tools are cut at a cap, so they are no JSON any more: held."""
    for span in _named(trace, "execute_tool"):
        for name in ("gen_ai.tool.call.result", "twiceshy.shown"):
            _edit(span, name, lambda value: value[:_CAP])
    return sound(trace)


def dropped(trace: Trace) -> list[Line]:
    """The exporter had more attributes than it may send, and the first ones went: held."""
    last = _named(trace, "chat")[-1]
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        _edit(last, name, lambda _: None)
    last["droppedAttributesCount"] = 2
    return sound(trace)


def cut_short(trace: Trace) -> list[Line]:
    """The process died inside its last tool call, whose result nobody has: held."""
    at = trace.spans.index(_named(trace, "execute_tool")[-1])
    trace.spans = trace.spans[: at + 1]
    for name in ("gen_ai.tool.call.result", "twiceshy.shown", "twiceshy.raw"):
        _edit(trace.spans[-1], name, lambda _: None)
    _edit(trace.root, "twiceshy.raw", lambda _: None)
    return sound(trace)


def rootless(trace: Trace) -> list[Line]:
    """The span of the run itself was never exported, and with it went flags, input and output."""
    return [Line(0, request(trace, trace.spans[1:]))]


def clockless(trace: Trace) -> list[Line]:
    """The agent was not told the time, and no attribute says it: held."""
    told = next(
        each["value"]["stringValue"] for each in trace.root["attributes"] if each["key"] == "twiceshy.clock.text"
    )
    for name in ("twiceshy.clock.text", "twiceshy.clock.tz", "twiceshy.clock.instant_ns"):
        _edit(trace.root, name, lambda _: None)
    trace.spans = [span for span in trace.spans if not span["name"].startswith("clock ")]
    for span in _named(trace, "chat"):
        _edit(span, "gen_ai.input.messages", lambda value: value.replace(f"Now: {told}.", ""))
    return sound(trace)


def hashed(trace: Trace) -> list[Line]:
    """The user's words were replaced by their digest upstream: held, a digest cannot be replayed."""
    message = msgspec.json.decode(_attribute(trace.root, "twiceshy.seen"))["message"]
    digest = f"sha256:{hashlib.sha256(message.encode()).hexdigest()}"
    plain, replaced = (msgspec.json.encode(text).decode() for text in (message, digest))
    _edit(trace.root, "twiceshy.seen", lambda value: value.replace(plain, replaced))
    for span in _named(trace, "chat"):
        _edit(span, "gen_ai.input.messages", lambda value: value.replace(plain, replaced))
    return sound(trace)


def repeated(trace: Trace) -> list[Line]:
    """The exporter did not hear that its request had arrived and sent it again the next day: collapsed."""
    line = request(trace)
    return [Line(0, line), Line(1, line)]


def spread(trace: Trace) -> list[Line]:
    """The trace came in two requests, the second a day late: joined."""
    half = len(trace.spans) // 2
    return [Line(0, request(trace, trace.spans[half:])), Line(1, request(trace, trace.spans[:half]))]


def misspelt(trace: Trace) -> list[Line]:
    """One span says a kind that does not exist: quarantined alone, and the rest is held without it."""
    _named(trace, "execute_tool")[0]["kind"] = "SPAN_KIND_BANANA"
    return sound(trace)


def doubled(trace: Trace) -> list[Line]:
    """Two instrumentations recorded each model call: one crossing, the copy shadows it."""
    copies = [_copied(trace, span) for span in _named(trace, "chat")]
    body = msgspec.json.decode(request(trace))
    scope = {"name": "opentelemetry.instrumentation.scripted", "version": "0.1"}
    body["resourceSpans"][0]["scopeSpans"].append({"scope": scope, "spans": copies})
    return [Line(0, msgspec.json.encode(body))]


BLEMISHES: Mapping[str, tuple[int, Callable[[Trace], list[Line]]]] = {
    "truncated": (2, truncated), "dropped": (1, dropped), "cut_short": (2, cut_short), "rootless": (1, rootless),
    "clockless": (2, clockless), "hashed": (1, hashed), "repeated": (2, repeated), "spread": (1, spread),
    "misspelt": (1, misspelt), "doubled": (1, doubled),
}  # fmt: skip
"""How many flagged traces get each blemish."""


def _copied(trace: Trace, span: Span) -> Span:
    """The inner of two records of one call: a little shorter, under the root, without what only the recorder writes."""
    inner = copy.deepcopy(span)
    inner["spanId"] = span_id(trace.trace_id, f"copy of {span['spanId']}")
    inner["parentSpanId"] = trace.root["spanId"]
    inner["startTimeUnixNano"] = str(int(span["startTimeUnixNano"]) + 1_000_000)
    inner["endTimeUnixNano"] = str(int(span["endTimeUnixNano"]) - 1_000_000)
    inner["attributes"] = [each for each in inner["attributes"] if each["key"].startswith("gen_ai.")]
    return inner


def _named(trace: Trace, opening: str) -> list[Span]:
    return [span for span in trace.spans if span["name"].startswith(f"{opening} ")]


def _attribute(span: Span, name: str) -> str:
    return next(str(each["value"]["stringValue"]) for each in span["attributes"] if each["key"] == name)


def _edit(span: Span, name: str, edit: Callable[[Any], Any]) -> None:
    """Change one attribute, or take it out where `edit` returns None."""
    kept = []
    for each in span["attributes"]:
        if each["key"] == name:
            ((sort, value),) = each["value"].items()
            edited = edit(value)
            if edited is None:
                continue
            each["value"] = {sort: edited}
        kept.append(each)
    span["attributes"] = kept
