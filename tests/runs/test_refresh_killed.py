import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkouts import AS_OF, ROOT, a_checkout, give
from flows.checkout import Checkout
from tasks.store import Snapshot
from tasks.store.durable import sha256

pytestmark = pytest.mark.slow

MOMENTS = 20


def a_refresh(place: Checkout) -> subprocess.Popen[str]:
    """A process that has imported everything and begins as soon as `ready` was read from it."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "", "tests"))
    command = [sys.executable, str(ROOT / "tests/refreshing.py"), str(place.config.root)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )


def begun(process: subprocess.Popen[str]) -> float:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    return time.monotonic()


def assert_readable(snapshot: Snapshot) -> None:
    for part in snapshot.manifest.parts:
        assert sha256((snapshot.parts_at / part.file).read_bytes()) == part.sha256


def finished(place: Checkout) -> str:
    from flows.refresh import refresh

    root = place.config.root
    return str(refresh.fn("otlp", str(root / "samples"), as_of=AS_OF, root=str(root))["corpus_id"])


# Each start imports Prefect, polars and pandera: some 8 s of CPU, so the next process starts while this one is killed.
@pytest.mark.timeout(1800)
def test_kill_at_random_moments(tmp_path: Path) -> None:
    base = a_checkout(tmp_path / "base")
    before = finished(base)
    give(base.config.root, 2)

    def a_copy(name: object) -> Checkout:
        return Checkout.at(shutil.copytree(base.config.root, tmp_path / str(name)), {})

    undisturbed = a_copy("undisturbed")
    process = a_refresh(undisturbed)
    start = begun(process)
    told, _ = process.communicate()
    took, expected = time.monotonic() - start, told.split()[-1]
    chance = random.Random(20261123)
    places = [a_copy(number) for number in range(MOMENTS)]
    following = a_refresh(places[0])
    seen = set()
    for number, place in enumerate(places):
        process, following = following, a_refresh(places[number + 1]) if number + 1 < MOMENTS else following
        begun(process)
        time.sleep(chance.uniform(0, took * 1.05))
        process.kill()
        process.communicate()
        head = place.corpus.head()
        assert head is not None
        assert head.id in (before, expected)
        seen.add(head.id)
        assert_readable(head)
        assert finished(place) == expected
        assert_readable(place.corpus.read(expected))
        assert list(place.corpus.list()) == [before, expected]
    assert before in seen
