"""What became of a world's rows: the goal (rows that must have changed, and how) and collateral damage (semantics.md §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy.identity import canonical, equal
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement, RowDiff
from twiceshy.outcome import Divergence, Truth
from twiceshy.worlds.expecting import damage, since, unsettled
from twiceshy.worlds.goals import how, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context
    from twiceshy.transcript import RowChange
    from twiceshy.worlds.goals import Goal


_UNKNOWN = "a write changed rows in a way that the world does not say"


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
    """Satisfied where every row that must have changed has, and as it must; violated at an undiverged end where one has not; open before, and where nobody knows."""
    blank = Judgement(
        id="goal", kind=Sort.MUST_HAPPEN.value, effect="missing", message="the rows of the world are not as the goal has them"
    )  # fmt: skip
    case, run = context.case, context.run
    wanted = case.rows.goal if case is not None else []
    rows = list(_over_the_run(run))
    reached, unmet = [], []
    for number, one in enumerate(wanted, start=1):
        found, problem = _met(one, rows)
        if found is not None and problem is None:
            rows.remove(found)
            reached.append(found)
        else:
            unmet.append((one, f"goal {number}, {found.change.row if found else one.table}: {problem}", found))
    unknown = _unknown_goal(context, {one.table for one, _, _ in unmet}, {row.change.table for row in reached})
    if unknown is not None:
        return blank.at(unknown, truth=Truth.OPEN, unknown=Divergence.WORLD_MISS, detail=_UNKNOWN)
    if not unmet and any(row.step.stale for row in reached):
        return blank.being(Truth.OPEN, stale=True)
    if not unmet and reached:
        improvised = all(row.step.improvised for row in reached)
        return blank.at(*(row.step for row in reversed(reached)), truth=Truth.SATISFIED, improvised=improvised)
    if not run.ended or run.stale:
        return blank.being(Truth.OPEN, stale=run.stale)
    wrong = [found for _, _, found in unmet if found is not None]
    blank = msgspec.structs.replace(
        blank, detail="; ".join(said for _, said, _ in unmet), rows=[_diff(found.change) for found in wrong]
    )
    return blank.at(*(found.step for found in wrong)) if wrong else blank.being(Truth.VIOLATED)


def _unknown_goal(context: Context, unmet: set[str], reached: set[str]) -> Step | None:
    """The write after which nobody knows whether the goal is met: any in a table where it seems not to be, an unexpected one where it is."""
    if context.case is None:
        return None
    for step, tables in unsettled(context.run, context.case.rows, context.case.expected):
        if not reached.isdisjoint(tables):
            return step
    return since(context.run, unmet)


def nothing_else(context: Context) -> Judgement:
    """Violated at the first change of a row that neither the goal nor the case's `may_change` covers, even where it is changed back: somebody may have seen it."""
    blank = Judgement(
        id="nothing_else", kind=Sort.MUST_NOT.value, effect="extra", message="a row was changed that the goal does not name"
    )  # fmt: skip
    case, run = context.case, context.run
    if case is None:
        return blank
    found = list(damage(run, case.rows))
    if found:
        rows = [_diff(change) for change, _ in found]
        steps = list({step.crossing.place: step for _, step in found}.values())
        return blank.at(*steps, detail="; ".join(map(str, rows)), rows=rows)
    unknown = unsettled(run, case.rows, case.expected)
    if unknown:
        return blank.at(
            *(step for step, _ in unknown), truth=Truth.OPEN, unknown=Divergence.WORLD_MISS, detail=_UNKNOWN
        )
    return blank.kept(run)


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
