import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import zstandard

from tasks.sources import openai_chat
from tasks.sources.source import Window
from traces import a_raw, a_run, chat, packed, real, said, told, user
from twiceshy.errors import FormatError, InputError

ORDER = ("c1", "get_order", {"id": "A1"})


def tools(frame: pl.DataFrame) -> list[dict[str, object]]:
    return frame.filter(pl.col("kind") == "tool").sort("seq").to_dicts()


def test_call_joins_next_tool_message() -> None:
    run = a_run(
        said(None, ("c1", "get_order", {"id": "A1"})), told('{"id": "A1"}'), said(None, ("c1", "get_order", {"id": "B2"})), told('{"id": "B2"}')
    )  # fmt: skip
    rows = tools(chat(run).spans)
    assert [(row["proposed"], row["shown"]) for row in rows] == [
        ('{"id":"A1"}', '{"id":"A1"}'),
        ('{"id":"B2"}', '{"id":"B2"}'),
    ]
    assert all("repeated_call_id" in str(row["flags"]) for row in rows)


def test_parallel_calls_join_by_id() -> None:
    run = a_run(
        said(None, ("c1", "get_order", {"id": "A1"}), ("c2", "get_user", {})),
        told("[2]", "c2", "get_user"),
        told("[1]", "c1"),
    )
    assert [(row["tool_name"], row["proposed"], row["shown"]) for row in tools(chat(run).spans)] == [
        ("get_user", "{}", "[2]"),
        ("get_order", '{"id":"A1"}', "[1]"),
    ]


def test_parallel_calls_with_equal_ids_join_in_order() -> None:
    run = a_run(
        said(None, ("c1", "get_order", {"id": "A1"}), ("c1", "get_order", {"id": "B2"})), told("[1]"), told("[2]")
    )
    assert [(row["proposed"], row["shown"]) for row in tools(chat(run).spans)] == [
        ('{"id":"A1"}', "[1]"),
        ('{"id":"B2"}', "[2]"),
    ]


def test_unanswered_call_is_a_span() -> None:
    mapped = chat(a_run(said(None, ORDER), user("Are you there?")))
    (row,) = tools(mapped.spans)
    assert (row["proposed"], row["shown"], row["is_error"]) == ('{"id":"A1"}', None, False)
    assert mapped.spans_in == 5


def test_answer_without_call_keeps_its_name() -> None:
    (row,) = tools(chat(a_run(told("[1]"))).spans)
    assert (row["tool_name"], row["proposed"], row["shown"]) == ("get_order", None, "[1]")


@pytest.mark.parametrize(
    ("content", "shown", "encoding"),
    [
        ("", '""', "text"),
        ("750.0", '"750.0"', "text"),
        ("null", '"null"', "text"),
        ('{"total": 750.0}', '{"total":750}', "json"),
        ('"{\\"total\\": 1}"', '{"total":1}', "json"),
    ],
)
def test_only_objects_and_lists_are_decoded(content: str, shown: str, encoding: str) -> None:
    (row,) = tools(chat(a_run(said(None, ORDER), told(content))).spans)
    assert (row["shown"], row["shown_encoding"]) == (shown, encoding)


def test_text_error_has_template_code() -> None:
    first, second = (
        tools(chat(a_run(said(None, ORDER), told(f"Error: order {order} not found"))).spans)[0]
        for order in ("A1042", "B2077")
    )
    assert first["error_code"] == second["error_code"]
    assert str(first["error_code"]).startswith("get_order:")
    assert (first["is_error"], first["error_source"], first["error_definite"]) == (True, "text", None)
    assert first["shown"] == '"Error: order A1042 not found"'


def test_label_side_stays_out_of_spans() -> None:
    task = {
        "instruction": "SECRET wish",
        "actions": [{"name": "book", "kwargs": {"id": "SECRET"}}],
        "outputs": ["SECRET"],
    }
    mapped = chat(a_run(said("Done."), reward=0.0, info={"task": task, "reward_info": {"actions": ["SECRET"]}}))
    assert "SECRET" not in json.dumps(mapped.spans.to_dicts(), default=str)
    held = {row["name"]: row["text"] or row["value"] for row in mapped.scores.to_dicts()}
    assert held == {
        "reward": 0.0,
        "expected_actions": '[{"arguments":{"id":"SECRET"},"name":"book"}]',
        "expected_outputs": '["SECRET"]',
    }


def test_clock_comes_from_system_text() -> None:
    row = chat(a_run(said("Hi."))).spans.filter(pl.col("clock_text").is_not_null()).to_dicts()
    assert [(held["kind"], held["clock_text"], held["clock_tz"]) for held in row] == [
        ("step", "2024-05-15 15:00:00 EST", "EST")
    ]


def test_trace_id_from_file_task_trial() -> None:
    one, again, other = chat(a_run(said("Hi."))), chat(a_run(said("Hi."))), chat(a_run(said("Hi."), trial=1))
    assert one.spans["trace_id"].unique().to_list() == again.spans["trace_id"].unique().to_list()
    assert one.spans["trace_id"][0] != other.spans["trace_id"][0]
    assert chat(a_run(said("Hi.")), name="others.jsonl").spans["trace_id"][0] != one.spans["trace_id"][0]


