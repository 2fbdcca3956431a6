import errno
import json
import os
import time
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from committing import LEFT, RIGHT, Numbers, shard
from tables import some_rows
from tasks.replay.schema import Dimensions
from tasks.store import (
    ChangedMeanwhile,
    Corpus,
    ForeignFrame,
    Limits,
    NoHardLinks,
    Snapshot,
    UnknownGeneration,
    append,
    connect,
    parquet,
    replace,
)
from twiceshy.errors import FormatError
from twiceshy.identity import canonical

LATER = time.time_ns() + 10**18
DAY = 86_400 * 10**9


def numbers(*values: int, writer: str = "w") -> pl.DataFrame:
    return pl.DataFrame({"writer": [writer] * len(values), "number": values}, schema=LEFT.dtypes())


def started(root: Path) -> tuple[Corpus, Snapshot]:
    corpus = Corpus(root / "corpus")
    return corpus, corpus.commit([replace(LEFT, numbers(1, 2))], parent=None)


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def test_commit_is_read_back(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    assert corpus.head() == first == corpus.read(first.id)
    assert first.frame(LEFT)["number"].to_list() == [1, 2]
    assert first.frame(RIGHT).is_empty()
    assert first.frame(RIGHT).schema == RIGHT.dtypes()


def test_empty_corpus_has_no_head(tmp_path: Path) -> None:
    assert Corpus(tmp_path / "none").head() is None
    assert Corpus(tmp_path / "none").list() == ()


def test_unchanged_commit_makes_no_generation(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    again = corpus.commit([replace(LEFT, numbers(2, 1))], parent=first.id)
    assert again == first
    assert names(tmp_path / "corpus/manifests") == ["manifest-00000001.json"]


def test_id_depends_on_content_and_history(tmp_path: Path) -> None:
    one, first = started(tmp_path / "here")
    other, same = started(tmp_path / "there")
    assert first.id == same.id
    then = one.commit([replace(LEFT, numbers(3))], parent=first.id)
    back = one.commit([replace(LEFT, numbers(1, 2))], parent=then.id)
    assert back.frame(LEFT).equals(first.frame(LEFT))
    assert back.id != first.id
    assert other.list() == (first.id,)


def test_order_of_changes_does_not_matter(tmp_path: Path) -> None:
    changes = [replace(RIGHT, numbers(3)), append(LEFT, {"b": numbers(2), "a": numbers(1)})]
    one = Corpus(tmp_path / "one").commit(changes, parent=None)
    assert Corpus(tmp_path / "other").commit(reversed(changes), parent=None).id == one.id
    assert list(one.parts(LEFT)) == ["a", "b"]


def test_manifest_tells_no_time_or_place(tmp_path: Path) -> None:
    started(tmp_path)
    text = (tmp_path / "corpus/MANIFEST.json").read_text()
    assert json.loads(text).keys() == {"format", "parent", "parts"}
    assert json.loads(text)["parts"][0].keys() == {"table", "shard", "schema", "rows", "bytes", "sha256"}
    assert text == canonical(json.loads(text)).decode()
    assert str(tmp_path) not in text


def test_tables_not_named_are_kept(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    second = corpus.commit([replace(RIGHT, numbers(9))], parent=first.id)
    assert second.frame(LEFT).equals(first.frame(LEFT))
    assert second.frame(RIGHT)["number"].to_list() == [9]


def test_append_adds_or_rewrites_shards(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    second = corpus.commit([append(LEFT, {"b": numbers(5)})], parent=first.id)
    third = corpus.commit([append(LEFT, {"b": numbers(6)})], parent=second.id)
    assert second.frame(LEFT)["number"].to_list() == [1, 2, 5]
    assert third.frame(LEFT)["number"].to_list() == [1, 2, 6]


def test_replace_keeps_named_parts_only(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    second = corpus.commit([append(LEFT, {"b": numbers(5), "c": numbers(7)})], parent=first.id)
    kept = {name: part for name, part in second.parts(LEFT).items() if name != "b"}
    assert corpus.commit([replace(LEFT, kept)], parent=second.id).frame(LEFT)["number"].to_list() == [1, 2, 7]


def test_older_generation_stays_readable(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    corpus.commit([replace(LEFT, numbers(3))], parent=first.id)
    assert corpus.read(first.id).frame(LEFT)["number"].to_list() == [1, 2]


def test_unknown_generation_is_refused(tmp_path: Path) -> None:
    corpus, _ = started(tmp_path)
    with pytest.raises(UnknownGeneration, match=r"'nope' \(1 are kept\)"):
        corpus.read("nope")


def test_highest_manifest_is_head(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    pointer = (tmp_path / "corpus/MANIFEST.json").read_bytes()
    second = corpus.commit([replace(LEFT, numbers(3))], parent=first.id)
    (tmp_path / "corpus/MANIFEST.json").write_bytes(pointer)
    assert corpus.head() == second
    third = corpus.commit([replace(LEFT, numbers(4))], parent=second.id)
    assert third.number == 3


def test_pointer_write_leaves_manifest_alone(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    corpus.commit([replace(LEFT, numbers(3))], parent=first.id)
    assert corpus.list()[0] == first.id
    assert (tmp_path / "corpus/MANIFEST.json").read_bytes() == (
        tmp_path / "corpus/manifests/manifest-00000002.json"
    ).read_bytes()


def test_edited_manifest_is_refused(tmp_path: Path) -> None:
    corpus, _ = started(tmp_path)
    manifest = tmp_path / "corpus/manifests/manifest-00000001.json"
    manifest.chmod(0o644)
    manifest.write_text(manifest.read_text().replace(",", ", "))
    with pytest.raises(FormatError, match="not canonical"):
        corpus.head()
    manifest.write_text('{"format":"twiceshy/corpus/9"}')
    with pytest.raises(FormatError, match="'twiceshy/corpus/9' is not 'twiceshy/corpus/1'"):
        corpus.head()


class Raced:
    """Links as `os.link`, but another writer is quicker the first time."""

    def __init__(self, root: Path, *others: pl.DataFrame) -> None:
        self.rival, self.others = Corpus(root), list(others)

    def __call__(self, source: Path, target: Path) -> None:
        if self.others:
            head = self.rival.head()
            self.rival.commit([append(LEFT, {"rival": self.others.pop()})], parent=head.id if head else None)
        os.link(source, target)


def test_loser_is_rebased(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    raced = Corpus(corpus.root, link=Raced(corpus.root, numbers(8), numbers(9)))
    third = raced.commit([append(LEFT, {"ours": numbers(7)})], parent=first.id)
    assert third.number == 4
    assert third.frame(LEFT)["number"].to_list() == [1, 2, 7, 8]
    assert third.manifest.parent == corpus.list()[2]
    assert names(corpus.root / "manifests") == [f"manifest-0000000{number}.json" for number in (1, 2, 3, 4)]


def test_lost_update_is_refused(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    raced = Corpus(corpus.root, link=Raced(corpus.root, numbers(8)))
    with pytest.raises(ChangedMeanwhile, match="'left' was changed by another writer"):
        raced.commit([replace(LEFT, numbers(7))], parent=first.id)
    assert not list(corpus.root.rglob(".tmp-*"))


def test_stale_parent_is_refused_or_rebased(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    corpus.commit([append(LEFT, {"b": numbers(5)})], parent=first.id)
    with pytest.raises(ChangedMeanwhile):
        corpus.commit([append(LEFT, {"b": numbers(6)})], parent=first.id)
    assert corpus.commit([append(LEFT, {"b": numbers(5)})], parent=first.id).number == 2
    assert corpus.commit([replace(RIGHT, numbers(6))], parent=first.id).number == 3


def test_no_hard_links_is_refused(tmp_path: Path) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    corpus = Corpus(tmp_path / "corpus", link=refuse)
    with pytest.raises(NoHardLinks, match=r"makes no hard links .* local file system"):
        corpus.commit([replace(LEFT, numbers(1))], parent=None)
    assert corpus.head() is None
    assert not list(tmp_path.rglob(".tmp-*"))


def test_foreign_frame_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFrame, match="'left': the frame differs from the contract in extra, number"):
        Corpus(tmp_path).commit(
            [replace(LEFT, numbers(1).with_columns(pl.col("number").cast(pl.Int32), extra=1))], parent=None
        )


class Numbers2(Numbers):
    """A later schema: a column more."""

    def version(self) -> int:
        return 2

    def dtypes(self) -> pl.Schema:
        return pl.Schema({"writer": pl.String, "number": pl.Int64, "unit": pl.String})

    def arranged(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select("writer", "number", "unit").sort("writer", "number")


def test_older_schema_stays_readable(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    later = Numbers2("left")
    second = corpus.commit([append(later, {"b": numbers(5).with_columns(unit=pl.lit("g"))})], parent=first.id)
    assert {part.schema for part in second.manifest.parts} == {1, 2}
    assert second.frame(later).rows() == [("w", 1, None), ("w", 2, None), ("w", 5, "g")]
    assert second.frame(LEFT)["number"].to_list() == [1, 2, 5]
    with connect(first.views(later), limits=Limits(spill=tmp_path)) as con:
        assert con.sql("select count(*), count(unit) from left_view".replace("left_view", '"left"')).fetchall() == [
            (2, 0)
        ]


def test_views_follow_manifest(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    corpus.commit([replace(LEFT, numbers(3, 4, 5))], parent=first.id)
    with connect(first.views(LEFT, RIGHT), limits=Limits(spill=tmp_path, threads=1)) as con:
        assert con.sql('select sum(number) from "left" where number >= $low', params={"low": 2}).fetchall() == [(2,)]
        assert con.sql('select count(*) from "right"').fetchall() == [(0,)]
        settings = con.sql(
            "select name, value from duckdb_settings() where name in ('threads', 'preserve_insertion_order', 'temp_directory')"
        )
        assert dict(settings.fetchall()) == {
            "threads": "1",
            "preserve_insertion_order": "false",
            "temp_directory": str(tmp_path),
        }


def test_nested_columns_reach_duckdb(tmp_path: Path) -> None:
    from tasks.normalize.schema import Spans

    labelled = {"bucket_labels": [{"path": "day", "labels": ["date_impossible", "text"]}], "flags": ["pyrepr"]}
    snapshot = Corpus(tmp_path / "corpus").commit([replace(Spans, some_rows(Spans, labelled))], parent=None)
    assert snapshot.frame(Spans).equals(Spans.arranged(some_rows(Spans, labelled)))
    with connect(snapshot.views(Spans), limits=Limits(spill=tmp_path)) as con:
        found = con.sql("select leaf.path, leaf.labels[1] from spans, unnest(bucket_labels) each (leaf)").fetchall()
    assert found == [("day", "date_impossible")]


def test_duckdb_connects_in_one_place() -> None:
    root = Path(__file__).parents[2]
    folders = ("src", "tasks", "flows", "dashboards", "benchmarks", "examples")
    sources = (file for folder in folders for file in (root / folder).rglob("*.py"))
    assert [file.name for file in sources if "duckdb.connect" in file.read_text()] == ["database.py"]


@given(st.permutations(range(30)), st.lists(st.integers(1, 29), unique=True).map(sorted))
def test_equal_frames_are_equal_bytes(order: list[int], cuts: list[int]) -> None:
    whole = some_rows(Dimensions, *({"case_id": f"{number:02}", "replay_id": f"{number:064x}"} for number in range(30)))
    shuffled = whole[order]
    bounds = [0, *cuts, 30]
    chunked = pl.concat([shuffled[start:end] for start, end in pairwise(bounds)], rechunk=False)
    assert parquet(Dimensions.arranged(chunked)) == parquet(Dimensions.arranged(whole))


def test_sweep_spares_the_young_and_named(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    orphan, temp = corpus.root / "parts/left-0.parquet", corpus.root / "manifests/.tmp-00"
    orphan.write_bytes(b"")
    temp.write_bytes(b"")
    assert corpus.sweep(now_ns=time.time_ns(), grace_ns=DAY) == ([], [], [])
    assert corpus.sweep(now_ns=LATER, grace_ns=DAY) == ([], ["left-0.parquet"], [".tmp-00"])
    assert corpus.read(first.id).frame(LEFT).height == 2


def test_sweep_keeps_newest_and_pinned(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    ids = [first.id]
    for value in (3, 4, 5):
        ids.append(corpus.commit([replace(LEFT, numbers(value))], parent=ids[-1]).id)
    assert corpus.sweep(now_ns=time.time_ns(), grace_ns=DAY, keep=1).manifests == []
    swept = corpus.sweep(now_ns=LATER, grace_ns=DAY, keep=2, pinned=[first.id])
    assert swept.manifests == ["manifest-00000002.json"]
    assert len(swept.parts) == 1
    assert corpus.list() == (ids[0], ids[2], ids[3])
    assert all(corpus.read(kept).frame(LEFT).height for kept in corpus.list())
    assert corpus.commit([replace(LEFT, numbers(6))], parent=ids[3]).number == 5


def test_reused_orphan_counts_as_young(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    orphan = corpus.root / "parts" / first.parts(LEFT)["all"].file
    os.utime(orphan, ns=(0, 0))
    corpus.commit([append(RIGHT, shard("w", 1)), append(LEFT, {"again": numbers(1, 2)})], parent=first.id)
    assert orphan.stat().st_mtime_ns > 0


def test_timings_stay_outside_generations(tmp_path: Path) -> None:
    corpus, first = started(tmp_path)
    corpus.add_timings(RIGHT, numbers(12, writer="refresh"))
    corpus.add_timings(RIGHT, numbers(11, writer="refresh"))
    assert corpus.timings(RIGHT)["number"].to_list() == [11, 12]
    assert corpus.head() == first
