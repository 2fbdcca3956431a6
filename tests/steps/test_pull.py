import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks.normalize.step import normalize, unredacted
from tasks.pull.claims import claimed
from tasks.pull.lengths import caps
from tasks.pull.step import Known, Pulled, Terms, pull
from tasks.pull.survey import survey
from tasks.sources import openai_chat, otlp
from tasks.sources.source import Raw, Source, Window
from traces import CALLED, HARNESS, ROOT, a_request, a_run, a_span, a_wire_span, mapped, real, said, told
from twiceshy.errors import InputError

TERMS = Terms(harness_state=HARNESS)
DAY = 86_400_000_000_000


def a_file(at: Path, *records: Mapping[str, Any] | bytes) -> Path:
    at.write_bytes(
        b"\n".join(record if isinstance(record, bytes) else json.dumps(record).encode() for record in records)
    )
    return at


def a_chat(task: int) -> dict[str, Any]:
    return a_run(said(None, ("c1", "get_order", {"id": f"A{task}"})), told("[1]"), task=task)


def wired(*spans: str, trace: str = "a", start: int = 1000, **fields: Any) -> dict[str, Any]:
    held = [
        a_wire_span(span, attributes=CALLED, traceId=trace * 32, startTimeUnixNano=str(start), endTimeUnixNano=str(start + 1), **fields) for span in spans
    ]  # fmt: skip
    return a_request(*held)


def known(*pulled: Pulled) -> Known:
    return Known.of(
        pulls=pl.concat([held.pulls for held in pulled]),
        spans=pl.concat([held.spans for held in pulled]).unique("row_id"),
        scores=pl.concat([held.scores for held in pulled]).unique("score_id"),
    )


def counts(pulled: Pulled) -> list[tuple[int, ...]]:
    return (
        pulled.pulls.select("spans_in", "spans_out", "quarantined", "distinct", "duplicates", "traces")
        .sort("spans_in")
        .rows()
    )


def a_pull(
    source: Source, *paths: Path, before: Known | None = None, start: int | None = None, end: int | None = None
) -> Pulled:
    return pull(source, Window(paths=paths, start_ns=start, end_ns=end), TERMS, before)


def test_second_pull_changes_nothing(tmp_path: Path) -> None:
    path = a_file(tmp_path / "runs.jsonl", a_chat(1), a_chat(2))
    first = a_pull(openai_chat.source, path)
    second = a_pull(openai_chat.source, path, before=known(first))
    assert counts(first) == [(8, 8, 0, 8, 0, 2)]
    assert [table.height for table in second[:4]] == [0, 0, 0, 0]
    for one, other in zip(first[:4], a_pull(openai_chat.source, path)[:4], strict=True):
        assert one.equals(other)


def test_grown_file_gives_only_what_is_new(tmp_path: Path) -> None:
    path = a_file(tmp_path / "runs.jsonl", a_chat(1))
    first = a_pull(openai_chat.source, path)
    a_file(path, a_chat(1), a_chat(2))
    second = a_pull(openai_chat.source, path, before=known(first))
    assert (counts(second), second.unfound) == ([(4, 4, 0, 4, 0, 1)], ())
    assert set(second.spans["trace_id"]).isdisjoint(first.spans["trace_id"])


def test_trace_that_grew_comes_whole(tmp_path: Path) -> None:
    early, late = a_file(tmp_path / "a.jsonl", wired("1", "2"), wired("7", trace="b")), tmp_path / "b.jsonl"
    first = a_pull(otlp.source, early)
    a_file(late, wired("3"))
    second = a_pull(otlp.source, early, late, before=known(first))
    assert second.spans["trace_id"].unique().to_list() == ["a" * 32]
    assert (second.spans.height, counts(second), second.unfound) == (3, [(1, 1, 0, 1, 0, 1)], ())


def test_grown_trace_names_rows_it_cannot_find(tmp_path: Path) -> None:
    first = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", wired("1")))
    second = a_pull(otlp.source, a_file(tmp_path / "b.jsonl", wired("2")), before=known(first))
    assert (second.spans.height, second.unfound) == (1, ("a" * 32,))


def test_mergecraft_298_repeated_export_is_counted_apart(tmp_path: Path) -> None:
    twice = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", wired("1", "2"), wired("1")))
    assert (counts(twice), twice.spans.height) == ([(3, 3, 0, 2, 1, 1)], 2)
    again = a_pull(otlp.source, a_file(tmp_path / "b.jsonl", wired("1", "2")), before=known(twice))
    assert again.spans.is_empty()


