"""Which source a file is of, by the marks in its beginning: for the hint to a person who named the wrong one, and for nothing else."""

from __future__ import annotations

import re

_BEGINNING = 65_536
# First match wins, so what is told by a more particular mark stands before what is told by a common one.
_MARKS = (
    ("inspect", rb"^PK\x03\x04"),
    ("logfire", rb"^PAR1|\"otel_scope_name\"|\"span_name\"\s*:"),
    ("langsmith", rb"\"dotted_order\"|\"client\.beta\.sessions\.|\"run_type\"\s*:"),
    ("langfuse", rb"\"(?:parentObservationId|parent_observation_id|observations)\"\s*:"),
    ("claude_agent_sdk", rb"\"direction\"\s*:\s*\"(?:send|recv)\""),
    ("openai_agents", rb"\"object\"\s*:\s*\"trace(?:\.span)?\""),
    ("mlflow", rb"\"trace_location\"|\"request_preview\"|\"trace_metadata\""),
    ("inspect", rb"\"eval\"\s*:\s*\{[^{}]*\"task"),
    ("swe_agent", rb"\"trajectory\"\s*:\s*\["),
    ("who_and_when", rb"\"mistake_step\""),
    ("langsmith", rb"\"dotted_order\"|\"run_type\""),
    ("langfuse", rb"\"observations\"\s*:\s*\[|\"isRootObservation\"|\"(?:parentObservationId|parent_observation_id)\""),
    ("braintrust", rb"\"span_parents\"|\"_xact_id\""),
    ("codex", rb"\"type\"\s*:\s*\"(?:session_meta|response_item|function_call_output|item\.(?:started|completed)|thread\.started)\""),
    ("claude_code", rb"\"parentUuid\"|\"isSidechain\"|\"type\"\s*:\s*\"tool_(?:use|result)\""),
    ("otlp", rb"\"(?:resourceSpans|resource_spans|batches|spanContext|traceID|span_id)\""),
    ("openai_chat", rb"\"traj\"\s*:\s*\[|\"messages\"\s*:\s*\["),
)  # fmt: skip


def source_of(content: bytes) -> str | None:
    """The source whose marks the beginning of a file bears; None where it bears none."""
    head = content[:_BEGINNING]
    return next((name for name, mark in _MARKS if re.search(mark, head)), None)
