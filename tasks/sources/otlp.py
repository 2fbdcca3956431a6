"""OTLP traces, as JSON or JSON lines, to canonical spans: GenAI conventions (>= 1.37) and the attributes that twiceshy's own recorder exports.

A span is one crossing, or context. `twiceshy.*` says what the conventions have no word for; a source that writes none of it is read by `gen_ai.*` alone, and
where both tell a value, `twiceshy.*` wins. A span with `twiceshy.kind`, and the root beside it, is our recorder's: its JSON text is `identity.tagged`'s, scalars too.

| attribute                        | on                          | content                                                                              |
|----------------------------------|-----------------------------|--------------------------------------------------------------------------------------|
| twiceshy.kind                    | every crossing              | model tool retrieval memory user human clock random flag hook guard router handoff   |
| twiceshy.name                    | every crossing              | the boundary's name (model `planner`, hook `strip`); absent: tool name or span name   |
| twiceshy.seq, .sub               | every crossing              | its place in the envelope: #seq.sub; a sub's span is a child of its step's span      |
| twiceshy.scope                   | crossings of spawned agents | spawn path; absent for the root agent                                                |
| twiceshy.group                   | tool crossings              | seq of the model crossing that asked                                                 |
| twiceshy.at                      | hooks, guards               | `before:TOOL` or `after:TOOL`                                                        |
| twiceshy.attempt                 | tool crossings              | 2 and up; absent for a first attempt                                                 |
| twiceshy.proposed .seen .raw .shown | crossings                | tagged JSON text of that side; absent is unknown, the text `null` is a recorded null |
| twiceshy.blocked_by              | tool crossings              | the guard that refused the call                                                      |
| twiceshy.error.class .type .message .definite | crossings, root | the error that was raised; span status 2 besides                                     |
| twiceshy.clock.text .tz .instant_ns | root                     | the pinned clock: what the agent was told, its zone, the instant                     |
| twiceshy.workflow                | root, or the resource       | the workflow whose policies and cases apply                                          |
| twiceshy.goal                    | root                        | `input.goal`                                                                         |
| twiceshy.seen, .raw              | root                        | the run's input (`input.user`) and its final output; no .raw: it never returned      |
| twiceshy.agent.version           | root, or the resource       | version of the harness (`gen_ai.agent.version` is read too)                          |
| twiceshy.versions                | root                        | JSON of `pins.versions`: the layers model, prompt, tools, routing, ... as recorded   |
| twiceshy.prompt.name .version    | model crossings             | version of the prompt; the digest is computed from the system text                   |
| twiceshy.request                 | model crossings             | tagged JSON: what the request holds beside `messages` and `tools` (sampling, output_format) |
| twiceshy.score.origin            | evaluation events           | human llm code api (`api`: feedback of the user)                                     |
| twiceshy.tags                    | root                        | list of tags                                                                         |

A model crossing's request is `gen_ai.input.messages` + `gen_ai.tool.definitions` + `twiceshy.request`; its output is the one message of `gen_ai.output.messages`
(`parts`, `finish_reason`), as JSON text exactly as the run had them. `twiceshy.seen` and `twiceshy.raw` are read there only where those cannot express it.
The root is `gen_ai.operation.name = invoke_agent` with `gen_ai.agent.name`, `gen_ai.conversation.id`. Tool crossings carry `gen_ai.tool.name`, `.call.id` besides.
Scores are span events `gen_ai.evaluation.result` {gen_ai.evaluation.name, .score.value, .score.label, .explanation}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.sources import genai
from tasks.sources.dialects import RECORDER, dialect_of
from tasks.sources.otlp_fields import (
    SPAN_BYTES,
    TRACE_BYTES,
    BadSpan,
    attributes,
    hex_id,
    member,
    nanoseconds,
    required_id,
    span_kind,
    status_code,
)
from tasks.sources.otlp_requests import Found, Unreadable, found
from tasks.sources.otlp_values import Values
from tasks.sources.records import Score, Span
from tasks.sources.schema import CONTEXT_KINDS, ORIGINS
from tasks.sources.source import MAX_SPAN_BYTES, FileSource, Intake, Mapped, Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.otlp_fields import Attributes

NAME = "otlp"
CONTAINER = "otlp_json"
EVALUATION = "gen_ai.evaluation.result"
_DROPPED = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")
_ERROR = 2


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per span that can be read; scores from evaluation events and tags. One bad span or line is set aside alone."""
    intake = Intake(raw, NAME, harness_state)
    for item in found(raw.content):
        if isinstance(item, Unreadable):
            intake.reject(item.reason, "row", item.locator, item.content, byte_offset=item.byte_offset)
            continue
        try:
            span, scores = _read(item)
        except BadSpan as bad:
            intake.reject(bad.reason, "span", item.locator, msgspec.json.encode(item.span), ids=_ids(item.span))
            continue
        intake.take(span, item.locator)
        intake.scores += scores
    return intake.mapped()


def _read(item: Found) -> tuple[Span, list[Score]]:
    if len(msgspec.json.encode(item.span)) > MAX_SPAN_BYTES:
        raise BadSpan("too_large")
    reading = _Reading(item)
    return reading.span(), list(reading.scores())


def _ids(held: Any) -> tuple[str | None, str | None]:
    """The ids of a span that cannot be read otherwise, as far as they can: its trace has a hole there."""
    found: list[str | None] = []
    for name, width in (("traceId", TRACE_BYTES), ("spanId", SPAN_BYTES)):
        try:
            found.append(required_id(member(held, name), width) if isinstance(held, dict) else None)
        except BadSpan:
            found.append(None)
    return found[0], found[1]


