import gzip
from pathlib import Path

import msgspec
import pytest

from tasks.sources import openai_chat
from tasks.sources.records import Score, Span, span_row
from tasks.sources.registry import SOURCES, named
from tasks.sources.schema import ScoreRecords, SpanRecords
from tasks.sources.source import MAX_SPAN_BYTES, FileSource, Intake, Window
from traces import HARNESS, a_raw, a_span
from twiceshy.errors import InputError


@pytest.mark.parametrize("name", sorted(SOURCES.names()))
def test_built_in_sources_load_by_name(name: str) -> None:
    assert named(name).name == name


def test_folder_gives_the_files_that_a_source_reads(tmp_path: Path) -> None:
    for name in ("a.json", "b.jsonl.gz", "c.traj", "d.txt", ".e.json", "f.pb"):
        (tmp_path / name).write_bytes(gzip.compress(b"{}") if name.endswith("gz") else b"{}")
    window = Window(paths=(tmp_path,))
    assert [raw.name for raw in named("openai_chat").fetch(window)] == ["a.json", "b.jsonl"]
    assert [raw.name for raw in named("otlp").fetch(window)] == ["a.json", "b.jsonl", "f.pb"]
    assert [raw.name for raw in FileSource("s", openai_chat.spans, frozenset({".traj"})).fetch(window)] == ["c.traj"]


def test_named_file_may_have_any_suffix(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_bytes(b"{}")
    assert [raw.name for raw in named("otlp").fetch(Window(paths=(tmp_path / "d.txt",)))] == ["d.txt"]


def test_span_that_is_too_large_is_set_aside_alone() -> None:
    intake = Intake(a_raw("{}"), "otlp", HARNESS)
    intake.take(a_span("1"), "line 1")
    intake.take(a_span("2", attributes_json="x" * (MAX_SPAN_BYTES + 1)), "line 2")
    mapped = intake.mapped()
    assert [(row.reason, row.locator) for row in mapped.rejected] == [("too_large", "line 2")]
    assert (mapped.spans.height, mapped.spans_in) == (1, 2)


def test_unknown_source_names_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'otlp'"):
        named("oltp")


def test_span_fills_every_column_of_its_table() -> None:
    row = span_row(a_span("1"), source="otlp", harness_state=HARNESS)
    assert set(row) == set(SpanRecords.dtypes())
    fields = {field.name for field in msgspec.structs.fields(Span)} - {"sides"}
    assert fields < set(SpanRecords.dtypes())
    assert {field.name for field in msgspec.structs.fields(Score)} < set(ScoreRecords.dtypes())


def test_row_id_is_of_what_a_span_says() -> None:
    def row_id(**fields: object) -> object:
        return span_row(a_span("1", **fields), source="otlp", harness_state=HARNESS)["row_id"]

    assert row_id() == row_id(
        container="other", source_span_id="AB", attributes_json="{}", flags={"kvlist"}, workflow="w"
    )
    assert len({row_id(), row_id(name="other"), row_id(start_ns=1), row_id(is_error=True), row_id(seq=1)}) == 5
