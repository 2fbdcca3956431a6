"""A run as a carried span, and what its columns tell. The tree is that of `parent_run_id`; `dotted_order` must agree (langsmith-sdk#751)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.sources import faults, ids, payloads, shapes, toolruns
from tasks.sources.carried import Carried
from tasks.sources.dialects import genai, langsmith_otel
from tasks.sources.dialects.told import Told
from tasks.sources.langsmith.rows import last_of, levels
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.records import CONTRADICTED, Side
from tasks.sources.times import span_times

if TYPE_CHECKING:
    from tasks.sources.faults import Fault
    from tasks.sources.langsmith.rows import Row
    from tasks.sources.otlp_values import Values

NAME = "langsmith"
MAPPER = "langsmith@1"
_KINDS = {"llm": "model", "embedding": "model", "tool": "tool", "retriever": "retrieval"}
_RAISED = re.compile(
    r"\s*(?P<cls>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Timeout))\((?P<message>.*?)\)\s*(?:Traceback|\n|$)",
    re.DOTALL,
)
_THREADS = ("thread_id", "session_id", "conversation_id")
_NO_SAMPLING = frozenset(
    (
        "messages",
        "prompts",
        "prompt",
        "input",
        "model",
        "model_name",
        "tools",
        "functions",
        "extra_headers",
        "extra_query",
        "extra_body",
        "_type",
    )
)


def carried(row: Row) -> Carried:
    """The span. Raises BadSpan."""
    held = row.value
    if not isinstance(held.get("name"), str | None) or held.get("run_type") is None:
        raise BadSpan("bad_type")
    flags = set(row.flags)
    ordered = levels(held.get("dotted_order"))
    run = held.get("id") or last_of(held.get("dotted_order"))
    trace = held.get("trace_id") or (ordered[0] if ordered else None)
    parent = held.get("parent_run_id")
    if "parent_run_id" not in held and len(ordered) > 1:
        parent = ordered[-2]
    elif ordered and not _agree(ordered, run, parent, trace):
        flags.add(CONTRADICTED)
    flags |= (
        {"ref_unresolved"}
        if any(held.get(f"{side}_s3_urls") and not held.get(side) for side in ("inputs", "outputs"))
        else set()
    )
    error = held.get("error")
    return Carried(
        trace_id=ids.trace_id(trace, NAME, flags), span_id=ids.span_id(run, NAME, flags), parent_span_id=ids.parent_id(parent, NAME),
        source_trace_id=str(trace), source_span_id=str(run), container=row.container, name=held.get("name") or "-",
        failed=bool(error) or held.get("status") == "error", status_message=str(error or ""), attributes={}, flags=flags,
        as_found=msgspec.json.encode(held).decode(), **span_times(held.get("start_time"), held.get("end_time")),
    )  # fmt: skip


def columns_of(row: Row) -> dict[str, Any]:
    """The columns; objects that an export wrote as JSON text are objects again."""
    return row.value | {
        name: _object(row.value.get(name)) for name in ("inputs", "outputs", "extra") if row.value.get(name) is not None
    }


def read(kind: str | None, span: Carried, values: Values) -> Told:
    """The run as its columns tell it."""
    held, metadata = values.held, metadata_of(values.held)
    kind = kind or _KINDS.get(str(held.get("run_type")).lower()) or ("agent" if span.parent_span_id is None else "step")
    columns: dict[str, Any] = {
        "name": span.name, "conversation_id": _first(metadata, *_THREADS), "user_ref": _first(metadata, "user_id"), "agent_version": _first(metadata, "revision_id"),
        "prompt_name": _first(metadata, "lc_hub_repo"), "prompt_version": _first(metadata, "lc_hub_commit_hash"),
    }  # fmt: skip
    if kind in ("tool", "retrieval"):
        columns["tool_name"] = span.name
    if kind == "model":
        columns |= _model(held, metadata, values)
        genai.hear(columns, values)
        return Told(kind, columns, {}, _fault(span))
    answered = toolruns.answer(_output(held)) if kind == "tool" else None
    if answered is not None:
        columns["call_id"] = answered.call_id
    failed = answered is not None and answered.failed
    fault = _fault(span) or (
        faults.typed("tool_error", str(answered.response), cls="ToolException") if answered and failed else None
    )
    return Told(kind, columns, _sides(kind, held, values, answered), fault)


def metadata_of(held: dict[str, Any]) -> dict[str, Any]:
    """`extra.metadata` of a run."""
    extra = _object(held.get("extra"))
    return _object(extra.get("metadata"))


def _agree(ordered: list[str], run: Any, parent: Any, trace: Any) -> bool:
    """Whether the levels end with the run, its parent before it, and begin with the trace."""
    above = ordered[-2] if len(ordered) > 1 else None
    said = (run, parent or None, trace)
    return [_bare(held) for held in (ordered[-1], above, ordered[0])] == [_bare(held) for held in said]


def _bare(held: Any) -> str | None:
    return None if held is None else str(held).replace("-", "").lower()


def _sides(kind: str, held: dict[str, Any], values: Values, answered: toolruns.Answer | None) -> dict[str, Side]:
    found: dict[str, Side] = {}
    if held.get("inputs") is not None:
        seen = Side(held["inputs"])
        found["seen"] = toolruns.arguments(seen) if kind == "tool" else seen
        values.flags |= {"pyrepr"} if found["seen"].encoding == "pyrepr" else set()
        values.provenance["seen"] = {"key": "inputs", "grade": "recorded"}
    output = answered.response if answered else _output(held) if kind == "tool" else held.get("outputs") or None
    if output is not None or (kind == "tool" and "output" in (held.get("outputs") or {})):
        text = kind == "tool" and isinstance(output, str) and answered is None
        found["raw"] = Side(values.decoded(output), "json") if text else Side(output)
        values.provenance["raw"] = {"key": "outputs", "grade": "recorded"}
    return found


def _output(held: dict[str, Any]) -> Any:
    """What a tool run returned: alone under `output`, or the outputs themselves; None where it returned nothing."""
    outputs = held.get("outputs")
    if isinstance(outputs, dict) and outputs.keys() == {"output"}:
        return outputs["output"]
    return outputs or None


def _fault(span: Carried) -> Fault | None:
    """The exception that the error text is the repr of."""
    hit = _RAISED.match(span.status_message) if span.failed else None
    if hit is None:
        return None
    return faults.raised(hit["cls"], hit["message"].strip("'\""))


def _model(held: dict[str, Any], metadata: dict[str, Any], values: Values) -> dict[str, Any]:
    inputs, outputs = held.get("inputs"), held.get("outputs")
    inputs, outputs = inputs if isinstance(inputs, dict) else {}, outputs if isinstance(outputs, dict) else {}
    invoked = _object(_object(held.get("extra")).get("invocation_params"))
    answer = _object(outputs.get("llm_output"))
    said = _messages(outputs, "assistant")
    tools = next(
        (found for found in (invoked.get("tools"), inputs.get("tools")) if isinstance(found, list) and found), None
    )
    sampling = {
        name: value for name, value in {**invoked, **inputs}.items() if name not in _NO_SAMPLING and value is not None
    }
    for column, key, told in (("messages_in", "inputs", inputs), ("messages_out", "outputs", outputs)):
        if told:
            values.provenance[column] = {"key": key, "grade": "recorded"}
    reason = (outputs.get("choices") or [{}])[0] if isinstance(outputs.get("choices"), list) else {}
    return {
        "messages_in": _messages(inputs, "user"), "messages_out": said, "system_text": UNSET,
        "tool_defs": [{"type": "function"} | (tool.get("function") or tool) if isinstance(tool, dict) else tool for tool in tools] if tools else UNSET,
        "model_params": {"sampling": sampling} if sampling else UNSET, "usage": _usage(held, outputs, answer), "finish_reason": _reason(reason),
        "model_requested": _first(metadata, "ls_model_name") or _first(inputs, "model") or _first(invoked, "model", "model_name"),
        "model_answered": _first(outputs, "model") or _first(answer, "model_name", "model") or _answered(outputs), "provider": _first(metadata, "ls_provider"),
    }  # fmt: skip


def _messages(held: dict[str, Any], role: str) -> Any:
    """The messages of inputs or outputs; prompts and plain answers of completion models are texts."""
    if not held:
        return UNSET
    found = langsmith_otel.messages_of(held)
    if found is not UNSET:
        return found
    texts = (
        held.get("prompts")
        if isinstance(held.get("prompts"), list)
        else [held.get(name) for name in ("input", "prompt", "output", "content")]
    )
    text = next((text for text in texts or () if isinstance(text, str) and text), None)
    return [{"role": role, "parts": shapes.parts_of(msgspec.json.encode(held).decode() if text is None else text)}]


def _generations(outputs: dict[str, Any]) -> list[dict[str, Any]]:
    listed = outputs.get("generations")
    flat = (
        [one for batch in listed for one in (batch if isinstance(batch, list) else [batch])]
        if isinstance(listed, list)
        else []
    )
    held = [one["message"] for one in flat if isinstance(one, dict) and isinstance(one.get("message"), dict)]
    return [message.get("kwargs", message) for message in held]


def _answered(outputs: dict[str, Any]) -> str | None:
    told = (_object(message.get("response_metadata")) for message in _generations(outputs))
    return next((name for held in told if (name := _first(held, "model_name", "model"))), None)


def _reason(choice: Any) -> str | None:
    reason = choice.get("finish_reason") if isinstance(choice, dict) else None
    held = (
        reason.get("finish_reason") if isinstance(reason, dict) else reason
    )  # the JavaScript SDK keeps the whole last chunk there
    return held if isinstance(held, str) else None


def _usage(held: dict[str, Any], outputs: dict[str, Any], answer: dict[str, Any]) -> Any:
    of_message = next(
        (found for message in _generations(outputs) if (found := _object(message.get("usage_metadata")))), {}
    )
    told = (
        _object(outputs.get("usage_metadata"))
        or of_message
        or _object(outputs.get("usage"))
        or _object(answer.get("token_usage"))
        or held
    )
    inner, outer = _object(told.get("input_token_details")), _object(told.get("output_token_details"))
    counts = {
        "input": told.get("input_tokens", told.get("prompt_tokens")), "output": told.get("output_tokens", told.get("completion_tokens")),
        "cache_read": inner.get("cache_read"), "cache_write": inner.get("cache_creation"), "reasoning": outer.get("reasoning"),
    }  # fmt: skip
    return {name: count for name, count in counts.items() if isinstance(count, int)} or UNSET


def _first(held: dict[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := held.get(name), str) and value), None)


def _object(held: Any) -> dict[str, Any]:
    found = payloads.parsed(held).value if isinstance(held, str) else held
    return found if isinstance(found, dict) else {}
