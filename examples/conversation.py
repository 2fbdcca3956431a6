"""What a scripted model reads in a request and writes as its output.

A request: {"messages": [{"role", "parts"}], "tools": [{"type": "function", "name", "parameters"}], "output_format", "sampling"}; the first message
is the system prompt. Messages, parts and tools are those of the OpenTelemetry GenAI conventions, so a trace can carry them as they are:
{"type": "text", "content"}, {"type": "tool_call", "id", "name", "arguments"}, {"type": "tool_call_response", "id", "response"}.
An output: {"parts": [...], "finish_reason": "tool_calls" | "stop"}. A final output is one text part that holds JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Result(NamedTuple):
    """One answered proposal: the tool, what was asked, and what came back."""

    name: str
    arguments: dict[str, Any]
    response: Any

    @property
    def error(self) -> str | None:
        """The text of the error that came back, or None."""
        return self.response.get("error") if isinstance(self.response, dict) else None

    @property
    def blocked(self) -> str | None:
        """Why a guard refused the call, or None."""
        return self.response.get("blocked") if isinstance(self.response, dict) else None

    @property
    def ok(self) -> bool:
        """Whether a value came back: neither an error nor a refusal."""
        return self.error is None and self.blocked is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request as a policy reads it."""

    system: str
    user: str
    offered: frozenset[str]
    results: tuple[Result, ...]

    @classmethod
    def read(cls, request: dict[str, Any]) -> Conversation:
        """The conversation so far. Only what the request shows is used: no memory between calls."""
        messages = request["messages"]
        return cls(
            system=_text(messages[0]),
            user="\n".join(_text(message) for message in messages if message["role"] == "user"),
            offered=frozenset(tool["name"] for tool in request["tools"]),
            results=tuple(_results(messages)),
        )

    def all(self, name: str) -> list[Result]:
        """The answered calls of one tool, in order."""
        return [result for result in self.results if result.name == name]

    def last(self, name: str) -> Result | None:
        """The latest answered call of one tool."""
        return next((result for result in reversed(self.results) if result.name == name), None)

    def value(self, name: str) -> Any:
        """The latest value a tool returned, or None."""
        return next((result.response for result in reversed(self.results) if result.name == name and result.ok), None)

    def propose(self, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        """An output that asks for these calls, as one group."""
        parts = [
            {"type": "tool_call", "id": f"call_{number}", "name": name, "arguments": arguments}
            for number, (name, arguments) in enumerate(calls, start=len(self.results) + 1)
        ]
        return {"parts": parts, "finish_reason": "tool_calls"}


def final(status: str, message: str, **more: Any) -> dict[str, Any]:
    """An output that ends the run: a status, the message to the customer, and whatever else the workflow reports."""
    text = json.dumps({"status": status, "message": message, **more}, ensure_ascii=False)
    return {"parts": [{"type": "text", "content": text}], "finish_reason": "stop"}


def _text(message: dict[str, Any]) -> str:
    return "\n".join(part["content"] for part in message["parts"] if part["type"] == "text")


def _results(messages: list[dict[str, Any]]) -> Iterator[Result]:
    asked: dict[str, dict[str, Any]] = {}
    for message in messages:
        for part in message["parts"]:
            if part["type"] == "tool_call":
                asked[part["id"]] = part
            elif part["type"] == "tool_call_response":
                call = asked[part["id"]]
                yield Result(call["name"], call["arguments"], part["response"])
