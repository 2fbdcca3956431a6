from collections.abc import Iterator
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.envelopes import envelopes
from tasks.normalize.step import Normalized
from tasks.redact.schema import RedactedSpans
from tasks.sources.records import Score, Side, Span
from tasks.sources.source import Mapped
from traces import (
    HARNESS,
    a_proposal,
    a_run,
    a_span,
    an_output,
    chat,
    mapped,
    normalized,
    said,
    told,
    user,
)
from twiceshy.encoding import digest_of
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.matching import recordings
from twiceshy.policy import ToolPolicy, ToolsPolicy

TOOLS = ToolsPolicy(
    workflow="w",
    tools={
        "get_order": ToolPolicy(effect=Effect.READ, schema={"type": "object"}),
        "refund": ToolPolicy(definite_errors=("denied",), schema={"type": "object"}),
        "add": ToolPolicy(effect=Effect.NONE, schema={"type": "object"}),
    },
)
ORDER = {"seen": Side({"id": "A1"}), "raw": Side({"total": 7})}


def only(made: Normalized) -> Envelope:
    (held,) = envelopes(made.traces, made.crossings)
    return held


def trace(made: Normalized) -> dict[str, Any]:
    (row,) = made.traces.to_dicts()
    return row


def again(made: Normalized) -> Mapped:
    """The spans that normalize wrote, as it was given them."""
    return Mapped(made.spans.select(RedactedSpans.dtypes().names()), made.scores, [], made.spans.height)


def a_refund_run() -> Mapped:
    return mapped(
        a_span("1", "agent", "refund", start_ns=0, end_ns=90, sides={"seen": Side({"message": "hi"}), "raw": Side({"status": "done"})}),
        a_span("2", "model", "planner", parent="1", start_ns=1, end_ns=2, system_text="Today is 2026-11-03 09:00 UTC", messages_in=[],
               messages_out=an_output(a_proposal("get_order", {"id": "A1"}))),
        a_span("3", parent="1", start_ns=3, end_ns=9, call_id="c1", sides=ORDER),
        a_span("4", "hook", "strip", parent="3", start_ns=5, end_ns=6, at="after:get_order", sides={"seen": Side({"total": 7}), "raw": Side({})}),
        a_span("5", "model", "planner", parent="1", start_ns=10, end_ns=11, messages_out=an_output({"type": "text", "text": "ok"})),
        a_span("6", name="refund", parent="1", start_ns=12, end_ns=13, is_error=True, error_code="denied", error_source="typed", sides={"seen": Side({})}),
        a_span("7", name="get_order", parent="1", start_ns=14, end_ns=15, sides=ORDER),
    )  # fmt: skip


def test_run_becomes_numbered_crossings() -> None:
    held = only(normalized(a_refund_run(), TOOLS))
    assert [(row.place, row.kind, row.name, row.group) for row in held.crossings] == [
        ("#1", Kind.MODEL, "planner", None),
        ("#2", Kind.TOOL, "get_order", 1),
        ("#2.1", Kind.HOOK, "strip", 1),
        ("#3", Kind.MODEL, "planner", None),
        ("#4", Kind.TOOL, "refund", None),
        ("#5", Kind.TOOL, "get_order", None),
    ]
    assert held.input.user == {"message": "hi"}
    assert held.disposition.output == {"status": "done"}
    assert held.digest == digest_of(held)


def test_hook_span_fills_the_other_side() -> None:
    held = only(normalized(a_refund_run(), TOOLS)).at(2)
    assert held is not None
    assert (held.proposed, held.seen, held.raw, held.shown) == ({"id": "A1"}, {"id": "A1"}, {"total": 7}, {})


def test_key_and_state_are_the_matchers_own() -> None:
    held = only(normalized(a_refund_run(), TOOLS))
    for recording in recordings(held.crossings, TOOLS):
        assert (recording.crossing.key, recording.crossing.state) == (recording.key, recording.state)
    states = [row.state for row in held.crossings if row.name == "get_order"]
    assert states[0] == states[1]  # the refund was refused for certain, so it wrote nothing


def test_ambiguous_error_counts_as_written() -> None:
    lenient = ToolsPolicy(workflow="w", tools=TOOLS.tools | {"refund": ToolPolicy()})
    held = only(normalized(a_refund_run(), lenient))
    first, second = (row.state for row in held.crossings if row.name == "get_order")
    assert first != second


