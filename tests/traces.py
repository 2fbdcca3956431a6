"""Raw traces as sources write them, built small; and where the real ones lie."""

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks.normalize.flagging import Rule
from tasks.normalize.step import Normalized, normalize, unredacted
from tasks.sources import openai_chat, otlp
from tasks.sources.records import Score, Span, score_frame, span_frame, span_row
from tasks.sources.source import Mapped, Raw
from twiceshy import policy
from twiceshy.policy import ToolsPolicy

ROOT = Path(__file__).parents[1]
HARNESS = "test"
SYSTEM = {"role": "system", "content": "You help. The current time is 2024-05-15 15:00:00 EST."}


def real(name: str) -> Path:
    """A file of the real traces beside the checkout; the test is skipped where they are not."""
    found = next(
        (above / "shared/real-traces" / name for above in ROOT.parents if (above / "shared/real-traces").exists()), None
    )
    if found is None:
        pytest.skip("the real traces (../shared/real-traces) are not here")
    return found


def a_raw(content: bytes | str, name: str = "runs.jsonl") -> Raw:
    """Fetched bytes."""
    held = content.encode() if isinstance(content, str) else content
    return Raw(name, held, hashlib.sha256(held).hexdigest(), len(held))


def said(content: str | None, *calls: tuple[str, str, Any]) -> dict[str, Any]:
    """An assistant message; calls: (id, tool, arguments or their text)."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": tool, "arguments": held if isinstance(held, str) else json.dumps(held)}}
            for call_id, tool, held in calls
        ]  # fmt: skip
    return message


def told(content: str, call_id: str = "c1", tool: str = "get_order") -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "tool_call_id": call_id, "name": tool, "content": content}


def user(content: str) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": content}


def a_run(
    *messages: Mapping[str, Any], task: int = 0, trial: int = 0, system: Mapping[str, Any] = SYSTEM, **record: Any
) -> dict[str, Any]:
    """One trajectory of tau-bench's form."""
    return {
        "task_id": task,
        "trial": trial,
        "reward": 1.0,
        "info": {},
        "traj": [system, user("Hello"), *messages],
    } | record


def chat(*runs: Mapping[str, Any] | bytes, name: str = "runs.jsonl") -> Mapped:
    """Runs (or raw lines) as the openai_chat source maps them."""
    lines = [run if isinstance(run, bytes) else json.dumps(run).encode() for run in runs]
    return openai_chat.spans(a_raw(b"\n".join(lines), name), harness_state=HARNESS)


def normalized(mapped: Mapped, tools: ToolsPolicy | None = None, rule: str | None = None) -> Normalized:
    """What normalize makes of mapped spans, unredacted, all of one workflow."""
    workflow = tools.workflow if tools else "w"
    spans = unredacted(mapped.spans.with_columns(workflow=pl.lit(workflow)))
    policies = {workflow: tools} if tools else {}
    return normalize(spans, mapped.scores, policies=policies, harness_state=HARNESS, rule=Rule(rule) if rule else None)


def packed(path: Path, *lines: bytes) -> Path:
    """A gzip file of lines."""
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    return path


def airline() -> ToolsPolicy:
    """The committed policy of the airline workflow."""
    return policy.load(ROOT / "data/policies/airline/tools.yaml")


def a_span(span_id: str, kind: str = "tool", name: str = "get_order", **fields: Any) -> Span:
    """A span as a mapper gives it; `span_id` and `parent` by their last digits; start and end in ns."""
    parent = fields.pop("parent", None)
    tool = {"tool_name": name} if kind == "tool" else {}
    held = {
        "trace_id": "a" * 32, "span_id": span_id.rjust(16, "0"), "parent_span_id": parent and parent.rjust(16, "0"), "source_trace_id": "t",
        "source_span_id": span_id, "container": "otlp", "dialect": "genai", "mapper": "genai@1", "kind": kind, "name": name,
    }  # fmt: skip
    return Span(**{**held, **tool, **fields})


def mapped(*spans: Span, scores: Sequence[Score] = ()) -> Mapped:
    """Spans as a source would hand them on."""
    rows = [span_row(span, source="otlp", harness_state=HARNESS) for span in spans]
    return Mapped(span_frame(rows), score_frame(scores, source="otlp", harness_state=HARNESS), [], len(rows))


def an_output(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Output messages of a model span."""
    return [{"role": "assistant", "parts": list(parts)}]


def a_proposal(tool: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    """A part that asks for a call."""
    return {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}


def an_attribute(key: str, value: Any) -> dict[str, Any]:
    """One OTLP attribute: bool, int, float, text; a dict or a list as it stands."""
    for kind, name in ((bool, "boolValue"), (int, "intValue"), (float, "doubleValue"), (str, "stringValue")):
        if isinstance(value, kind):
            return {"key": key, "value": {name: str(value) if kind is int else value}}
    return {"key": key, "value": value}


def a_wire_span(
    span_id: str, name: str = "execute_tool get_order", *, parent: str | None = None, **fields: Any
) -> dict[str, Any]:
    """One span as OTLP/JSON has it; attributes as a plain mapping; `span_id` and `parent` by their last digits."""
    held = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": f"eee19b7ec3c1{span_id:0>4}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
    }
    if parent is not None:
        held["parentSpanId"] = f"eee19b7ec3c1{parent:0>4}"
    held["attributes"] = [an_attribute(key, value) for key, value in fields.pop("attributes", {}).items()]
    return held | fields


def a_request(*spans: Any, scope: str = "agent", resource: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One OTLP/JSON export request."""
    attributes = [an_attribute(key, value) for key, value in (resource or {}).items()]
    return {
        "resourceSpans": [
            {"resource": {"attributes": attributes}, "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}
        ]
    }


def wire(*requests: Any, name: str = "traces.jsonl") -> Mapped:
    """Requests (or raw lines), one a line, as the otlp source maps them."""
    lines = [held if isinstance(held, bytes) else json.dumps(held).encode() for held in requests]
    return otlp.spans(a_raw(b"\n".join(lines), name), harness_state=HARNESS)


CALLED = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_order",
    "gen_ai.tool.call.arguments": '{"id": "A1"}',
    "gen_ai.tool.call.result": '{"total": 7}',
}
