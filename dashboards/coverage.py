"""The coverage grid: tool by error code, a table a workflow."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from dashboards.catalog import HAPPY
from dashboards.wording import CELLS

_COLUMNS, _LETTERS = 8, 80
"""Codes, and letters in them, that still make a readable table; with more, each tool lists its own."""

_GAPS = 3
"""Argument buckets named in a hint; the rest are counted."""


class Grid(NamedTuple):
    """One workflow. rows: (tool, its cells in the order of `codes`), None where the tool declares no such code."""

    workflow: str
    codes: list[str]
    rows: list[tuple[str, list[dict[str, Any] | None]]]

    @property
    def wide(self) -> bool:
        """Whether a column a code would be mostly empty columns."""
        return len(self.codes) > _COLUMNS or sum(map(len, self.codes)) > _LETTERS

    @property
    def seen(self) -> bool:
        """Whether production or the catalog came to any of its cells."""
        return any(cell and cell["state"] != "not_seen" for _, cells in self.rows for cell in cells)


def grids(cells: Sequence[Mapping[str, Any]]) -> list[Grid]:
    """A grid for each workflow. cells: the rows of `coverage.sql`, in its order; the happy path is the first column. Workflows that nobody came to are last."""
    made = [_grid(workflow, list(found)) for workflow, found in groupby(cells, key=lambda cell: cell["workflow"])]
    return sorted(made, key=lambda grid: not grid.seen)


def _grid(workflow: str, cells: Sequence[Mapping[str, Any]]) -> Grid:
    codes = sorted({cell["error_code"] for cell in cells}, key=lambda code: (code != HAPPY, code))
    at = {(cell["tool"], cell["error_code"]): {**cell, "tip": _tip(cell)} for cell in cells}
    tools = sorted({cell["tool"] for cell in cells})
    return Grid(workflow, codes, [(tool, [at.get((tool, code)) for code in codes]) for tool in tools])


def _tip(cell: Mapping[str, Any]) -> str:
    """The cell in words."""
    said = [f"{cell['tool']}, {cell['error_code']}: {CELLS[cell['state']].word}", f"{cell['runs']} production runs, {cell['cases']} cases, {cell['positives']} positives"]  # fmt: skip
    if cell["breaks_applied"]:
        said.append(f"{cell['breaks_killed']} of {cell['breaks_applied']} breaks killed")
    if cell["buckets"] > 1:
        said.append(f"{cell['buckets_covered']} of {cell['buckets']} argument buckets covered")
    if cell["covered_in"]:
        said.append(f"proven in {', '.join(cell['covered_in'])}")
    gaps = cell["gaps"] or []
    if gaps:
        more = f" and {len(gaps) - _GAPS} more" if len(gaps) > _GAPS else ""
        said.append(f"no case for {', '.join(gaps[:_GAPS])}{more}")
    return "\n".join(said)
