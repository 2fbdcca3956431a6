from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_divergence, a_played
from twiceshy.boundary import Closing
from twiceshy.envelope import Disposition
from twiceshy.identity import equal
from twiceshy.journal import Journal, transcript_of
from twiceshy.outcome import AnsweredBy


def lines_of(*places: int) -> list[bytes]:
    """The journal of a run that passed these steps, each closed, and ended."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    for at in places:
        played = a_played(at, answered_by=AnsweredBy.RECORDED, matched=f"#{at}")
        journal.ahead(played)
        journal.closed(played.crossing, Closing(shown=[at]), None)
    journal.ended(Disposition(output="done"))
    return lines


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(values)
def test_a_journal_reads_back_what_was_written(value: Any) -> None:
    lines: list[bytes] = []
    journal = Journal(lines.append)
    played = a_played(1, seen={"value": value}, answered_by=AnsweredBy.RECORDED, idempotency_key=value)
    journal.ahead(played)
    journal.closed(played.crossing, Closing(shown=value), None)
    journal.ended(Disposition(output=value))
    assert not any(b"\n" in line for line in lines)
    told = transcript_of(lines)
    assert told.disposition is not None
    crossing = told.played[0].crossing
    assert all(
        equal(held, value)
        for held in (told.played[0].idempotency_key, crossing.seen["value"], crossing.shown, told.disposition.output)
    )


def test_what_follows_a_divergence_counts_for_nothing() -> None:
    lines = lines_of(1)[:2]
    Journal(lines.append).diverged(a_divergence())
    told = transcript_of([*lines, *lines_of(2)])
    assert ([p.crossing.seq for p in told.played], told.disposition) == ([1], None)
    assert told.divergence is not None


def test_what_follows_a_fault_counts_for_nothing() -> None:
    lines: list[bytes] = []
    Journal(lines.append).fault("ours")
    told = transcript_of([*lines, *lines_of(1)])
    assert (told.played, told.disposition, told.fault) == ([], None, "ours")


@pytest.mark.parametrize("torn", [b"A\t{", b"C\t{}", b"A", b"A\t{}\t{}"])
def test_a_torn_line_ends_the_reading(torn: bytes) -> None:
    told = transcript_of([*lines_of(1)[:2], torn, *lines_of(2)])
    assert ([p.crossing.seq for p in told.played], told.disposition) == ([1], None)


def test_a_close_without_its_opening_ends_the_reading() -> None:
    told = transcript_of(lines_of(1)[1:])
    assert (told.played, told.disposition) == ([], None)


def test_no_passage_overwrites_another() -> None:
    told = transcript_of([*lines_of(1)[:2], *lines_of(1)])
    assert told.fault is not None
    assert (len(told.played), told.disposition) == (1, None)
