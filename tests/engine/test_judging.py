"""Judging on a stand-in session: what is refused before the first trial, and how the trials of a case make its outcome."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    an_envelope,
    some_invariants,
)
from small_worlds import POLICY as DIARY
from small_worlds import WORLD
from twiceshy.casefile import Judge
from twiceshy.champion import Champion, Pin
from twiceshy.envelope import Kind, LayerVersion, Versions
from twiceshy.errors import CaseError, ConfigurationError
from twiceshy.exchange import Ready
from twiceshy.judging import Rules, Terms, candidacy, graders, judge_case
from twiceshy.outcome import BoundaryState, Mode, Outcome
from twiceshy.results import Candidacy
from twiceshy.running import Played, Task
from twiceshy.sealing import Isolation
from twiceshy.specs import Floor
from twiceshy.transcript import Transcript
from twiceshy.verdict import CallRef, Rate, Result
from twiceshy.worlds import loading

RULES = Rules(policy=a_policy(get_order="read"), invariants=some_invariants(), harness="h1")
LIVE = Judge(mode=Mode.CUT_POINT, live=["model:*"])
PASSED = a_transcript(a_model(1, boundary=BoundaryState.LIVE), a_played(2))
DIVERGED = a_transcript(a_model(1, boundary=BoundaryState.LIVE), a_played(2), divergence=a_divergence())


class Scripted:
    """A session that plays what it was given, trial by trial."""

    def __init__(self, transcripts: Sequence[Transcript]) -> None:
        self.ready = Ready(
            workflow="refund", versions=Versions(), isolation=Isolation.HERMETIC, warm=True, boundaries=[]
        )
        self._left = list(transcripts)

    def play(self, task: Task) -> Played:
        return Played(transcript=self._left[task.number], applied=frozenset())


def judged(
    *transcripts: Transcript, judge: Judge = LIVE, floor: Floor | None = None, trials: int | None = None
) -> Result:
    case: dict[str, Any] = {"kind": "positive", "judge": [judge], **({"floor": floor} if floor else {})}
    loaded = a_case(an_envelope(a_crossing(2)), **case)
    terms = Terms(trials=trials or len(transcripts))
    (grader,) = graders([loaded], RULES, terms)
    return judge_case(Scripted(transcripts), grader, RULES, terms, Candidacy()).result  # type: ignore[arg-type]


def test_floor_of_the_case_judges_a_live_model() -> None:
    result = judged(PASSED, PASSED, DIVERGED, floor=Floor(k=1, rate=0.6))
    assert result.outcome is Outcome.PASSED
    assert result.modes[0].rate is not None
    assert (result.modes[0].rate.k, result.modes[0].rate.floor, result.modes[0].passed) == (1, 0.6, 2)
    assert judged(PASSED, PASSED, DIVERGED, floor=Floor(k=2, rate=0.6)).outcome is Outcome.DIVERGED


def test_without_a_floor_every_trial_must_pass() -> None:
    result = judged(PASSED, PASSED, DIVERGED)
    assert (result.outcome, result.divergence and result.divergence.kind) == (Outcome.DIVERGED, a_divergence().kind)
    assert result.modes[0].rate == Rate(k=3, value=0.0, floor=1.0)
    assert judged(PASSED, PASSED).outcome is Outcome.PASSED


def test_floor_is_for_live_models_alone() -> None:
    with pytest.raises(CaseError, match="no judging mode of the case names one"):
        judged(PASSED, judge=Judge(), floor=Floor())


def test_floor_bends_no_frozen_mode() -> None:
    """A mode that the command line names instead of the case's own is hermetic, floor or not."""
    loaded = a_case(an_envelope(a_crossing(2)), kind="positive", judge=[LIVE], floor=Floor(rate=0.1))
    terms = Terms(trials=2, judges=[Judge()])
    (grader,) = graders([loaded], RULES, terms)
    result = judge_case(Scripted([PASSED, DIVERGED]), grader, RULES, terms, Candidacy()).result  # type: ignore[arg-type]
    assert (result.outcome, result.modes[0].rate) == (Outcome.DIVERGED, None)


def test_floor_needs_its_trials() -> None:
    with pytest.raises(CaseError, match=r"on pass\^3, and 2 trials were asked for\. Run at least 3"):
        judged(PASSED, PASSED, floor=Floor(k=3))


def test_live_set_of_a_case_names_what_is() -> None:
    loaded = a_case(
        an_envelope(a_crossing(2)), kind="positive", judge=[Judge(mode=Mode.CUT_POINT, live=["model:planer"])]
    )
    with pytest.raises(CaseError, match="declares no boundary 'model:planer'"):
        graders([loaded], RULES, Terms(), boundaries=["model:planner"])
    assert graders([loaded], RULES, Terms(), boundaries=["model:planer"])
    assert graders([loaded], RULES, Terms())


def test_recorded_boundary_may_be_named_live() -> None:
    """A version that has no such tool any more is judged by the other rules; only a name that nobody knows is a mistake."""
    loaded = a_case(
        an_envelope(a_crossing(2)), kind="positive", judge=[Judge(mode=Mode.CUT_POINT, live=["tool:get_order"])]
    )
    assert graders([loaded], RULES, Terms(), boundaries=["model:planner"])


def test_calls_of_a_champion_are_found_for_a_case_with_a_world(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(json.dumps(WORLD), encoding="utf-8")
    bare = a_case(
        an_envelope(a_crossing(2, "planner", kind=Kind.MODEL)), kind="positive", world="world.yaml", judge=[Judge()]
    )
    loaded = replace(bare, world=loading.load(tmp_path / "world.yaml", code=False))
    calls = [CallRef(tool="look")]
    pin = Pin(case="c", case_digest=loaded.digest, harness="h1", mode="full", outcome=Outcome.PASSED, calls=calls)
    rules = replace(RULES, policy=DIARY)
    (grader,) = graders([loaded], rules, Terms(), champion=Champion(workflow="refund", ref="x", pins=[pin]))
    assert grader.champion == {"full": calls}


def test_an_accepted_layer_that_is_none_is_refused_with_those_there_are() -> None:
    ours, theirs = Versions(tools={"pay": LayerVersion()}), Versions(tools={"find": LayerVersion()})
    for layer in ("prompt", "tool:pay", "tool:find"):
        assert candidacy(ours, theirs, [layer]).accepted == [layer]
    for pinned in (theirs, None):
        with pytest.raises(ConfigurationError, match=r"'NOLAYER' is no layer here. Known: model, prompt.*tool:pay"):
            candidacy(ours, pinned, ["prompt", "NOLAYER"])
