"""What our recorder wrote, exported and read back through source and normalize, is the run it recorded."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import polars as pl
import pytest

from builders import recorded, replayed
from examples.rehearsal import rehearse
from examples.samples.export import exported, request
from tasks.contracts import validated
from tasks.envelopes import envelopes
from tasks.normalize.step import Normalized, normalize, unredacted
from tasks.sources import otlp
from tasks.sources.records import Span, span_row
from tasks.sources.schema import SpanRecords
from tasks.sources.source import Window
from traces import HARNESS, ROOT, a_raw
from twiceshy import identity, policy
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.evidence import beside, recorded_run
from twiceshy.gateway import spans
from twiceshy.policy import ToolsPolicy

STARTED = datetime(2026, 11, 3, 9, 14, tzinfo=UTC)
RUNS = {
    "examples.refund:buggy": "Hello, the espresso machine of order A184 arrived broken. Please refund the 750 GBP I paid.",
    "examples.refund:hook_fixed_and_guarded": "Hello, the espresso machine of order A184 arrived broken. Please refund the 750 GBP I paid.",
    "examples.scheduling:buggy": "Hello, this is about job J311. Please move my install to Thursday.",
}


def policies() -> dict[str, ToolsPolicy]:
    return {
        name: policy.load(ROOT / f"data/policies/{name}/tools.yaml") for name in ("refund", "scheduling", "research")
    }


def read_back(*recorded: Envelope) -> Normalized:
    lines = b"\n".join(request(exported(envelope, [])) for envelope in recorded)
    mapped = otlp.spans(a_raw(lines), harness_state=HARNESS)
    return normalize(unredacted(mapped.spans), mapped.scores, policies=policies(), harness_state=HARNESS)


def facts(crossing: Crossing) -> dict[str, object]:
    """Everything of a crossing, values by identity and with their names in order; the key of a model's request is no key of a call and is not kept in the table."""
    plain = {name: getattr(crossing, name) for name in crossing.__struct_fields__}
    sides = {
        name: identity.ordered(held)
        for name in ("proposed", "seen", "raw", "shown")
        if (held := plain.pop(name)) is not msgspec.UNSET
    }
    return plain | sides | {"key": crossing.key if crossing.kind is Kind.TOOL else ""}


@pytest.mark.parametrize("spec", RUNS)
def test_recorded_run_comes_back_as_it_was(spec: str) -> None:
    workflow = spec.removeprefix("examples.").partition(":")[0]
    ran = rehearse(
        spec,
        {"message": RUNS[spec]},
        started=STARTED,
        policy=policies()[workflow],
        trace_id="0af7651916cd43dd8448eb211c80319c",
    )
    made = read_back(ran)
    (back,) = envelopes(made.traces, made.crossings)
    assert [facts(crossing) for crossing in back.crossings] == [facts(crossing) for crossing in ran.crossings]
    assert (back.workflow, back.input.user, back.pins.clock) == (
        ran.workflow,
        ran.input.user,
        ran.pins.clock,
    )
    assert back.disposition.output == ran.disposition.output
    assert {grade.grade for name, grade in back.grades.items() if name not in ("R8", "R11")} == {"recorded"}


def nested(boundary: Boundary) -> Any:
    """Draws in a tool's body and in a hook, a call inside a call, and a tool of which a server says that it writes."""
    inner = boundary.tool(
        "get_order", lambda order_id: {"order_id": order_id, "at": boundary.rng.random()}, effect="read", tightened=True
    )
    outer = boundary.tool("ask_desk", lambda order_id: [inner(order_id=order_id), boundary.now()])
    boundary.hook("mark", lambda asked: [boundary.now(), asked][1], before="ask_desk")
    return lambda user: {"status": "done", "of": len(outer(order_id=user))}


@pytest.mark.parametrize(
    "wired", [spans.request, lambda envelope: request(exported(envelope, []))], ids=["recorder", "samples"]
)
def test_what_lay_inside_a_passage_and_what_a_server_tightened_come_back(wired: Callable[[Envelope], bytes]) -> None:
    envelope = recorded(nested, "A184", policy=policies()["refund"])
    assert {crossing.parent for crossing in envelope.crossings} == {None, "#1", "#1.1", "#2"}
    assert [crossing.name for crossing in envelope.crossings if crossing.tightened] == ["get_order"]
    mapped = otlp.spans(a_raw(wired(envelope)), harness_state=HARNESS)
    made = normalize(unredacted(mapped.spans), mapped.scores, policies=policies(), harness_state=HARNESS)
    assert made.quarantine.is_empty()
    (back,) = envelopes(made.traces, made.crossings)
    told = [(one.place, one.parent, one.tightened, one.effect) for one in envelope.crossings]
    assert [(one.place, one.parent, one.tightened, one.effect) for one in back.crossings] == told
    assert replayed(nested, back, policy=policies()["refund"]).divergence is None


