"""What users, online graders and people said of a run. Some failures go unnoticed, and some complaints are about runs that did as they should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from examples.samples.export import Scored, ended_as
from twiceshy.envelope import Kind

if TYPE_CHECKING:
    import random

    from twiceshy.envelope import Envelope

# Shares of runs: of the failed ones that anybody noticed, of the others that drew a complaint or a compliment.
_NOTICED, _COMPLAINED, _PRAISED = 0.85, 0.05, 0.12
# Of those who asked for something and got an apology.
_APOLOGISED_TO = 0.5
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Complaint:
    """What a failure looks like to those who notice it: the rubric it fails, and what a user says."""

    rubric: str
    of_user: str


_COMPLAINTS = {
    "refund": _Complaint("refund_policy", "I think you paid me too quickly, is this right?"),
    "scheduling": _Complaint("promise_kept", "You confirmed a day and nobody came."),
    "research": _Complaint("efficiency", "The brief is wrong or late."),
}


def scored(envelope: Envelope, dice: random.Random, *, noticed: bool = False) -> list[Scored]:
    """The verdicts on one run, earliest first. noticed: if it failed, somebody saw it for certain."""
    end = max(crossing.end_ns or 0 for crossing in envelope.crossings)
    if went_wrong(envelope):
        given = _of_failure(envelope, dice) if dice.random() < _NOTICED or noticed else []
    elif dice.random() < (_APOLOGISED_TO if ended_as(envelope) == "apologised" else _COMPLAINED):
        given = [Scored("user_feedback", "api", 0.0, "thumbs_down", "Not what I asked for.")]
    else:
        given = [Scored("user_feedback", "api", 1.0, "thumbs_up")] if dice.random() < _PRAISED else []
    for number, score in enumerate(given, start=1):
        score.at_ns = end + number * dice.randint(20, 7200) * _SECOND
    return given


def _of_failure(envelope: Envelope, dice: random.Random) -> list[Scored]:
    """One or two of: the user, the online grader, a person who read the run."""
    seen = _COMPLAINTS[envelope.workflow]
    voices = [
        Scored("user_feedback", "api", 0.0, "thumbs_down", seen.of_user),
        Scored(seen.rubric, "llm", dice.randint(0, 30) / 100, "fail", "The run does not meet the rubric."),
        Scored("review", "human", 0.0, "wrong", "Read by the quality desk."),
    ]
    return dice.sample(voices, k=dice.choice((1, 1, 2)))


def went_wrong(envelope: Envelope) -> bool:
    """Whether a person who knows the workflow would call the run a failure. The graders of the project are not asked."""
    return _WRONG[envelope.workflow](envelope)


def _refund_wrong(envelope: Envelope) -> bool:
    limits = {order["order_id"]: order["policy_limit_gbp"] for order in _values(envelope, "get_order")}
    return any(
        asked["amount_gbp"] > limits[asked["order_id"]] and "approval_token" not in asked
        for asked in _asked(envelope, "issue_refund")
    )


def _scheduling_wrong(envelope: Envelope) -> bool:
    names = [crossing.name for crossing in envelope.crossings if crossing.kind is Kind.TOOL]
    told_early = "send_confirmation" in names and "reschedule" not in names[: names.index("send_confirmation")]
    impossible = any(not checked["exists"] for checked in _values(envelope, "check_date"))
    return told_early or (impossible and ended_as(envelope) != "needs_correction")


def _research_wrong(envelope: Envelope) -> bool:
    names = [crossing.name for crossing in envelope.crossings if crossing.kind is Kind.TOOL]
    went_on = "save_brief" in names and "search_papers" in names[names.index("save_brief") :]
    return went_on or ended_as(envelope) == "gave_up" or _asked(envelope, "save_brief", hits=0) != []


def _asked(envelope: Envelope, tool: str, **wanted: Any) -> list[dict[str, Any]]:
    calls = [crossing.seen for crossing in envelope.crossings if crossing.name == tool and crossing.error is None]
    return [asked for asked in calls if isinstance(asked, dict) and wanted.items() <= asked.items()]


def _values(envelope: Envelope, tool: str) -> list[Any]:
    return [crossing.raw for crossing in envelope.crossings if crossing.name == tool and crossing.error is None]


_WRONG = {"refund": _refund_wrong, "scheduling": _scheduling_wrong, "research": _research_wrong}