@pytest.mark.parametrize("order", list(permutations(range(3)))[1:])
def test_permuted_input_gives_same_bytes(order: tuple[int, ...]) -> None:
    straight = a_refund_run()
    thirds = [straight.spans[at::3] for at in order]
    shuffled = straight._replace(spans=pl.concat(thirds))
    for one, other in zip(normalized(straight, TOOLS), normalized(shuffled, TOOLS), strict=True):
        assert one.equals(other)


def test_normalizing_twice_changes_nothing() -> None:
    for first in (
        a_refund_run(),
        chat(a_run(said(None, ("c1", "get_order", {"id": "A1"})), told("[1]"), said("Done."))),
    ):
        once = normalized(first, TOOLS)
        for one, other in zip(once, normalized(again(once), TOOLS), strict=True):
            assert one.equals(other)


def test_mergecraft_298_exact_duplicates_are_one_call() -> None:
    single = a_refund_run()
    doubled = single._replace(
        spans=pl.concat([single.spans, single.spans.sample(fraction=1, shuffle=True, seed=1), single.spans])
    )
    for one, other in zip(normalized(single, TOOLS), normalized(doubled, TOOLS), strict=True):
        assert one.equals(other)


def test_mlflow_26046_missing_root_keeps_children() -> None:
    rootless = a_refund_run()
    made = normalized(rootless._replace(spans=rootless.spans.filter(pl.col("kind") != "agent")), TOOLS)
    assert (trace(made)["tree_integrity"], trace(made)["r9"], trace(made)["orphans"], trace(made)["spans"]) == (
        "synthetic_root",
        "derived",
        5,
        6,
    )
    assert made.spans.filter(pl.col("flags").list.contains("synthetic_root")).height == 1
    assert made.crossings.height == 6
    assert {"orphan", "synthetic_root"} <= set(trace(made)["marks"])


def test_whole_tree_is_intact() -> None:
    made = normalized(a_refund_run(), TOOLS)
    assert (trace(made)["tree_integrity"], trace(made)["r9"]) == ("intact", "recorded")
    assert made.spans.height == 7


def test_spans_that_are_their_own_ancestors_are_read() -> None:
    made = normalized(
        mapped(
            a_span("1", parent="2", start_ns=1),
            a_span("2", parent="1", start_ns=2),
            a_span("3", parent="3", start_ns=3),
        )
    )
    assert (trace(made)["tree_integrity"], made.crossings.height) == ("synthetic_root", 3)


def test_no_order_is_said_to_be_missing() -> None:
    made = normalized(mapped(a_span("1", "agent"), a_span("2", parent="1"), a_span("3", parent="1")))
    assert (trace(made)["tree_integrity"], trace(made)["r9"]) == ("unordered", "missing")


def test_child_never_precedes_what_it_stands_in() -> None:
    made = normalized(
        mapped(
            a_span("1", "agent", "a", start_ns=0),
            a_span("2", parent="1", start_ns=10),
            a_span("3", "guard", "g", parent="2", start_ns=4),
        )
    )
    assert [row.place for row in only(made).crossings] == ["#1", "#1.1"]


def doubled(outer: dict[str, Any], inner: dict[str, Any]) -> Iterator[Span]:
    yield a_span("1", "agent", "main", start_ns=0, end_ns=99)
    yield a_span("2", "step", "chain", parent="1", start_ns=0, end_ns=99)
    said_so = an_output(a_proposal("get_order", {"id": "A1"}, outer.pop("call", "x")))
    yield a_span(
        "3",
        "model",
        "gpt-4o",
        **{"parent": "2", "scope_name": "langchain", "start_ns": 10, "end_ns": 50, "messages_out": said_so} | outer,
    )
    said_too = an_output(a_proposal("get_order", {"id": "A1"}, inner.pop("call", "y")))
    yield a_span(
        "4",
        "model",
        "gpt-4o-2024-08-06",
        **{"parent": "1", "scope_name": "openai", "start_ns": 12, "end_ns": 48, "messages_out": said_too} | inner,
    )


