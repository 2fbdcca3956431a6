"""A boundary under which what a candidate declares is damaged, one run long."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import UNSET

from twiceshy import paths
from twiceshy.boundary import Boundary
from twiceshy.breaking.answers import Answers
from twiceshy.breaking.operators import Break, Operator
from twiceshy.breaking.outputs import Replacing
from twiceshy.envelope import Kind
from twiceshy.errors import TwiceshyError
from twiceshy.identity import equal
from twiceshy.matching import fresh
from twiceshy.stepping import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from twiceshy.boundary import Agent
    from twiceshy.envelope import Envelope
    from twiceshy.replaying import Terms
    from twiceshy.seam import Backend, Call, Declared

    Steps = Generator[Callable[[], Any], Any, Any]
    Walk = Callable[[Declared, dict[str, Any]], Steps]


class BreakingBoundary(Boundary):
    """A boundary with breaks. `on_applied` hears of each break, once, when it first changes something; a frozen prefix is left as it was recorded."""

    def __init__(
        self, backend: Backend, breaks: Sequence[Break], *, record: Envelope, terms: Terms, on_applied: Callable[[Break], object], **place: Any
    ) -> None:  # fmt: skip
        super().__init__(backend, **place)
        self._breaks = tuple(breaks)
        self._record = record
        self._cut = terms.cut
        self._terms = terms
        self._unheard = set(self._breaks)
        self._on_applied = on_applied
        self._late: dict[Break, Steps] = {}
        self._whole = False
        self._damaged: set[Break] = set()

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self._record, self._terms)

    def guard(self, name: str, fn: Callable[[Any], Any], *, before: str) -> None:
        """Declare a guard, switched off where a break says so."""
        off = self._named(Operator.GUARD_OFF, name)
        super().guard(name, fn if off is None else self._passing(off, None), before=before)

    def checkpoint(self, name: str, fn: Callable[..., Any], *, at: str | None = None) -> Callable[..., Any]:
        """Declare a check, switched off where a break says so."""
        off = self._named(Operator.GUARD_OFF, name)
        return super().checkpoint(name, fn if off is None else self._passing_alike(off, fn), at=at)

    def hook(self, name: str, fn: Callable[[Any], Any], *, before: str | None = None, after: str | None = None) -> None:
        """Declare a hook, switched off where a break says so."""
        off = self._named(Operator.HOOK_OFF, name)
        super().hook(name, fn if off is None else self._passing(off, UNSET), before=before, after=after)

    def model(
        self, name: str, fn: Callable[..., Any], *, prompt: str | None = None, version: str | None = None
    ) -> Callable[..., Any]:
        """Declare a model, its output replaced at the step where a break says so."""
        return super().model(name, self._replacing(name, fn), prompt=prompt, version=version)

    def handoff(self, name: str, build: Callable[[Boundary], Agent]) -> Agent:
        """Declare an agent to hand to, under the same breaks."""

        def completed(within: Boundary) -> Agent:
            agent = build(within)
            within.complete()
            return agent

        return super().handoff(name, completed)

    def child(self, scope: str, home: Call | None) -> Boundary:
        """The boundaries of an agent that is handed to, under the same breaks."""
        made = BreakingBoundary(
            self._backend, self._breaks, record=self._record, terms=self._terms, on_applied=self._on_applied, scope=scope,
            home=home, kin=self,
        )  # fmt: skip
        made._unheard, made._late = self._unheard, self._late
        return made

    def complete(self) -> None:
        """Add the hooks that strip results and set arguments, after every hook of the candidate. Call it when the candidate has declared everything."""
        self._whole = True
        for tool in list(self.tools):
            self._damage(tool)

    def _called(self, kind: Kind, name: str, *rest: Any, **further: Any) -> Callable[..., Any]:
        """Declare what is called by arguments; what a framework brings along while the agent runs is damaged at once."""
        made = super()._called(kind, name, *rest, **further)
        if self._whole:
            self._damage(name)
        return made

    def _damage(self, tool: str) -> None:
        for found in self._breaks:
            if found.names[0] != tool or found in self._damaged:
                continue
            if found.operator is Operator.HOOK_STRIP:
                super().hook(f"break {found.text}", self._stripping(found), after=tool)
            elif found.operator is Operator.ARGS_SET:
                super().hook(f"break {found.text}", self._setting(found), before=tool)
            self._damaged.add(found)

    def _at_once(self, declared: Declared, given: dict[str, Any]) -> Any:
        """Each call goes its steps, since a break may stand around any."""
        return drive(self._tool_steps(declared, given))

    def _tool_steps(self, declared: Declared, proposed: dict[str, Any]) -> Steps:
        walk: Walk = super()._tool_steps
        if not self._cut.in_prefix(self._next(declared)):
            for found in self._breaks:
                around = self._AROUND.get(found.operator)
                if around is not None and declared.name in found.names:
                    walk = partial(around, self, found, walk)
        return walk(declared, proposed)

    def _next(self, declared: Declared) -> int:
        """The step that a call is: a framework's was taken where its middleware began."""
        opened = None if declared.via is None else declared.via.seq
        return self.numbers.last + 1 if opened is None else opened

    def _dropped(self, found: Break, walk: Walk, declared: Declared, proposed: dict[str, Any]) -> Steps:
        told = self._answers.of(declared, proposed)
        if told is UNSET:
            return (yield from walk(declared, proposed))
        self._heard(found)
        return told

    def _doubled(self, found: Break, walk: Walk, declared: Declared, proposed: dict[str, Any]) -> Steps:
        shown = yield from walk(declared, proposed)
        self._heard(found)
        _end(declared)
        yield from _quietly(walk(declared, proposed))
        return shown

    def _swapped(self, found: Break, walk: Walk, declared: Declared, proposed: dict[str, Any]) -> Steps:
        first, _ = found.names
        if declared.name == first:
            told = self._answers.of(declared, proposed)
            if found not in self._unheard or found in self._late or told is UNSET:
                return (yield from walk(declared, proposed))
            self._late[found] = _later(walk, declared, proposed)
            return told
        late = self._late.pop(found, None)
        if late is None:
            return (yield from walk(declared, proposed))
        self._heard(found)
        try:
            shown = yield from walk(declared, proposed)
        except Exception as raised:
            if _fails(declared, raised):
                yield from late
            else:
                self._late[found] = late
            raise
        yield from late
        return shown

    def _swallowed(self, found: Break, walk: Walk, declared: Declared, proposed: dict[str, Any]) -> Steps:
        try:
            shown = yield from walk(declared, proposed)
        except Exception as raised:
            if not _fails(declared, raised):
                raise
            self._heard(found)
            return self._answers.well(declared, proposed)
        if not self._answers.failed(declared, shown):
            return shown
        self._heard(found)
        return self._answers.well(declared, proposed)

    _AROUND: ClassVar[Mapping[Operator, Callable[..., Steps]]] = {
        Operator.CALL_DROP: _dropped,
        Operator.CALL_DUPLICATE: _doubled,
        Operator.ORDER_SWAP: _swapped,
        Operator.ERROR_SWALLOW: _swallowed,
    }

    def _heard(self, found: Break) -> None:
        if found in self._unheard:
            self._unheard.discard(found)
            self._on_applied(found)

    def _named(self, operator: Operator, name: str) -> Break | None:
        return next((found for found in self._breaks if found.operator is operator and found.target == name), None)

    def _passing(self, off: Break, answer: object) -> Callable[[Any], Any]:
        def passing(value: Any) -> Any:
            self._heard(off)
            return value if answer is UNSET else answer

        return passing

    def _passing_alike(self, off: Break, fn: Callable[..., Any]) -> Callable[..., Any]:
        """What lets everything pass, awaited where the check itself is."""
        passing = self._passing(off, None)
        if not iscoroutinefunction(fn):
            return passing

        async def passing_later(value: Any) -> Any:
            return passing(value)

        return passing_later

    def _replacing(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The model's function, with the recorded output where a break replaces it. A frozen model gives the recorded one anyway."""
        replaced = {
            crossing.seq: (found, crossing)
            for found in self._breaks
            for crossing in self._record.crossings
            if found.operator is Operator.PROPOSAL_REPLACE and crossing.place == f"#{found.target}"
            if (crossing.kind, crossing.name) == (Kind.MODEL, name) and crossing.raw is not UNSET
        }
        return Replacing(replaced, self._heard).around(fn) if replaced else fn

    def _stripping(self, found: Break) -> Callable[[Any], Any]:
        def stripping(result: Any) -> Any:
            if any(True for _ in paths.found(result, found.path)):
                self._heard(found)
            return paths.edited(result, found.path, lambda _: UNSET)

        return stripping

    def _setting(self, found: Break) -> Callable[[Any], Any]:
        def setting(asked: Any) -> Any:
            made = _with(asked, found.path, found.value)
            if not equal(made, asked):
                self._heard(found)
            return made

        return setting


def _quietly(steps: Steps) -> Steps:
    """A call that the agent never asked for: nobody is there to hear what it raises."""
    with suppress(Exception):
        yield from steps


def _later(walk: Walk, declared: Declared, proposed: dict[str, Any]) -> Steps:
    """A call that is put off, in a step of the time when it is made. The agent has gone on by then, so what it raises is heard by nobody."""
    if declared.via is not None:
        declared.via.postponed()
    return _ended(walk(declared, proposed), declared)


def _ended(steps: Steps, declared: Declared) -> Steps:
    yield from _quietly(steps)
    _end(declared)


def _end(declared: Declared) -> None:
    """A framework closes a call at its outer end, which comes once: any other of its calls is closed here."""
    if declared.via is not None:
        declared.via.over()


def _fails(declared: Declared, raised: Exception) -> bool:
    """Whether a tool failed. A question to somebody is no error of it, and neither is a fault of ours."""
    waits = declared.via is not None and isinstance(raised, declared.via.waits)
    return not waits and not isinstance(raised, TwiceshyError)


def _with(value: Any, parts: tuple[str, ...], made: Any) -> Any:
    """The value with `made` wherever the path leads; a name that is missing is added, an item or a wildcard is not."""
    if not parts:
        return fresh(made)
    if isinstance(value, dict) and parts[0] not in ("*", "[]"):
        return {**value, parts[0]: _with(value.get(parts[0], {}), parts[1:], made)}
    return paths.edited(value, parts, lambda _: fresh(made))
