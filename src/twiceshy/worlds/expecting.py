"""What a run did to the rows of a world, against what its case expects: changes that nobody asked for, and tables of which nobody knows what became."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.transcript import RowChange
    from twiceshy.worlds.goals import RowTerms
    from twiceshy.writes import DeclaredWrite


def damage(run: Run, expected: RowTerms) -> Iterator[tuple[RowChange, Step]]:
    """Every change of a row that neither a goal nor `may_change` covers. Each goal of an insertion covers one row, so a second one is damage."""
    open_goals = list(expected.goal)
    for step in run.steps:
        for change in step.changes:
            if any(allowed.covers(change) for allowed in expected.may_change):
                continue
            covering = next((one for one in open_goals if one.covers(change)), None)
            if covering is None:
                yield change, step
            elif covering.change != "updated":
                open_goals.remove(covering)


def unsettled(run: Run, expected: RowTerms, writes: Sequence[DeclaredWrite] = ()) -> list[tuple[Step, list[str]]]:
    """Every step that left tables in a state that nobody knows, with those tables.

    Left out: tables in which anything may change, and writes that are as they were expected to be, whatever they do: those that `writes` names, and those
    whose known changes (one at least) are all covered.
    """
    uncovered = {step.crossing.place for _, step in damage(run, expected)}
    free = {allowed.table for allowed in expected.may_change if allowed.key is None and allowed.fields is None}
    found = []
    for step in run.steps:
        covered = bool(step.changes) and step.crossing.place not in uncovered
        tables = sorted(set(step.unsettled) - free)
        if tables and not covered and not any(write.fits(step.crossing.name, step.args) for write in writes):
            found.append((step, tables))
    return found


def since(run: Run, tables: set[str]) -> Step | None:
    """The first step that left one of these tables in a state that nobody knows."""
    return next((step for step in run.steps if not tables.isdisjoint(step.unsettled)), None)
