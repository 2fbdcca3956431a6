"""The figures of signatures.md §4 on the real runs: which failures of the airline set are one failure."""

import gzip

import polars as pl
import pytest

from tasks.detect.step import detect
from tasks.sign.ledger import Ledger
from tasks.sign.overrides import Overrides
from tasks.sign.step import sign
from tasks.sources import openai_chat
from tasks.workflows import Workflow
from traces import a_raw, airline, normalized, real

pytestmark = pytest.mark.slow


def test_state_effects_group_failures() -> None:
    path = real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz")
    mapped = openai_chat.spans(a_raw(gzip.decompress(path.read_bytes()), path.name), harness_state="h")
    runs = normalized(mapped, airline(), "reward == 0.0")
    workflows = {"airline": Workflow(policy=airline())}
    found = detect(runs.traces, runs.crossings, runs.scores, workflows=workflows, harness_state="h").findings
    signed = sign(
        found, runs.traces, runs.crossings, policies={"airline": airline()}, ledger=Ledger(), overrides=Overrides(), catalog={},
        harness_state="h",
    )  # fmt: skip
    flagged = runs.traces.filter("flagged")["trace_id"]
    effects = signed.memberships.filter(invariant_id="state_effect")
    assert (runs.traces.height, flagged.len()) == (100, 51)
    assert effects["trace_id"].is_in(flagged.implode()).all()
    assert (effects.height, effects["key_id"].n_unique(), effects["branch_id"].n_unique()) == (47, 20, 45)
    sizes = signed.signatures.filter(pl.col("invariant_id") == "state_effect").sort("traces", descending=True)
    assert sizes.head(6)["traces"].to_list() == [7, 4, 4, 4, 4, 4]
    assert sizes["slug"][0] == "state_effect-wrong_args-book_reservation@final"
