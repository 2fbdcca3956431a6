import time
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tasks.store import Published, Shelf, Unkept
from twiceshy.errors import FormatError

LATER = time.time_ns() + 10**18
DAY = 86_400 * 10**9


def some_cells(runs: int = 1) -> dict[str, pl.DataFrame]:
    return {"coverage": pl.DataFrame({"tool": ["issue_refund"], "runs": [runs]})}


def test_run_is_published_whole(tmp_path: Path) -> None:
    published = Published(tmp_path / "published")
    assert published.latest() is None
    run = published.publish("2026-11-02-a1", generation="c0", tables=some_cells(), files={"suite.json": b"{}"})
    assert published.latest() == run
    assert run.frame("coverage").rows() == [("c0", "issue_refund", 1)]
    assert list(run.files()) == ["coverage"]
    assert msgspec.json.decode((run.directory / "manifest.json").read_bytes())["files"].keys() == {
        "coverage.parquet",
        "suite.json",
    }


def test_same_run_again_changes_nothing(tmp_path: Path) -> None:
    published = Published(tmp_path)
    run = published.publish("night", generation="c0", tables=some_cells())
    before = (run.directory / "coverage.parquet").stat()
    assert published.publish("night", generation="c0", tables=some_cells()) == run
    assert (run.directory / "coverage.parquet").stat().st_ino == before.st_ino


def test_other_content_is_another_edition(tmp_path: Path) -> None:
    published = Published(tmp_path)
    first = published.publish("night", generation="c0", tables=some_cells())
    second = published.publish("night", generation="c0", tables=some_cells(runs=2))
    third = published.publish("night", generation="c1", tables=some_cells(runs=2))
    assert [run.directory.name for run in (first, second, third)] == ["night", "night.2", "night.3"]
    assert first.frame("coverage")["runs"].to_list() == [1]
    assert published.runs() == [third]
    assert published.latest() == third


def test_latest_names_last_published(tmp_path: Path) -> None:
    published = Published(tmp_path)
    for night in ("b", "a"):
        published.publish(night, generation="c0", tables=some_cells())
    assert [run.run_id for run in published.runs()] == ["a", "b"]
    latest = published.latest()
    assert latest is not None
    assert latest.run_id == "a"


def test_crashed_writer_is_invisible_and_swept(tmp_path: Path) -> None:
    published = Published(tmp_path)
    run = published.publish("night", generation="c0", tables=some_cells())
    half = tmp_path / ".tmp-0123"
    half.mkdir()
    (half / "coverage.parquet").write_bytes(b"PAR1")
    assert published.runs() == [run]
    assert published.sweep(now_ns=time.time_ns(), grace_ns=DAY) == []
    assert published.sweep(now_ns=LATER, grace_ns=DAY) == [".tmp-0123"]
    assert published.latest() == run


def test_sweep_takes_replaced_editions(tmp_path: Path) -> None:
    published = Published(tmp_path)
    published.publish("night", generation="c0", tables=some_cells())
    newest = published.publish("night", generation="c0", tables=some_cells(runs=2))
    assert published.sweep(now_ns=time.time_ns(), grace_ns=DAY) == []
    assert published.sweep(now_ns=LATER, grace_ns=DAY) == ["night"]
    assert published.runs() == [newest]


@pytest.mark.parametrize("name", ["../up", "a/b", "night.2", "", ".tmp-1"])
def test_strange_run_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="not a run id"):
        Published(tmp_path).publish(name, generation="c0", tables={})


@pytest.mark.parametrize("name", ["../LATEST.json", "a/b.json", ".hidden", "plain"])
def test_strange_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="cannot publish a file named"):
        Published(tmp_path / "published").publish("night", generation="c0", tables={}, files={name: b""})
    assert not (tmp_path / "published").exists()


def test_raw_copy_is_private_and_labelled(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", source="otlp", name="day.jsonl", expires_at_ns=5)
    assert raw.get(kept.ref) == b"bytes"
    assert raw.label(kept.ref) == kept
    assert kept.ref.startswith("raw/")
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "raw").iterdir()} == {0o600}
    assert (tmp_path / "raw").stat().st_mode & 0o777 == 0o700


def test_second_put_prolongs_nothing(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    first = raw.put(b"bytes", source="otlp", name="day.jsonl", expires_at_ns=5)
    assert raw.put(b"bytes", source="otlp", name="again.jsonl", expires_at_ns=9) == first
    assert list(raw.labels()) == [first]


def test_expired_copies_are_swept(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    young = raw.put(b"young", source="otlp", name="b", expires_at_ns=11)
    old = raw.put(b"old", source="otlp", name="a", expires_at_ns=10)
    assert raw.sweep(now_ns=9, grace_ns=0) == []
    assert raw.sweep(now_ns=10, grace_ns=0) == [old.ref]
    assert raw.get(young.ref) == b"young"
    with pytest.raises(Unkept, match="expired and was swept"):
        raw.get(old.ref)


def test_content_without_label_is_swept(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", source="otlp", name="a", expires_at_ns=LATER * 2)
    next((tmp_path / "raw").glob("*.json")).unlink()
    (tmp_path / "raw/.tmp-77").write_bytes(b"")
    assert raw.sweep(now_ns=time.time_ns(), grace_ns=DAY) == []
    assert raw.get(kept.ref) == b"bytes"
    raw.sweep(now_ns=LATER, grace_ns=DAY)
    assert list((tmp_path / "raw").iterdir()) == []


@pytest.mark.parametrize("ref", ["raw/../secret", "raw/secret", "/etc/passwd", ""])
def test_reference_names_no_path(tmp_path: Path, ref: str) -> None:
    (tmp_path / "raw").mkdir()
    for folder in (tmp_path, tmp_path / "raw"):
        (folder / "secret.raw").write_bytes(b"")
    with pytest.raises(Unkept):
        Shelf(tmp_path / "raw").get(ref)


def test_reference_belongs_to_its_shelf(tmp_path: Path) -> None:
    raw = Shelf(tmp_path / "raw")
    kept = raw.put(b"bytes", source="otlp", name="a", expires_at_ns=1)
    with pytest.raises(Unkept):
        raw.get(kept.ref.replace("raw/", "quarantine/"))
