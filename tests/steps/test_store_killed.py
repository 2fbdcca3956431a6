import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from committing import LEFT, RIGHT, commit
from tasks.store import Corpus
from tasks.store.durable import sha256

ROOT = Path(__file__).parents[2]
OPERATIONS = 21
"""What a commit of two parts changes on the disk, one by one: the test fails when this is not the number any more."""

LATER = time.time_ns() + 10**18

pytestmark = pytest.mark.slow


def a_writer(
    root: Path, writer: str, first: int, last: int, *, kill_at: int = 0, **environment: str
) -> subprocess.Popen[str]:
    arguments = [str(argument) for argument in (root, writer, first, last, kill_at)]
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "", "tests"))
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests/committing.py"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


def acknowledged(process: subprocess.Popen[str]) -> list[str]:
    return process.communicate()[0].split()


def assert_consistent(corpus: Corpus) -> None:
    for corpus_id in corpus.list():
        snapshot = corpus.read(corpus_id)
        assert snapshot.parts(LEFT).keys() == snapshot.parts(RIGHT).keys()
        assert snapshot.frame(LEFT).equals(snapshot.frame(RIGHT))
        for part in snapshot.manifest.parts:
            assert sha256((snapshot.parts_at / part.file).read_bytes()) == part.sha256


def killed_and_rerun(base: Path, expected: list[str], operation: int) -> int:
    corpus = Corpus(base.with_name(f"killed-{operation}"))
    shutil.copytree(base, corpus.root)
    process = a_writer(corpus.root, "w", 1, 1, kill_at=operation)
    seen = acknowledged(process)
    assert list(corpus.list()) in (expected[:1], expected)
    assert seen in ([], expected[1:])
    assert_consistent(corpus)
    assert len(list(corpus.root.rglob(".tmp-*"))) <= 1
    assert commit(corpus.root, "w", 1) == expected[1]
    assert list(corpus.list()) == expected
    corpus.sweep(now_ns=LATER, grace_ns=1)
    assert not list(corpus.root.rglob(".tmp-*"))
    assert_consistent(corpus)
    return process.returncode


# A start costs some 1.5 s of CPU (polars, duckdb), and there is one for each operation of a commit.
@pytest.mark.timeout(600)
def test_kill_before_every_operation(tmp_path: Path) -> None:
    base, whole = tmp_path / "base", tmp_path / "whole"
    acknowledged(a_writer(base, "w", 0, 0))
    expected = acknowledged(a_writer(whole, "w", 0, 1, POLARS_MAX_THREADS="1", PYTHONHASHSEED="7", TZ="Asia/Tokyo"))
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda operation: killed_and_rerun(base, expected, operation), range(1, OPERATIONS + 2)))
    assert codes == [-signal.SIGKILL] * OPERATIONS + [0]


def test_kill_at_random_moments(tmp_path: Path) -> None:
    corpus, seen = Corpus(tmp_path / "corpus"), []
    chance = random.Random(20261102)
    for attempt in range(5):
        process = a_writer(corpus.root, f"w{attempt}", 0, 10_000)
        assert process.stdout is not None
        seen.append(process.stdout.readline().strip())
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        seen.extend(line for line in acknowledged(process) if len(line) == 64)
        assert set(seen) <= set(corpus.list())
        assert_consistent(corpus)
    assert len(seen) > 5


def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    writers = [a_writer(corpus.root, name, 0, 11) for name in ("a", "b")]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        head = corpus.head()
        if head is not None:
            assert head.frame(LEFT).equals(head.frame(RIGHT))
            assert head.frame(LEFT).height == 3 * len(head.parts(LEFT))
            reads += 1
    assert [len(acknowledged(writer)) for writer in writers] == [12, 12]
    assert [writer.returncode for writer in writers] == [0, 0]
    head = corpus.head()
    assert head is not None
    assert head.number == len(corpus.list()) == 24
    assert set(head.parts(LEFT)) == {f"{name}-{number:04}" for name in ("a", "b") for number in range(12)}
    assert reads > 0
    assert_consistent(corpus)


def test_sweeps_beside_writers(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    writers = [a_writer(corpus.root, name, 0, 7) for name in ("a", "b")]
    while any(writer.poll() is None for writer in writers):
        corpus.sweep(now_ns=LATER, grace_ns=1)
        time.sleep(0.02)
    assert [len(acknowledged(writer)) for writer in writers] == [8, 8]
    assert len(corpus.list()) == 16
    assert_consistent(corpus)
