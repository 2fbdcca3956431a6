"""Which version of each agent was in production on each of the fourteen days, and how many requests came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

FIRST_DAY = date(2026, 11, 9)
DAYS = tuple(FIRST_DAY + timedelta(days=at) for at in range(14))

# From which day of November each version ran; a repair and a rollback are deployments like any other.
_ROLLOUTS: dict[str, tuple[tuple[int, str], ...]] = {
    "refund": ((9, "buggy"), (13, "apologises_only"), (14, "hook_fixed"), (16, "hook_fixed_and_guarded")),
    "scheduling": (
        (9, "buggy"),
        (16, "confirms_first"),
        (17, "fixed"),
        (19, "july32_swallowed"),
        (21, "july32_corrected"),
    ),
    "research": ((9, "looping"), (12, "misreads_total"), (15, "fixed"), (18, "no_done_condition"), (20, "fixed")),
}
WORKFLOWS = tuple(_ROLLOUTS)

# The day on which the paper search renamed `total` to `total_count`.
SEARCH_RENAMED = date(2026, 11, 12)

_WEEKDAY = {"refund": 15, "scheduling": 7, "research": 2}
_WEEKEND = {"refund": 11, "scheduling": 5, "research": 0}
_SATURDAY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The version of one workflow on one day; `fresh` on the day it was deployed."""

    day: date
    workflow: str
    version: str
    fresh: bool

    @property
    def candidate(self) -> str:
        """The version as a candidate is named."""
        return f"examples.{self.workflow}:{self.version}"


def deployed(day: date, workflow: str) -> Deployment:
    """What ran on that day."""
    since, version = max(rollout for rollout in _ROLLOUTS[workflow] if rollout[0] <= day.day)
    return Deployment(day=day, workflow=workflow, version=version, fresh=since == day.day)


def requests(day: date) -> dict[str, int]:
    """How many requests each workflow had on that day."""
    return _WEEKEND if day.weekday() >= _SATURDAY else _WEEKDAY


def as_yaml() -> str:
    """deployments.yaml: the candidate of each workflow by day, and which of them were deployed that day."""
    lines = ["# Which version of each agent was in production, by day. Written by `python -m examples.samples`."]
    for day in DAYS:
        here = [deployed(day, workflow) for workflow in WORKFLOWS]
        lines.append(f'"{day.isoformat()}":')
        lines += [f"  {one.workflow}: {one.candidate}" for one in here]
        lines.append(f"  deployed: [{', '.join(one.workflow for one in here if one.fresh)}]")
    return "\n".join(lines) + "\n"
