"""No duplicate write (semantics.md §5.4): an ambiguous outcome counts as happened, a blocked or definitely failed one does not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from twiceshy.evidence import Fate, before
from twiceshy.history import History
from twiceshy.identity import digest
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement
from twiceshy.ordering import step_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context


def no_duplicate_write(context: Context) -> Judgement:
    """Violated at the first write that repeats an earlier one.

    A repeat: the same call with no other write in between that touches its resources, one idempotency key with other arguments, or a new key for an equal
    call after an ambiguous error. Between agents that run side by side, or calls of one turn, there is no in between: each of two equal writes repeats the other.
    """
    blank = Judgement(
        id="no_duplicate_write", kind=Sort.COUNT.value, effect="extra", message="a write may not be made twice"
    )
    for again, earlier, why in duplicates(context.run):
        return blank.at(again, earlier, detail=why)
    return blank.kept(context.run)


def duplicates(run: Run) -> Iterator[tuple[Step, Step, str]]:
    """Every write that repeats an earlier one: the repeat, the earlier one, and why it is one, in judging order.

    Only equal calls and equal idempotency keys are compared, so long runs stay cheap.
    """
    writes = list(run.writes())
    history, inside = History(run.policy), _Inside(run)
    equal_calls: dict[tuple[str, str], list[int]] = defaultdict(list)
    keyed: dict[tuple[str, str], Step] = {}
    for at, again in enumerate(writes):
        call, name = (again.crossing.name, again.key), _keyed(again)
        equal = equal_calls[call]
        for back in equal:
            if _retried_anew(writes[back], again):
                yield again, writes[back], "a new idempotency key after an ambiguous error"
        for back in _latest(run, writes, equal, again):
            if _repeated(writes[back], again, writes[back + 1 : at], history, inside):
                yield again, writes[back], "the same call again"
                break
        first = None if name is None else keyed.setdefault(name, again)
        if first is not None and first.key != again.key:
            yield again, first, "one idempotency key, other arguments"
        equal.append(at)


def _keyed(step: Step) -> tuple[str, str] | None:
    return None if step.idempotency_key is None else (step.crossing.name, digest(step.idempotency_key))


def _latest(run: Run, writes: Sequence[Step], equal: Sequence[int], again: Step) -> Iterator[int]:
    """Of equal writes, the last one first, those that no other of them stands between this one and."""
    found: list[int] = []
    for back in reversed(equal):
        if not any(before(writes[back], writes[later]) and before(writes[later], again) for later in found):
            found.append(back)
            yield back
        elif not run.branched:
            return


def _retried_anew(earlier: Step, again: Step) -> bool:
    return (
        earlier.fate is Fate.AMBIGUOUS
        and None not in (_keyed(earlier), _keyed(again))
        and _keyed(earlier) != _keyed(again)
    )


def _follows(again: Step, earlier: Step) -> bool:
    """Whether a call was made after another one: in a later turn, or as its next attempt."""
    attempts = again.crossing.scope == earlier.crossing.scope and again.crossing.attempt > earlier.crossing.attempt
    return attempts or before(earlier, again)


def _repeated(earlier: Step, again: Step, between: Sequence[Step], history: History, inside: _Inside) -> bool:
    """Whether an equal call is made again though nothing it rests on changed. After an ambiguous error the same idempotency key makes a retry safe.

    What lies inside one of the two calls, or around it, is part of it: nothing that came in between.
    """
    retry = earlier.fate is Fate.AMBIGUOUS and _keyed(earlier) is not None and _keyed(earlier) == _keyed(again)
    return not (retry and _follows(again, earlier)) and not any(
        before(earlier, other)
        and before(other, again)
        and _changes(history, other, again)
        and not inside.one(other, earlier)
        and not inside.one(other, again)
        for other in between
    )


class _Inside:
    """Which steps of a run lie inside others."""

    def __init__(self, run: Run) -> None:
        self._parents = {step.crossing.seq: step.crossing.parent for step in run.steps if not step.crossing.sub}

    def one(self, left: Step, right: Step) -> bool:
        """Whether one of two steps lies inside the other."""
        return right.crossing.seq in self._around(left) or left.crossing.seq in self._around(right)

    def _around(self, step: Step) -> Iterator[int]:
        parent, passed = step.crossing.parent, {step.crossing.seq}
        while parent is not None:
            seq = step_of(parent)
            if seq in passed:  # a record may say anything
                return
            passed.add(seq)
            yield seq
            parent = self._parents.get(seq)


def _changes(history: History, other: Step, again: Step) -> bool:
    """Whether a write in between is another one and touches what this one rests on."""
    same = (other.crossing.name, other.key) == (again.crossing.name, again.key)
    return not same and history.touches(other.crossing.name, again.crossing.name)
