"""An envelope as OTLP spans: the GenAI conventions where they have a word, `twiceshy.*` for the rest (the table is in `examples.samples`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from examples.refund import agent as refund
from examples.research import agent as research
from examples.scheduling import agent as scheduling
from twiceshy.envelope import Kind
from twiceshy.identity import tagged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twiceshy.envelope import Crossing, Envelope, ErrorRecord

_PROMPTS = {agent.PROMPT_NAME: agent.PROMPTS for agent in (refund, scheduling, research)}
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2
# Statuses of a final output that the agent's own operators count as an error of the run.
_FAILED_STATUSES = frozenset({"gave_up", "unavailable"})

Span = dict[str, Any]


@dataclass(slots=True)
class Scored:
    """One verdict on a trace: by a user, an online grader or a person. at_ns: when it was given."""

    name: str
    origin: str
    value: float
    label: str
    explanation: str = ""
    at_ns: int = 0

    def event(self) -> dict[str, Any]:
        """The evaluation event that carries it."""
        attributes = {
            "gen_ai.evaluation.name": self.name, "gen_ai.evaluation.score.value": self.value,
            "gen_ai.evaluation.score.label": self.label, "gen_ai.evaluation.explanation": self.explanation or None,
            "twiceshy.score.origin": self.origin,
        }  # fmt: skip
        return {
            "timeUnixNano": str(self.at_ns), "name": "gen_ai.evaluation.result", "attributes": _attributes(attributes)
        }  # fmt: skip


@dataclass(slots=True)
class Trace:
    """The spans of one run, root first, ready to be written or damaged."""

    trace_id: str
    workflow: str
    spans: list[Span] = field(default_factory=list)

    @property
    def root(self) -> Span:
        """The span of the whole run."""
        return self.spans[0]


def exported(envelope: Envelope, scores: list[Scored]) -> Trace:
    """The trace of one recorded run: a root, a span a step, and a child span for each hook, guard, router and draw."""
    trace = Trace(envelope.trace_id, envelope.workflow, [_root(envelope, scores)])
    trace.spans += [_span(envelope, crossing) for crossing in envelope.crossings]
    return trace


def request(trace: Trace, spans: list[Span] | None = None) -> bytes:
    """One OTLP/JSON export request, as a line without its newline; all spans of the trace unless some are named."""
    resource = {
        "service.name": f"{trace.workflow}-agent", "deployment.environment.name": "production",
        "twiceshy.workflow": trace.workflow,
    }  # fmt: skip
    body = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": {"name": "twiceshy", "version": "1"}, "spans": spans or trace.spans}],
            }
        ]
    }
    return msgspec.json.encode(body)


def span_id(trace_id: str, place: str) -> str:
    """The id of the span of a place (`root`, `#4`, `#4.1`) in a trace."""
    return hashlib.sha256(f"{trace_id} {place}".encode()).hexdigest()[:16]


def text(value: object) -> str:
    """A recorded value as an attribute carries it: its lossless JSON."""
    return msgspec.json.encode(tagged(value)).decode()


def ended_as(envelope: Envelope) -> str:
    """The status of a run's final output."""
    output = envelope.disposition.output
    return str(output["status"]) if isinstance(output, dict) else ""


def _root(envelope: Envelope, scores: list[Scored]) -> Span:
    clock, disposition = envelope.pins.clock, envelope.disposition
    end_ns = max(crossing.end_ns or 0 for crossing in envelope.crossings)
    failed = ended_as(envelope) in _FAILED_STATUSES
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": f"{envelope.workflow}-agent",
        "gen_ai.agent.version": envelope.pins.versions.harness.version,
        "gen_ai.conversation.id": envelope.conversation_id,
        "twiceshy.seen": text(envelope.input.user),
        "twiceshy.raw": text(disposition.output),
        "twiceshy.clock.text": clock and clock.as_given_to_agent,
        "twiceshy.clock.tz": clock and clock.tz,
        "twiceshy.clock.instant_ns": clock and clock.instant_ns,
    }
    name = f"invoke_agent {envelope.workflow}-agent"
    span = _bare(envelope.trace_id, "root", name, (clock.instant_ns if clock else 0, end_ns))
    span["attributes"] = _attributes(attributes)
    span["status"] = {"code": _ERROR, "message": ended_as(envelope)} if failed else {"code": _OK}
    if scores:
        span["events"] = [score.event() for score in scores]
    return span


