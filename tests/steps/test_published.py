import time
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tasks.store import Published
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
