import polars as pl
import pytest

from tables import some_rows
from tasks.contracts import validated
from tasks.publish.judged import Judging, judged_rows
from tasks.publish.schema import Conversations, Runs
from tasks.publish.summary import conversations, nights
from tasks.replay.schema import Replays
from twiceshy.outcome import Outcome
from twiceshy.verdict import Conversation, TurnResult
from verdicts import a_result, a_violation

TURNS = [TurnResult(turn=at, outcome=Outcome.PASSED, case=f"turn-{at}") for at in range(2)]
BROKEN = Conversation(
    id="c1",
    outcome=Outcome.FAILED,
    turns=TURNS,
    violations=[a_violation("one-refund", detail="more than 1; at turn-1 #2")],
)
UNJUDGED = Conversation(id="c2", outcome=Outcome.ERROR, turns=TURNS, error="x: invariants.yaml:1: no such field")
HELD = Conversation(id="c3", outcome=Outcome.PASSED, turns=TURNS)


def a_judging(*whole: Conversation) -> Judging:
    return Judging(
        run_id="r", night="2026-11-10", workflow="refund", candidate="refund", candidate_digest="d", harness="h", results=[a_result()],
        conversations=whole,
    )  # fmt: skip


def the_rows(*whole: Conversation) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = judged_rows([a_judging(*whole)], Replays.no_rows(), {})
    frames = [pl.DataFrame(found[model], schema=model.dtypes()) for model in (Runs, Conversations)]
    assert all(
        validated(frame, model).set_aside.is_empty() for frame, model in zip(frames, (Runs, Conversations), strict=True)
    )
    return frames[0], frames[1]


@pytest.mark.parametrize(("whole", "code"), [(BROKEN, 1), (UNJUDGED, 4), (HELD, 0)])
def test_night_is_as_red_as_its_conversations(whole: Conversation, code: int) -> None:
    (run,) = the_rows(whole)[0].iter_rows(named=True)
    assert (run["exit_code"], run["passed"], run["failed"]) == (code, 1, 0)
    assert [whole.id in reason for reason in run["reasons"]] == [True] * (code != 0)


def test_conversation_is_a_row() -> None:
    rows = the_rows(HELD, UNJUDGED, BROKEN)[1].sort("conversation_id").to_dicts()
    assert [(row["outcome"], row["violated"], row["reason"]) for row in rows] == [
        ("failed", ["one-refund"], "one-refund: more than 1; at turn-1 #2"),
        ("error", [], "x: invariants.yaml:1: no such field"),
        ("passed", [], None),
    ]
    assert (rows[0]["cases"], rows[0]["outcomes"]) == (["turn-0", "turn-1"], ["passed", "passed"])


def test_summary_puts_first_what_did_not_pass() -> None:
    runs, whole = the_rows(HELD, UNJUDGED, BROKEN)
    earlier = some_rows(Conversations, {"run_id": "older"})
    told = conversations(pl.concat([whole, earlier]), ["r"])
    assert [(row["conversation"], row["outcome"], row["outcomes"], row["violated"]) for row in told] == [
        ("c1", "failed", "passed + passed", "one-refund"), ("c2", "error", "passed + passed", ""), ("c3", "passed", "passed + passed", ""),
    ]  # fmt: skip
    (night,) = nights(runs)
    assert night["why"].startswith(
        "1 conversation failed as a whole: c1 (one-refund); 1 conversation could not be judged"
    )
