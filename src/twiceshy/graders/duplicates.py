"""No duplicate write (semantics.md §5.4): an ambiguous outcome counts as happened, a blocked or definitely failed one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.evidence import Fate, Run, Step
from twiceshy.history import History
from twiceshy.identity import equal
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement
from twiceshy.outcome import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.judgement import Context


def no_duplicate_write(context: Context) -> Judgement:
    """Violated at the first write that repeats an earlier one.

    A repeat: the same call with no other write in between that touches its resources, one idempotency key with other arguments, or a new key for an equal
    call after an ambiguous error.
    """
    blank = Judgement(
        id="no_duplicate_write", kind=Sort.COUNT.value, effect="extra", message="a write may not be made twice"
    )
    for again, before, why in duplicates(context.run):
        return blank.at(again, before, detail=why)
    return blank.being(Truth.SATISFIED if context.run.ended else Truth.OPEN)


def duplicates(run: Run) -> Iterator[tuple[Step, Step, str]]:
    """Every write that repeats an earlier one: the repeat, the earlier one, and why it is one."""
    writes = list(run.writes())
    history = History(run.policy)
    for at, again in enumerate(writes):
        for back in range(at - 1, -1, -1):
            before = writes[back]
            between = writes[back + 1 : at]
            why = _why(before, again, changed=any(_changes(history, other, again) for other in between))
            if why:
                yield again, before, why


def _why(before: Step, again: Step, *, changed: bool) -> str | None:
    if before.crossing.name != again.crossing.name:
        return None
    keyed = before.idempotency_key is not None and again.idempotency_key is not None
    one_key = keyed and equal(before.idempotency_key, again.idempotency_key)
    if before.key != again.key:
        return "one idempotency key, other arguments" if one_key else None
    if before.fate is Fate.AMBIGUOUS and keyed:
        # The way to retry safely: the tool itself sees that it is the same write.
        return None if one_key else "a new idempotency key after an ambiguous error"
    return None if changed else "the same call again"


def _changes(history: History, other: Step, again: Step) -> bool:
    """Whether a write in between is another one and touches what this one rests on."""
    same = (other.crossing.name, other.key) == (again.crossing.name, again.key)
    return not same and history.touches(other.crossing.name, again.crossing.name)
