import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sign import keys, ledger
from tasks.sign.keys import Block, Facets, Key
from tasks.sign.ledger import Ledger, Newcomer
from tasks.sign.overrides import Merge, Overrides
from twiceshy.errors import FormatError

NOTHING = Overrides()
TEXTS = [
    "payment method <id> not found in book",
    "payment method <id> not found in update",
    "payment method <id> not found in the book",
    "order <id> not found",
    "user <id> not found",
    "connection to <ip> refused by httpcore pool",
    "connection to <ip> refused by httpx pool",
    "connection to <ip> refused by httpx",
]


def a_key(
    template: str | None = None,
    *,
    code: str | None = None,
    tool: str = "book",
    stage: str = "tool",
    invariant: str = "i",
) -> Key:
    facets = Facets("extra", keys.error_class(tool, code, template), ())
    return Key(Block(invariant, tool, stage, "-"), facets, template if facets.from_template else None)


def a_newcomer(key: Key, seen: int | None = 1, trace: str = "a" * 32) -> Newcomer:
    return Newcomer(seen, key.id, key, trace, "w", "i-book@tool")


def a_ledger(*texts: str) -> Ledger:
    grown = Ledger()
    for number, text in enumerate(texts):
        grown = grown.assigned([a_newcomer(a_key(text), number)], NOTHING)
    return grown


newcomers = st.lists(
    st.builds(
        lambda text, tool, seen: a_newcomer(a_key(text, tool=tool), seen, f"{seen or 0:032x}"),
        st.sampled_from([*TEXTS, None]), st.sampled_from(["book", "pay"]), st.one_of(st.none(), st.integers(1, 4)),
    ),
    max_size=12, unique_by=lambda newcomer: newcomer.key_id,
)  # fmt: skip


@given(newcomers, newcomers, st.randoms(use_true_random=False))
def test_order_of_batch_changes_nothing(first: list[Newcomer], second: list[Newcomer], dice: random.Random) -> None:
    known = Ledger().assigned(first, NOTHING)
    shuffled = dice.sample(second, len(second))
    assert known.assigned(shuffled, NOTHING) == known.assigned(second, NOTHING)


@given(st.lists(newcomers, max_size=4))
def test_rebuilt_from_recorded_batches(batches: list[list[Newcomer]]) -> None:
    grown = Ledger()
    for batch in batches:
        grown = grown.assigned(batch, NOTHING)
    rebuilt = Ledger()
    for number in sorted({entry.batch for entry in grown.entries}):
        lines = [entry for entry in grown.entries if entry.batch == number]
        rebuilt = rebuilt.assigned(
            [
                Newcomer(e.first_seen_ns, e.key_id, e.key, e.trace_id, e.workflow, "i-book@tool")
                for e in reversed(lines)
            ],
            NOTHING,
        )
    assert rebuilt == grown


@given(newcomers, newcomers)
def test_known_key_keeps_its_line(first: list[Newcomer], second: list[Newcomer]) -> None:
    before = Ledger().assigned(first, NOTHING)
    after = before.assigned([*second, *first], NOTHING)
    assert after.entries[: len(before.entries)] == before.entries
    assert after.assigned([*first, *second], NOTHING) == after


def test_like_text_joins() -> None:
    entry = a_ledger("flight <id> is not open for sale today", "flight <id> is not open for sale todays").entries[1]
    assert (entry.reason, entry.signature) == (
        "near",
        a_ledger("flight <id> is not open for sale today").entries[0].signature,
    )
    assert entry.score == pytest.approx(0.98, abs=0.02)


def test_other_block_never_joins() -> None:
    text = "flight <id> is not open for sale today"
    grown = Ledger().assigned([a_newcomer(a_key(text)), a_newcomer(a_key(text, stage="model"), 2)], NOTHING)
    assert [entry.reason for entry in grown.entries] == ["new", "new"]


def test_declared_codes_never_join() -> None:
    grown = Ledger().assigned(
        [a_newcomer(a_key(code="E_NOT_FOUND")), a_newcomer(a_key(code="E_NOT_FUNDED"), 2)], NOTHING
    )
    assert [(entry.reason, entry.maybe) for entry in grown.entries] == [("new", None), ("new", None)]


def test_close_rival_founds_new() -> None:
    grown = a_ledger("seat <id> on that flight is taken alpha", "seat <id> on that flight is taken zulus")
    assert [entry.reason for entry in grown.entries] == ["new", "new"]
    entry = grown.assigned([a_newcomer(a_key("seat <id> on that flight is taken alpha zulus"), 9)], NOTHING).entries[2]
    assert entry.reason == "new"
    assert entry.maybe in {grown.entries[0].signature, grown.entries[1].signature}


def test_likeness_does_not_chain() -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    chain = [" ".join([*(f"new{at}" for at in range(moved)), *words[moved:]]) for moved in range(5)]
    grown = a_ledger(*chain)
    assert len({entry.signature for entry in grown.entries}) > 1
    assert all(
        entry.reason != "near" or (entry.score is not None and entry.score >= ledger.ATTACH) for entry in grown.entries
    )
    founding = grown.founding
    for entry in grown.entries:
        if entry.reason == "near":
            assert founding[entry.signature].template == chain[0]


def test_touched_signature_takes_no_more() -> None:
    grown = a_ledger("flight <id> is not open for sale today", "quite another thing <id>")
    one, other = (entry.signature for entry in grown.entries)
    drawn = Overrides(merge=[Merge(source=other, into=one, by="@a", date="2026-11-02", why="same")])
    entry = grown.assigned([a_newcomer(a_key("flight <id> is not open for sale todays"), 9)], drawn).entries[2]
    assert (entry.reason, entry.maybe) == ("new", one)


def test_slugs_never_clash() -> None:
    grown = Ledger().assigned([a_newcomer(a_key(tool=tool), at) for at, tool in enumerate("abc")], NOTHING)
    assert [entry.slug for entry in grown.entries] == ["i-book@tool", "i-book@tool-2", "i-book@tool-3"]


def test_lines_come_back(tmp_path: Path) -> None:
    grown = a_ledger(*TEXTS)
    path = tmp_path / "signatures" / "ledger.jsonl"
    ledger.append(path, grown.entries[:3])
    ledger.append(path, grown.entries[3:])
    assert ledger.read(path) == grown


def test_missing_ledger_is_empty(tmp_path: Path) -> None:
    assert ledger.read(tmp_path / "none.jsonl") == Ledger()


def test_torn_line_was_not_written(tmp_path: Path) -> None:
    grown = a_ledger(*TEXTS)
    path = tmp_path / "ledger.jsonl"
    ledger.append(path, grown.entries[:2])
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert ledger.read(path).entries == grown.entries[:1]
    ledger.append(path, grown.entries[1:2])
    assert path.read_bytes() == whole


def test_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger.append(path, a_ledger(*TEXTS).entries)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{}", *lines[1:]]))
    with pytest.raises(FormatError, match=r"ledger\.jsonl:2: not a line"):
        ledger.read(path)


def test_doubled_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger.append(path, a_ledger(TEXTS[0]).entries * 2)
    with pytest.raises(FormatError, match=r"ledger\.jsonl:2: .* stands twice"):
        ledger.read(path)
