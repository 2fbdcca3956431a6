"""The simulator `nearest`: what the nearest recorded call of the tool returned, with the asked arguments in the place of the recorded ones. Deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.simulators.protocol import CannotSimulate
from twiceshy.worlds.seeding import templated
from twiceshy.writes import filled

if TYPE_CHECKING:
    from twiceshy.simulators.protocol import Asked, Settings


class Nearest:
    """Answers from the recordings alone."""

    name = "nearest"
    version = 1

    def __init__(self, settings: Settings) -> None:
        """Nothing is needed."""

    def answer(self, asked: Asked) -> Any:
        """The answer of the first example, worded for what is asked. Raises CannotSimulate where there is none."""
        if not asked.examples:
            raise CannotSimulate(f"no call of {asked.tool} was recorded that succeeded")
        nearest = asked.examples[0]
        return filled(templated(nearest.answer, nearest.args), asked.args)
