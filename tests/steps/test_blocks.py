"""The blocks of an envelope that stand for the whole run: input, pins and disposition."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from tasks.envelopes import envelopes
from tasks.normalize.step import normalize, unredacted
from tasks.sources.records import Score, Side, Span
from tasks.sources.schema import ScoreRecords
from traces import a_proposal, a_run, a_span, an_output, chat, mapped, normalized, said, told, user
from twiceshy.envelope import Envelope, Kind, LayerVersion, RedactionStamp

TEXT = {"type": "text", "text": "Done."}
NOW = datetime(2026, 11, 3, 9, 14, 22, 500_000, tzinfo=UTC)
NOW_NS = 1_793_697_262_500_000_000


def read(*spans: Span, scores: tuple[Score, ...] = ()) -> Envelope:
    made = normalized(mapped(*spans, scores=scores))
    (held,) = envelopes(made.traces, made.crossings)
    return held


def a_root(**fields: Any) -> Span:
    return a_span("1", "agent", "a", start_ns=0, **fields)


def a_model(**fields: Any) -> Span:
    return a_span("2", "model", "m", **{"parent": "1", "start_ns": 1, "messages_out": an_output(TEXT)} | fields)


def a_draw(raw: Any) -> Span:
    return a_span("3", "clock", "now", parent="1", start_ns=1, sides={"raw": Side(raw)})


@pytest.mark.parametrize(
    ("root", "draw", "instant", "grade"),
    [
        ({"clock_ns": 7, "clock_text": "2026-11-03 09:14 UTC"}, NOW, 7, "recorded"),
        ({}, NOW, NOW_NS, "recorded"),
        ({}, NOW.isoformat(), NOW_NS, "recorded"),
        ({"clock_text": "2026-11-03 09:14 UTC"}, None, NOW_NS - 22_500_000_000, "recorded"),
        (
            {"clock_text": "2026-11-03 09:14 UTC", "provenance": {"clock_text": {"key": "x", "grade": "derived"}}},
            "soon",
            NOW_NS - 22_500_000_000,
            "derived",
        ),
        ({"clock_text": "July 32, 2026"}, "soon", None, "missing"),
    ],
)
def test_clock_is_pinned_drawn_or_told(root: dict[str, Any], draw: Any, instant: int | None, grade: str) -> None:
    held = read(a_root(**root), a_draw(draw), a_model())
    assert (held.pins.clock and held.pins.clock.instant_ns, held.grades["R4"].grade) == (instant, grade)


def test_told_zone_becomes_one_that_python_knows() -> None:
    clock = read(a_root(clock_text="2026-11-03 09:14 EST", clock_tz="EST"), a_model()).pins.clock
    assert clock is not None
    assert (clock.tz, clock.as_given_to_agent) == ("Etc/GMT+5", "2026-11-03 09:14 EST")


def test_layers_are_known_from_spans() -> None:
    tools = [{"name": "get_order", "parameters": {"type": "object"}}]
    spans = (
        a_root(agent_name="shop", agent_version="1.2"),
        a_model(
            model_requested="m",
            model_answered="m-1",
            prompt_name="p",
            prompt_version="7",
            system_text="Be brief.",
            tool_defs=tools,
        ),
    )
    held = read(*spans)
    versions = held.pins.versions
    assert (versions.model.name, versions.prompt.name, versions.prompt.version, versions.prompt.digest is not None) == (
        "m-1",
        "p",
        "7",
        True,
    )
    assert (versions.harness.name, versions.harness.version, list(versions.tools)) == ("shop", "1.2", ["get_order"])
    assert [held.grades[name].grade for name in ("R5", "R6", "R7")] == ["recorded"] * 3
    assert (versions.memory, held.input.system) == (LayerVersion(), "Be brief.")


def test_recorded_layers_stand_before_others() -> None:
    held = read(a_root(agent_version="1.2", versions={"harness": {"version": "9"}}), a_model(model_answered="m-1"))
    assert (held.pins.versions.harness.version, held.pins.versions.model.name) == ("9", None)


def test_unknown_layers_are_passed_over() -> None:
    assert read(a_root(agent_version="1.2", versions={"future": {}}), a_model()).pins.versions.harness.version == "1.2"


def test_drawn_flags_are_pinned() -> None:
    assert read(
        a_root(), a_model(), a_span("3", "flag", "new-ui", start_ns=2, sides={"raw": Side(value=True)})
    ).pins.flags == {"new-ui": True}


@pytest.mark.parametrize(
    ("root", "user_input"),
    [
        ({"sides": {"seen": Side({"message": "mine"})}}, {"message": "mine"}),
        ({}, "asked"),
    ],
)
def test_input_is_the_roots_or_the_first_request(root: dict[str, Any], user_input: object) -> None:
    asked = [
        {"role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "text": "asked"}]},
    ]
    held = read(a_root(goal="refund", **root), a_model(messages_in=asked))
    assert (held.input.user, held.input.system, held.input.goal) == (user_input, "Be brief.", "refund")


def test_last_text_is_the_output_where_none_was_recorded() -> None:
    held = read(a_root(), a_model(), a_span("4", "model", "m", start_ns=5, messages_out=an_output(a_proposal("t", {}))))
    assert (held.disposition.output, held.disposition.ended) == ("Done.", True)


def test_our_recorder_says_whether_a_run_returned() -> None:
    root = {"dialect": "twiceshy"}
    assert read(a_root(**root), a_model()).disposition.ended is False
    crashed = read(a_root(**root, is_error=True, error_class="ValueError", error_message="no"), a_model()).disposition
    assert (crashed.ended, crashed.error and crashed.error.cls) == (False, "ValueError")
    gave_up = read(a_root(**root, is_error=True, sides={"raw": Side({"status": "gave_up"})}), a_model()).disposition
    assert (gave_up.ended, gave_up.error, gave_up.flags) == (True, None, ["status"])


@pytest.mark.parametrize(
    ("scores", "label"),
    [
        ([("reward", 1.0, None, "code")], "success"),
        ([("reward", 0.5, None, "code"), ("review", None, "fine", "human")], "failure"),
        ([("grade", 0.0, "bad", "llm"), ("review", None, "wrong", "human")], "wrong"),
        ([("grade", 0.0, "bad", "llm")], None),
    ],
)
def test_source_labels_the_outcome(scores: list[tuple[str, float | None, str | None, str]], label: str | None) -> None:
    held = tuple(
        Score(trace_id="a" * 32, name=name, value=value, label=text, origin=origin)
        for name, value, text, origin in scores
    )
    assert read(a_root(), a_model(), scores=held).disposition.outcome_label == label


def test_list_content_is_read_as_its_text() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "lo"}]
    made = normalized(chat({"id": "r1", "messages": [{"role": "user", "content": parts}, said("Hi.")]}))
    (held,) = envelopes(made.traces, made.crossings)
    assert held.input.user == "Hello"


def test_later_user_turns_are_crossings() -> None:
    made = normalized(chat(a_run(said("Which?"), user("A1"), said(None, ("c1", "get_order", {})), told("[1]"))))
    (held,) = envelopes(made.traces, made.crossings)
    turns = [row for row in held.crossings if row.kind is Kind.USER]
    assert [(row.place, row.raw) for row in turns] == [("#2", "A1")]
    assert (held.input.user, len(held.crossings)) == ("Hello", 4)


def test_scope_and_repeats_follow_the_spans() -> None:
    failing = {"is_error": True, "error_code": "timeout", "error_source": "typed", "sides": {"seen": Side({})}}
    spans = [a_span(str(at), name="pay", parent="1", start_ns=at, scope="root/writer#0", **failing) for at in (2, 3)]
    held = read(a_root(), *spans)
    assert [(row.scope, row.attempt) for row in held.crossings] == [("root/writer#0", 1), ("root/writer#0", 2)]


def test_redaction_stamp_carries_pseudonyms() -> None:
    stamp = {"policy_digest": "d" * 64, "key_id": "k"}
    spans = unredacted(mapped(a_root(), a_model()).spans).with_columns(
        **{name: pl.lit(held) for name, held in stamp.items()},
        pseudonyms=pl.when(pl.col("kind") == "agent").then(pl.lit('{"Ada-7f":"aa"}')),
        redaction_map=pl.lit('{"messages_out[0]":"synthesize"}'),
    )
    made = normalize(spans, ScoreRecords.no_rows(), policies={}, harness_state="test")
    (held,) = envelopes(made.traces, made.crossings)
    assert held.redaction == RedactionStamp(
        policy_digest="d" * 64, key_id="k", counts={"synthesize": 2}, pseudonyms={"Ada-7f": "aa"}
    )


def test_trace_with_two_stamps_bears_none() -> None:
    spans = unredacted(mapped(a_root(), a_model()).spans).with_columns(
        policy_digest=pl.lit("d" * 64), key_id=pl.when(pl.col("kind") == "agent").then(pl.lit("k1")).otherwise(pl.lit("k2"))
    )  # fmt: skip
    made = normalize(spans, ScoreRecords.no_rows(), policies={}, harness_state="test")
    (held,) = envelopes(made.traces, made.crossings)
    assert held.redaction is None