def test_call_of_two_instrumentors_is_one_crossing() -> None:
    made = normalized(mapped(*doubled({}, {"model_answered": "gpt-4o-2024-08-06"})))
    (row,) = [row for row in made.spans.to_dicts() if any(flag.startswith("shadow_of:") for flag in row["flags"])]
    assert (row["span_id"], row["flags"], row["crossing_seq"]) == (
        "4".rjust(16, "0"),
        ["shadow_of:" + "3".rjust(16, "0")],
        None,
    )
    assert [row.name for row in only(made).crossings] == ["gpt-4o"]
    assert trace(made)["r5"] == "recorded"
    assert "shadow_of" in trace(made)["marks"]


@pytest.mark.parametrize(
    "inner",
    [
        {"scope_name": "langchain"},
        {"start_ns": 12, "end_ns": 5_000_090},
        {"messages_out": an_output({"type": "text", "text": "no"})},
    ],
)
def test_what_is_not_proven_equal_stays_two(inner: dict[str, Any]) -> None:
    outer = {"end_ns": 60} if "end_ns" not in inner else {"start_ns": 10, "end_ns": 70}
    if "end_ns" in inner:
        outer = {"start_ns": 10, "end_ns": 70}
        inner = inner | {"start_ns": 12, "end_ns": 9_000_000}
    assert normalized(mapped(*doubled(outer, inner))).crossings.height == 2


def test_unclear_doubles_stay_two() -> None:
    third = a_span(
        "5",
        "model",
        "gpt",
        parent="1",
        scope_name="third",
        start_ns=11,
        end_ns=49,
        messages_out=an_output(a_proposal("get_order", {"id": "A1"})),
    )
    made = normalized(mapped(*doubled({}, {}), third))
    assert made.crossings.height == 3
    assert "maybe_doubled" in trace(made)["marks"]


def test_chat_sides_are_known_as_far_as_they_are() -> None:
    made = normalized(
        chat(a_run(said(None, ("c9", "get_order", {"id": "A1"})), told('{"total": 7}', "c9"), said("It is 7."))), TOOLS
    )
    held = only(made)
    call = held.at(2)
    assert call is not None
    assert (call.proposed, call.shown, call.group, call.effect) == ({"id": "A1"}, {"total": 7}, 1, Effect.READ)
    assert {"seen", "raw"}.isdisjoint(made_known(call))
    assert (held.input.user, held.disposition.output, held.disposition.outcome_label) == (
        "Hello",
        "It is 7.",
        "success",
    )
    assert held.pins.clock is not None
    assert held.pins.clock.as_given_to_agent == "2024-05-15 15:00:00 EST"


def made_known(crossing: Any) -> set[str]:
    return {
        side for side in ("proposed", "seen", "raw", "shown") if type(getattr(crossing, side)).__name__ != "UnsetType"
    }


def test_call_ids_of_a_chat_are_numbered_anew() -> None:
    made = normalized(
        chat(
            a_run(
                said(None, ("c1", "get_order", {"id": "A1"})),
                told("[1]"),
                said(None, ("c1", "get_order", {"id": "B2"})),
                told("[2]"),
            )
        ),
        TOOLS,
    )
    ids = [part["id"] for row in only(made).crossings if row.kind is Kind.MODEL for part in row.raw["parts"]]
    assert ids == ["call_1", "call_2"]


def test_blocked_call_names_its_guard() -> None:
    refused = {"seen": Side({}), "raw": Side({"blocked": True, "reason": "limit"})}
    made = normalized(
        mapped(
            a_span("1", name="refund", start_ns=1, is_error=True, error_code="blocked", error_source="typed", sides={"seen": Side({})}),
            a_span("2", "guard", "approval", parent="1", at="before:refund", start_ns=2, sides=refused),
        )
    )  # fmt: skip
    held = only(made).at(1)
    assert held is not None
    assert held.blocked_by == "approval"


def test_langfuse_8304_input_is_the_roots() -> None:
    later = a_span(
        "2",
        "model",
        "m",
        parent="1",
        start_ns=2,
        messages_in=[{"role": "user", "parts": [{"type": "text", "text": "other"}]}],
    )
    made = normalized(mapped(a_span("1", "agent", "a", start_ns=1, sides={"seen": Side("mine")}), later))
    assert only(made).input.user == "mine"


def test_unstamped_trace_says_it_is_not_redacted() -> None:
    made = normalized(a_refund_run())
    assert only(made).redaction is None
    assert made.traces["policy_digest"].to_list() == [None]


