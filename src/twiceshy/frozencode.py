"""Recorded passages of candidate code: hooks, guards and routers as they answered, for what is frozen of them (semantics.md §6)."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy.envelope import CODE_KINDS
from twiceshy.identity import key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twiceshy.envelope import Crossing


class FrozenCode:
    """The recorded code of one envelope. by_input: index it by its input too, for code named in `--freeze`."""

    def __init__(self, crossings: Iterable[Crossing], *, by_input: bool) -> None:
        self._placed: dict[tuple[int, str, str | None], Crossing] = {}
        self._waiting: dict[tuple[str, str | None, str], deque[Crossing]] = defaultdict(deque)
        for crossing in crossings:
            if crossing.kind not in CODE_KINDS:
                continue
            self._placed[crossing.seq, crossing.name, crossing.at] = crossing
            if by_input and crossing.seen is not UNSET:
                self._waiting[crossing.name, crossing.at, _key(crossing)].append(crossing)

    def placed(self, seq: int, name: str, at: str | None) -> Crossing | None:
        """The passage at a step: found again wherever it stands within it."""
        return self._placed.get((seq, name, at))

    def passed(self, crossing: Crossing) -> None:
        """Count a passage as served: it was made inside another one that is answered from the record."""
        waiting = self._waiting.get((crossing.name, crossing.at, _key(crossing)))
        if waiting is not None and len(waiting) > 1 and crossing in waiting:
            waiting.remove(crossing)

    def answering(self, name: str, at: str | None, key: str) -> Crossing | None:
        """The next passage with this very input, the last one again and again; None where none was recorded."""
        waiting = self._waiting.get((name, at, key))
        if not waiting:
            return None
        return waiting.popleft() if len(waiting) > 1 else waiting[0]


def _key(crossing: Crossing) -> str:
    return "" if crossing.seen is UNSET else key(crossing.name, crossing.seen)
