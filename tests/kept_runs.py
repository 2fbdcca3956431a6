"""Runs of a small diary as they are kept: explored past their record, or put together step by step."""

from typing import Any

from builders import a_case, a_transcript, recorded, replayed, some_invariants
from small_worlds import POLICY, build_with
from twiceshy import keeping
from twiceshy.envelope import Envelope, Versions
from twiceshy.exploring import Told
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.identity import digest
from twiceshy.judging import Rules
from twiceshy.keeping import Kept, Replayed
from twiceshy.outcome import Outcome
from twiceshy.policy import ToolsPolicy
from twiceshy.simulators.served import SimulatedAnswer
from twiceshy.transcript import Played

HOW = Replayed("explore", "agents:build", "explore", "hermetic", Versions())
ONCE = recorded(build_with(lambda slots, **_: slots(day="thu")), policy=POLICY)
NOT_ON_SATURDAY = {"id": "not-on-saturday", "tier": "hard", "kind": "must_not", "at": {"tool": "slots"}, "when": 'args.day == "sat"', "severity": "high"}  # fmt: skip


def some_rules(*specs: dict[str, Any], policy: ToolsPolicy = POLICY, **file: Any) -> Rules:
    return Rules(policy=policy, invariants=some_invariants(*specs, **file), harness="h")


RULES = some_rules(NOT_ON_SATURDAY)


def explored(*days: str, **case: Any) -> Kept:
    """A run that asks for these days, of which nobody recorded any but Thursday."""
    answers = [
        SimulatedAnswer(tool="slots", asked=digest({"day": day}), value={"day": day}) for day in days if day != "thu"
    ]
    body = build_with(lambda slots, **_: [slots(day=day)["day"] for day in days])
    transcript = replayed(body, ONCE, policy=POLICY, simulated=answers)
    told = [
        Told(one.crossing.place, "slots", "nearest v1") for one in transcript.played if one.answered_by == "simulated"
    ]
    loaded = a_case(ONCE, **{"kind": "positive", **case})
    verdict = case_grader(loaded, RULES.invariants, POLICY).trial(transcript, loaded.case.judges()[0].cut)
    return keeping.of_replay(loaded, transcript, verdict, HOW, told)


def of_played(*played: Played, record: Envelope = ONCE, outcome: Outcome = Outcome.DIVERGED, **transcript: Any) -> Kept:
    return keeping.of_replay(a_case(record), a_transcript(*played, **transcript), TrialVerdict(outcome=outcome), HOW)
