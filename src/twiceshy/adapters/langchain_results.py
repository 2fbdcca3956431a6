"""What LangGraph's tool nodes give back, as values and back: messages, commands that steer the graph, and interrupts that wait for a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langgraph", extra="adapters-langchain")

from langchain_core.messages import BaseMessage, ToolMessage, message_to_dict, messages_from_dict
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send, interrupt
from pydantic import PrivateAttr

from twiceshy.adapters.langchain_messages import answer_of, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.errors import GraphInterrupt

_MARK = "langgraph_result"
_MESSAGE, _SEND, _COMMAND = "langchain_message", "langgraph_send", "langgraph_command"


class Interrupted(Exception):
    """A tool's body asked a person and waits: nothing was done. Its text is what it has asked so far, as a JSON list."""

    code = "interrupt"
    definite = True


class Interrupts:
    """What each call of a run has asked people for, so that a replay asks the same again without the tool's body."""

    def __init__(self) -> None:
        self._asked: dict[str, list[tuple[str, Any]]] = {}

    def waits(self, call: Mapping[str, Any], raised: GraphInterrupt) -> Interrupted:
        """The error to record for an interrupt that a live body raised."""
        asked = self._asked.setdefault(str(call["id"]), [])
        for one in raised.args[0]:
            if all(known != one.id for known, _ in asked):
                asked.append((one.id, one.value))
        return Interrupted(json.dumps([value for _, value in asked], default=repr))

    def again(self, call: Mapping[str, Any], recorded: Interrupted) -> None:
        """Ask once more for what was asked for in the record. Raises GraphInterrupt where nobody has answered yet."""
        values = json.loads(str(recorded))
        self._asked[str(call["id"])] = [(str(at), value) for at, value in enumerate(values)]
        self.answered(call)

    def answered(self, call: Mapping[str, Any]) -> None:
        """Take the answers that this call has waited for, as its body would have."""
        for _, value in self._asked.get(str(call["id"]), ()):
            interrupt(value)


class RecordedTool(BaseTool):
    """Stands where a tool would run in a replay, so that whoever listens to the graph hears of the call as ever. It takes anything and gives what was recorded."""

    description: str = "What was recorded."
    args_schema: Any = {"type": "object", "properties": {}}
    _outcome: Any = PrivateAttr()

    @classmethod
    def giving(cls, outcome: Any, name: str) -> RecordedTool:
        """The tool of that name; an outcome that is an exception is raised."""
        made = cls(name=name)
        made._outcome = outcome
        return made

    def _run(self, **_: Any) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def _arun(self, **_: Any) -> Any:
        return self._run()


def told_of(result: Any, call: Mapping[str, Any]) -> Any:
    """A result as a value: what a plain message says, else all of it. Raises UnrecordableResult for what has no plain value."""
    if isinstance(result, ToolMessage) and result.artifact is None:
        return value_of(result)
    listed = result if isinstance(result, list) else [result]
    return {_MARK: [_plain(one, call) for one in listed], "listed": isinstance(result, list)}


def result_of(value: Any, call: Mapping[str, Any]) -> Any:
    """The result that a value says."""
    if not isinstance(value, dict) or value.keys() != {_MARK, "listed"}:
        return answer_of(value, call)
    made = [_made(one, call) for one in value[_MARK]]
    return made if value["listed"] else made[0]


def _plain(value: Any, call: Mapping[str, Any]) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case BaseMessage():
            return {_MESSAGE: _told(value, call)}
        case Send():
            return {_SEND: [value.node, _plain(value.arg, call)]}
        case Command():
            sides = {name: getattr(value, name) for name in ("graph", "update", "resume", "goto")}
            return {_COMMAND: {name: _plain(side, call) for name, side in sides.items()}}
        case dict():
            return {str(name): _plain(one, call) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one, call) for one in value]
        case _:
            raise controlling.UnrecordableResult.of(call["name"], value)


def _told(message: BaseMessage, call: Mapping[str, Any]) -> dict[str, Any]:
    told = message_to_dict(message)
    if told["data"].get("tool_call_id") == call["id"]:  # of this run; another has an id of its own
        told["data"]["tool_call_id"] = ""
    try:
        return dict(json.loads(json.dumps(told)))
    except (TypeError, ValueError):
        raise controlling.UnrecordableResult.of(call["name"], message) from None


def _made(value: Any, call: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_made(one, call) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_MESSAGE}:
        (message,) = messages_from_dict([value[_MESSAGE]])
        if isinstance(message, ToolMessage):
            message.tool_call_id = message.tool_call_id or call["id"]
        return message
    if value.keys() == {_SEND}:
        return Send(value[_SEND][0], _made(value[_SEND][1], call))
    made = {name: _made(one, call) for name, one in value.items()}
    return Command(**made[_COMMAND]) if value.keys() == {_COMMAND} else made
