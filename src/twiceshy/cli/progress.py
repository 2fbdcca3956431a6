"""Progress on long work: a bar that redraws itself on a terminal, a line per 10 % elsewhere; on stderr, so that stdout stays the product."""

from __future__ import annotations

import sys
from threading import Lock
from typing import TextIO

_WIDTH = 30


class Progress:
    """Counts things done of so many. Safe to call from several threads."""

    def __init__(self, total: int, *, what: str, quiet: bool = False, to: TextIO | None = None) -> None:
        self._total = max(1, total)
        self._what = what
        self._to = to or sys.stderr
        self._quiet = quiet
        self._done = 0
        self._told = 0
        self._guard = Lock()

    def advance(self, name: str = "") -> None:
        """One more is done."""
        with self._guard:
            self._done += 1
            if self._quiet:
                return
            if self._to.isatty():
                self._bar(name)
            else:
                self._line()

    def _bar(self, name: str) -> None:
        filled = self._done * _WIDTH // self._total
        end = "\n" if self._done >= self._total else ""
        self._to.write(f"\r\x1b[2K[{'#' * filled:<{_WIDTH}}] {self._done}/{self._total} {self._what} {name[:60]}{end}")
        self._to.flush()

    def _line(self) -> None:
        tenth = self._done * 10 // self._total
        if tenth > self._told:
            self._told = tenth
            self._to.write(f"{self._done * 100 // self._total} % ({self._done}/{self._total} {self._what})\n")
