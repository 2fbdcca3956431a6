"""What a model was asked and what it said, as the engine has them: {messages, tools, sampling, ...} and {parts, finish_reason}."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.normalize.sides import CHAT, RECORDED, value
from tasks.normalize.tree import NUMBERED
from twiceshy.frozenmodel import proposals
from twiceshy.gateway.spans import LEFT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.normalize.tree import Node

EARLIER = "the messages before it"


@dataclass(slots=True)
class Talk:
    """The messages of a trace that is recorded message by message, up to here. Call ids are numbered anew: they are runtime values, and some sources repeat them."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    said: bool = False
    _calls: int = 0

    def hear(self, node: Node) -> None:
        """A system or user message; one whose text redaction withheld says nothing."""
        text = value(node, "system_text")
        role = "system" if text is not UNSET else "user"
        if text is UNSET:
            text = value(node, "raw")
        if text is UNSET:
            return
        self.messages.append({"role": role, "parts": [{"type": "text", "text": text}]})

    def say(self, output: dict[str, Any]) -> dict[str, Any]:
        """A model's output with its calls numbered in the order in which the trace asked for them."""
        parts = []
        for part in output["parts"]:
            if isinstance(part, dict) and part.get("type") == "tool_call":
                self._calls += 1
                parts.append(part | {"id": f"call_{self._calls}"})
            else:
                parts.append(part)
        self.said = True
        self.messages.append({"role": "assistant", "parts": parts})
        return output | {"parts": parts}

    def answer(self, call: str | None, response: Any) -> None:
        """What went back for a call; answers that follow each other are one message."""
        part = {"type": "tool_call_response", "id": call, "response": response}
        if self.messages and self.messages[-1]["role"] == "tool":
            self.messages[-1] = {"role": "tool", "parts": [*self.messages[-1]["parts"], part]}
        else:
            self.messages.append({"role": "tool", "parts": [part]})


class CallIds:
    """New numbers for the call ids of a trace: they are runtime values. Ids that two outputs share say nothing of which call is meant, and stay."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        asked = [
            part.get("id")
            for node in nodes
            if node.kind == "model" and node.row["dialect"] != NUMBERED
            for part in proposals(output(node))
        ]
        repeated = len(set(asked)) != len(asked)
        self._numbers = {} if repeated else {call_id: f"call_{number}" for number, call_id in enumerate(asked, start=1)}

    def renumbered(self, held: Any) -> Any:
        """The value with the ids of its calls and responses replaced."""
        if isinstance(held, list):
            return [self.renumbered(item) for item in held]
        if not isinstance(held, dict):
            return held
        if held.get("type") in ("tool_call", "tool_call_response") and isinstance(held.get("id"), str):
            return held | {"id": self._numbers.get(held["id"], held["id"])}
        return {name: self.renumbered(item) for name, item in held.items()}


def request(node: Node, talk: Talk) -> tuple[Any, str | None]:
    """What the model was asked, and where that came from; UNSET where nothing tells.

    Of a message list only the first request is put together: each one repeats all before it (18 MB for 100 traces of 25 messages), and the list has them.
    """
    own = value(node, "seen")
    if own is not UNSET:
        return own, RECORDED
    messages = value(node, "messages_in")
    if messages is not UNSET:
        return _assembled(node, messages), RECORDED
    if node.row["container"] == CHAT and talk.messages and not talk.said:
        return {"messages": list(talk.messages)}, EARLIER
    return UNSET, None


def output(node: Node) -> Any:
    """What the model said: {"parts", "finish_reason"}, the latter only where it is known; UNSET where it was not recorded."""
    own = value(node, "raw")
    if own is not UNSET:
        return own
    messages = value(node, "messages_out")
    if not isinstance(messages, list) or not messages:
        return UNSET
    parts = [part for message in messages if isinstance(message, dict) for part in message.get("parts", ())]
    told = [message.get("finish_reason") for message in messages if isinstance(message, dict)]
    of_span = None if node.row["finish_reason"] == LEFT else node.row["finish_reason"]
    reason = next((reason for reason in reversed(told) if reason is not None), of_span)
    return {"parts": parts} if reason is None else {"parts": parts, "finish_reason": reason}


def _assembled(node: Node, messages: Any) -> dict[str, Any]:
    system, tools, params = (value(node, name) for name in ("system_text", "tool_defs", "model_params"))
    listed = messages if isinstance(messages, list) else [messages]
    if system is not UNSET and not any(
        isinstance(message, dict) and message.get("role") == "system" for message in listed
    ):
        listed = [{"role": "system", "parts": [{"type": "text", "text": system}]}, *listed]
    made: dict[str, Any] = {"messages": listed}
    if tools is not UNSET:
        made["tools"] = tools
    return made | (params if isinstance(params, dict) else {})
