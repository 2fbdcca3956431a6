"""A carried span to the canonical record: its first dialect reads it, the others fill what that left empty, and the ladder of formats.md §7 names its error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from tasks.sources import faults
from tasks.sources.dialects import RECORDER, UNKNOWN, dialects_of, genai
from tasks.sources.dialects.told import Told, is_context
from tasks.sources.otlp_values import Values
from tasks.sources.records import Score, Span
from tasks.sources.schema import ORIGINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tasks.sources.carried import Carried
    from tasks.sources.faults import Fault

EVALUATION = "gen_ai.evaluation.result"
_CALLS = ("tool", "retrieval", "memory")


class Own(NamedTuple):
    """What a trace store tells of a span in columns of its own, beside the attributes that it received.

    read: makes it of the kind that the attributes say, None where they say nothing: then the columns decide, and the span is theirs.
    """

    name: str
    mapper: str
    columns: dict[str, Any]
    read: Callable[[str | None, Carried, Values], Told]


def span_of(held: Carried, own: Own | None = None) -> Span:
    """The canonical span; what its dialects leave empty is filled from the columns of its store. Raises BadSpan."""
    held.attributes = (held.event(genai.DETAILS) or {}) | held.attributes
    first, *others = dialects_of(held)
    values = Values(held.attributes, exact=first.name == RECORDER, flags=set(held.flags))
    told = first.read(held, values)
    for other in others:
        further = Values(held.attributes)
        told, taken = told.filled(other.read(held, further))
        if taken:
            values.flags |= further.flags
            values.provenance |= {name: further.provenance[name] for name in taken if name in further.provenance}
    name, mapper = first.name, first.mapper
    if own is not None:
        told = _with_own(held, told, values, own)
        name, mapper = (own.name, own.mapper) if name == UNKNOWN else (name, mapper)
    return Span(
        trace_id=held.trace_id, span_id=held.span_id, parent_span_id=held.parent_span_id, source_trace_id=held.source_trace_id,
        source_span_id=held.source_span_id, container=held.container, dialect=name, mapper=mapper, kind=told.kind,
        start_ns=held.start_ns, end_ns=held.end_ns, time_precision=held.time_precision, scope_name=held.scope_name,
        scope_version=held.scope_version, flags=values.flags, provenance=values.provenance, attributes_json=held.as_found, sides=told.sides,
        **told.columns, **_error(held, told, values),
    )  # fmt: skip


def _with_own(held: Carried, told: Told, values: Values, own: Own) -> Told:
    """The reading filled from a store's columns, which decide what a mere step is."""
    further = Values(own.columns)
    mine = own.read(None if told.kind == "step" else told.kind, held, further)
    if mine.kind != told.kind:
        made, kept = mine.filled(told._replace(kind=mine.kind))
        taken = (frozenset(mine.columns) | frozenset(mine.sides)) - kept
        made = made._replace(fault=mine.fault or told.fault)
    else:
        made, taken = told.filled(mine)
    if taken:
        values.flags |= further.flags
        values.provenance |= {name: further.provenance[name] for name in taken if name in further.provenance}
    return made


def scores_of(held: Carried) -> Iterator[Score]:
    """The evaluation events and the tags of a span."""
    for event in held.events:
        if event.name == EVALUATION:
            values = Values(event.attributes)
            value = values.held.get("gen_ai.evaluation.score.value")
            origin = values.text("twiceshy.score.origin")
            yield Score(
                trace_id=held.trace_id, span_id=held.span_id, name=values.text("gen_ai.evaluation.name") or "evaluation",
                value=float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None,
                label=values.text("gen_ai.evaluation.score.label"), comment=values.text("gen_ai.evaluation.explanation"),
                origin=origin if origin in ORIGINS else "llm", created_ns=event.time_ns,
            )  # fmt: skip
    tags = held.attributes.get("twiceshy.tags")
    for tag in tags if isinstance(tags, list) else ():
        yield Score(trace_id=held.trace_id, span_id=held.span_id, name="tag", label=str(tag), origin="api")


def _error(held: Carried, told: Told, values: Values) -> dict[str, Any]:
    exception = held.event("exception")
    fault = told.fault or _fault(held, told, values, exception)
    if is_context(told.kind):  # the error of context never becomes the trace's code
        said = str(exception.get("exception.type")) if exception and held.failed else None
        raised = values.text("twiceshy.error.class") or said
        return {
            "is_error": held.failed or raised is not None, "error_class": raised,
            "error_message": fault.message if fault else held.status_message or None,
        }  # fmt: skip
    if fault is None:
        return {"is_error": False}
    return {
        "is_error": True, "error_class": fault.cls, "error_code": fault.code, "error_message": fault.message, "error_source": fault.source,
        "error_definite": fault.definite,
    }  # fmt: skip


def _fault(held: Carried, told: Told, values: Values, exception: dict[str, Any] | None) -> Fault | None:
    """The error, by the first rung that holds; None where it went well."""
    own = values.text("twiceshy.error.type", "error.type")
    said = exception or {}
    message = values.text("twiceshy.error.message") or str(said.get("exception.message") or held.status_message)
    if own is not None:
        definite = values.held.get("twiceshy.error.definite")
        cls = values.text("twiceshy.error.class") or str(said.get("exception.type") or own)
        return faults.typed(own, message, cls=cls, definite=definite if isinstance(definite, bool) else None)
    if exception is not None and held.failed:
        return faults.raised(str(said.get("exception.type") or ""), message)
    result = told.sides.get("raw")
    value = UNSET if result is None else result.value
    found = faults.returned(told.columns["name"], value) if told.kind in _CALLS and value is not UNSET else None
    return found or (faults.bare(held.status_message) if held.failed else None)
