import os
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from sample_cases import ROOT, save_catalog
from tasks.replay.running import ShardLost, _whole, run
from tasks.replay.step import Occasion, Replayed, replay
from twiceshy import casefile
from twiceshy.champion import Champion, Pin
from twiceshy.encoding import record_line, sealed
from twiceshy.envelope import LayerVersion, Versions
from twiceshy.errors import ConfigurationError
from twiceshy.outcome import Outcome
from twiceshy.shards import ShardRequest

pytestmark = pytest.mark.slow

NIGHT = Occasion(generation="c" * 64, night="2026-11-22", candidate="refund")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_catalog(tmp_path_factory.mktemp("catalog") / "cases") / "refund"


def a_request(catalog: Path, version: str = "hook_fixed_and_guarded", **given: Any) -> ShardRequest:
    fields: dict[str, Any] = {
        "factory": f"examples.refund:{version}", "python": sys.executable, "path": [str(ROOT)], "env": dict(os.environ), "folder": str(ROOT),
        "policies": str(ROOT / "data/policies"), "cases": [str(path) for path in sorted(catalog.iterdir())],
    }  # fmt: skip
    return ShardRequest(**{**fields, **given})


def replayed(request: ShardRequest, **given: Any) -> Replayed:
    (told,) = replay(request, [NIGHT], harness_state="h1", **given)
    return told


@pytest.fixture(scope="module")
def told(cases: Path) -> Replayed:
    return replayed(a_request(cases, breaks=True))


def test_every_trial_is_a_row(told: Replayed) -> None:
    assert told.set_aside == {}
    plain = told.replays.filter(pl.col("broken_by").is_null()).sort("case_id", "after", "trial")
    assert plain.select("case_id", "after", "trial", "outcome").rows() == [
        ("refund-below-limit", 0, 1, "passed"), ("refund-below-limit", 0, 2, "passed"),
        ("refund-t-1042", 0, 1, "passed"), ("refund-t-1042", 0, 2, "passed"),
        ("refund-t-1042", 3, 1, "passed"), ("refund-t-1042", 3, 2, "passed"),
    ]  # fmt: skip
    assert set(told.replays["isolation"]) == {"hermetic"}
    assert plain.filter(case_id="refund-t-1042")["decided"].all()
    assert [result.case.id for result in told.results] == ["refund-below-limit", "refund-t-1042"]


def test_breaks_turn_the_case_red(told: Replayed) -> None:
    broken = told.replays.filter(broken_by="guard.off:refund-approval")
    assert broken["outcome"].to_list() == ["failed", "failed"]
    rows = told.violations.join(broken, on="replay_id", how="semi").filter(truth="violated", advisory=False)
    assert set(rows["invariant_id"]) == {"refund-over-limit-missing-approval"}
    assert set(rows["boundary_state"]) == {"intercepted"}


def test_intents_say_what_explains_them(told: Replayed) -> None:
    blocked = told.intents.filter(blocked_by="refund-approval")
    assert set(blocked["answered_by"]) == {"guard"}
    explained = told.intents.filter(pl.col("blocked_by").is_null())
    assert set(explained["explained_by"]) == {"recorded"}
    assert not told.intents["duplicate"].any()


def test_steps_stand_beside_the_record(told: Replayed) -> None:
    tools = told.steps.filter(pl.col("kind") == "tool", case_id="refund-below-limit")
    assert set(tools["status"]) == {"same"}
    assert set(tools["boundary"]) == {"frozen", "intercepted"}
    assert told.steps["diverged"].any()


def test_the_same_shard_gives_the_same_tables(cases: Path, told: Replayed) -> None:
    again = replayed(a_request(cases, breaks=True, workers=2))
    for name in ("replays", "violations", "intents", "dimensions", "steps"):
        assert getattr(again, name).equals(getattr(told, name)), name


def test_a_failed_case_names_its_signature(cases: Path) -> None:
    told = replayed(a_request(cases, "buggy", trials=1))
    failed = told.replays.filter(outcome="failed")
    assert set(failed["slug"]) == {"refund-over-limit-missing-approval@post-tool-hook-strip"}
    assert set(failed["failure"]) == {"invariant"}


@pytest.mark.parametrize(
    ("given", "phrase"),
    [({"factory": "examples.refund:bugy"}, "Did you mean 'buggy'"), ({"cases": ["/nowhere"]}, "no such file"), ({"policies": "/nowhere"}, "no such file")],
)  # fmt: skip
def test_a_wrong_request_is_refused(cases: Path, given: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ConfigurationError, match=phrase):
        run(a_request(cases, **given), timeout_s=60)


def test_an_engine_past_its_time_is_killed(cases: Path) -> None:
    with pytest.raises(ShardLost, match="time limit"):
        run(a_request(cases), timeout_s=0.05)


def test_break_says_what_it_showed(told: Replayed) -> None:
    states = told.replays.filter(pl.col("broken_by").is_not_null())["break_state"]
    assert set(states) == {"killed"}


def test_dimensions_are_measured_each_trial(told: Replayed) -> None:
    ended = told.dimensions.filter(case_id="refund-below-limit")
    assert ended.height == 6 * told.replays.filter(case_id="refund-below-limit").height
    coherent = ended.filter(dimension="plan_coherence").row(0, named=True)
    assert (coherent["value"], coherent["threshold"], coherent["passed"]) == (1.0, None, None)
    assert coherent["n"] > 0
    assert ended.filter(dimension="tool_selection")["value"].is_null().all()
    decided = told.replays.filter(pl.col("decided"))
    assert told.dimensions.join(decided, on="replay_id", how="semi")["value"].is_null().all()