def _span(envelope: Envelope, crossing: Crossing) -> Span:
    within = f"#{crossing.seq}" if crossing.sub and crossing.seq else "root"
    kind = _CLIENT if crossing.kind is Kind.MODEL else _INTERNAL
    times = (crossing.start_ns or 0, crossing.end_ns or 0)
    span = _bare(envelope.trace_id, crossing.place, _name(crossing), times, parent=within, kind=kind)
    attributes: dict[str, Any] = {
        "twiceshy.kind": crossing.kind.value, "twiceshy.name": None if crossing.kind is Kind.TOOL else crossing.name, "twiceshy.seq": crossing.seq,
        "twiceshy.sub": crossing.sub or None, "twiceshy.parent": crossing.parent, "twiceshy.tightened": crossing.tightened or None,
    }  # fmt: skip
    attributes |= _of_kind(envelope, crossing) | _of_error(crossing.error)
    span["attributes"] = _attributes(attributes)
    if crossing.error is not None:
        span["status"] = {"code": _ERROR, "message": crossing.error.message}
    return span


def _of_kind(envelope: Envelope, crossing: Crossing) -> dict[str, Any]:
    if crossing.kind is Kind.MODEL:
        return _model(envelope, crossing)
    if crossing.kind is Kind.TOOL:
        return _tool(crossing)
    return {"twiceshy.at": crossing.at, "twiceshy.seen": _side(crossing.seen), "twiceshy.raw": _side(crossing.raw)}


def _model(envelope: Envelope, crossing: Crossing) -> dict[str, Any]:
    """A chat span. What the request holds beside messages and tools goes into `twiceshy.request`, so nothing is lost."""
    asked: dict[str, Any] = dict(crossing.seen)  # type: ignore[arg-type]
    messages, tools = asked.pop("messages"), asked.pop("tools")
    output: dict[str, Any] = {"role": "assistant", **crossing.raw}  # type: ignore[dict-item]
    system = messages[0]["parts"][0]["content"]
    model, prompt = envelope.pins.versions.model.version, f"{envelope.workflow}-agent"
    return {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "scripted", "gen_ai.request.model": model,
        "gen_ai.response.model": model, "gen_ai.input.messages": text(messages),
        "gen_ai.output.messages": text([output]), "gen_ai.tool.definitions": text(tools), "twiceshy.request": text(asked),
        "twiceshy.prompt.name": prompt,
        "twiceshy.prompt.version": next(name for name, start in _PROMPTS[prompt].items() if system.startswith(start)),
    }  # fmt: skip


def _tool(crossing: Crossing) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": crossing.name,
        "gen_ai.tool.call.arguments": _side(crossing.seen), "gen_ai.tool.call.result": _side(crossing.raw),
        "twiceshy.proposed": _side(crossing.proposed), "twiceshy.shown": _side(crossing.shown),
        "twiceshy.group": crossing.group, "twiceshy.attempt": crossing.attempt if crossing.attempt > 1 else None,
        "twiceshy.blocked_by": crossing.blocked_by,
    }  # fmt: skip


def _of_error(error: ErrorRecord | None) -> dict[str, Any]:
    if error is None:
        return {}
    return {
        "error.type": error.type, "twiceshy.error.class": error.cls, "twiceshy.error.type": error.type,
        "twiceshy.error.message": error.message, "twiceshy.error.definite": error.definite,
    }  # fmt: skip


def _name(crossing: Crossing) -> str:
    if crossing.kind is Kind.MODEL:
        return f"chat {crossing.name}"
    return f"{'execute_tool' if crossing.kind is Kind.TOOL else crossing.kind.value} {crossing.name}"


def _side(value: Any) -> str | None:
    return None if value is UNSET else text(value)


def _bare(
    trace_id: str, place: str, name: str, times: tuple[int, int], *, parent: str | None = None, kind: int = _INTERNAL
) -> Span:
    return {
        "traceId": trace_id, "spanId": span_id(trace_id, place),
        **({"parentSpanId": span_id(trace_id, parent)} if parent else {}), "name": name, "kind": kind,
        "startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1]),
    }  # fmt: skip


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """OTLP attributes of what is known; what is None is left out."""
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value is not None]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}