def test_an_untold_parent_leaves_the_id_of_a_row_as_it_was() -> None:
    """A stored row is found again by its id, whatever fields came to the record since."""
    span = Span(trace_id="a" * 32, span_id="b" * 16, source_trace_id="a", source_span_id="b", container="c", dialect="d", mapper="m", kind="tool", name="n")  # fmt: skip
    told = [
        span_row(one, source="s", harness_state="h")["row_id"]
        for one in (span, msgspec.structs.replace(span, within="#4"))
    ]
    assert told == ["3365fe46691770d27b1a523b430e63f9c28ade4d971f54113e0657f5bc28106e", told[1]]
    assert told[0] != told[1]


@cache
def samples() -> tuple[Normalized, pl.DataFrame, Counter[str]]:
    mapped = [
        otlp.spans(raw, harness_state=HARNESS)
        for raw in otlp.source.fetch(Window(paths=tuple(sorted(ROOT.glob("data/samples/*.jsonl")))))
    ]
    spans = pl.concat([held.spans for held in mapped])
    scores = pl.concat([held.scores for held in mapped]).unique("score_id", maintain_order=True)
    rejected = Counter(row.reason for held in mapped for row in held.rejected)
    return normalize(unredacted(spans), scores, policies=policies(), harness_state=HARNESS), spans, rejected


MARKED = pl.col("marks").list


@pytest.mark.parametrize(
    ("shows", "count"),
    [
        pytest.param(MARKED.contains("truncated"), 2, id="truncated"),
        pytest.param(MARKED.contains("dropped_attributes") & (pl.col("r3") == "missing"), 1, id="dropped"),
        pytest.param(pl.col("r2") == "missing", 3, id="cut short, or a span set aside"),
        pytest.param(pl.col("tree_integrity") == "synthetic_root", 1, id="rootless"),
        pytest.param(pl.col("r4") == "missing", 2, id="clockless"),
        pytest.param(MARKED.contains("hashed_content"), 1, id="hashed"),
        pytest.param(MARKED.contains("shadow_of"), 1, id="doubled"),
    ],
)
def test_damaged_sample_shows_its_damage(shows: pl.Expr, count: int) -> None:
    assert samples()[0].traces.filter(shows).height == count


def test_samples_are_all_accounted_for() -> None:
    made, spans, rejected = samples()
    assert rejected == {"bad_enum": 1}
    assert validated(spans.unique("row_id", maintain_order=True), SpanRecords).set_aside.is_empty()
    assert (made.traces.height, made.quarantine.height) == (304, 0)
    assert made.traces["tree_integrity"].value_counts(sort=True).rows() == [("intact", 303), ("synthetic_root", 1)]
    assert {row["source"] for flags in made.traces["flags"] for row in flags} == {
        "error_status",
        "user_feedback",
        "online_grader",
        "human",
    }
    assert 0.1 < made.traces["flagged"].mean() < 0.2  # type: ignore[operator]  # a mean of booleans


def test_doubled_sample_has_one_crossing_a_call() -> None:
    made, _, _ = samples()
    (trace,) = made.traces.filter(pl.col("marks").list.contains("shadow_of"))["trace_id"]
    models = made.spans.filter((pl.col("trace_id") == trace) & (pl.col("kind") == "model"))
    crossings = made.crossings.filter((pl.col("trace_id") == trace) & (pl.col("kind") == "model"))
    assert models.height == 2 * crossings.height


def test_agents_that_one_output_handed_to_come_back_side_by_side() -> None:
    """Without the output that asked for both, the first would stand before the second."""

    def build(boundary: Boundary) -> Any:
        triage = boundary.model("triage", lambda request: {"parts": []})
        desk = boundary.handoff(
            "desk", lambda inner: inner.tool("get_order", lambda order_id: {"id": order_id}, effect="read")
        )

        def agent(_: Any) -> Any:
            triage({"messages": []})
            return [desk("A184"), desk("A185")]

        return agent

    envelope = recorded(build, policy=policies()["refund"])
    mapped = otlp.spans(a_raw(spans.request(envelope)), harness_state=HARNESS)
    made = normalize(unredacted(mapped.spans), mapped.scores, policies=policies(), harness_state=HARNESS)
    (back,) = envelopes(made.traces, made.crossings)
    assert [(c.kind, c.group) for c in back.crossings if c.kind is Kind.HANDOFF] == [(Kind.HANDOFF, 1)] * 2
    first, second = (step for step in recorded_run(back, policies()["refund"]).steps if step.crossing.scope)
    assert beside(first, second)