def test_late_score_brings_its_trace_again(tmp_path: Path) -> None:
    first = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", wired("1")))
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": [{"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.0}}],
    }
    second = a_pull(otlp.source, a_file(tmp_path / "b.jsonl", wired("1", events=[event])), before=known(first))
    assert (second.spans.height, second.scores.height) == (1, 1)


def test_files_in_any_order_and_split_give_same_rows(tmp_path: Path) -> None:
    lines = [wired("1", "2"), wired("3", trace="b"), wired("4"), wired("1")]
    one = a_pull(otlp.source, a_file(tmp_path / "all.jsonl", *lines))
    parts = [a_file(tmp_path / f"{at}.jsonl", line) for at, line in enumerate(reversed(lines))]
    other = a_pull(otlp.source, *parts)
    assert one.spans.equals(other.spans)


def test_broken_parts_are_set_aside_and_counted(tmp_path: Path) -> None:
    good, bad = wired("1"), wired("2", kind="SPAN_KIND_BANANA")
    odd = a_request(a_wire_span("3", attributes=CALLED | {"twiceshy.at": "beside:x"}, traceId="a" * 32))
    pulled = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", good, b'{"resourceSpans": [', bad, odd))
    assert counts(pulled) == [(4, 1, 3, 1, 0, 1)]
    rows = pulled.quarantine.sort("reason", "unit").select("reason", "unit", "trace_id", "table").rows()
    assert rows == [
        ("bad_enum", "span", "a" * 32, "span_records"),
        ("bad_json", "row", None, "span_records"),
        ("bad_type", "row", "a" * 32, "span_records"),
    ]
    assert pulled.quarantine["locator"].str.contains("line 2$").sum() == 1
    assert pulled.quarantine.filter(pl.col("reason") == "bad_json")["byte_offset"].to_list() == [
        len(json.dumps(good)) + 1
    ]


def test_window_takes_whole_traces_that_began_in_it(tmp_path: Path) -> None:
    path = a_file(
        tmp_path / "a.jsonl",
        wired("1", trace="a", start=DAY - 1),
        wired("2", trace="a", start=DAY + 5),
        wired("3", trace="b", start=DAY),
    )
    first, second = a_pull(otlp.source, path, end=DAY), a_pull(otlp.source, path, start=DAY, end=2 * DAY)
    assert first.spans["trace_id"].to_list() == ["a" * 32] * 2
    assert second.spans["trace_id"].to_list() == ["b" * 32]
    assert first.pulls["window"].to_list() == ["../1970-01-02T00:00:00+00:00 a.jsonl"]


def test_late_rows_of_a_known_trace_are_in_every_window(tmp_path: Path) -> None:
    first = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", wired("1", start=5)), end=DAY)
    late = a_file(tmp_path / "b.jsonl", wired("2", start=7), wired("3", trace="b", start=DAY))
    second = a_pull(otlp.source, tmp_path / "a.jsonl", late, start=DAY, end=2 * DAY, before=known(first))
    assert second.spans["trace_id"].to_list() == ["a" * 32, "a" * 32, "b" * 32]


def test_raw_copies_are_named_where_they_are_kept(tmp_path: Path) -> None:
    shelf: dict[str, bytes] = {}

    def keep(raw: Raw) -> str:
        shelf[raw.name] = raw.content
        return f"raw/{raw.digest}"

    path = a_file(tmp_path / "a.jsonl", wired("1"), b"nonsense")
    pulled = pull(otlp.source, Window(paths=(path,)), Terms(harness_state=HARNESS, keep=keep, expires_at_ns=9))
    assert shelf == {"a.jsonl": path.read_bytes()}
    assert (
        pulled.pulls.select("raw_ref", "expires_at_ns").rows()
        == pulled.quarantine.select("raw_ref", "expires_at_ns").rows()
        != [(None, None)]
    )


def test_normalized_growth_equals_one_pull(tmp_path: Path) -> None:
    def whole(pulled: Pulled) -> pl.DataFrame:
        return normalize(unredacted(pulled.spans), pulled.scores, policies={}, harness_state=HARNESS).crossings

    a, b = a_file(tmp_path / "a.jsonl", wired("2", start=5)), tmp_path / "b.jsonl"
    first = a_pull(otlp.source, a)
    a_file(b, wired("1", start=3))
    assert whole(a_pull(otlp.source, a, b, before=known(first))).equals(whole(a_pull(otlp.source, a, b)))


def test_trace_of_which_nothing_was_kept_is_pulled_again_from_a_file_that_did_not_change(tmp_path: Path) -> None:
    file = a_file(tmp_path / "a.jsonl", wired("1"), wired("2", trace="b"))
    first = a_pull(otlp.source, file)
    one = first.spans["trace_id"][0]
    before = known(first)
    assert a_pull(otlp.source, file, before=before).spans.is_empty()
    held = before.spans.filter(pl.col("trace_id") != one)
    again = a_pull(otlp.source, file, before=replace(before, spans=held, retake=[one]))
    assert again.spans.equals(first.spans.filter(trace_id=one))
    assert (again.pulls.height, again.unfound) == (0, ())


