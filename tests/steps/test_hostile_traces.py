"""Files of traces that somebody wrote to break the reading: any value, at any place, loses at most what it stands in."""

import copy
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tasks.sources import source as files
from tasks.sources.registry import SOURCES, named
from tasks.sources.source import Window
from traces import HARNESS, a_raw
from twiceshy.errors import FormatError

TRACE, SPAN, TIME = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c10001", "2026-11-03T09:14:00.000Z"
SESSION = "11111111-2222-4333-8444-555555555555"
FLAT = {"trace_id": TRACE, "span_id": SPAN, "name": "x", "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}, "events": []}  # fmt: skip
OTLP = {"traceId": TRACE, "spanId": SPAN, "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "t"}}], "status": {"code": 2}}  # fmt: skip
TURN = {"type": "assistant", "message": {"role": "assistant", "id": "m1", "model": "m", "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}], "usage": {}}, "timestamp": TIME, "uuid": "u0", "sessionId": SESSION, "version": "2", "parentUuid": None}  # fmt: skip
SAMPLES: list[tuple[str, Any]] = [
    ("otlp", {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [OTLP]}]}]}),
    ("otlp", FLAT),
    ("otlp", {"data": [{"traceID": TRACE, "spans": [{"traceID": TRACE, "spanID": SPAN, "operationName": "x", "startTime": 1, "duration": 2, "tags": [{"key": "error", "value": True}], "logs": [], "references": [], "processID": "p1"}], "processes": {"p1": {"serviceName": "s", "tags": []}}}]}),
    ("braintrust", {"id": "r", "created": TIME, "root_span_id": SESSION, "span_id": "s1", "span_parents": None, "is_root": True, "span_attributes": {"name": "t", "type": "tool"}, "metrics": {"start": 1.5, "end": 2.5}, "input": None, "output": "Hi."}),
    ("claude_code", TURN),
    ("claude_agent_sdk", TURN),
    ("codex", {"timestamp": TIME, "type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}}),
    ("codex", {"type": "item.completed", "item": {"id": "i", "type": "command_execution", "command": "ls", "aggregated_output": "", "exit_code": 0}}),
    ("inspect", {"version": 2, "eval": {"run_id": "r1", "task": "shop", "model": "m"}, "samples": [{"id": 1, "epoch": 1, "input": "Hi.", "events": [{"event": "tool", "timestamp": TIME, "span_id": "s1", "id": "c1", "function": "bash", "arguments": {}, "result": "a"}], "attachments": {}}]}),
    ("langfuse", {"id": "s", "traceId": TRACE, "observationId": None, "name": "c", "value": 0, "source": "EVAL", "dataType": "NUMERIC", "timestamp": TIME}),
    ("langsmith", [{"id": SESSION, "trace_id": SESSION, "parent_run_id": None, "name": "step", "run_type": "tool", "start_time": 1793697241000, "inputs": {}, "outputs": None, "error": None, "extra": {}, "tags": []}]),
    ("logfire", {"kind": "span", "start_timestamp": TIME, "end_timestamp": TIME, "trace_id": TRACE, "span_id": SPAN, "parent_span_id": None, "span_name": "x", "message": "x", "attributes": {"gen_ai.operation.name": "execute_tool"}, "tags": [], "otel_resource_attributes": {}, "otel_events": []}),
    ("mlflow", {"info": {"trace_id": f"tr-{TRACE}", "request_time": TIME, "state": "ERROR", "trace_metadata": {}, "tags": {}}, "data": {"spans": []}}),
    ("openai_agents", {"object": "trace.span", "id": "span_0ae0b7d609b240b1a0792d94", "trace_id": f"trace_{TRACE}", "parent_id": None, "started_at": TIME, "ended_at": TIME, "span_data": {"type": "function", "name": "t", "input": "{}", "output": "a"}, "error": None}),
    ("messages", {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": [{"type": "text", "text": "Hi."}, {"type": "tool_use", "id": "c1", "name": "t", "input": {}}]}]}),
    ("openai_chat", {"task_id": 0, "trial": 1, "reward": 1.0, "info": {}, "traj": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]}),
    ("swe_agent", {"environment": "main", "trajectory": [{"action": "ls", "observation": "A", "response": "r", "thought": "t"}], "history": [{"role": "user", "content": "Fix."}], "info": {}}),
    ("who_and_when", {"question_ID": "q1", "history": [{"content": "Solve.", "role": "assistant", "name": "Manager"}], "is_correct": False}),
]  # fmt: skip
DEEP = '{"a":' * 700 + '"\\ud800"' + "}" * 700
SPELLED = [
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    DEEP,
    "[" * 900 + "]" * 900,
    '"\\ud800"',
    '{"\\ud800":1}',
    '["\\ud800"]',
]
ODD = [
    None,
    True,
    -1,
    1.5,
    "",
    "x",
    [],
    {},
    [None],
    [{}],
    {"a": None},
    [[]],
    2**63,
    10**30,
    1e300,
    "9" * 5000,
    DEEP,
    "[" * 9000,
    {"type": []},
    {"content": None},
]
KEYS = ["llm.input_messages." + "9" * 5000 + ".message.role", "gen_ai.prompt." + "0." * 3000 + "role"]


def test_every_source_is_attacked() -> None:
    assert {name for name, _ in SAMPLES} == set(SOURCES.names())


def places(held: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for name, item in held.items() if isinstance(held, dict) else enumerate(held if isinstance(held, list) else ()):
        yield from places(item, (*path, name))


def changed(held: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    below = copy.copy(held)
    below[path[0]] = changed(held[path[0]], path[1:], value)
    return below


@given(st.data())
def test_any_value_at_any_place_leaves_the_account_whole(data: st.DataObject) -> None:
    name, sample = data.draw(st.sampled_from(SAMPLES))
    path = data.draw(st.sampled_from(list(places(sample))))
    text = data.draw(st.sampled_from([json.dumps(value) for value in ODD] + SPELLED))
    content = json.dumps(changed(sample, path, "@@")).replace('"@@"', text)
    try:
        mapped = named(name).spans(a_raw(content), harness_state=HARNESS)
    except FormatError:
        return
    assert mapped.spans_in == mapped.spans.height + len(mapped.rejected)


@pytest.mark.parametrize(
    "bad",
    [
        json.dumps(FLAT | {"attributes": {KEYS[0]: "user", "openinference.span.kind": "LLM"}}),
        json.dumps(FLAT | {"attributes": {KEYS[1]: "user"}}),
        json.dumps(FLAT | {"attributes": {"gen_ai.tool.name": "@@", "gen_ai.operation.name": "execute_tool"}}).replace('"@@"', DEEP),
    ],
)  # fmt: skip
def test_a_span_that_cannot_be_walked_is_set_aside_alone(bad: str) -> None:
    mapped = named("otlp").spans(a_raw(json.dumps(FLAT) + "\n" + bad), harness_state=HARNESS)
    assert (mapped.spans.height, len(mapped.rejected)) == (1, 1)


def test_text_column_that_holds_none_loses_its_span_and_not_the_file() -> None:
    lines = [TURN, TURN | {"uuid": "u1", "version": 2, "message": {**TURN["message"], "id": "m2"}}]  # type: ignore[dict-item]
    mapped = named("claude_code").spans(a_raw("\n".join(map(json.dumps, lines))), harness_state=HARNESS)
    assert mapped.spans.height
    assert {row.reason for row in mapped.rejected} == {"bad_type"}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lambda held: zstandard.compress(held[:9]) + zstandard.compress(held)], ids=["gzip", "zstd", "frames"])  # fmt: skip
def test_packed_file_is_unpacked_to_a_limit(pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_bytes(pack(b" " * 100_000 + b"{}"))
    window = Window(paths=(tmp_path / "a.json",))
    (raw,) = named("otlp").fetch(window)
    assert raw.content.endswith(b"{}")
    monkeypatch.setattr(files, "MAX_UNPACKED_BYTES", 100_001)
    with pytest.raises(FormatError, match="unpacks to more than 100,001 bytes"):
        list(named("otlp").fetch(window))


def test_zip_that_holds_too_much_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("samples/1.json", b" " * 100_000)
    monkeypatch.setattr(files, "MAX_UNPACKED_BYTES", 99_999)
    with pytest.raises(FormatError, match="unpacks to more than"):
        named("inspect").spans(a_raw(packed.getvalue(), "a.eval"), harness_state=HARNESS)
