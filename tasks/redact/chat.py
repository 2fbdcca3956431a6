"""Messages of a model: their texts are free text, the calls and results in them stand under the rules of their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from twiceshy.redaction import fieldpaths

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {"system": "input.system", "developer": "input.system", "user": "input.user"}
_ANSWERS = frozenset({"tool_call_response", "tool_result", "server_tool_call_response"})
_ARGUMENTS = frozenset({"arguments", "args", "kwargs", "input"})
_RESULTS = frozenset({"response", "result", "content", "output"})
# Names that a message's own format gives; they are no data.
_FORMAT = frozenset({"role", "type", "id", "tool_call_id", "name", "finish_reason", "index", "mime_type", "modality"})
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class Walk(Protocol):
    """One walk over a payload at a place; free: whether an unknown field in it is free text."""

    def __call__(self, value: Any, place: str, *, free: bool) -> Any:
        """The value as the walk leaves it."""
        ...


class Chat:
    """Walks the messages of one trace in their order. A message is walked once: the next request of a model repeats all earlier ones."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._tools: dict[str, str] = {}
        self._last = "unknown"
        self._known: dict[tuple[bytes, str, str], dict[Any, Any]] = {}

    def walked(self, value: Any, place: str, *, free: bool = True) -> Any:
        """The value, its calls and results under `tool.NAME.args` and `tool.NAME.result`, the rest at `place`."""
        if isinstance(value, list | tuple):
            return [self.walked(item, place, free=free) for item in value]
        if isinstance(value, dict) and ("role" in value or (free and _is_message(value))):
            return self._message(value, place)
        if isinstance(value, dict) and free:
            return {key: self.walked(item, fieldpaths.child(place, key)) for key, item in self._renamed(value, place)}
        return self._walk(value, place, free=free)

    def _renamed(self, value: Mapping[Any, Any], place: str) -> list[tuple[Any, Any]]:
        names = fieldpaths.key_of(place)
        return [
            (self._walk(key, names, free=True) if isinstance(key, str) else key, item) for key, item in value.items()
        ]

    def _message(self, value: dict[Any, Any], place: str) -> dict[Any, Any]:
        tool = self._called(value)
        key = (_encode(value), place, tool)
        if key not in self._known:
            self._known[key] = {name: self._member(name, item, value, place, tool) for name, item in value.items()}
        elif "tool_calls" in value or "parts" in value:
            self.walked(value.get("tool_calls") or value.get("parts"), place)  # so that later answers find their calls
        return dict(self._known[key])

    def _called(self, value: Mapping[Any, Any]) -> str:
        """The tool a part speaks of: its own name, else the name behind its call id, else the last call's. Ids repeat, so the last one counts."""
        identity = str(value.get("id") or value.get("tool_call_id") or "")
        if _is_call(value):
            self._last = str(value["name"])
            self._tools[identity] = self._last
            return self._last
        if value.get("type") in _ANSWERS or value.get("role") == "tool":
            name = value.get("name")
            return str(name) if name else self._tools.get(identity, self._last)
        function = value.get("function")
        if isinstance(function, dict) and _is_call(function):
            self._tools[identity] = str(function["name"])
        return self._last

    def _member(self, name: Any, item: Any, message: Mapping[Any, Any], place: str, tool: str) -> Any:
        if _is_call(message) and name in _ARGUMENTS:
            return self._walk(item, f"tool.{tool}.args", free=False)
        answers = message.get("type") in _ANSWERS or message.get("role") == "tool"
        if answers and name in _RESULTS:
            result = f"tool.{tool}.result"
            if _is_texts(item):
                return [part | {"text": self._walk(part["text"], result, free=False)} for part in item]
            return self._walk(item, result, free=False)
        if name in _FORMAT and isinstance(item, str | int | None):
            return item
        where = _ROLES.get(str(message.get("role")), place)
        return self.walked(item, where if isinstance(item, str | list) else fieldpaths.child(where, name))


def _is_message(value: Mapping[Any, Any]) -> bool:
    return "type" in value or _is_call(value) or isinstance(value.get("function"), dict)


def _is_call(value: Mapping[Any, Any]) -> bool:
    """Whether a part proposes a call: it has a name and arguments, and is no declaration of a tool."""
    named = isinstance(value.get("name"), str) and bool(_ARGUMENTS & set(value))
    return named and "description" not in value and "parameters" not in value


def _is_texts(item: Any) -> bool:
    """Whether a result came as parts of text, as MCP gives it."""
    return (
        isinstance(item, list)
        and bool(item)
        and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in item)
    )
