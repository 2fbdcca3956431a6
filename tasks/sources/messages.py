"""Messages of the GenAI conventions in the shape the engine has them: {role, parts}; parts text, reasoning, tool_call, tool_call_response, other."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from tasks.sources import shapes


def shaped(held: Any) -> Any:
    """The messages, whatever their shape (shapes.py); UNSET stays unknown, and what is no message list stays what it is."""
    return shapes.messages(held) if isinstance(held, list) else held


def of_role(held: Any, role: str) -> Any:
    """The text of the first message of a role; UNSET where there is none."""
    for message in held if isinstance(held, list) else ():
        if isinstance(message, dict) and message.get("role") == role:
            return texts(message.get("parts", message.get("content"))) or UNSET
    return UNSET


def system_text(held: Any) -> Any:
    """System instructions as one text; UNSET where there are none."""
    return texts(held) or UNSET if isinstance(held, str | list) else UNSET


def texts(parts: Any) -> str:
    """The text of the parts, joined."""
    if isinstance(parts, str):
        return parts
    found = (
        part.get("text", part.get("content"))
        for part in parts or ()
        if isinstance(part, dict) and part.get("type", "text") == "text"
    )
    return "".join(text for text in found if isinstance(text, str))
