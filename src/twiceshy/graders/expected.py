"""Writes as the case expects them: how often each is made, and in which order (semantics.md §7). Which ones is `explained_writes`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from twiceshy.evidence import Fate, Firsts
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement
from twiceshy.outcome import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import CaseTerms, Context
    from twiceshy.writes import DeclaredWrite


def expected_writes(context: Context) -> Judgement:
    """Violated at the first write made more often than expected, or before one that must come first; fewer is open until an undiverged end.

    An ambiguous outcome counts as happened against a limit, and not at all towards what must happen.
    """
    blank = Judgement(
        id="expected_writes",
        kind=Sort.COUNT.value,
        effect="extra",
        message="writes must be made as often and in the order that the case expects",
    )
    case, run = context.case, context.run
    if case is None:
        return blank
    return _too_many(blank, run, case) or _out_of_order(blank, run, case) or _at_the_end(blank, run, case)


def _too_many(blank: Judgement, run: Run, case: CaseTerms) -> Judgement | None:
    for write in case.expected:
        made = _made(run, write)
        if write.times is not None and len(made) > write.times:
            return blank.at(
                made[write.times], *made[: write.times], detail=f"{write.tool} more than {write.times} times"
            )
    return None


def _out_of_order(blank: Judgement, run: Run, case: CaseTerms) -> Judgement | None:
    """Each write needs the one before it, done for sure, in an earlier turn: calls that one turn asks for have no order, and neither have agents that run side by side."""
    for first, then in _pairs(case):
        done = Firsts(_sure(run, first))
        for made in _made(run, then):
            if not done.before(made):
                return blank.at(made, effect="order", detail=f"{then.tool} before {first.tool}")
    return None


def _pairs(case: CaseTerms) -> Iterator[tuple[DeclaredWrite, DeclaredWrite]]:
    """Every expected write with the one that must come after it."""
    return pairwise(case.expected if case.in_order else ())


def _at_the_end(blank: Judgement, run: Run, case: CaseTerms) -> Judgement:
    lacking = [write for write in case.expected if write.times and len(_shown(run, write)) < write.times]
    if not lacking:
        firm = all(_firm(run, write) >= (write.times or 0) for write in case.expected)
        firm = firm and all(_firm(run, first) for first, then in _pairs(case) if _made(run, then))
        return blank.kept(run, improvised=not firm)
    if not run.ended or run.stale:
        return blank.being(Truth.OPEN, stale=run.stale)
    write = lacking[0]
    detail = f"{write.tool} {len(_shown(run, write))} of {write.times} times"
    return blank.being(Truth.VIOLATED, effect="missing", boundary=f"tool:{write.tool}", detail=detail)


def _made(run: Run, write: DeclaredWrite) -> list[Step]:
    return [step for step in run.writes() if write.fits(step.crossing.name, step.args)]


def _sure(run: Run, write: DeclaredWrite) -> list[Step]:
    return [step for step in _made(run, write) if step.fate is Fate.HAPPENED]


def _shown(run: Run, write: DeclaredWrite) -> list[Step]:
    """Those that no stale output of a frozen model asked for."""
    return [step for step in _sure(run, write) if not step.stale]


def _firm(run: Run, write: DeclaredWrite) -> int:
    """How many of them were not answered by an improvised value alone."""
    return sum(not step.improvised for step in _sure(run, write))
