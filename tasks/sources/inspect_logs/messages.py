"""Messages of Inspect in the shape that `shapes` reads: a call names its tool as `function` and has its arguments as a value."""

from __future__ import annotations

from typing import Any


def plain_calls(held: Any) -> Any:
    """A message whose calls are `{id, name, arguments}`."""
    if not isinstance(held, dict) or not isinstance(held.get("tool_calls"), list):
        return held
    calls = [
        {"id": call.get("id"), "name": call["function"], "arguments": call.get("arguments")}
        if isinstance(call, dict) and isinstance(call.get("function"), str)
        else call
        for call in held["tool_calls"]
    ]
    return held | {"tool_calls": calls}
