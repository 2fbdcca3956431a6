"""Who answers a tool in one run, the record or the world: one authority for each resource, never both (semantics.md §6.5).

In mode `world` the world has every resource of its tools from the start. As a miss policy it takes a resource over at the first miss there, and only if it
would have said everything that the record has said of it in this run. What was written without it, it does not know: reads of that miss from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from twiceshy.identity import equal
from twiceshy.worlds.tables import Meeting, WorldMiss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from twiceshy.envelope import Crossing, ErrorRecord
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import RowChange
    from twiceshy.worlds.bindings import WorldAnswer
    from twiceshy.worlds.loading import LoadedWorld, RunningWorld

    Resources = tuple[str, ...] | None

    Met = dict[tuple[str, Any], bool]


class _Called(NamedTuple):
    """A call with the rows it came to. standing: how many groups each agent above it, and its own, had begun."""

    call: tuple[str, str]
    met: Met
    standing: dict[str, int]


class _Meetings:
    """What calls came to that run side by side: those of one group, and those of agents that were handed to in one. No order among them may show."""

    def __init__(self) -> None:
        self._groups: dict[str, int | None] = {}
        self._eras: dict[str, int] = {}
        self._calls: list[_Called] = []
        self._scope = ""

    def begin(self, scope: str, group: int | None) -> None:
        self._scope = scope
        if group is None or self._groups.get(scope) != group:
            self._eras[scope] = self._eras.get(scope, 0) + 1
        self._groups[scope] = group

    def add(self, call: tuple[str, str], met: Met) -> None:
        """Raise Meeting where another call beside this one came to a row that one of the two changes. The same call twice is no matter of order."""
        made = _Called(call, met, {scope: self._eras.get(scope, 0) for scope in _chain(self._scope)})
        self._calls = [other for other in self._calls if other.standing[""] == made.standing[""] or self._scope]
        for other in self._calls:
            if (
                other.call != call
                and _beside(other, made)
                and any(_meet(at, new, other.met) for at, new in met.items())
            ):
                raise Meeting(
                    f"{call[0]} and {other.call[0]}, asked for side by side, meet at a row, so their order would decide"
                )
        self._calls.append(made)


def _chain(scope: str) -> list[str]:
    """The scopes of the agents above, the outermost first, and its own."""
    parts = scope.split("/") if scope else []
    return ["", *("/".join(parts[:end]) for end in range(1, len(parts) + 1))]


def _beside(left: _Called, right: _Called) -> bool:
    """Whether the nearest agent above both had begun no other group between them."""
    common = max((scope for scope in left.standing if scope in right.standing), key=len)
    return left.standing[common] == right.standing[common]


def _meet(place: tuple[str, Any], changed: bool, theirs: Met) -> bool:  # noqa: FBT001 - a pair of the map it is in
    table, key = place
    same = [theirs[at] for at in ((table, key), (table, "*")) if at in theirs]
    if key == "*":
        same += [held for (name, _), held in theirs.items() if name == table]
    return any(changed or held for held in same)


class Claims:
    """Resources that somebody has; None is everything."""

    def __init__(self, held: Iterable[Resources] = ()) -> None:
        self._held = list(held)

    def add(self, resources: Resources) -> None:
        """Claim these too."""
        self._held.append(resources)

    def overlap(self, resources: Resources) -> bool:
        """Whether any of them is claimed."""
        return any(overlapping(held, resources) for held in self._held)


def overlapping(left: Resources, right: Resources) -> bool:
    """Whether two sets of resources share one. Everything shares one with whatever is not empty."""
    if left is None or right is None:
        return left != () and right != ()
    return not set(left).isdisjoint(right)


class Served(NamedTuple):
    """What the record or a template served."""

    value: Any
    error: ErrorRecord | None
    changed: bool
    """Whether it was a write that happened or may have."""


class Noted(NamedTuple):
    """What an answer of others changed of the world."""

    changes: tuple[RowChange, ...] = ()
    unsettled: tuple[str, ...] = ()


class Authority:
    """The world's part in one run. first: whether it has its resources from the start (mode `world`)."""

    def __init__(self, world: RunningWorld, policy: ToolsPolicy, *, first: Iterable[str] = ()) -> None:
        self._world = world
        self._policy = policy
        self._taken = Claims(policy.of(tool).resources for tool in first)
        self._recorded = Claims()
        self._unknown = Claims()
        self._meetings = _Meetings()

    def begin(self, scope: str, group: int | None) -> None:
        """Say that a crossing of this group comes next."""
        self._meetings.begin(scope, group)

    def unseen(self, tool: str) -> list[str]:
        """Take note of a write that was told without the world; the tables whose rows nobody knows from here on."""
        resources = self._policy.of(tool).resources
        self._unknown.add(resources)
        return self._world.tables_of(lambda other: overlapping(self._policy.of(other).resources, resources))

    def leads(self, tool: str) -> bool:
        """Whether the world, and not the record, speaks for what this tool rests on."""
        return self._taken.overlap(self._policy.of(tool).resources)

    def knows(self, tool: str) -> bool:
        """Whether the world answers this tool at all."""
        return self._world.knows(tool)

    def may_take(self, tool: str) -> bool:
        """Whether the world can take over what this tool rests on: it answers the tool, and the record said nothing of it that the world would not have said."""
        resources = self._policy.of(tool).resources
        return self.knows(tool) and not self._recorded.overlap(resources) and not self._unknown.overlap(resources)

    def answer(self, crossing: Crossing) -> WorldAnswer:
        """What the world answers to a call; from here on it speaks for what the tool rests on. Raises WorldMiss."""
        resources = self._policy.of(crossing.name).resources
        if not self.knows(crossing.name):
            raise WorldMiss(f"the world speaks for what {crossing.name} rests on, and does not answer it")
        if self._unknown.overlap(resources):
            raise WorldMiss(f"a write that the world does not answer touched what {crossing.name} rests on")
        if self._recorded.overlap(resources):
            raise WorldMiss(f"the record has said of what {crossing.name} rests on what the world would not say")
        answer = self._asked(crossing)
        self._taken.add(resources)
        return answer

    def beside(self, crossing: Crossing, served: Served) -> Noted:
        """Take note of an answer that did not come from the world; the rows that the world would have changed, and the tables that nobody knows now.

        Where the world would have said the same, it can still take over. Where not, the record keeps the resource, and a write leaves it unknown.
        """
        resources = self._policy.of(crossing.name).resources
        answer = self._agreeing(crossing, served)
        if answer is not None:
            return Noted(tuple(answer.changes), tuple(answer.unsettled))
        if served.changed:
            return Noted((), tuple(self.unseen(crossing.name)))
        if served.error is None or not self.leads(crossing.name):
            self._recorded.add(resources)
        return Noted()

    def _agreeing(self, crossing: Crossing, served: Served) -> WorldAnswer | None:
        """The world's own answer where it is the one that was served."""
        if not self.knows(crossing.name):
            return None
        try:
            answer = self._asked(crossing)
        except WorldMiss:
            self._world.tables.undo()
            return None
        if same_answer(answer, served.value, served.error):
            return answer
        self._world.tables.undo()
        return None

    def _asked(self, crossing: Crossing) -> WorldAnswer:
        answer = self._world.answer(crossing.name, crossing.seen)
        self._meetings.add((crossing.name, crossing.key), dict(self._world.tables.met))
        return answer


def for_run(world: LoadedWorld, policy: ToolsPolicy, *, first: bool) -> Callable[[], Authority]:
    """Starts a world's part in a run. first: whether it has its resources from the start."""
    return lambda: Authority(world.started(), policy, first=world.effects if first else ())


def same_answer(answer: WorldAnswer, value: Any, error: ErrorRecord | None) -> bool:
    """Whether a world's answer is this one: the same value, or the same error with its class and text where it is raised."""
    if (answer.error is None) != (error is None):
        return False
    if answer.error is not None and error is not None and answer.raised:
        return (answer.error.cls, answer.error.message) == (error.cls, error.message)
    return equal(answer.value, value)
