import time
from pathlib import Path

import polars as pl

from committing import LEFT
from tasks.retain.step import Removed, Retention, retain
from tasks.store import Corpus, Lock, Published, Shelf, replace

LATER = time.time_ns() + 10**15
"""Some eleven days after the files of a test were written: no test waits for a grace period."""


def a_place(root: Path) -> tuple[Corpus, Published, Shelf]:
    """Three generations, and raw copies of which one expires."""
    corpus, shelf = Corpus(root / "corpus"), Shelf(root / "raw")
    for number in (1, 2, 3):
        head = corpus.head()
        frame = pl.DataFrame({"writer": ["w"], "number": [number]}, schema=LEFT.dtypes())
        corpus.commit([replace(LEFT, frame)], parent=head.id if head else None)
    shelf.put(b"old", Lock("k1", b"k" * 32), source="s", name="old.json", expires_at_ns=LATER)
    shelf.put(b"new", Lock("k1", b"k" * 32), source="s", name="new.json", expires_at_ns=LATER + 1)
    return corpus, Published(root / "published"), shelf


def swept(
    place: tuple[Corpus, Published, Shelf], *, as_of: int = LATER, keep: int = 1, pinned: tuple[str, ...] = ()
) -> Removed:
    corpus, published, shelf = place
    return retain(corpus, published, [shelf], retention=Retention(as_of, 1, keep), pinned=pinned)


def test_expired_copies_go(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    assert len(swept(place).raw) == 1
    assert [kept.name for kept in place[2].labels()] == ["new.json"]


def test_nothing_goes_before_its_time(tmp_path: Path) -> None:
    assert swept(a_place(tmp_path), as_of=LATER - 1, keep=3).total == 0


def test_old_generations_go_with_their_parts(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    newest = place[0].list()[-1]
    removed = swept(place)
    assert (len(removed.manifests), len(removed.parts)) == (2, 2)
    assert place[0].list() == (newest,)


def test_pinned_generation_stays(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    oldest, _, newest = place[0].list()
    swept(place, pinned=(oldest,))
    assert place[0].list() == (oldest, newest)


def test_shown_generation_stays(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    oldest, _, newest = place[0].list()
    place[1].publish("night", generation=oldest, tables={})
    swept(place)
    assert place[0].list() == (oldest, newest)


def test_crashed_writers_leave_nothing(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    orphan = tmp_path / "corpus" / "parts" / "left-0.parquet"
    orphan.write_bytes(b"")
    assert orphan.name in swept(place, keep=3).parts


def test_second_sweep_removes_nothing(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    swept(place)
    assert swept(place).total == 0


def test_empty_place_is_swept(tmp_path: Path) -> None:
    assert swept((Corpus(tmp_path / "c"), Published(tmp_path / "p"), Shelf(tmp_path / "raw"))).total == 0