def test_trace_with_a_bad_row_is_set_aside_whole() -> None:
    good = chat(a_run(said("Hi."), task=1))
    bad = chat(a_run(said("Hi."), task=2)).spans.with_columns(
        zone=pl.when(pl.col("seq") == 1).then(pl.lit("")).otherwise("zone")
    )
    made = normalized(good._replace(spans=pl.concat([good.spans, bad])))
    assert made.traces["trace_id"].to_list() == good.spans["trace_id"].unique().to_list()
    assert set(made.spans["trace_id"]) == set(made.crossings["trace_id"]) == set(made.traces["trace_id"])
    assert made.quarantine["reason"].unique().to_list() == ["zone: str_length"]
    assert made.quarantine["harness_state"].unique().to_list() == [HARNESS]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["model", "tool", "hook", "user", "clock", "step"]), max_size=12))
def test_every_boundary_span_is_one_crossing(kinds: list[str]) -> None:
    spans = [
        a_span(f"{at + 1:x}", kind, "x", start_ns=at, at="before:x" if kind == "hook" else None)
        for at, kind in enumerate(kinds)
    ]
    if not spans:
        return
    made = normalized(mapped(*spans))
    first_model = kinds.index("model") if "model" in kinds else len(kinds)
    given_as_input = "user" in kinds[:first_model]
    assert made.crossings.height == sum(kind != "step" for kind in kinds) - given_as_input
    steps = [row.seq for row in only(made).crossings if not row.sub]
    assert steps == list(range(1, len(steps) + 1))


def test_scores_follow_their_traces() -> None:
    run = chat(a_run(said("Hi.")))
    stray = mapped(a_span("1"), scores=[Score(trace_id="b" * 32, name="reward", value=0.0, origin="code")])
    made = normalized(run._replace(scores=pl.concat([run.scores, stray.scores])))
    assert made.scores["trace_id"].unique().to_list() == made.traces["trace_id"].to_list()


def test_withheld_trace_is_read_without_its_payloads() -> None:
    run = chat(a_run(said(None, ("c1", "get_order", {})), told("[1]"), user("Thanks"), said("Bye.")))
    held = ("proposed", "seen", "raw", "shown", "messages_out", "system_text", "clock_text")
    nothing = {name: pl.lit(None, pl.String) for name in (*held, *(f"{side}_encoding" for side in held[:4]))}
    made = normalized(run._replace(spans=run.spans.with_columns(**nothing)), TOOLS)
    assert (made.traces.height, made.crossings.height, made.quarantine.height) == (1, 4, 0)
    assert made.traces.select("r1", "r2", "r3", "r4").rows() == [("missing",) * 4]


def test_trace_that_cannot_be_read_is_set_aside_alone() -> None:
    good, bad = chat(a_run(said("Hi."), task=1)), chat(a_run(said("Hi."), task=2))
    odd = bad.spans.with_columns(raw=pl.when(pl.col("kind") == "user").then(pl.lit('{"$later":1}')).otherwise("raw"))
    made = normalized(good._replace(spans=pl.concat([good.spans, odd])))
    assert made.traces["trace_id"].to_list() == good.spans["trace_id"].unique().to_list()
    assert made.quarantine.select("unit", "reason").rows() == [("trace", "FormatError")]


def a_talk(*said: str, conversation: str | None = "c1") -> Any:
    """What normalize makes of a run whose model was sent these roles."""
    asked = [{"role": role, "parts": [{"type": "text", "text": f"no {at}"}]} for at, role in enumerate(said)]
    further = [*asked, {"role": "user", "parts": []}]
    spans = (
        a_span("1", "agent", "a", start_ns=1, conversation_id=conversation),
        a_span("2", "model", "m", parent="1", start_ns=2, messages_in=asked, messages_out=an_output()),
        a_span("3", "model", "m", parent="1", start_ns=3, messages_in=further, messages_out=an_output()),
    )
    return normalized(mapped(*spans))


@pytest.mark.parametrize(
    ("said", "turn"), [(("system", "user"), 0), (("system", "user", "assistant", "user"), 1), (("user", "assistant", "user", "assistant", "tool", "user"), 2), ((), 0)]
)  # fmt: skip
def test_turn_is_how_often_the_user_had_spoken(said: tuple[str, ...], turn: int) -> None:
    assert only(a_talk(*said)).turn == turn
    assert only(a_talk(*said, conversation=None)).turn == 0
