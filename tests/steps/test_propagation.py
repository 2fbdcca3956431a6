import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.redact.propagation import Propagator, Seed, Span, acts, merged


def seed(text: str, new: str, **rest: bool | int) -> Seed:
    return Seed(text, lambda _: new, **rest)  # type: ignore[arg-type]


def replaced(text: str, *seeds: Seed) -> str:
    return merged(text, Propagator(seeds).spans(text))


def test_longest_match_wins() -> None:
    assert replaced("Mia Borg and Mia", seed("Mia", "A"), seed("Mia Borg", "A B")) == "A B and A"


def test_presidio_888_1195_1156_overlaps_become_one() -> None:
    made = replaced("see Mia Borg Lind today", seed("Mia Borg", "[1]"), seed("Borg Lind", "[22]"))
    assert made in {"see [1] today", "see [22] today"}


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 9)), max_size=6))
def test_every_covered_character_goes(places: list[tuple[int, int]]) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    spans = [Span(start, min(start + length, 26), "#") for start, length in places]
    covered = {at for span in spans for at in range(span.start, span.end)}
    made = merged(text, spans)
    assert made.replace("#", "") == "".join(char for at, char in enumerate(text) if at not in covered)


@pytest.mark.parametrize("text", ["academia", "Miami", "mia2", "xMia"])
def test_match_needs_bounds(text: str) -> None:
    assert replaced(text, seed("Mia", "A")) == text


@pytest.mark.parametrize("text", ["mia_li_3668", "MIA.li@x", "(mia)", "Mia's"])
def test_match_ends_at_punctuation(text: str) -> None:
    assert "A" in replaced(text, seed("mia", "A"))


def test_match_begins_after_an_escape() -> None:
    assert replaced(r"{'a': 'line\nMia \u0020Mia'}", seed("Mia", "A")) == r"{'a': 'line\nA \u0020A'}"
    assert replaced("nMia", seed("Mia", "A")) == "nMia"


def test_spelling_of_letters_does_not_matter() -> None:
    assert replaced("JOSÉ, jose\u0301, José", seed("José", "A")) == "A, A, A"


def test_scripts_without_spaces_have_no_bounds() -> None:
    assert replaced("田中さんです", seed("田中", "A")) == "Aさんです"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Li", False), ("may", False), ("Houston", False), ("Mia", True), ("A184", True), ("--", False)],
)
def test_common_and_short_words_do_not_act(text: str, expected: object) -> None:
    assert acts(text) is expected


def test_amount_is_no_part_of_a_number() -> None:
    one = seed("750", "900", number=True)
    assert (
        replaced("750 or 750, 7501 or 1,750 or 750.25 or £750.", one) == "900 or 900, 7501 or 1,750 or 750.25 or £900."
    )


def test_lower_rank_wins_a_tie() -> None:
    assert replaced("Mia", seed("mia", "2", rank=2), seed("MIA", "1", rank=1)) == "1"
