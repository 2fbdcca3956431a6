import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables import some_rows
from tasks.normalize.schema import Crossings, Traces
from tasks.store import Limits
from tasks.stratify.step import Quotas, stratify

FIVE = [letter * 32 for letter in "abcde"]


def a_call(
    trace: str, seq: int = 1, *, tool: str = "pay", code: str | None = None, buckets: object = ()
) -> dict[str, object]:
    error = {"error_class": "E", "error_code": code, "error_definite": True} if code else {}
    labels = [{"path": f"p{at}", "labels": list(found)} for at, found in enumerate(buckets)]  # type: ignore[call-overload]
    return {
        "trace_id": trace,
        "seq": seq,
        "kind": "tool",
        "name": tool,
        "effect": "write",
        "bucket_labels": labels,
        **error,
    }


def strata_of(
    calls: list[dict[str, object]], limits: Limits, *, traces: list[str] = FIVE, **more: object
) -> pl.DataFrame:
    rows = some_rows(Traces, *({"trace_id": trace, "workflow": "refund"} for trace in traces))
    crossings = some_rows(Crossings, *calls) if calls else Crossings.no_rows()
    given = {"seed": "s", "limits": limits, "harness_state": "h", **more}
    stratified = stratify(rows, crossings, **given)  # type: ignore[arg-type]
    assert stratified.set_aside.is_empty()
    return stratified.strata


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Limits:
    return Limits(spill=tmp_path_factory.mktemp("spill"))


def test_call_enters_each_primary_bucket(limits: Limits) -> None:
    call = a_call(FIVE[0], buckets=[["zero", "number"], ["typical"], ["zero"]])
    strata = strata_of([call], limits, traces=FIVE[:1])
    assert strata.select("tool", "bucket", "error_code", "calls").rows() == [
        ("pay", "typical", "ok", 1),
        ("pay", "zero", "ok", 1),
    ]


def test_call_without_arguments_is_typical(limits: Limits) -> None:
    assert strata_of([a_call(FIVE[0])], limits, traces=FIVE[:1])["bucket"].to_list() == ["typical"]


def test_trace_without_call_is_kept(limits: Limits) -> None:
    strata = strata_of([], limits)
    assert strata["trace_id"].to_list() == FIVE
    assert strata.select("tool", "calls", "stratum_size").unique().rows() == [("-", 0, 5)]


def test_errors_have_their_own_quota(limits: Limits) -> None:
    calls = [a_call(trace, seq, code=code) for trace in FIVE for seq, code in ((1, None), (2, "timeout"))]
    drawn = strata_of(calls, limits, quotas=Quotas(ok=1, error=3)).filter(pl.col("sampled"))
    assert drawn["error_code"].value_counts(sort=True).rows() == [("timeout", 3), ("ok", 1)]
    assert drawn.filter(error_code="timeout")["weight"].to_list() == pytest.approx([5 / 3] * 3)


def test_weights_add_up_to_stratum(limits: Limits) -> None:
    strata = strata_of([a_call(trace) for trace in FIVE], limits, quotas=Quotas(ok=2))
    assert strata["weight"].sum() == pytest.approx(5)


def test_later_traces_keep_the_order(limits: Limits) -> None:
    before = strata_of([a_call(trace) for trace in FIVE[:4]], limits, traces=FIVE[:4])
    after = strata_of([a_call(trace) for trace in FIVE], limits).filter(pl.col("trace_id") != FIVE[4])
    assert before.sort("rank")["trace_id"].to_list() == after.sort("rank")["trace_id"].to_list()


def test_another_seed_draws_others(limits: Limits) -> None:
    calls = [a_call(trace) for trace in FIVE]
    ranks = {tuple(strata_of(calls, limits, seed=seed).sort("rank")["trace_id"]) for seed in "123456"}
    assert len(ranks) > 1


@settings(max_examples=20, deadline=None)
@given(st.permutations([*range(10)]))
def test_row_order_changes_nothing(limits: Limits, order: list[int]) -> None:
    calls = [a_call(trace, seq, code=code) for trace in FIVE for seq, code in ((1, None), (2, "timeout"))]
    assert strata_of([calls[at] for at in order], limits).equals(strata_of(calls, limits))


def test_threads_change_nothing(limits: Limits) -> None:
    calls = [a_call(trace) for trace in FIVE]
    one = Limits(spill=limits.spill, threads=1)
    assert strata_of(calls, one).equals(strata_of(calls, limits))