def test_permuted_lines_give_same_rows() -> None:
    runs = [a_run(said(None, ORDER), told("[1]"), task=task) for task in range(4)]
    assert chat(*runs).spans.sort("row_id").equals(chat(*reversed(runs)).spans.sort("row_id"))


def test_broken_line_is_set_aside_alone() -> None:
    whole = chat(a_run(said("Hi.")), a_run(said("Hi."), task=2))
    mapped = chat(a_run(said("Hi.")), b'{"task_id": 1, "traj": [', a_run(said("Hi."), task=2))
    (row,) = mapped.rejected
    assert (row.reason, row.locator) == ("bad_json", "line 2")
    assert row.byte_offset == len(json.dumps(a_run(said("Hi.")))) + 1
    assert mapped.spans.sort("row_id").equals(whole.spans.sort("row_id"))
    assert mapped.spans_in == mapped.spans.height + 1


def test_bad_message_is_set_aside_alone() -> None:
    mapped = chat(
        a_run(said(None, ORDER), told("[1]"), {"role": "nobody"}, 7, {"role": "user", "content": 7}, said("Bye."))
    )  # type: ignore[arg-type]
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_type", f"line 1, message {at}") for at in (4, 5, 6)
    ]
    assert (mapped.spans_in, mapped.spans.height) == (8, 5)


def test_other_records_beside_runs_are_set_aside() -> None:
    mapped = chat(a_run(said("Hi.")), b'{"messages_display": "user: hi"}', b"[]", b'"text"')
    assert [row.reason for row in mapped.rejected] == ["unknown_container"] * 3


@pytest.mark.parametrize(
    "content", [b'{"messages_display": "user: hi"}', b"[1, 2]", b"not json", b'{"resourceSpans": []}']
)
def test_unknown_container_is_an_error(content: bytes) -> None:
    with pytest.raises(FormatError, match=r"runs\.jsonl: no openai_chat span in it"):
        openai_chat.spans(a_raw(content), harness_state="test")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl: no such file"):
        list(openai_chat.source.fetch(Window(paths=(tmp_path / "gone.jsonl",))))


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_empty_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"runs\.jsonl: the file is empty"):
        list(openai_chat.source.fetch(Window(paths=(path,))))


def test_damaged_gzip_is_an_error(tmp_path: Path) -> None:
    path = packed(tmp_path / "runs.jsonl.gz", b"{}" * 100)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(FormatError, match="damaged gzip"):
        list(openai_chat.source.fetch(Window(paths=(path,))))


@pytest.mark.parametrize("cut", [1, 3, 25])
def test_zstd_file_that_was_cut_is_an_error_and_not_half_a_file(tmp_path: Path, cut: int) -> None:
    frame = zstandard.ZstdCompressor().compress(json.dumps(a_run(said("Hi."))).encode())
    path = tmp_path / "runs.jsonl.zst"
    path.write_bytes((frame + frame)[:-cut])
    with pytest.raises(FormatError, match="damaged gzip or zstd"):
        list(openai_chat.source.fetch(Window(paths=(path,))))


def test_every_frame_of_a_zstd_file_is_read(tmp_path: Path) -> None:
    lines = [json.dumps(a_run(said("Hi."), task=task)).encode() + b"\n" for task in range(3)]
    path = tmp_path / "runs.jsonl.zst"
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(line) for line in lines))
    (raw,) = openai_chat.source.fetch(Window(paths=(path,)))
    assert (raw.name, raw.content) == ("runs.jsonl", b"".join(lines))


def test_packing_changes_no_row(tmp_path: Path) -> None:
    line = json.dumps(a_run(said("Hi."))).encode()
    (tmp_path / "runs.jsonl").write_bytes(line)
    packed(tmp_path / "runs.jsonl.gz", line)
    plain, zipped = (
        openai_chat.spans(raw, harness_state="test").spans
        for raw in openai_chat.source.fetch(Window(paths=(tmp_path / "runs.jsonl", tmp_path / "runs.jsonl.gz")))
    )
    assert plain.equals(zipped)


def test_real_airline_runs_are_all_accounted_for() -> None:
    (raw,) = openai_chat.source.fetch(Window(paths=(real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz"),)))
    mapped = openai_chat.spans(raw, harness_state="test")
    calls = mapped.spans.filter(pl.col("kind") == "tool")
    assert (mapped.spans_in, mapped.spans.height, len(mapped.rejected)) == (2526, 2526, 0)
    assert mapped.spans["trace_id"].n_unique() == 100
    assert calls.height == 577
    assert calls.select(pl.col("proposed", "shown").is_not_null().all()).row(0) == (True, True)
    assert sorted(Counter(calls["error_code"].drop_nulls().to_list()).values(), reverse=True) == [10, 4, 3, 2, 1, 1]
    assert calls.filter(pl.col("is_error"))["trace_id"].n_unique() == 12
    assert mapped.scores.filter((pl.col("name") == "reward") & (pl.col("value") == 0)).height == 51
    assert set(mapped.spans["model_requested"].drop_nulls()) == {"gpt-4o"}
