"""What became of a world's rows: the goal (rows that must have changed, and how) and collateral damage (semantics.md §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy.identity import canonical, equal
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement, RowDiff
from twiceshy.outcome import Truth
from twiceshy.worlds.goals import how, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context
    from twiceshy.transcript import RowChange
    from twiceshy.worlds.goals import Goal


class _Row(NamedTuple):
    """A row over the whole run: what it was first and is last, and the last step that changed it."""

    change: RowChange
    step: Step


def checks(context: Context) -> Iterator[tuple[str, Callable[[Context], Judgement]]]:
    """The checks of rows that a case asks for."""
    if context.case is None:
        return
    if context.case.rows.goal:
        yield "goal", goal
    if context.case.rows.nothing_else:
        yield "nothing_else", nothing_else


def goal(context: Context) -> Judgement:
    """Satisfied where every row that must have changed has, and as it must; violated at an undiverged end where one has not; open before."""
    blank = Judgement(
        id="goal", kind=Sort.MUST_HAPPEN.value, effect="missing", message="the rows of the world are not as the goal has them"
    )  # fmt: skip
    run = context.run
    wanted = context.case.rows.goal if context.case is not None else []
    rows = list(_over_the_run(run))
    reached, unmet = [], []
    for number, one in enumerate(wanted, start=1):
        found, problem = _met(one, rows)
        if found is not None and problem is None:
            rows.remove(found)
            reached.append(found)
        else:
            unmet.append((f"goal {number}, {found.change.row if found else one.table}: {problem}", found))
    if not unmet and reached:
        return blank.at(*(row.step for row in reversed(reached)), truth=Truth.SATISFIED)
    if not run.ended or run.stale:
        return blank.being(Truth.OPEN, stale=run.stale)
    wrong = [found for _, found in unmet if found is not None]
    blank = msgspec.structs.replace(
        blank, detail="; ".join(said for said, _ in unmet), rows=[_diff(found.change) for found in wrong]
    )
    return blank.at(*(found.step for found in wrong)) if wrong else blank.being(Truth.VIOLATED)


def nothing_else(context: Context) -> Judgement:
    """Violated at the first change of a row that neither the goal nor the case's `may_change` covers, even where it is changed back: somebody may have seen it."""
    blank = Judgement(
        id="nothing_else", kind=Sort.MUST_NOT.value, effect="extra", message="a row was changed that the goal does not name"
    )  # fmt: skip
    damage = list(_damage(context))
    if not damage:
        return blank.being(Truth.SATISFIED if context.run.ended else Truth.OPEN)
    rows = [_diff(change) for change, _ in damage]
    steps = list({step.crossing.place: step for _, step in damage}.values())
    return blank.at(*steps, detail="; ".join(map(str, rows)), rows=rows)


def _damage(context: Context) -> Iterator[tuple[RowChange, Step]]:
    """Each goal of an insertion covers one row, so a second one is damage."""
    expected = context.case.rows if context.case is not None else None
    open_goals = list(expected.goal) if expected is not None else []
    for step in context.run.steps:
        for change in step.changes:
            if expected is None or any(allowed.covers(change) for allowed in expected.may_change):
                continue
            covering = next((one for one in open_goals if one.covers(change)), None)
            if covering is None:
                yield change, step
            elif covering.change != "updated":
                open_goals.remove(covering)


def _met(wanted: Goal, rows: Sequence[_Row]) -> tuple[_Row | None, str | None]:
    """The row that meets a goal; else the nearest one and what is amiss with it."""
    named = [row for row in rows if wanted.names(row.change)]
    if not named:
        return None, f"no row was {wanted.change}"
    best = min(named, key=lambda row: len(wanted.amiss(row.change)))
    amiss = wanted.amiss(best.change)
    return best, f"{', '.join(amiss)} not as it must be" if amiss else None


def _over_the_run(run: Run) -> Iterator[_Row]:
    """Every row that is another at the end than at the start."""
    rows: dict[tuple[str, bytes], _Row] = {}
    for step in run.steps:
        for change in step.changes:
            at = (change.table, canonical(change.key))
            first = rows[at].change.before if at in rows else change.before
            rows[at] = _Row(msgspec.structs.replace(change, before=first), step)
    return (row for row in rows.values() if not _as_it_was(row.change))


def _as_it_was(change: RowChange) -> bool:
    """Whether a row came back to what it was, or went again."""
    if change.before is UNSET or change.after is UNSET:
        return change.before is change.after
    return equal(change.before, change.after)


def _diff(change: RowChange) -> RowDiff:
    return RowDiff(row=change.row, change=how(change), paths=touched(change), invented=change.invented)