def test_survey_names_the_traces_of_a_window_and_their_scores(tmp_path: Path) -> None:
    file = a_file(tmp_path / "a.jsonl", wired("1"))
    everything = survey(otlp.source, Window(paths=(file,)))
    assert everything.traces == set(a_pull(otlp.source, file).spans["trace_id"])
    assert survey(otlp.source, Window(paths=(file,), end_ns=1)).traces == frozenset()


def test_stored_tables_say_what_is_known() -> None:
    pulled = a_pull(otlp.source, *sorted(ROOT.glob("data/samples/*-09.jsonl")))
    made = normalize(unredacted(pulled.spans), pulled.scores, policies={}, harness_state=HARNESS)
    before = Known.of(pulls=pulled.pulls, spans=made.spans, scores=made.scores)
    assert a_pull(otlp.source, *sorted(ROOT.glob("data/samples/*-09.jsonl")), before=before).unfound == ()
    assert before.spans.height == pulled.spans.height


def test_missing_file_stops_the_pull(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        a_pull(otlp.source, a_file(tmp_path / "a.jsonl", wired("1")), tmp_path / "b.jsonl")


def test_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"no such .*jsonl"):
        a_pull(otlp.source, tmp_path)


@pytest.mark.parametrize(
    ("fields", "asked", "workflow"),
    [
        ({"workflow": "refund", "service_name": "airline"}, "shop", "refund"),
        ({"service_name": "airline"}, "shop", "shop"),
        ({"service_name": "gpt-4o-airline"}, None, "airline"),
        ({"agent_name": "refund_agent"}, None, "refund"),
        ({"service_name": "refund-airline"}, None, "airline"),
        ({"service_name": "myairline"}, None, "airline"),
        ({"tool_name": "unheard_of"}, None, None),
    ],
)
def test_workflow_is_claimed_for_whole_traces(fields: dict[str, Any], asked: str | None, workflow: str | None) -> None:
    spans = mapped(a_span("1", "agent", "a"), a_span("2", **{"tool_name": "book"} | fields)).spans
    found = claimed(spans, {"refund": ["get_order"], "airline": ["book", "cancel"]}, asked=asked)
    assert found["workflow"].to_list() == [workflow, workflow]


def test_tools_of_two_workflows_claim_nothing() -> None:
    spans = mapped(a_span("1", tool_name="book")).spans
    assert claimed(spans, {"a": ["book"], "b": ["book", "cancel"]})["workflow"].to_list() == [None]
    assert claimed(mapped(a_span("1", "agent", "a")).spans, {"a": ["book"]})["workflow"].to_list() == [None]


def long_texts(*lengths: int) -> list[dict[str, Any]]:
    return [
        a_request(a_wire_span(f"{at}", attributes=CALLED | {"note": f"{at:04}".ljust(length, "x")}, traceId="a" * 32)) for at, length in enumerate(lengths, 1)
    ]  # fmt: skip


def test_ops_python_173_spike_at_one_length_is_a_cap(tmp_path: Path) -> None:
    pulled = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", *long_texts(256, 256, 256, 256, 256, 200)))
    assert sorted(pulled.spans["flags"].to_list()) == [[], *[["truncated"]] * 5]


@pytest.mark.parametrize(
    "lengths", [(256, 256, 256, 256, 200), (100, 100, 100, 100, 100, 100), (256, 256, 256, 256, 256, 257)]
)
def test_other_lengths_are_no_cap(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    pulled = a_pull(otlp.source, a_file(tmp_path / "a.jsonl", *long_texts(*lengths)))
    assert pulled.spans["flags"].explode().drop_nulls().is_empty()


def test_one_text_used_often_is_no_cap(tmp_path: Path) -> None:
    spans = [
        a_request(a_wire_span(f"{at}", attributes=CALLED | {"note": "x" * 256}, traceId="a" * 32)) for at in range(1, 9)
    ]
    assert a_pull(otlp.source, a_file(tmp_path / "a.jsonl", *spans)).spans["flags"].explode().drop_nulls().is_empty()


def test_samples_and_airline_runs_are_not_cut() -> None:
    pulled = a_pull(otlp.source, *sorted(ROOT.glob("data/samples/*.jsonl")))
    chats = a_pull(openai_chat.source, real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz"))
    assert (caps(pulled.spans), caps(chats.spans)) == ({}, {})
