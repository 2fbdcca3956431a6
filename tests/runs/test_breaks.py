"""The flow that breaks candidates: what it says of each, what it keeps, and what fails it."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkouts import ROOT, a_checkout
from sample_cases import twiceshy
from twiceshy.errors import ConfigurationError, InfrastructureError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def a_place(at: Path, **candidates: str) -> Path:
    """A checkout with our catalog and these candidates of the samples."""
    a_checkout(at, days=0, cases=ROOT / "data/cases")
    settings = at / "twiceshy.toml"
    named = [
        f'[candidate.{name}]\nfactory = "{factory}"\npath = ["{ROOT}"]'
        for name, factory in candidates.items()
    ]  # fmt: skip
    settings.write_text("\n".join([settings.read_text(encoding="utf-8"), *named]), encoding="utf-8")
    return at


def broken(root: Path, **asked: Any) -> dict[str, Any]:
    from flows.breaks import breaks

    account: dict[str, Any] = breaks.fn(root=str(root), **asked)
    return account


def kept(root: Path) -> dict[str, Any]:
    """What the one run so far kept, by candidate."""
    (file,) = (root / "data/published/breaks").iterdir()
    return {held.pop("candidate"): held for held in json.loads(file.read_bytes())["candidates"]}


def test_every_candidate_is_broken_as_the_command_does_it(tmp_path: Path) -> None:
    root = a_place(tmp_path, refund="examples.refund:hook_fixed_and_guarded", scheduling="examples.scheduling:fixed")
    account = broken(root)
    assert (account["verdict"], account["exit_code"]) == ("not_killed", 1)
    assert [(row["candidate"], row["verdict"], row["of_all"]) for row in account["scores"]] == [
        ("refund", "killed", 1.0), ("scheduling", "not_killed", 0.75)
    ]  # fmt: skip
    first, *rest = account["cases"]
    assert (first["candidate"], first["killed"], first["inconclusive"], first["survived"]) == ("scheduling", 0, 1, 0)
    assert first["uncovered"] == "the unbroken candidate does not pass it"
    assert [(row["killed"], row["uncovered"]) for row in rest] == [(1, None)] * 7
    held = kept(root)
    assert account["result"].endswith(".json")
    for name in ("refund", "scheduling"):
        ran = twiceshy("break", "--all", "-c", name, "--json", "-", cwd=root)
        assert held[name] == {"fault": "", **json.loads(ran.out)}


def test_a_candidate_that_cannot_be_tried_fails_the_run_after_the_others(tmp_path: Path) -> None:
    root = a_place(tmp_path, lost="examples.refund:nobody", refund="examples.refund:hook_fixed_and_guarded")
    with pytest.raises(InfrastructureError, match=r"^not every candidate could be broken: lost: .*nobody"):
        broken(root)
    held = kept(root)
    assert (held["lost"]["score"]["of_all"], held["refund"]["score"]["of_all"]) == (None, 1.0)
    assert "nobody" in held["lost"]["fault"]


def test_a_candidate_without_cases_is_never_killed(tmp_path: Path) -> None:
    root = a_place(tmp_path, refund="examples.refund:hook_fixed_and_guarded", research="examples.research:fixed")
    account = broken(root, select="tool:issue_refund")
    assert [(row["candidate"], row["verdict"]) for row in account["scores"]] == [
        ("refund", "killed"), ("research", "nothing_judged")
    ]  # fmt: skip
    assert (account["verdict"], account["exit_code"]) == ("nothing_judged", 5)


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [({"candidate": "refnd"}, "Did you mean 'refund'"), ({"mode": "explore"}, "no break accepts it")],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path: Path, asked: dict[str, Any], phrase: str) -> None:
    root = a_place(tmp_path, refund="examples.refund:hook_fixed_and_guarded")
    with pytest.raises(ConfigurationError, match=phrase):
        broken(root, **asked)
    assert not (root / "data/published").exists()


def test_somebody_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="names no candidate"):
        broken(a_place(tmp_path))


@pytest.mark.usefixtures("prefect_harness")
def test_what_was_found_is_left_in_prefect(tmp_path: Path) -> None:
    """A break that is not killed ends the run COMPLETED."""
    from prefect.client.orchestration import get_client

    from flows.breaks import breaks

    state = breaks(
        candidate="scheduling", root=str(a_place(tmp_path, scheduling="examples.scheduling:fixed")), return_state=True
    )
    assert state.is_completed(), state
    with get_client(sync_client=True) as client:
        artifacts = {artifact.key: artifact for artifact in client.read_artifacts()}
    (score,) = json.loads(str(artifacts["breaks-scores"].data))
    assert (score["killed"], score["declared"], score["of_all"], score["of_reachable"]) == (3, 4, 0.75, 0.75)
    cases = json.loads(str(artifacts["breaks-cases"].data))
    assert [(row["killed"], row["inconclusive"], row["survived"]) for row in cases] == [(0, 1, 0)] + [(1, 0, 0)] * 3
    assert str(artifacts["breaks-verdict"].data).startswith(
        "# not_killed\n\n- scheduling: mutation score: 3 of 4 breaks killed"
    )
