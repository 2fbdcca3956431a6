"""A record that is damaged in any place is read or set aside alone; nothing of its file is lost, and nothing else is raised than that nothing was of the format."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from source_samples import SAMPLES
from tasks.sources import evidence
from tasks.sources.registry import SOURCES, named
from tasks.sources.schema import ScoreRecords, SpanRecords
from traces import HARNESS, a_raw
from twiceshy.errors import FormatError

JUNK = [
    None,
    7,
    -1,
    "",
    "x",
    "{",
    "2026-99-99",
    [],
    {},
    [7],
    [None],
    [[]],
    ["x"],
    {"a": 1},
    {"": None},
    True,
    False,
    1e300,
]
Path = tuple[Any, ...]


def places(held: Any, above: Path = ()) -> Iterator[Path]:
    """Every place in a value but the whole of it."""
    below = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    for name, part in below:
        yield (*above, name)
        yield from places(part, (*above, name))


def damaged(held: Any, place: Path, junk: Any) -> Any:
    if not place:
        return junk
    copied = held.copy()
    copied[place[0]] = damaged(held[place[0]], place[1:], junk)
    return copied


def written(records: list[Any]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_read_whole(name: str) -> None:
    mapped = named(name).spans(a_raw(written(SAMPLES[name])), harness_state=HARNESS)
    assert (mapped.rejected, mapped.spans_in) == ([], mapped.spans.height)
    assert set(mapped.spans["source"]) == {name}
    SpanRecords.validate(mapped.spans)
    ScoreRecords.validate(mapped.scores)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_is_accounted_for(name: str, data: st.DataObject) -> None:
    records = SAMPLES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(list(places(records))))
        records = damaged(records, place, data.draw(st.sampled_from(JUNK)))
    try:
        mapped = named(name).spans(a_raw(written(records)), harness_state=HARNESS)
    except FormatError:
        return
    assert mapped.spans_in == mapped.spans.height + len(mapped.rejected)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "inspect"])
def test_torn_line_is_set_aside_alone(name: str) -> None:
    whole = named(name).spans(a_raw(written(SAMPLES[name])), harness_state=HARNESS)
    torn = named(name).spans(a_raw(written(SAMPLES[name]) + b'\n{"a": '), harness_state=HARNESS)
    assert [(row.reason, row.locator) for row in torn.rejected] == [("bad_json", f"line {len(SAMPLES[name]) + 1}")]
    assert torn.spans.equals(whole.spans)


@pytest.mark.parametrize("name", SAMPLES)
def test_file_is_known_by_its_beginning(name: str) -> None:
    assert evidence.source_of(written(SAMPLES[name])) == name


def test_marks_name_sources_that_there_are() -> None:
    assert {name for name, _ in evidence._MARKS} <= set(SOURCES.names())
