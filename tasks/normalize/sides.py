"""Both sides of a tool crossing: what its own span recorded, then what hooks, the asking model and the next model input tell; each with where it came from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from tasks.sources import payloads
from twiceshy.frozenmodel import proposals
from twiceshy.identity import canonical, equal, untagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tasks.normalize.tree import Node

SIDES = ("proposed", "seen", "raw", "shown")
RECORDED = "recorded"
PROPOSAL = "the model's proposal"
NEXT_INPUT = "the next model input"
HOOKS = "the hooks' own spans"
CHAT = "chat_list"


def value(node: Node, column: str) -> Any:
    """The value of a JSON column; UNSET where it was not recorded."""
    text = node.row[column]
    return UNSET if text is None else untagged(msgspec.json.decode(text))


@dataclass(slots=True)
class Sides:
    """The four sides and, for each known one, where it came from."""

    values: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)

    def take(self, side: str, found: Any, origin: str) -> None:
        """Keep a value for a side that is not known yet."""
        if found is not UNSET and side not in self.values:
            self.values[side] = found
            self.origin[side] = origin


class Asked(NamedTuple):
    """The model crossing that asked for a call: its step number, and the arguments it proposed."""

    seq: int
    arguments: Any
    call: str


@dataclass(slots=True)
class Proposals:
    """The tool calls that the models of a trace proposed, each to be claimed by one tool span."""

    _open: list[tuple[Node, int, str, dict[str, Any]]] = field(default_factory=list)

    def add(self, node: Node, seq: int, scope: str, output: Any) -> None:
        """What a model crossing asked for, in order."""
        self._open += [(node, seq, scope, part) for part in proposals(output)]

    def claim(self, tool: Node, scope: str, group: int | None) -> Asked | None:
        """The proposal that a tool span answers: of the model it hangs on, else of an earlier one; by call id, by name and arguments, then by name in the latest turn."""
        pool = [
            at for at, held in enumerate(self._open) if (held[0] is tool.parent if group is None else held[1] == group)
        ]
        if not pool and group is None:
            pool = [at for at, held in reversed(list(enumerate(self._open))) if held[2] == scope]
        for at in self._fitting(tool, pool):
            _, seq, _, part = self._open.pop(at)
            return Asked(seq, part.get("arguments", UNSET), str(part.get("id")))
        return None

    def _fitting(self, tool: Node, pool: Sequence[int]) -> Iterator[int]:
        call_id, name = tool.row["call_id"], tool.row["tool_name"]
        asked = value(tool, "seen" if tool.row["proposed"] is None else "proposed")
        named = [at for at in pool if self._open[at][3].get("name") == name]
        if call_id is not None:
            yield from (at for at in pool if self._open[at][3].get("id") == call_id)
        if asked is not UNSET:
            yield from (at for at in named if equal(self._open[at][3].get("arguments"), asked))
        latest = max((self._open[at][1] for at in pool), default=None)
        yield from (at for at in named if self._open[at][1] == latest)


class Responses:
    """What model inputs say that calls answered, by call id. An id that answered differently at different times proves nothing, and is left out."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        found: dict[str, dict[bytes, Any]] = defaultdict(dict)
        for node in nodes:
            if node.kind == "model" and node.row["messages_in"] is not None:
                for call_id, response in _responses(value(node, "messages_in")):
                    found[call_id][canonical(response)] = response
        self._by_id = {call_id: next(iter(held.values())) for call_id, held in found.items() if len(held) == 1}

    def of(self, call_id: str | None) -> Any:
        """What went back for this call, a JSON text decoded; UNSET where no model input says."""
        response = self._by_id.get(call_id, UNSET) if call_id else UNSET
        return payloads.parsed(response).value if isinstance(response, str) else response


def resolved(node: Node, hooks: Sequence[Node], asked: Asked | None, responses: Responses) -> Sides:
    """The sides of one tool crossing. A side that nothing tells stays unknown: it is not equal to the other one."""
    sides = Sides()
    for side in SIDES:
        sides.take(side, value(node, side), RECORDED)
    hooks = [hook for hook in hooks if hook.kind == "hook"]  # what a guard gives is a verdict
    before = [hook for hook in hooks if str(hook.row["at"]).startswith("before:")]
    after = [hook for hook in hooks if str(hook.row["at"]).startswith("after:")]
    if before:
        sides.take("proposed", value(before[0], "seen"), HOOKS)
        sides.take("seen", value(before[-1], "raw"), HOOKS)
    if after:
        sides.take("raw", value(after[0], "seen"), HOOKS)
        sides.take("shown", value(after[-1], "raw"), HOOKS)
    if asked is not None:
        sides.take("proposed", asked.arguments, PROPOSAL)
    if not node.row["is_error"]:
        sides.take("shown", responses.of(node.row["call_id"]), NEXT_INPUT)
    return sides


def _responses(messages: Any) -> Iterator[tuple[str, Any]]:
    for message in messages if isinstance(messages, list) else ():
        for part in message.get("parts", ()) if isinstance(message, dict) else ():
            if isinstance(part, dict) and part.get("type") == "tool_call_response" and part.get("id"):
                yield str(part["id"]), part.get("response", part.get("result"))
