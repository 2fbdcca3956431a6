"""A recorded run as one OTLP/JSON export request, in the GenAI conventions where they have a word and `twiceshy.*` for the rest: what the `otlp` source reads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.identity import tagged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twiceshy.envelope import Crossing, Envelope

LEFT = "twiceshy.left"
"""The finish reason of a stream that its client left: its output is what the client had read, and what would have come is unknown."""
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2


def request(envelope: Envelope) -> bytes:
    """One line without its newline: a root span, and a span a crossing."""
    resource = {"service.name": f"{envelope.workflow}-agent", "twiceshy.workflow": envelope.workflow}
    spans = [_root(envelope), *(_span(envelope, crossing) for crossing in envelope.crossings)]
    scope = {"scope": {"name": "twiceshy", "version": "1"}, "spans": spans}
    return msgspec.json.encode(
        {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}
    )


def _root(envelope: Envelope) -> dict[str, Any]:
    clock, disposition = envelope.pins.clock, envelope.disposition
    started = clock.instant_ns if clock else 0
    ended = max([started, *(crossing.end_ns or 0 for crossing in envelope.crossings)])
    versions = msgspec.to_builtins(envelope.pins.versions)
    told = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"{envelope.workflow}-agent",
        "gen_ai.agent.version": envelope.pins.versions.harness.version, "twiceshy.versions": _text(versions),
        "twiceshy.seen": _text(envelope.input.user), "twiceshy.raw": _side(disposition.output), "twiceshy.clock.tz": clock and clock.tz,
        "twiceshy.clock.instant_ns": clock and clock.instant_ns, **_error(disposition.error),
    }  # fmt: skip
    span = _bare(envelope.trace_id, "root", f"invoke_agent {envelope.workflow}-agent", (started, ended))
    failed = {"code": _ERROR, "message": disposition.error.message if disposition.error else ""}
    return span | {"attributes": _attributes(told), "status": {"code": _OK} if disposition.ended else failed}


def _span(envelope: Envelope, crossing: Crossing) -> dict[str, Any]:
    within = f"#{crossing.seq}" if crossing.sub and crossing.seq else "root"
    told = {
        "twiceshy.kind": crossing.kind.value, "twiceshy.name": None if crossing.kind is Kind.TOOL else crossing.name, "twiceshy.seq": crossing.seq,
        "twiceshy.sub": crossing.sub or None, "twiceshy.parent": crossing.parent, "twiceshy.tightened": crossing.tightened or None,
        "twiceshy.scope": crossing.scope or None, **_of_kind(crossing), **_error(crossing.error),
    }  # fmt: skip
    times = (crossing.start_ns or 0, crossing.end_ns or 0)
    kind = _CLIENT if crossing.kind is Kind.MODEL else _INTERNAL
    span = _bare(
        envelope.trace_id, crossing.place, f"{crossing.kind.value} {crossing.name}", times, within=within, kind=kind
    )
    status = {"status": {"code": _ERROR, "message": crossing.error.message}} if crossing.error else {}
    return span | {"attributes": _attributes(told)} | status


def _of_kind(crossing: Crossing) -> dict[str, Any]:
    if crossing.kind is Kind.MODEL:
        return _model(crossing)
    told = {side: _side(getattr(crossing, side)) for side in ("proposed", "seen", "raw", "shown")}
    tool = (
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": crossing.name}
        if crossing.kind is Kind.TOOL
        else {}
    )
    return {
        **tool, **{f"twiceshy.{side}": text for side, text in told.items()}, "twiceshy.group": crossing.group, "twiceshy.at": crossing.at,
        "twiceshy.attempt": crossing.attempt if crossing.attempt > 1 else None, "twiceshy.blocked_by": crossing.blocked_by,
    }  # fmt: skip


def _model(crossing: Crossing) -> dict[str, Any]:
    asked = dict(crossing.seen) if isinstance(crossing.seen, dict) else {}
    named: dict[str, Any] = {"gen_ai.request.model": asked.get("model")}
    if "messages" not in asked:
        return {
            "gen_ai.operation.name": "embeddings",
            **named,
            "twiceshy.seen": _side(crossing.seen),
            "twiceshy.raw": _side(crossing.raw),
        }
    told, tools = asked.pop("messages"), asked.pop("tools", UNSET)
    left = crossing.raw is UNSET and crossing.error is None
    said = crossing.shown if left else crossing.raw
    output = {"role": "assistant", **said} if isinstance(said, dict) else UNSET
    if left:
        named["gen_ai.response.finish_reasons"] = _text([LEFT])
    return {
        "gen_ai.operation.name": "chat", **named, "gen_ai.input.messages": _text(told), "gen_ai.tool.definitions": _side(tools),
        "twiceshy.request": _text(asked), "gen_ai.output.messages": UNSET if output is UNSET else _text([output]),
    }  # fmt: skip


def _error(error: Any) -> dict[str, Any]:
    if error is None:
        return {}
    told = {"class": error.cls, "type": error.type, "message": error.message, "definite": error.definite}
    return {"error.type": error.type, **{f"twiceshy.error.{name}": value for name, value in told.items()}}


def _side(value: Any) -> str | None:
    return None if value is UNSET else _text(value)


def _text(value: object) -> str:
    return msgspec.json.encode(tagged(value)).decode()


def _bare(
    trace_id: str, place: str, name: str, times: tuple[int, int], *, within: str | None = None, kind: int = _INTERNAL
) -> dict[str, Any]:
    parent = {"parentSpanId": _span_id(trace_id, within)} if within else {}
    return {
        "traceId": trace_id, "spanId": _span_id(trace_id, place), **parent, "name": name, "kind": kind,
        "startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1]),
    }  # fmt: skip


def _span_id(trace_id: str, place: str) -> str:
    return hashlib.sha256(f"{trace_id} {place}".encode()).hexdigest()[:16]


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": _any_value(value)}
        for key, value in values.items()
        if value is not None and value is not UNSET
    ]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
