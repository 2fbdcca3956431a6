"""Observations, traces and scores as Langfuse writes them, built small; and what the source makes of them."""

import json
from typing import Any

from tasks.sources.langfuse.source import spans
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw

TRACE_ID = "845c2c534cee1b98266081dd72ed3c30"


def an_observation(
    number: int, kind: str = "SPAN", name: str = "step", *, parent: int | None = None, **fields: Any
) -> dict[str, Any]:
    """One observation of the API; payloads in `input`, `output` and `metadata` become JSON text, as Langfuse has them."""
    held: dict[str, Any] = {
        "id": f"eee19b7ec3c1{number:04}", "traceId": TRACE_ID, "type": kind, "name": name, "level": "DEFAULT", "statusMessage": None,
        "parentObservationId": None if parent is None else f"eee19b7ec3c1{parent:04}", "startTime": f"2026-11-03T09:14:{number:02}.000Z",
        "endTime": f"2026-11-03T09:14:{number:02}.500Z", "input": None, "output": None, "metadata": {},
    }  # fmt: skip
    held |= fields
    for column in ("input", "output"):
        if isinstance(held[column], dict | list):
            held[column] = json.dumps(held[column])
    return held


def a_run() -> list[dict[str, Any]]:
    """A run that asks a model, which asks for a tool."""
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A1"}'}}
    return [
        an_observation(1, "AGENT", "run", input="Where is A1?", output="On its way."),
        an_observation(
            2, "GENERATION", "chat", parent=1, input=[{"role": "user", "content": "Where is A1?"}], output={"role": "assistant", "tool_calls": [call]},
            model="m-1", usageDetails={"input": 12, "output": 3}, promptName="support", promptVersion=4,
        ),
        an_observation(3, "TOOL", "get_order", parent=1, input={"id": "A1"}, output={"total": 7}),
    ]  # fmt: skip


def a_score(name: str = "correctness", **fields: Any) -> dict[str, Any]:
    """One score on the trace."""
    return {
        "id": f"s-{name}", "traceId": TRACE_ID, "observationId": None, "name": name, "value": 0, "source": "EVAL", "dataType": "NUMERIC",
        "timestamp": "2026-11-03T10:00:00.000Z",
    } | fields  # fmt: skip


def a_download(*observations: Any, **trace: Any) -> str:
    """A download of the UI."""
    return json.dumps(
        {"trace": {"id": TRACE_ID, "timestamp": "2026-11-03T09:14:00.000Z"} | trace, "observations": observations}
    )


def read(content: bytes | str, name: str = "trace.json") -> Mapped:
    """The file as the source maps it."""
    return spans(a_raw(content, name), harness_state=HARNESS)


def only(*observations: Any, **trace: Any) -> dict[str, Any]:
    """The last of these observations, as a row; payloads as values."""
    found = read(a_download(*observations, **trace)).spans.sort("start_ns").to_dicts()[-1]
    columns = (
        "seen",
        "raw",
        "messages_in",
        "messages_out",
        "tool_defs",
        "usage",
        "model_params",
        "system_text",
        "provenance",
    )
    return found | {name: json.loads(found[name]) for name in columns if found[name] is not None}
