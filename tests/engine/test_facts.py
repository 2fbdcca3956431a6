import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_model, a_played, a_policy, a_transcript
from twiceshy.envelope import ErrorRecord
from twiceshy.evidence import replayed_run
from twiceshy.facts import facts, facts_of, grounded, grounded_before


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (750, ("n:750",)),
        (750.0, ("n:750",)),
        (0, ("n:0",)),
        (True, ()),
        (None, ()),
        (float("nan"), ()),
        ("A184", ("i:a184",)),
        (
            "order A184 of 2026-06-02 is £1,750.00",
            (
                "i:a184",
                "d:2026-06-02",
                "n:1750",
            ),
        ),
        ("jane@example.org", ("i:jane@example.org",)),
        ("2 items on the 3rd", ()),
        ("0.50 off", ("n:0.5",)),
        ("thank you", ()),
        ("AP-000", ("i:ap-000",)),
    ],
    ids=str,
)
def test_facts_of_a_leaf(leaf: object, expected: tuple[str, ...]) -> None:
    assert facts(leaf) == set(expected)


@given(st.integers(10, 10**12), st.sampled_from(["refund of {}", "£{}", "{}", "it is {}."]))
def test_number_in_a_text_is_the_number(amount: int, text: str) -> None:
    assert facts(text.format(amount)) == facts(amount) == facts(float(amount))


def test_nothing_known_before_it_came_back() -> None:
    error = ErrorRecord(cls="ValueError", message="the limit is 500")
    run = replayed_run(
        a_transcript(
            a_model(1, raw={"text": "refund 999"}, shown={"text": "refund 999"}),
            a_played(2, raw={"id": "A184", "secret": 123}, shown={"id": "A184"}),
            a_played(3, error=error, raw=msgspec.UNSET, shown=msgspec.UNSET),
            a_played(4),
        ),
        a_policy(get_order="read"),
    )
    known = [before for _, before in grounded_before(run, "mail of 2026-06-02")]
    assert known[0] == known[1] == {"d:2026-06-02", "n:2026"}
    assert known[2] == known[0] | {"i:a184"}
    assert known[3] == known[2] | {"n:500"} == grounded(run, "mail of 2026-06-02")


def test_one_turn_grounds_nothing_of_itself() -> None:
    run = replayed_run(
        a_transcript(a_model(1), a_played(2, group=1, shown={"n": 77}), a_played(3, group=1, seen={"n": 77})),
        a_policy(get_order="read"),
    )
    assert all(not known for _, known in grounded_before(run, None))
    assert grounded(run, None) == {"n:77"}


def test_facts_of_nothing() -> None:
    assert facts_of(msgspec.UNSET) == facts_of({}) == frozenset()
