"""The OTel GenAI conventions up to 1.36, and later ones without content: the same attributes, the messages in events, or in one attribute each way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import shapes
from tasks.sources.dialects import genai
from tasks.sources.dialects.told import Told, empty

if TYPE_CHECKING:
    from tasks.sources.carried import Carried, Event
    from tasks.sources.otlp_values import Values

MAPPER = "genai_old@1"
_ASKED = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_CHOICE = "gen_ai.choice"
_WHOLE = {
    "messages_in": ("gen_ai.prompt", "gen_ai.content.prompt"),
    "messages_out": ("gen_ai.completion", "gen_ai.content.completion"),
}


def read(span: Carried, values: Values) -> Told:
    """The span; of a model's, the messages where these conventions have them. Raises BadSpan."""
    told = genai.read(span, values)
    if told.kind not in ("model", "agent"):
        return told
    found = {
        "messages_in": [_asked(event, values) for event in span.events if event.name in _ASKED],
        "messages_out": [_said(event, values) for event in span.events if event.name == _CHOICE],
    }
    for name, keys in _WHOLE.items():
        if not empty(told.columns.get(name, UNSET)):
            continue
        held, key = (found[name], "events") if found[name] else _in_one(span, values, keys)
        if held is not UNSET:
            told.columns[name] = held
            values.provenance[name] = {"key": key, "grade": "recorded"}
    genai.hear(told.columns, values)
    return told


def _asked(event: Event, values: Values) -> Any:
    held = _read(event.attributes, values)
    if isinstance(held.get("content"), list):
        # An event for each message, its content the blocks of one.
        held["content"] = [block for block in held["content"] if block is not None]
    return shapes.message({"role": _ASKED[event.name]} | held)


def _said(event: Event, values: Values) -> Any:
    held = _read(event.attributes, values)
    own = held.get("message")
    said = (
        own
        if isinstance(own, dict)
        else {"content": own if own is not None else held.get("content"), "tool_calls": held.get("tool_calls")}
    )
    made = shapes.message({"role": "assistant"} | {name: value for name, value in said.items() if value is not None})
    reason = held.get("finish_reason")
    return made if reason is None or not isinstance(made, dict) else made | {"finish_reason": reason}


def _read(held: dict[str, Any], values: Values) -> dict[str, Any]:
    """The members of an event's body, which some write as attributes each and some as JSON text."""
    return {name: values.decoded(value) for name, value in held.items() if not name.startswith("gen_ai.")}


def _in_one(span: Carried, values: Values, keys: tuple[str, str]) -> tuple[Any, str]:
    """All messages in an attribute of the span, or of the one event named like it."""
    attribute, event = keys
    held = values.held.get(attribute)
    if held is None:
        held = (span.event(event) or {}).get(attribute)
    if held is None:
        return UNSET, attribute
    decoded = values.decoded(held)
    if isinstance(decoded, dict):
        decoded = next((decoded[name] for name in ("messages", "input", "generations") if name in decoded), decoded)
    if isinstance(decoded, str):
        decoded = [{"role": "user" if attribute == "gen_ai.prompt" else "assistant", "content": decoded}]
    return shapes.messages(decoded), attribute
