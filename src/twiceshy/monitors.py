"""Three-valued monitors: what an invariant says of the crossings so far is violated, satisfied or open (semantics.md §7).

A must_not is never satisfied before an undiverged end; a must_happen needs a definite success; must_not and counts treat an ambiguous outcome as happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec import UNSET

from twiceshy.conditions import Condition, ConditionError, MissingField
from twiceshy.evidence import Fate, Firsts, Run, Step
from twiceshy.invariants import CODE_TARGETS, Invariant, Selector, Sort, Spec
from twiceshy.judgement import Context, Judgement
from twiceshy.outcome import Divergence, Truth
from twiceshy.schemas import breaks
from twiceshy.standpoints import StepFacts, standpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


def judge(invariant: Invariant, context: Context, *, malformed: Collection[str] = ()) -> Judgement:
    """What the invariant says of the run. malformed: places whose arguments violate a schema; there the schema is the finding, not the condition that trips over it."""
    spec = invariant.spec
    blank = Judgement(
        id=spec.id, version=spec.version, tier=spec.tier, kind=spec.kind.value, message=spec.message or _said(spec),
        effect=invariant.effect, severity=spec.severity,
    )  # fmt: skip
    monitor = _Monitor(invariant, context, malformed, blank)
    try:
        return monitor.verdict()
    except ConditionError as broken:
        return blank.being(None, error=str(broken))


def binds(invariant: Invariant, context: Context) -> bool:
    """Whether an invariant is judged here: one that waits for an opportunity binds only the cases that name it."""
    return invariant.spec.only_if is None or (context.case is not None and invariant.spec.id in context.case.names)


def counted(selector: Selector, step: Step, *, sure: bool) -> bool:
    """Whether a crossing is one that the selector means.

    sure: only a definite outcome counts (must_happen); else an ambiguous one counts too (must_not, counts). A call that came to nothing counts only where the selector asks for it.
    """
    if not _named(selector, step):
        return False
    if selector.blocked is not None and step.refused() != selector.blocked:
        return False
    if selector.succeeded is not None:
        wanted = Fate.HAPPENED if selector.succeeded else Fate.NOTHING
        opposite = Fate.NOTHING if selector.succeeded else Fate.HAPPENED
        return step.fate is wanted if sure else step.fate is not opposite
    if selector.blocked:
        return True
    return step.fate is Fate.HAPPENED if sure else step.fate is not Fate.NOTHING


class _Monitor:
    """One invariant on one run."""

    def __init__(self, invariant: Invariant, context: Context, malformed: Collection[str], blank: Judgement) -> None:
        self.spec = invariant.spec
        self.condition = invariant.condition
        self.holds = invariant.holds
        self.run = context.run
        self.malformed = malformed
        self.blank = blank

    def verdict(self) -> Judgement:
        match self.spec.kind:
            case Sort.MUST_NOT:
                return self._must_not()
            case Sort.MUST_HAPPEN:
                return self._must_happen()
            case Sort.ORDER:
                return self._order()
            case Sort.COUNT:
                return self._count()
            case Sort.SCHEMA:
                return self._schema()
            case Sort.OUTPUT:
                return self._output()
            case never:
                assert_never(never)

    def _must_not(self) -> Judgement:
        found = list(self._meant(self.spec.at, sure=False))
        return self.blank.at(*found) if found else self.blank.kept(self.run)

    def _must_happen(self) -> Judgement:
        found = list(self._meant(self.spec.at, sure=True))
        shown = [step for step in found if not step.stale]
        if not shown:
            return self.blank.being(Truth.OPEN, stale=bool(found) or self._unproven())
        firm = [step for step in shown if not step.unexercised]
        if not firm:
            detail = f"{shown[0].crossing.name} was answered from the record"
            return self.blank.at(*shown, truth=Truth.OPEN, unknown=Divergence.NOT_EXERCISED, detail=detail)
        improvised = all(step.improvised for step in firm)
        return self.blank.at(*firm, truth=Truth.SATISFIED, improvised=improvised)

    def _order(self) -> Judgement:
        """Violated at a `then` that no `first` stands before.

        Calls that one model turn asks for have no order among them, so the first must stand in an earlier turn unless `same_turn` says otherwise. Neither have
        agents that run side by side: a first that only another of them made is none, whichever thread was the faster one.
        """
        found = list(_steps(self.run, self.spec.first, sure=True))
        firm = Firsts(first for first in found if not first.improvised)
        loose = Firsts(first for first in found if first.improvised)
        loosely = [step for step in self._meant(self.spec.then, sure=False) if not self._preceded(step, firm)]
        found = [step for step in loosely if not self._preceded(step, loose)]
        return self.blank.at(*found) if found else self.blank.kept(self.run, improvised=bool(loosely))

    def _preceded(self, step: Step, firsts: Firsts) -> bool:
        return firsts.before(step) or (self.spec.same_turn and firsts.of_this_turn(step))

    def _count(self) -> Judgement:
        found = [
            step
            for step in self._meant(self.spec.at, sure=False)
            if step.crossing.attempt == 1 or self.run.is_write(step)
        ]
        most, least = self.spec.max, self.spec.min
        if most is not None and len(found) > most:
            return self.blank.at(found[most], *found[:most], detail=f"more than {most}")
        sure = {id(step) for step in self._meant(self.spec.at, sure=False, always=True)} if least is not None else ()
        shown = sum(not step.stale and id(step) in sure for step in found)
        if least is not None and shown < least:
            return self._fewer(shown, least)
        return self.blank.kept(self.run)

    def _fewer(self, found: int, least: int) -> Judgement:
        if not self.run.ended or self._unproven():
            return self.blank.being(Truth.OPEN, stale=self._unproven())
        return self.blank.being(Truth.VIOLATED, effect="missing", detail=f"{found} of at least {least}")

    def _schema(self) -> Judgement:
        for step in _steps(self.run, self.spec.at, sure=False):
            value = {"args": step.args, "proposed": step.crossing.proposed, "result": step.returned}[self.spec.side]
            found = breaks(self.spec.schema or {}, value) if value is not UNSET else []
            if found:
                return self.blank.at(step, schema=found, detail=str(found[0]))
        return self.blank.kept(self.run)

    def _output(self) -> Judgement:
        if not self.run.ended or self.run.output is UNSET:
            return self.blank
        if self.run.stale:
            return self.blank.being(Truth.OPEN, stale=True)
        missing = self.spec.on_missing == "violated"
        if not any(self._true(self.condition, facts, missing=missing) for facts in standpoints(self.run)):
            return self.blank.being(Truth.SATISFIED)
        found = breaks(self.spec.schema, self.run.output) if self.spec.schema is not None else []
        if found:
            return self.blank.being(Truth.VIOLATED, schema=found, detail=str(found[0]))
        # `on_missing` speaks of `when`: a field that the output must have and lacks is never satisfied.
        kept = all(self._true(self.holds, facts, missing=False) for facts in standpoints(self.run))
        return self.blank.being(Truth.SATISFIED if kept else Truth.VIOLATED)

    def _meant(self, selector: Selector | None, *, sure: bool, always: bool = False) -> Iterator[Step]:
        """The crossings that are meant and where the condition is true. What a missing field means depends on whom the crossing speaks for.

        Where what came before a crossing is not known, one that speaks against the run is meant if the condition may be true, another only if it must.
        """
        holds = all if sure or always else any
        for step in _steps(self.run, selector, sure=sure):
            missing = self.spec.on_missing == ("satisfied" if sure else "violated")
            if self._true_at(step, holds, missing=missing):
                yield step

    def _true_at(self, step: Step, holds: Callable[[Iterable[bool]], bool], *, missing: bool) -> bool:
        try:
            return holds(self._true(self.condition, facts, missing=missing) for facts in standpoints(self.run, step))
        except ConditionError:
            if step.crossing.place in self.malformed:
                return False
            raise

    def _true(self, condition: Condition | None, facts: StepFacts, *, missing: bool) -> bool:
        if condition is None:
            return True
        try:
            return condition.holds(facts)
        except MissingField:
            if self.spec.on_missing == "error":
                raise
            return missing

    def _unproven(self) -> bool:
        """Whether what did not happen may be missing only because a frozen model could not react: never for candidate code."""
        selector = self.spec.at
        return self.run.stale and selector is not None and selector.target[0] not in CODE_TARGETS


def _steps(run: Run, selector: Selector | None, *, sure: bool) -> Iterator[Step]:
    return (step for step in run.steps if selector is not None and counted(selector, step, sure=sure))


def _named(selector: Selector, step: Step) -> bool:
    kind, name = selector.target
    meant = step.crossing.kind == kind and name in ("*", step.crossing.name) and step.has_args(selector.args)
    return meant and (selector.returned is UNSET or step.has_returned(selector.returned))


def _said(spec: Spec) -> str:
    """A plain message for an invariant that brings none."""
    target = next((selector.target[1] for selector in (spec.at, spec.then) if selector is not None), "the output")
    return _MESSAGES[spec.kind](spec, target)


_MESSAGES: dict[Sort, Callable[[Spec, str], str]] = {
    Sort.MUST_NOT: lambda _, target: f"{target} must not happen",
    Sort.MUST_HAPPEN: lambda _, target: f"{target} must happen",
    Sort.ORDER: lambda spec, target: f"{target} needs {spec.first.target[1] if spec.first else '?'} before it",
    Sort.COUNT: lambda _, target: f"{target} was called the wrong number of times",
    Sort.SCHEMA: lambda spec, target: f"the {spec.side} of {target} must match their schema",
    Sort.OUTPUT: lambda _, target: f"{target} must keep its contract",
}
