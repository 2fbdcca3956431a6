"""The spans of one trace as the crossings of its run: numbered, with both sides, effects and errors; key and state by the engine's own matcher."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.normalize.duplicates import shadowed
from tasks.normalize.requests import CallIds, Talk, output, request
from tasks.normalize.sides import CHAT, RECORDED, Proposals, Responses, resolved, value
from tasks.normalize.tree import BOUNDARIES, NUMBERED, numbered
from twiceshy.envelope import SUB_KINDS, UNKNOWN_ERROR, Crossing, Effect, ErrorRecord, Kind
from twiceshy.gateway.spans import LEFT
from twiceshy.history import Attempts
from twiceshy.matching import CALLS, recordings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasks.normalize.tree import Node
    from twiceshy.policy import ToolsPolicy

_ASKED_FOR = ("handoff", "human")
"""What an output may ask for besides calls: agents that one output hands to run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One crossing, the span it came from, and where each of its sides came from."""

    crossing: Crossing
    node: Node
    origin: dict[str, str]


def crossed(nodes: Sequence[Node], policy: ToolsPolicy) -> list[Passage]:
    """The crossings of a trace, by (seq, sub). Shadows are none, nor is the user message that the run was given as its input."""
    kept = [node for node in nodes if node.kind in BOUNDARIES and not shadowed(node)]
    if numbered(kept):
        placed = sorted(_recorded(kept), key=lambda place: place[1:])
        made = _Run([node for node, _, _ in placed], placed, policy).passages()
    else:
        made = _Run(nodes, list(_counted(kept)), policy).passages()
    return _keyed(sorted(made, key=lambda passage: (passage.crossing.seq, passage.crossing.sub)), policy)


def given(nodes: Sequence[Node]) -> Node | None:
    """The user message that stands before any model spoke: the run's input where the root does not hold it."""
    for node in nodes:
        if node.kind == "model":
            return None
        if node.kind == "user" and node.row["crossing_seq"] is None:
            return node
    return None


def _recorded(kept: Sequence[Node]) -> Iterator[tuple[Node, int, int]]:
    for node in kept:
        yield node, node.row["crossing_seq"], node.row["crossing_sub"]


def _counted(kept: Sequence[Node]) -> Iterator[tuple[Node, int, int]]:
    """Steps numbered from 1; a hook, guard or draw is a sub of the step it hangs on, else of the step before it."""
    first, steps = given(kept), 0
    numbers: dict[Node, int] = {}
    subs: dict[int, int] = defaultdict(int)
    for node in kept:
        if node is first:
            continue
        if Kind(node.kind) in SUB_KINDS:
            seq = next((numbers[around] for around in node.ancestors() if around in numbers), steps)
            subs[seq] += 1
            yield node, seq, subs[seq]
        else:
            steps += 1
            numbers[node] = steps
            yield node, steps, 0


