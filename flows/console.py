"""What the verbs print: plain aligned tables on stdout, progress on stderr. Light: it imports nothing of the pipeline."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

LONGEST = 140
"""Characters of a cell; a text beyond is cut."""

WHOLE = frozenset({"signature", "slug", "case", "case_id", "candidate"})
"""Columns of names, by which a person goes on: never cut."""

OFTEN, TENTH = 3, 10
"""Up to three of a step have a line each."""


def lines(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The rows as aligned lines under their names, numbers to the right; nothing for no rows."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [[_cell(row[name], whole=name in WHOLE) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[at]) for line in cells)) for at, name in enumerate(names)]
    right = [all(isinstance(row[name], int | float) for row in rows) for name in names]
    return [_line(held, widths, right) for held in ([name.replace("_", " ") for name in names], *cells)]


def unjudged(workflows: Sequence[str]) -> str:
    """Which workflows nothing judges, in a sentence; empty where there is none."""
    return f"Without a case, so not judged: {', '.join(workflows)}." if workflows else ""


class Steps:
    """Progress of a run: the step under way on a terminal, a line for each step done elsewhere; of a step that comes often, every tenth."""

    def __init__(self, run: str, *, to: TextIO | None = None) -> None:
        self._run = run
        self._to = to or sys.stderr
        self._done: Counter[str] = Counter()

    def __call__(self, step: str, seconds: float | None) -> None:
        """A step begins (None) or has ended."""
        if seconds is None:
            self._tell(f"{self._run}: {step} ...", end="" if self._to.isatty() else None)
            return
        self._done[step] += 1
        count = self._done[step]
        if count <= OFTEN:
            self._tell(f"{self._run}: {step} {seconds:.1f} s", end="\n")
        elif count % TENTH == 0:
            self._tell(f"{self._run}: {count} x {step}", end="\n")

    def say(self, what: str) -> None:
        """Something that is no step."""
        self._tell(f"{self._run}: {what}", end="\n")

    def _tell(self, text: str, *, end: str | None) -> None:
        if end is None:
            return
        self._to.write(("\r\x1b[2K" if self._to.isatty() else "") + text + end)
        self._to.flush()


def _cell(value: object, *, whole: bool) -> str:
    text = "-" if value is None else str(value)
    return text if whole or len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()
