"""The simulated answers of one run, in the order of the misses that they were made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.answered import Answered
from twiceshy.envelope import Record
from twiceshy.identity import digest, untagged
from twiceshy.outcome import AnsweredBy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.envelope import Crossing


class SimulatedAnswer(Record, frozen=True, kw_only=True):
    """One answer. asked: the sha256 of the arguments that it was made for; value: in tagged form."""

    tool: str
    asked: str
    value: Any


class SimulatedAnswers:
    """Serves each answer once, to the very call that it was made for."""

    def __init__(self, answers: Sequence[SimulatedAnswer]) -> None:
        self._left = list(answers)

    def next(self, crossing: Crossing) -> Answered | None:
        """The next answer, where it was made for this call; else None."""
        if not self._left or (self._left[0].tool, self._left[0].asked) != (crossing.name, digest(crossing.seen)):
            return None
        return Answered(value=untagged(self._left.pop(0).value), by=AnsweredBy.SIMULATED)