@dataclass(slots=True)
class _Run:
    """One walk over a trace, in order."""

    nodes: Sequence[Node]
    placed: Sequence[tuple[Node, int, int]]
    policy: ToolsPolicy
    _talk: Talk = field(default_factory=Talk)
    _proposals: Proposals = field(default_factory=Proposals)
    _ids: CallIds | None = None

    def passages(self) -> Iterator[Passage]:
        responses = Responses(self.nodes)
        self._ids = CallIds(self.nodes)
        places = {node: (seq, sub) for node, seq, sub in self.placed}
        hooks: dict[int, list[Node]] = defaultdict(list)
        for node, seq, _ in self.placed:
            if node.kind in ("hook", "guard"):
                hooks[seq].append(node)
        for node in self.nodes:
            if node in places:
                seq, sub = places[node]
                yield self._passage(node, seq, sub, hooks[seq], responses)
            elif node.row["container"] == CHAT and node.kind in ("step", "user"):
                self._talk.hear(node)

    def _passage(self, node: Node, seq: int, sub: int, hooks: Sequence[Node], responses: Responses) -> Passage:
        if node.kind == "model":
            return self._model(node, seq)
        if Kind(node.kind) in CALLS:
            return self._call(node, seq, hooks, responses)
        if node.kind == "user" and node.row["container"] == CHAT:
            self._talk.hear(node)
        sides: dict[str, Any] = {side: found for side in ("seen", "raw") if (found := value(node, side)) is not UNSET}
        group = node.row["group"] if node.kind in _ASKED_FOR else None
        return Passage(
            crossing=_crossing(node, seq, sub, self.policy, group=group, **sides),
            node=node,
            origin=dict.fromkeys(sides, RECORDED),
        )

    def _model(self, node: Node, seq: int) -> Passage:
        asked, origin = request(node, self._talk)
        said = output(node)
        if node.row["container"] == CHAT and said is not UNSET:
            said = self._talk.say(said)
        self._proposals.add(node, seq, node.row["scope"] or "", said)
        if self._ids is not None and node.row["container"] != CHAT and node.row["dialect"] != NUMBERED:
            asked, said = self._ids.renumbered(asked), self._ids.renumbered(said)
        # Nothing stands between a model and the agent, so what a recorder of ours kept as output is what went back.
        shown = said if node.row["crossing_seq"] is not None else UNSET
        raw = UNSET if node.row["finish_reason"] == LEFT else said
        told = {"seen": origin, "raw": None if raw is UNSET else RECORDED}
        made = _crossing(node, seq, 0, self.policy, seen=asked, raw=raw, shown=shown)
        return Passage(crossing=made, node=node, origin={side: where for side, where in told.items() if where})

    def _call(self, node: Node, seq: int, hooks: Sequence[Node], responses: Responses) -> Passage:
        asked = self._proposals.claim(node, node.row["scope"] or "", node.row["group"])
        sides = resolved(node, hooks, asked, responses)
        if node.row["container"] == CHAT and "shown" in sides.values:
            self._talk.answer(asked.call if asked else None, sides.values["shown"])
        group = node.row["group"] if node.row["group"] is not None else (asked.seq if asked else None)
        blocked = node.row["blocked_by"] or next((str(hook.row["name"]) for hook in hooks if _refused(hook)), None)
        made = _crossing(node, seq, 0, self.policy, group=group, blocked_by=blocked, **sides.values)
        return Passage(crossing=made, node=node, origin=sides.origin)


def _crossing(node: Node, seq: int, sub: int, policy: ToolsPolicy, **more: Any) -> Crossing:
    row = node.row
    name = row["tool_name"] or row["name"] if Kind(node.kind) in CALLS else row["name"]
    tightened = bool(row["tightened"])
    effect = None if node.kind != "tool" else Effect.WRITE if tightened else policy.effect(name)
    # A place is the source's own, and names a crossing here only where its numbers stand.
    parent = row["within"] if (row["crossing_seq"], row["crossing_sub"]) == (seq, sub) else None
    return Crossing(
        seq=seq, sub=sub, parent=parent, tightened=tightened, kind=Kind(node.kind), name=name, scope=row["scope"] or "", at=row["at"], effect=effect,
        error=_error(node, name, policy), start_ns=row["start_ns"], end_ns=row["end_ns"], **more,
    )  # fmt: skip


def _error(node: Node, name: str, policy: ToolsPolicy) -> ErrorRecord | None:
    row = node.row
    if not row["is_error"]:
        return None
    code = row["error_code"] or "unknown"
    definite = row["error_definite"]
    if definite is None:
        definite = code in policy.of(name).definite_errors
    return ErrorRecord(
        cls=row["error_class"] or UNKNOWN_ERROR,
        type=code,
        message=row["error_message"] or "",
        definite=definite,
    )


def _refused(hook: Node) -> bool:
    verdict = value(hook, "raw") if hook.kind == "guard" else UNSET
    return isinstance(verdict, dict) and verdict.get("blocked") is True


def _keyed(passages: Sequence[Passage], policy: ToolsPolicy) -> list[Passage]:
    """Key, state and attempt of every call, as a recorder and a matcher would number them; what happens inside a call was asked for with it."""
    found = {
        recording.crossing.seq: recording
        for recording in recordings((passage.crossing for passage in passages), policy)
    }
    attempts = Attempts()
    groups: dict[int, int | None] = {}
    made = []
    for passage in passages:
        crossing = passage.crossing
        if crossing.kind in CALLS:
            groups[crossing.seq] = crossing.group
        elif crossing.sub and crossing.group is None:
            crossing = msgspec.structs.replace(crossing, group=groups.get(crossing.seq))
        recording = found.get(crossing.seq) if crossing.kind in CALLS else None
        if recording is not None:
            number = attempts.next(crossing.scope, crossing.name, recording.key)
            crossing = msgspec.structs.replace(crossing, key=recording.key, state=recording.state, attempt=number)
            attempts.answered(crossing)
        made.append(Passage(crossing=crossing, node=passage.node, origin=passage.origin))
    return made
