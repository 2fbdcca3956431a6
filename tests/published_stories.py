"""The cases of the published run that the site is tested with: what each is about, and what it came to on fourteen nights."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from examples.refund import BELOW_LIMIT, T_1042
from examples.research import TWO_PAPERS
from examples.scheduling import TO_JULY_32, TO_THURSDAY, TO_WEDNESDAY
from sample_runs import a_run, replayed
from twiceshy.aligning import AlignedStep, align
from twiceshy.cutpoint import CutPoint
from twiceshy.outcome import Mode

NIGHTS = [f"{date(2026, 11, 1) + timedelta(days=day)}" for day in range(14)]
LAST = NIGHTS[-1]
OUTCOMES = {"P": "passed", "F": "failed", "D": "diverged", "E": "error"}
LIVE_PLANNER = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))


@dataclass(frozen=True, kw_only=True)
class Story:
    """One case through fourteen nights: a letter a night, `.` where it was not there yet. `recorded`: the failing run, against which the candidate is replayed."""

    name: str
    recorded: str
    said: Mapping[str, str]
    candidate: str
    nights: str
    tool: str
    invariant: str = "reply-has-status"
    message: str = ""
    stage: str = "tool"
    severity: str = "medium"
    traces: int = 1
    layer: str = "harness.tool"
    kind: str = "failure"
    cut: CutPoint = field(default_factory=CutPoint)
    change: str | None = None
    champion: str | None = "passed"
    at: str | None = None

    @property
    def workflow(self) -> str:
        return self.recorded.partition(":")[0]

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.nights[-1]]

    @property
    def id(self) -> str:
        return f"sig_{digest(self.name)[:12]}"

    @property
    def trace_id(self) -> str:
        return digest(f"trace {self.name}")[:32]

    def aligned(self) -> list[AlignedStep]:
        return _aligned(self.recorded, self.said["message"], self.candidate, self.cut)


STORIES = [
    Story(name="refund-over-limit-missing-approval@post-tool-hook-strip", recorded="refund:buggy", said=T_1042, candidate="refund:approval_removed",
          nights="FFFFFFPPPPPPPF", tool="issue_refund", invariant="refund-over-limit-missing-approval", severity="critical", traces=14,
          message="a refund above the order's limit needs an approval token", change="regressed", at="#4"),
    Story(name="refund-refused-below-limit@guard", recorded="refund:guarded", said=BELOW_LIMIT, candidate="refund:hook_fixed_and_guarded",
          nights="......FFFDDDDD", tool="issue_refund", invariant="refund-below-limit-issued", severity="high", traces=6, stage="guard"),
    Story(name="refund-below-limit", kind="positive", recorded="refund:hook_fixed_and_guarded", said=BELOW_LIMIT,
          candidate="refund:hook_fixed_and_guarded", nights="PPPPPPPPPPPPPP", tool="issue_refund"),
    Story(name="confirmed-without-reschedule@final", recorded="scheduling:buggy", said=TO_THURSDAY, candidate="scheduling:fixed", cut=LIVE_PLANNER,
          nights="FFFFDDDDDDDDDD", tool="send_confirmation", invariant="confirmed-day-is-booked", severity="high", traces=9, stage="final",
          layer="harness.prompt", message="a confirmed day must be the day that was booked", champion="diverged"),
    Story(name="confirmed-before-booked@final", recorded="scheduling:confirms_first", said=TO_THURSDAY, candidate="scheduling:fixed", cut=LIVE_PLANNER,
          nights="...FFFFDDDDDDD", tool="send_confirmation", invariant="booking-before-confirmation", stage="final", layer="harness.prompt", traces=3,
          champion="passed", change="diverged"),
    Story(name="impossible-date-swallowed@model", recorded="scheduling:july32_swallowed", said=TO_JULY_32, candidate="scheduling:july32_corrected",
          cut=LIVE_PLANNER, nights="FFFFFFFFPPPPPP", tool="-", invariant="impossible-date-corrected", stage="model", severity="high", traces=4,
          layer="harness.prompt", champion="failed", change="fixed"),
    Story(name="move-to-free-day", kind="positive", recorded="scheduling:fixed", said=TO_WEDNESDAY, candidate="scheduling:fixed", cut=LIVE_PLANNER,
          nights="PPPPPPPPPPPPPP", tool="reschedule"),
    Story(name="search-loop@tool", recorded="research:looping", said=TWO_PAPERS, candidate="research:fixed", nights="FFPPPPPPPPPPPP", tool="search",
          invariant="no-repeat-without-change", traces=8, layer="harness.workflow"),
    Story(name="hits-read-as-zero@post-tool-hook", recorded="research:misreads_total", said=TWO_PAPERS, candidate="research:fixed", cut=LIVE_PLANNER,
          nights="FFFFPPPPPPPPPP", tool="search", invariant="hit-count-grounded", stage="post-tool-hook", severity="low", traces=2),
    Story(name="calls-after-done@model", recorded="research:no_done_condition", said=TWO_PAPERS, candidate="research:fixed", cut=LIVE_PLANNER,
          nights=".....FFFFPPPPE", tool="search", invariant="stops-when-done", stage="model", layer="harness.prompt", traces=5, champion="passed",
          change="unjudged"),
]  # fmt: skip


class Gap(NamedTuple):
    """A signature that has no case."""

    name: str
    workflow: str
    tool: str
    traces: int


GAPS = [Gap("customer-not-found-apology@tool", "refund", "get_customer", 2), Gap("slots-timeout@tool", "scheduling", "list_open_slots", 11)]  # fmt: skip


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _aligned(recorded: str, message: str, candidate: str, cut: CutPoint) -> list[AlignedStep]:
    envelope = a_run(recorded, {"message": message})
    return align(envelope.crossings, replayed(candidate, envelope, cut))