class _Reading:
    """One span on its way to the canonical record."""

    def __init__(self, item: Found) -> None:
        held = item.span
        if not isinstance(held, dict) or not isinstance(held.get("name", ""), str):
            raise BadSpan("bad_type")
        self._item, self._held = item, held
        self._trace_id = required_id(member(held, "traceId"), TRACE_BYTES)
        self._span_id = required_id(member(held, "spanId"), SPAN_BYTES)
        self._events = [(event, attributes(event.get("attributes"))) for event in _events(held)]
        span_kind(held.get("kind"))
        own = attributes(held.get("attributes"))
        details = next((found.values for event, found in self._events if event.get("name") == genai.DETAILS), {})
        self._attributes: Attributes = own._replace(values=details | own.values)

    def span(self) -> Span:
        """The canonical span. Raises BadSpan."""
        held, item = self._held, self._item
        scope = item.scope.get("name") if isinstance(item.scope.get("name"), str) else None
        dialect = dialect_of(self._attributes.values, item.resource.values, scope or "")
        values = Values(self._attributes.values, exact=dialect == RECORDER, flags=set(item.flags))
        kind = genai.kind_of(values) if dialect != "infra" else "infra"
        told = genai.columns(kind, held.get("name") or "-", values, Values(item.resource.values)) | {
            "sides": genai.sides(kind, values)
        }
        told |= self._times(values) | self._error(kind, told, values)
        if any(isinstance(count := member(held, name), int) and count > 0 for name in _DROPPED):
            values.flags.add("dropped_attributes")
        parent = hex_id(member(held, "parentSpanId"), SPAN_BYTES)
        version = item.scope.get("version")
        return Span(
            trace_id=self._trace_id, span_id=self._span_id, parent_span_id=parent if parent and parent.strip("0") else None,
            source_trace_id=str(member(held, "traceId")), source_span_id=str(member(held, "spanId")), container=CONTAINER, dialect=dialect,
            mapper=genai.MAPPER, kind=kind, scope_name=scope, scope_version=version if isinstance(version, str) else None, flags=values.flags,
            provenance=values.provenance, attributes_json=_as_found(held), **told,
        )  # fmt: skip

    def scores(self) -> Iterator[Score]:
        """The evaluation events and the tags of this span."""
        for event, found_attributes in self._events:
            if event.get("name") == EVALUATION:
                values = Values(found_attributes.values)
                value = values.held.get("gen_ai.evaluation.score.value")
                origin = values.text("twiceshy.score.origin")
                yield Score(
                    trace_id=self._trace_id, span_id=self._span_id, name=values.text("gen_ai.evaluation.name") or "evaluation",
                    value=float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None,
                    label=values.text("gen_ai.evaluation.score.label"), comment=values.text("gen_ai.evaluation.explanation"),
                    origin=origin if origin in ORIGINS else "llm", created_ns=nanoseconds(member(event, "timeUnixNano"), set()),
                )  # fmt: skip
        tags = self._attributes.values.get("twiceshy.tags")
        for tag in tags if isinstance(tags, list) else ():
            yield Score(trace_id=self._trace_id, span_id=self._span_id, name="tag", label=str(tag), origin="api")

    def _times(self, values: Values) -> dict[str, Any]:
        start, end = (member(self._held, name) for name in ("startTimeUnixNano", "endTimeUnixNano"))
        times = nanoseconds(start, values.flags), nanoseconds(end, values.flags)
        if None not in times and times[1] < times[0]:  # type: ignore[operator]  # neither is None
            raise BadSpan("bad_time")
        rounded = self._item.rounded and isinstance(start, int)
        if rounded:
            values.flags.add("precision_lost")
        precision = "none" if times[0] is None else "rounded" if rounded or "precision_lost" in values.flags else "ns"
        return {"start_ns": times[0], "end_ns": times[1], "time_precision": precision}

    def _error(self, kind: str, told: dict[str, Any], values: Values) -> dict[str, Any]:
        status = self._held.get("status") or {}
        if not isinstance(status, dict):
            raise BadSpan("bad_type")
        failed = status_code(status.get("code")) == _ERROR
        message = status.get("message") if isinstance(status.get("message"), str) else ""
        exception = next((found.values for event, found in self._events if event.get("name") == "exception"), None)
        raw = told["sides"].get("raw")
        fault = genai.fault(
            kind,
            told["name"],
            values,
            UNSET if raw is None else raw.value,
            failed=failed,
            told=message or "",
            exception=exception,
        )
        if kind in CONTEXT_KINDS:  # the error of context never becomes the trace's code
            raised = values.text("twiceshy.error.class") or (
                str(exception.get("exception.type")) if exception and failed else None
            )
            return {
                "is_error": failed or raised is not None,
                "error_class": raised,
                "error_message": fault.message if fault else message or None,
            }
        if fault is None:
            return {"is_error": False}
        return {
            "is_error": True, "error_class": fault.cls, "error_code": fault.code, "error_message": fault.message, "error_source": fault.source,
            "error_definite": fault.definite,
        }  # fmt: skip


def _events(held: dict[str, Any]) -> list[dict[str, Any]]:
    listed = held.get("events") or []
    if not isinstance(listed, list) or not all(isinstance(event, dict) for event in listed):
        raise BadSpan("bad_type")
    return listed


def _as_found(held: dict[str, Any]) -> str:
    """The raw attributes, events and links, unchanged."""
    kept = {name: held[name] for name in ("attributes", "events", "links") if held.get(name)}
    return msgspec.json.encode(kept).decode()


source = FileSource(NAME, spans)
