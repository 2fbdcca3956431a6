"""The loop the sample agents share: ask the model, run what it proposes, feed the answers back, until it gives a final output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import twiceshy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

MAX_TURNS = 12
SAMPLING = {"temperature": 0}
OUTPUT_FORMAT = {"type": "json"}


class Ended(Exception):
    """Raised by the agent's own code in place of a tool call: the run ends with this final output."""

    def __init__(self, output: dict[str, Any]) -> None:
        super().__init__(output.get("status"))
        self.output = output


class Offer(NamedTuple):
    """A tool as the agent runs it, and its schema as the model is offered it."""

    call: Callable[..., Any]
    schema: Mapping[str, Any]


def arguments(optional: Mapping[str, Any] | None = None, **required: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments: these and no others."""
    return {
        "type": "object", "properties": {**required, **(optional or {})}, "required": list(required),
        "additionalProperties": False,
    }  # fmt: skip


def as_told(now: datetime) -> str:
    """The clock as it is written into a prompt, with its zone."""
    return f"{now:%A}, {now:%Y-%m-%d %H:%M} {now.tzname()}"


def converse(
    model: Callable[[dict[str, Any]], dict[str, Any]], offers: Mapping[str, Offer], *, system: str, user: str,
    nudge: Callable[[list[str]], str | None] = lambda _: None, max_turns: int = MAX_TURNS,
) -> dict[str, Any]:  # fmt: skip
    """The final output of one run: {"status", "message", ...}; `gave_up` once the model has had its turns.

    nudge: what the workflow says to the model after a turn that called these tools, if anything.
    """
    messages = [_said("system", system), _said("user", user)]
    tools = [{"type": "function", "name": name, "parameters": _told(offer.schema)} for name, offer in offers.items()]
    for _ in range(max_turns):
        request = {
            "messages": list(messages), "tools": tools, "output_format": OUTPUT_FORMAT, "sampling": SAMPLING,
        }  # fmt: skip
        output = model(request)
        calls = [part for part in output["parts"] if part["type"] == "tool_call"]
        if not calls:
            return _final(output)
        messages.append({"role": "assistant", "parts": output["parts"]})
        try:
            answers = [_answered(offers, call) for call in calls]
        except Ended as ended:
            return ended.output
        messages.append({"role": "tool", "parts": answers})
        urged = nudge([call["name"] for call in calls])
        if urged is not None:
            messages.append(_said("user", urged))
    return {"status": "gave_up", "message": "We could not finish this; a colleague will get back to you."}


def _told(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a model is told of a tool's arguments: their names and types. The checks are the boundary's own."""
    types = {name: {"type": argument["type"]} for name, argument in schema["properties"].items()}
    return {"type": "object", "properties": types}


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _answered(offers: Mapping[str, Offer], call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": call["id"], "response": _response(offers, call)}


def _response(offers: Mapping[str, Offer], call: dict[str, Any]) -> Any:
    if call["name"] not in offers:
        return {"error": f"no tool is named {call['name']!r}"}
    try:
        return offers[call["name"]].call(**call["arguments"])
    except Ended:
        raise
    except twiceshy.Blocked as refused:
        return {"blocked": refused.reason}
    except Exception as raised:  # noqa: BLE001 - whatever a tool raises, the model has to see it
        return {"error": f"{type(raised).__name__}: {raised}"}


def _final(output: dict[str, Any]) -> dict[str, Any]:
    text = "".join(part["content"] for part in output["parts"] if part["type"] == "text")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"status": "unclear", "message": text}
