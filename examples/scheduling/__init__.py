"""The scheduling agent. "Move my install to Thursday", written on a Tuesday: Thursday is full, Friday is never offered, Thursday is confirmed all the same.

Steps of the failed run: #1 planner, #2 get_appointment, #3 list_open_slots(Thursday), #4 planner, #5 send_confirmation, #6 planner.
The versions differ in their prompt only, so a case of this agent is judged with its model live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import twiceshy
from examples.scheduling.agent import PROMPTS, build
from examples.scheduling.diary import Diary
from examples.scheduling.planner import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.scheduling.agent import Record

    Agent = Callable[[Record], Record]

__all__ = ["buggy", "confirms_first", "fixed", "july32_corrected", "july32_swallowed"]

TO_THURSDAY = {"message": "Hi, can you move my install K2207 to Thursday? Mornings would be best."}
TO_WEDNESDAY = {"message": "Please move appointment K2391 to Wednesday."}
TO_JULY_32 = {"message": "Could you move my appointment K2207 to July 32?"}

_VERSIONS = {"harness": "1.6.2", "model": MODEL}


@twiceshy.candidate(workflow="scheduling", versions=_VERSIONS)
def buggy(boundary: twiceshy.Boundary, diary: Diary | None = None) -> Agent:
    """As in production: told to answer quickly, it confirms a full day and reschedules nothing."""
    return build(boundary, diary or Diary(), PROMPTS["3"])


@twiceshy.candidate(workflow="scheduling", versions=_VERSIONS)
def confirms_first(boundary: twiceshy.Boundary, diary: Diary | None = None) -> Agent:
    """It looks at the next working day, but only after it has confirmed the one asked for."""
    return build(boundary, diary or Diary(), PROMPTS["4"])


@twiceshy.candidate(workflow="scheduling", versions=_VERSIONS)
def fixed(boundary: twiceshy.Boundary, diary: Diary | None = None) -> Agent:
    """It looks at the next working day, reschedules, then confirms; a date that does not exist it says so."""
    return build(boundary, diary or Diary(), PROMPTS["5"])


@twiceshy.candidate(workflow="scheduling", versions=_VERSIONS)
def july32_swallowed(boundary: twiceshy.Boundary, diary: Diary | None = None) -> Agent:
    """A later prompt that lost a line: asked for July 32 it apologises and closes; nobody learns that the date does not exist."""
    return build(boundary, diary or Diary(), PROMPTS["6"])


@twiceshy.candidate(workflow="scheduling", versions=_VERSIONS)
def july32_corrected(boundary: twiceshy.Boundary, diary: Diary | None = None) -> Agent:
    """The line is back: asked for July 32 it says that July has 31 days and asks which date is meant."""
    return build(boundary, diary or Diary(), PROMPTS["7"])
