import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checkouts import AS_OF, ROOT, a_checkout
from flows.checkout import Checkout
from twiceshy.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with a day of samples in its corpus, and the catalog of ours."""
    from flows.refresh import refresh

    place = a_checkout(tmp_path_factory.mktemp("checkout"), days=3, cases=ROOT / "data/cases")
    refresh.fn("otlp", str(place.config.path("samples")), as_of=AS_OF, root=str(place.config.root))
    return place


def nightly(place: Checkout, **asked: Any) -> dict[str, Any]:
    from flows.catalog import catalog

    account: dict[str, Any] = catalog.fn(root=str(place.config.root), **asked)
    return account


def published(place: Checkout) -> dict[str, bytes]:
    return {
        str(path.relative_to(place.published.root)): path.read_bytes()
        for path in place.published.root.rglob("*")
        if path.is_file()
    }


def test_regression_is_a_verdict(refreshed: Checkout) -> None:
    account = nightly(refreshed, night="2026-11-09", candidates=["refund=examples.refund:buggy"])
    assert account["verdict"] == "regressed"
    (first, *_) = account["outcomes"]
    assert (first["outcome"], first["change"]) == ("failed", "new")
    assert first["signature"] == "refund-over-limit-missing-approval@post-tool-hook-strip"
    assert Path(account["site"]).is_file()
    assert account["unprotected"] == ["airline"]


def test_nightly_twice_changes_nothing(refreshed: Checkout) -> None:
    asked = {"night": "2026-11-16", "candidates": ["refund=examples.refund:hook_fixed_and_guarded"]}
    first = nightly(refreshed, **asked)
    files = published(refreshed)
    assert nightly(refreshed, **asked) == first
    assert published(refreshed) == files
    assert first["verdict"] == "passed"
    (row,) = [row for row in first["signatures"] if row["workflow"] == "refund"]
    assert (row["state"], row["outcome"]) == ("covered", "passed")


def test_version_of_the_night_is_judged(refreshed: Checkout) -> None:
    deployments = ROOT / "data/samples/deployments.yaml"
    account = nightly(refreshed, night="2026-11-13", nights=2, deployments=str(deployments))
    played = {(run["night"], run["workflow"]): run["candidate"] for run in account["runs"]}
    assert played["2026-11-12", "refund"] == "examples.refund:buggy"
    assert played["2026-11-13", "refund"] == "examples.refund:apologises_only"
    assert played["2026-11-13", "research"] == played["2026-11-12", "research"] == "examples.research:misreads_total"


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [
        ({"night": "soon"}, "2026-11-02"),
        ({"candidates": ["refnd=examples.refund:buggy"]}, "Did you mean 'refund'"),
        ({"candidates": ["examples.refund:buggy"]}, "refund=examples.refund:buggy"),
        ({"candidates": ["refund=nobody"]}, "twiceshy.toml"),
        ({"deployments": "nowhere.yaml"}, "no such file"),
        ({"trials": 1, "candidates": ["refund=examples.refund:buggy"]}, "at least 2 trials"),
        ({"candidates": ["airline=examples.refund:buggy"]}, "airline.* has no cases"),
        ({"candidates": ["refund=examples.refund:bugy"]}, "cannot be imported"),
    ],
)
def test_bad_input_is_refused(refreshed: Checkout, asked: dict[str, Any], phrase: str) -> None:
    before = published(refreshed) if refreshed.published.root.exists() else {}
    with pytest.raises(InputError, match=phrase):
        nightly(refreshed, **asked)
    assert (published(refreshed) if refreshed.published.root.exists() else {}) == before


def test_nightly_needs_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="twiceshy refresh"):
        nightly(a_checkout(tmp_path, cases=ROOT / "data/cases"))


def test_missed_expectation_publishes_nothing(refreshed: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.publishing import NotPublished
    from tasks.publish import step
    from tasks.publish.expectations import EXPECTED, Bounds

    monkeypatch.setattr(step, "EXPECTED", EXPECTED)
    monkeypatch.setitem(EXPECTED, "traces", Bounds(low=10_000))  # type: ignore[arg-type] # a plain dict behind the mapping
    before = refreshed.published.latest()
    with pytest.raises(NotPublished, match="traces is"):
        nightly(refreshed, night="2026-11-20", candidates=["refund=examples.refund:hook_fixed_and_guarded"])
    assert refreshed.published.latest() == before


def test_rows_set_aside_publish_nothing(refreshed: Checkout) -> None:
    from flows.publishing import NotPublished, published
    from flows.replaying import replays
    from flows.turns import turns

    played = turns(refreshed, [date(2026, 11, 21)], candidates=["refund=examples.refund:hook_fixed_and_guarded"])
    generation = refreshed.generation()
    came = replays(refreshed, played, generation=generation.id, trials=2, champions={})
    lacking = [
        one._replace(
            set_aside={"replays": one.replays.head(1).with_columns(set_aside_for=pl.lit("seed: not_nullable"))}
        )
        for one in came
    ]
    before = refreshed.published.latest()
    with pytest.raises(NotPublished, match=r"replays: 1 rows broke their contract \(seed: not_nullable\)"):
        published(refreshed, generation, played, lacking, trials=2, champions={})
    assert refreshed.published.latest() == before


def test_gate_and_nightly_keep_the_policy_of_the_settings(refreshed: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.gate import gate

    monkeypatch.setenv("TWICESHY_GATE__MIN_CASES", "99")
    guarded = "examples.refund:hook_fixed_and_guarded"
    assert nightly(refreshed, night="2026-11-08", candidates=[f"refund={guarded}"])["verdict"] == "nothing_judged"
    account = gate.fn(guarded, root=str(refreshed.config.root))
    assert (account["verdict"], account["exit_code"]) == ("nothing_judged", 5)


def test_gate_keeps_its_verdict(refreshed: Checkout) -> None:
    from flows.gate import gate

    account = gate.fn("examples.refund:buggy", select="tool:issue_refund", root=str(refreshed.config.root))
    assert (account["verdict"], account["exit_code"]) == ("regressed", 1)
    kept = json.loads(Path(account["result"]).read_bytes())
    assert kept["summary"]["exit_code"] == 1
    assert {row["case"] for row in account["outcomes"]} == {result["case"]["id"] for result in kept["results"]}


def test_flows_run_on_a_server(prefect_harness: None, refreshed: Checkout) -> None:
    """One run of each flow through the engine: a regression ends COMPLETED, and what it found is left as artifacts."""
    from prefect.client.orchestration import get_client

    from flows.catalog import catalog
    from flows.refresh import refresh

    root = str(refreshed.config.root)
    state = catalog(night="2026-11-09", candidates=["refund=examples.refund:buggy"], root=root, return_state=True)
    assert state.is_completed()
    assert state.result()["verdict"] == "regressed"
    again = refresh("otlp", str(refreshed.config.path("samples")), as_of=AS_OF, root=root, return_state=True)
    assert again.is_completed()
    with get_client(sync_client=True) as client:
        artifacts = {artifact.key: artifact for artifact in client.read_artifacts()}
        tasks = {run.name.rpartition("-")[0] for run in client.read_task_runs()}
    assert {"catalog-verdict", "catalog-runs", "catalog-site", "corpus-account"} <= set(artifacts)
    assert "regressed" in str(artifacts["catalog-verdict"].data)
    assert {"pull", "normalize", "admit", "replay", "measure", "publish"} <= tasks


def test_bad_input_fails_in_one_line(prefect_harness: None, refreshed: Checkout) -> None:
    from flows.catalog import catalog

    with pytest.raises(InputError, match=r"twiceshy\.toml"):
        catalog(candidates=["refund=nobody"], root=str(refreshed.config.root))


def test_abandoned_runs_are_closed(prefect_harness: None, refreshed: Checkout) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    from flows.retention import retention

    with get_client(sync_client=True) as client:
        left = client.create_flow_run(retention, state=Running())
        told = retention(root=str(refreshed.config.root), as_of="2099-01-01T00:00:00+00:00")
        state = client.read_flow_run(left.id).state
    assert told["runs_closed"] >= 1
    assert state is not None
    assert state.is_crashed()
