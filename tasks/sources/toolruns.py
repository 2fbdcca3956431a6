"""Tool runs as LangChain records them: arguments under `input`, the result as a ToolMessage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import payloads, shapes

if TYPE_CHECKING:
    from tasks.sources.records import Side


class Answer(NamedTuple):
    """What a ToolMessage holds: its call id, what it answers, and whether it calls itself an error."""

    call_id: str | None
    response: Any
    failed: bool


def answer(held: Any) -> Answer | None:
    """The content of a ToolMessage, plain or serialized; None for any other value."""
    inner = held.get("kwargs", held.get("data", held)) if isinstance(held, dict) else None
    if not isinstance(inner, dict) or not {"tool_call_id", "content"} <= inner.keys():
        return None
    (part,) = shapes.message(dict(inner, role="tool"))["parts"]
    return Answer(part["id"], part["response"], inner.get("status") == "error")


def arguments(seen: Side) -> Side:
    """The arguments of a run whose only input is `input`: LangChain wraps them so, as an object or as the text of one."""
    if not isinstance(seen.value, dict) or seen.value.keys() != {"input"}:
        return seen
    inner = seen.value["input"]
    if isinstance(inner, dict):
        return seen._replace(value=inner)
    found = payloads.parsed(inner) if isinstance(inner, str) else None
    return (
        seen._replace(value=found.value, encoding=found.encoding) if found and isinstance(found.value, dict) else seen
    )
