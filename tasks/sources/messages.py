"""Messages of the GenAI conventions in the shape the engine has them: {role, parts}; parts text, reasoning, tool_call, tool_call_response, other."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

_TEXTS = ("text", "reasoning")


def shaped(held: Any) -> Any:
    """The messages with `text` for a part's `content` and `response` for its `result`; UNSET stays unknown, and what is no message list stays what it is."""
    if not isinstance(held, list):
        return held
    return [_message(message) for message in held]


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


def _message(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    made = dict(held)
    content = made.pop("content", None)
    if "parts" not in made:
        made["parts"] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    made["parts"] = [_part(part) for part in made["parts"]] if isinstance(made["parts"], list) else made["parts"]
    return made


def _part(held: Any) -> Any:
    if not isinstance(held, dict):
        return {"type": "text", "text": held} if isinstance(held, str) else held
    if held.get("type") in _TEXTS and "content" in held and "text" not in held:
        return {("text" if name == "content" else name): value for name, value in held.items()}
    if held.get("type") == "tool_call_response" and "result" in held and "response" not in held:
        return {("response" if name == "result" else name): value for name, value in held.items()}
    return held
