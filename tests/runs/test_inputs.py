from pathlib import Path

import pytest

from flows.console import LONGEST, lines
from flows.inputs import readable
from twiceshy.errors import InputError


def test_missing_and_empty_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    with pytest.raises(InputError, match="no such file"):
        readable(empty)
    with pytest.raises(InputError, match="folder is empty"):
        readable(tmp_path)
    empty.touch()
    with pytest.raises(InputError, match="file is empty"):
        readable(empty)
    empty.write_text("{}")
    assert readable(empty) == empty
    assert readable(tmp_path) == tmp_path


def test_names_are_never_cut() -> None:
    long = "x" * (LONGEST + 1)
    (_, row) = lines([{"signature": long, "message": long}])
    signature, message = row.split()
    assert signature == long
    assert message == f"{long[: LONGEST - 3]}..."
