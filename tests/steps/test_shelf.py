"""Raw copies: private, labelled, sealed, swept when their time is over, and read only under a name."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.store import Lock, Shelf, Unkept, Unsealable
from tasks.store.sealing import CHUNK, MAGIC, opened, sealed
from twiceshy.errors import KeyMissing
from twiceshy.redaction import Keyring

LATER = time.time_ns() + 10**18
DAY = 86_400 * 10**9
KEY = b"k" * 32
LOCK = Lock("k1", KEY)
KEYS = Keyring({"k1": KEY})


def read(shelf: Shelf, ref: str, keys: Keyring = KEYS) -> bytes:
    return shelf.get(ref, keys.key, reader="ann", why="a test", at_ns=7)


def test_raw_copy_is_private_and_labelled(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    assert read(raw, kept.ref) == b"bytes"
    assert raw.label(kept.ref) == kept
    assert kept.ref.startswith("raw/")
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "raw").iterdir()} == {0o600}
    assert (tmp_path / "raw").stat().st_mode & 0o777 == 0o700


def test_second_put_prolongs_nothing(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    first = raw.put(b"bytes", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    assert raw.put(b"bytes", LOCK, source="otlp", name="again.jsonl", expires_at_ns=9) == first
    assert list(raw.labels()) == [first]


def test_expired_copies_are_swept(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    young = raw.put(b"young", LOCK, source="otlp", name="b", expires_at_ns=11)
    old = raw.put(b"old", LOCK, source="otlp", name="a", expires_at_ns=10)
    assert raw.sweep(now_ns=9, grace_ns=0) == []
    assert raw.sweep(now_ns=10, grace_ns=0) == [old.ref]
    assert read(raw, young.ref) == b"young"
    with pytest.raises(Unkept, match="expired and was swept"):
        read(raw, old.ref)


def test_content_without_label_is_swept(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="a", expires_at_ns=LATER * 2)
    next((tmp_path / "raw").glob("*.json")).unlink()
    (tmp_path / "raw/.tmp-77").write_bytes(b"")
    assert raw.sweep(now_ns=time.time_ns(), grace_ns=DAY) == []
    assert (tmp_path / "raw" / f"{kept.ref.removeprefix('raw/')}.raw").exists()
    raw.sweep(now_ns=LATER, grace_ns=DAY)
    assert list((tmp_path / "raw").iterdir()) == []


@pytest.mark.parametrize("ref", ["raw/../secret", "raw/secret", "/etc/passwd", ""])
def test_reference_names_no_path(tmp_path: Path, ref: str) -> None:
    (tmp_path / "raw").mkdir()
    for folder in (tmp_path, tmp_path / "raw"):
        (folder / "secret.raw").write_bytes(b"")
    with pytest.raises(Unkept):
        read(Shelf(tmp_path / "raw"), ref)


def test_reference_belongs_to_its_shelf(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="a", expires_at_ns=1)
    with pytest.raises(Unkept):
        read(raw, kept.ref.replace("raw/", "quarantine/"))


@given(st.binary(max_size=300), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_opens_and_says_nothing(data: bytes, key: bytes) -> None:
    held = sealed(data, key, about="raw/x")
    assert opened(held, key, about="raw/x") == data
    assert len(data) < 8 or data not in held[len(MAGIC) :]


@settings(max_examples=50)
@given(st.data())
def test_no_changed_byte_opens(data: st.DataObject) -> None:
    held = bytearray(sealed(b"bytes of a person", KEY, about="raw/x"))
    held[data.draw(st.integers(len(MAGIC), len(held) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Unsealable):
        opened(bytes(held), KEY, about="raw/x")


@pytest.mark.parametrize(("key", "about"), [(b"o" * 32, "raw/x"), (KEY, "raw/y")], ids=["key", "subject"])
def test_no_other_key_and_no_other_subject_opens(key: bytes, about: str) -> None:
    with pytest.raises(Unsealable, match="does not open under this key"):
        opened(sealed(b"bytes", KEY, about="raw/x"), key, about=about)


def test_no_chunk_can_be_cut_off_or_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.store.sealing.CHUNK", 4)
    held = sealed(b"abcdefgh", KEY, about="raw/x")
    start, size = len(MAGIC) + 8, 4 + 16
    first, second = held[start : start + size], held[start + size :]
    assert opened(held, KEY, about="raw/x") == b"abcdefgh"
    for broken in (first, second + first, first + first, second, b""):
        with pytest.raises(Unsealable):
            opened(held[:start] + broken, KEY, about="raw/x")
    assert CHUNK > 1_000_000


def test_raw_copy_on_the_disk_holds_nothing_raw(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    raw.put(b"mia.li@example.org", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    assert not any(b"mia.li" in file.read_bytes() for file in (tmp_path / "raw").iterdir())


def test_every_reading_is_written_down_before_a_byte_is_given(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    assert raw.readings() == []
    read(raw, kept.ref)
    with pytest.raises(Unsealable):
        read(raw, kept.ref, Keyring({"k1": b"o" * 32}))
    assert [(told.reader, told.ref, told.why, told.at_ns) for told in raw.readings()] == [
        ("ann", kept.ref, "a test", 7)
    ] * 2


def test_without_the_key_nothing_is_read(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    with pytest.raises(KeyMissing, match="k1"):
        read(raw, kept.ref, Keyring())
    assert raw.readings() == []


def test_copy_that_went_missing_is_sealed_under_the_key_of_now(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", LOCK, source="otlp", name="day.jsonl", expires_at_ns=5)
    next((tmp_path / "raw").glob("*.raw")).unlink()
    again = raw.put(b"bytes", Lock("k2", b"2" * 32), source="otlp", name="day.jsonl", expires_at_ns=9)
    assert (again.ref, again.key_id, again.expires_at_ns) == (kept.ref, "k2", 5)
    assert read(raw, kept.ref, Keyring({"k2": b"2" * 32})) == b"bytes"


def test_lock_shows_no_key() -> None:
    assert "k" * 8 not in repr(LOCK)