def test_tools_are_measured_by_the_champions_calls(cases: Path, told: Replayed) -> None:
    pins = [
        Pin(case=result.case.id, case_digest=result.case.digest, harness=told.harness, mode=mode.mode, outcome=mode.outcome, calls=mode.calls)
        for result in told.results
        for mode in result.modes
    ]  # fmt: skip
    pinned = Champion(workflow="refund", ref="v1", versions=Versions(model=LayerVersion(version="1")), pins=pins)
    again = replayed(a_request(cases, trials=1, pinned=pinned)).dimensions.filter(case_id="refund-below-limit")
    for name in ("tool_selection", "argument_extraction"):
        assert again.filter(dimension=name)["value"].to_list() == [1.0]


def test_each_case_has_its_duration(told: Replayed) -> None:
    assert sorted(told.timings["row_key"]) == [
        f"{told.run_id}/refund-below-limit",
        f"{told.run_id}/refund-t-1042",
    ]


def test_unexercised_layer_passes_nothing(cases: Path) -> None:
    told = replayed(a_request(cases, trials=1, pinned=Champion(workflow="refund", ref="v1")))
    assert set(told.replays["outcome"]) == {"diverged"}
    assert set(told.replays["divergence"]) == {"not_exercised"}
    assert not told.replays["decided"].any()


def test_lost_cases_are_errors(cases: Path, tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        "import os, twiceshy\n"
        "@twiceshy.candidate(workflow='refund')\n"
        "def build(boundary):\n"
        "    return lambda user: os.read(os.pipe()[0], 1)\n"
    )
    request = a_request(cases, factory="hangs:build", path=[str(tmp_path)])
    told = replayed(request, timeout_s=20)
    assert set(told.replays["outcome"]) == {"error"}
    assert sorted(told.replays["case_id"]) == ["refund-below-limit", "refund-t-1042"]
    assert all("time limit" in reason for reason in told.replays["reason"])


def test_killed_shard_keeps_what_it_had_judged(cases: Path, tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        "import os, twiceshy\n"
        "from examples.refund import hook_fixed_and_guarded\n"
        "@twiceshy.candidate(workflow='refund')\n"
        "def build(boundary):\n"
        "    answer = hook_fixed_and_guarded(boundary)\n"
        "    return lambda user: os.read(os.pipe()[0], 1) if 'A184' in str(user) else answer(user)\n"
    )
    request = a_request(cases, factory="hangs:build", path=[str(tmp_path), str(ROOT)])
    told = replayed(request, timeout_s=25)
    outcomes = told.replays.select("case_id", "outcome").unique().sort("case_id").rows()
    assert outcomes == [("refund-below-limit", "passed"), ("refund-t-1042", "error")]
    assert told.not_run == 1
    (unheard,) = told.conversations
    assert (unheard.id, unheard.outcome) == ("all conversations", Outcome.ERROR)
    assert "time limit" in (unheard.error or "")


def test_conversation_is_judged_as_a_whole(cases: Path, tmp_path: Path) -> None:
    below = casefile.load(cases / "refund-below-limit")
    for turn in range(2):
        envelope = sealed(msgspec.structs.replace(below.envelope, conversation_id="c1", turn=turn))
        casefile.save(tmp_path / f"turn-{turn}", msgspec.structs.replace(below.case, id=f"turn-{turn}"), envelope)
    rules = shutil.copytree(ROOT / "data/policies", tmp_path.with_name("policies"))
    with (rules / "refund/invariants.yaml").open("a", encoding="utf-8") as file:
        file.write("  - {id: one-refund, kind: count, at: {tool: issue_refund}, max: 1}\n")
    (one,) = replayed(a_request(tmp_path, trials=1, policies=str(rules))).conversations
    assert [(turn.case, turn.outcome) for turn in one.turns] == [("turn-0", Outcome.PASSED), ("turn-1", Outcome.PASSED)]
    assert (one.outcome, [found.assertion_id for found in one.violations]) == (Outcome.FAILED, ["one-refund"])


def test_case_that_was_reached_stands(cases: Path) -> None:
    (whole,) = run(a_request(cases, trials=1), timeout_s=100)
    assert whole.conversations == []
    told = b"".join(record_line(line) + b"\n" for line in (whole.ready, *whole.trials[:1], whole.results[0]))
    (cut,) = _whole(a_request(cases), told + b'{"type":"tri', code=-9, told=b"")
    assert [line.result.case.id for line in cut.results] == ["refund-below-limit"]
    assert cut.lost is not None
    assert "ended with -9" in cut.lost


def test_nights_share_a_session_and_nothing_else(cases: Path) -> None:
    nights = [Occasion(generation="c" * 64, night=f"2026-11-2{day}", candidate="refund") for day in range(2)]
    first, second = replay(a_request(cases, trials=1, breaks=True), nights, harness_state="h1")
    assert (first.replays["night"].unique().to_list(), second.replays["night"].unique().to_list()) == (
        ["2026-11-20"],
        ["2026-11-21"],
    )
    assert first.run_id != second.run_id
    assert first.replays["broken_by"].null_count() == first.replays.height
    assert set(second.replays["broken_by"].drop_nulls()) == {"guard.off:refund-approval"}
    plain = second.replays.filter(pl.col("broken_by").is_null())
    assert first.replays.sort("case_id", "mode", "after")["transcript_digest"].to_list() == plain.sort("case_id", "mode", "after")["transcript_digest"].to_list()  # fmt: skip
    assert first.replays.join(second.replays, on="replay_id").is_empty()
