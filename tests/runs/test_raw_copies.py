"""Raw copies of a real refresh: sealed on the disk, opened under a name and a reason, by the verbs."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkouts import AS_OF, a_checkout

pytestmark = pytest.mark.slow


def said(place: Path, *arguments: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run([sys.executable, "-m", "twiceshy", *arguments], cwd=place, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_raw_copies_are_sealed_and_every_reading_is_logged(tmp_path: Path) -> None:
    place = a_checkout(tmp_path, commands='["flows.cli:app"]')
    assert said(tmp_path, "refresh", "--source", "otlp", "--path", "samples", "--as-of", AS_OF)[0] == 0
    (kept,) = place.raw.labels()
    assert not any(b"resourceSpans" in file.read_bytes() for file in place.raw.root.iterdir())
    code, out, _ = said(tmp_path, "raw", "ls")
    assert (code, kept.ref.encode() in out) == (0, True)
    assert said(tmp_path, "raw", "log")[1] == b"no raw copy was read\n"
    code, out, _ = said(tmp_path, "raw", "show", kept.ref, "--why", "a fault of the parser")
    assert (code, b"resourceSpans" in out) == (0, True)
    assert b"a fault of the parser" in said(tmp_path, "raw", "log")[1]


@pytest.mark.parametrize(
    ("ref", "why", "code", "words"),
    [
        ("raw/" + "0" * 64, "x", 2, b"expired and was swept"), ("raw/" + "0" * 64, " ", 2, b"say what the copy is read for"),
        ("../x", "x", 2, b"nothing is kept at"),
    ],
    ids=["gone", "no reason", "no reference"],
)  # fmt: skip
def test_reading_nothing_is_a_clear_error(tmp_path: Path, ref: str, why: str, code: int, words: bytes) -> None:
    a_checkout(tmp_path, commands='["flows.cli:app"]')
    ended, out, err = said(tmp_path, "raw", "show", ref, "--why", why)
    assert (ended, out, b"Traceback" in err) == (code, b"", False)
    assert words in err
