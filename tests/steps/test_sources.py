import msgspec
import pytest

from tasks.sources.records import Score, Span, span_row
from tasks.sources.registry import SOURCES, named
from tasks.sources.schema import ScoreRecords, SpanRecords
from traces import HARNESS, a_span
from twiceshy.errors import InputError


def test_built_in_sources_load_by_name() -> None:
    assert [named(name).name for name in SOURCES.names() if name in ("openai_chat", "otlp")] == ["openai_chat", "otlp"]


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
