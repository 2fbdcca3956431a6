import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_divergence, a_model, a_played, a_transcript, a_write
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind, LayerVersion, Versions
from twiceshy.exercise import changed_layers, exercise, not_exercised
from twiceshy.outcome import BoundaryState, Divergence, Mode, Outcome
from twiceshy.specs import Floor
from twiceshy.trials import WORST, mode_run, unrepeated, worst
from verdicts import FULL, a_judgement, a_trial

P, F, D, E = Outcome.PASSED, Outcome.FAILED, Outcome.DIVERGED, Outcome.ERROR


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [((P, P), P), ((P, F), F), ((D, F), F), ((E, F), F), ((P, E), E), ((D, E), E), ((D, D), D), ((P, D), D)],
    ids=lambda given: "-".join(given) if isinstance(given, tuple) else given,
)
def test_hermetic_trials_combine(outcomes: tuple[Outcome, ...], expected: Outcome) -> None:
    for order in (outcomes, outcomes[::-1]):
        run = mode_run(FULL, [a_trial(outcome) for outcome in order])
        assert run.outcome is expected
        assert run.verdict.outcome is expected


def test_disagreeing_trials_are_named() -> None:
    assert mode_run(FULL, [a_trial(P), a_trial(F)]).verdict.divergence is None
    asking = msgspec.structs.replace(a_divergence(), asked={"day": "Fri"})
    mixed = mode_run(FULL, [a_trial(P), a_trial(D, divergence=asking)])
    assert mixed.verdict.divergence is not None
    assert (mixed.verdict.divergence.kind, mixed.verdict.divergence.place) == (
        Divergence.NONDETERMINISTIC_CANDIDATE,
        "#9",
    )
    assert mixed.verdict.divergence.asked == {"day": "Fri"}
    assert mixed.verdict.divergence.detail == "1 of 2 trials passed, 1 diverged"
    alike = mode_run(FULL, [a_trial(D), a_trial(D)])
    assert alike.verdict.divergence == a_divergence()


def test_all_modes_must_hold() -> None:
    full = mode_run(FULL, [a_trial(P), a_trial(P)])
    cut = CutPoint(mode=Mode.CUT_POINT, after=3)
    for outcome in Outcome:
        assert worst([full, mode_run(cut, [a_trial(outcome)])]).outcome is outcome


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=5))
def test_worst_outcome_decides(outcomes: list[Outcome]) -> None:
    run = worst([mode_run(FULL, [a_trial(outcome)]) for outcome in outcomes])
    assert run.outcome is min(outcomes, key=WORST.index)
    assert (run.outcome is P) == all(outcome is P for outcome in outcomes)


def test_live_model_is_judged_by_rate() -> None:
    soft = a_judgement("told", "must_happen")
    trials = [a_trial(P), a_trial(P), a_trial(P), a_trial(F, violated=soft)]
    assert mode_run(FULL, trials, floor=Floor(k=1, rate=0.75)).outcome is P
    assert mode_run(FULL, trials, floor=Floor(k=2, rate=0.75)).outcome is F
    assert mode_run(FULL, [a_trial(P), a_trial(D)], floor=Floor()).outcome is D


def test_rate_is_pass_hat_k() -> None:
    trials = [a_trial(P), a_trial(P), a_trial(P), a_trial(D)]
    assert mode_run(FULL, trials, floor=Floor(k=2, rate=0.5)).rate == 0.5  # C(3,2) / C(4,2)
    assert mode_run(FULL, trials).rate is None


@pytest.mark.parametrize(
    "proof", [a_judgement(), a_judgement("no_duplicate_write", "count")], ids=["must_not", "duplicate"]
)
def test_failing_once_proves_it_can(proof: object) -> None:
    trials = [*(a_trial(P) for _ in range(9)), a_trial(F, violated=proof)]  # type: ignore[arg-type]
    assert mode_run(FULL, trials, floor=Floor(k=1, rate=0.5)).outcome is F


def test_exercise_of_a_frozen_run() -> None:
    hook = a_played(2, "strip", kind=Kind.HOOK, sub=1, effect=None, at="after:get_order")
    run = a_transcript(a_model(1), a_played(2), hook, a_write(3))
    assert exercise([run]).live == {"harness", "tool:issue_refund"}
    assert exercise([run]).frozen == {"model", "prompt", "tool:get_order"}


def test_one_live_run_is_enough() -> None:
    frozen = a_transcript(a_model(1))
    live = a_transcript(a_model(1, boundary=BoundaryState.LIVE))
    assert exercise([frozen, live]).frozen == frozenset()
    assert exercise([frozen]).frozen == {"model", "prompt"}


def test_frozen_code_is_not_exercised() -> None:
    guard = a_played(2, "guard", kind=Kind.GUARD, sub=1, effect=None, exercised=False)
    assert exercise([a_transcript(guard)]).frozen == {"harness"}


VERSIONS = Versions(
    model=LayerVersion(name="m", digest="1"), prompt=LayerVersion(name="p", digest="1"), tools={"get_order": LayerVersion(digest="1")},
    routing=LayerVersion(digest="1"), memory=LayerVersion(digest="1"), skills=LayerVersion(digest="1"), harness=LayerVersion(digest="1"),
)  # fmt: skip


def test_changed_layers_by_digest() -> None:
    assert changed_layers(VERSIONS, VERSIONS) == frozenset()
    other = Versions(**{**_fields(VERSIONS), "prompt": LayerVersion(name="p", digest="2"), "tools": {}})
    assert changed_layers(other, VERSIONS) == {"prompt", "tool:get_order"}


def test_unknown_compares_as_changed() -> None:
    unknown = Versions(**{**_fields(VERSIONS), "memory": LayerVersion()})
    assert changed_layers(unknown, unknown) == {"memory"}
    assert changed_layers(Versions(), VERSIONS) >= {"model", "prompt", "harness"}


def test_frozen_change_is_not_exercised() -> None:
    seen = exercise([a_transcript(a_model(1))])
    assert not_exercised(seen, {"prompt", "harness", "memory"}) == ["prompt"]
    assert not_exercised(seen, {"prompt", "model"}, accepted=["prompt"]) == ["model"]
    assert not_exercised(seen, ()) == []


def _fields(versions: Versions) -> dict[str, object]:
    return {name: getattr(versions, name) for name in versions.__struct_fields__}


def test_what_is_proven_stands_where_a_trial_does_not_repeat() -> None:
    other = a_transcript(a_write(1), a_played(2))
    first = a_transcript(a_write(1), a_write(2))
    passed = unrepeated(a_trial(P).verdict, first, other)
    assert (passed.outcome, (passed.error or "").endswith("first at #2")) == (E, True)
    proven = a_trial(F, judgements=[a_judgement("never", "must_not")]).verdict
    kept = unrepeated(proven, first, other)
    assert (kept.outcome, kept.notes[-1]) == (F, passed.error)
    open_yet = a_trial(F, judgements=[a_judgement("told", "must_happen")]).verdict
    assert unrepeated(open_yet, first, first).outcome is E
