from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from checkouts import ROOT, a_checkout
from flows.checkout import Checkout
from flows.turns import Turn, trials_of, turns
from twiceshy.errors import InputError

NIGHT = date(2026, 11, 16)
BUGGY, FIXED = "examples.refund:buggy", "examples.refund:guarded"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with the cases of one workflow."""
    return a_checkout(tmp_path_factory.mktemp("checkout"), days=0, cases=ROOT / "data/cases/refund")


def named(place: Checkout, candidates: Sequence[str]) -> list[tuple[str, str]]:
    return [(turn.workflow, turn.name) for turn in turns(place, [NIGHT], candidates=candidates)]


def deployed(place: Checkout, text: str) -> list[Turn]:
    file = place.config.root / "deployments.yaml"
    file.write_text(text, encoding="utf-8")
    return turns(place, [NIGHT], deployments=file)


def test_named_candidate_has_its_turn(place: Checkout) -> None:
    assert named(place, [f"refund={BUGGY}"]) == [("refund", BUGGY)]


@pytest.mark.parametrize(
    ("candidates", "phrase"),
    [
        ([f"refund={BUGGY}", f"refund={FIXED}"], "'refund' is named twice"),
        ([f"refund={BUGGY}", f"refund={BUGGY}"], "'refund' is named twice"),
        ([f"refund={BUGGY}", "research=examples.research:fixed"], "'research' has no cases under"),
    ],
)
def test_candidate_that_would_not_be_judged_is_refused(place: Checkout, candidates: list[str], phrase: str) -> None:
    with pytest.raises(InputError, match=phrase):
        named(place, candidates)


def test_deployed_version_has_its_turn(place: Checkout) -> None:
    found = deployed(place, f'"2026-11-01":\n  refund: {BUGGY}\n  research: a:b\n  deployed: [refund]\n')
    assert [(turn.workflow, turn.name) for turn in found] == [("refund", BUGGY)]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (f'"2026-11-01":\n  refnd: {BUGGY}\n', r"yaml:2: 'refnd' is no workflow of ours. Did you mean 'refund'"),
        (f'"2026-11-01":\n  refund: {BUGGY}\n"2026-11-16": refund\n', "yaml:3: 2026-11-16 names no candidates"),
        ('"2026-11-01":\n  refund: [a]\n', "yaml:2: 'refund' on 2026-11-01 names no candidate"),
        (f"soon:\n  refund: {BUGGY}\n", "'soon' is no date"),
        ("- refund\n", "not a map of days"),
    ],
)
def test_deployments_that_cannot_be_meant_are_refused(place: Checkout, text: str, phrase: str) -> None:
    with pytest.raises(InputError, match=phrase):
        deployed(place, text)


def test_workflow_without_a_case_is_told(place: Checkout) -> None:
    from flows.console import unjudged

    assert unjudged(place.unprotected) == "Without a case, so not judged: airline, research, scheduling."
    assert unjudged([]) == ""


@pytest.mark.parametrize("asked", [0, 1, -3])
def test_one_trial_is_no_nightly(place: Checkout, asked: int) -> None:
    with pytest.raises(InputError, match="at least 2 trials"):
        trials_of(place, asked)
    assert (trials_of(place, 3), trials_of(place, None)) == (3, 2)


def test_nothing_to_judge_is_refused(place: Checkout) -> None:
    with pytest.raises(InputError, match="nobody to judge from 2026-11-16"):
        turns(place, [NIGHT])


def test_missing_deployments_are_refused(place: Checkout) -> None:
    with pytest.raises(InputError, match="no such file"):
        turns(place, [NIGHT], deployments=Path("nowhere.yaml"))
