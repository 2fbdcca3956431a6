"""The cases of a shard before stand-in sessions: what is written when, and how often anything is played."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from builders import a_case, a_crossing, a_played, a_policy, a_transcript, an_envelope, some_invariants
from twiceshy.casefile import Judge
from twiceshy.envelope import Versions
from twiceshy.exchange import Ready
from twiceshy.judging import Rules, Terms, graders
from twiceshy.results import Candidacy
from twiceshy.running import Played, Task
from twiceshy.sealing import Isolation
from twiceshy.shards import Line, ResultLine, TogetherLine, TrialLine, _Court

RULES = Rules(policy=a_policy(get_order="read"), invariants=some_invariants(), harness="h1")
BREAK = "guard.off:limit"


class Watched:
    """A pool of one session that plays the same run again and again, and the lines that are written meanwhile, in one list."""

    size = 1

    def __init__(self) -> None:
        self.happened: list[Any] = []
        self.ready = Ready(
            workflow="refund", versions=Versions(), isolation=Isolation.HERMETIC, warm=True, boundaries=[]
        )

    @contextmanager
    def lent(self) -> Iterator["Watched"]:
        yield self

    def play(self, task: Task) -> Played:
        self.happened.append((task.loaded.case.id, *task.breaks))
        return Played(transcript=a_transcript(a_played(1)), applied=frozenset(task.breaks))

    def write(self, line: Line) -> None:
        self.happened.append(line)


def happened(*names: str) -> list[Any]:
    pool = Watched()
    cases = [
        a_case(an_envelope(a_crossing(1)), id=name, kind="positive", judge=[Judge()], breaks=[BREAK], invariants=["call_counts"])
        for name in names
    ]  # fmt: skip
    terms = Terms(trials=2)
    court = _Court(pool, graders(cases, RULES, terms), RULES, terms, Candidacy())  # type: ignore[arg-type]
    court.break_all(court.judge(pool.write), pool.write)
    return [
        (type(event).__name__, getattr(event, "broken_by", None)) if isinstance(event, TrialLine | ResultLine | TogetherLine) else event
        for event in pool.happened
    ]  # fmt: skip


def test_case_is_written_before_the_next_is_played() -> None:
    told = [("TrialLine", None), ("TrialLine", None), ("ResultLine", None)]
    assert happened("a", "b")[:11] == [("a",), ("a",), *told, ("b",), ("b",), *told, ("TogetherLine", None)]


def test_breaks_are_held_against_the_trials_that_were_played() -> None:
    after = happened("a", "b")[11:]
    assert after == [("a", BREAK), ("TrialLine", BREAK), ("b", BREAK), ("TrialLine", BREAK)]
