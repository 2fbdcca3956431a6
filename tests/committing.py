"""A writer that tests start as a process and kill: `committing.py ROOT WRITER FIRST LAST [KILL_AT]`.

Each commit appends the same shard to two tables, so that a torn generation shows. KILL_AT = n ends the process with SIGKILL just before its n-th
operation that changes something below ROOT. It loads no pandera, which would take seconds at every start.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl

from tasks.store import Corpus, append

CHANGES = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.utime"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Numbers:
    """The contract of a table of numbers; `kind` is its name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def named(self) -> str:
        return self.kind

    def version(self) -> int:
        return 1

    def dtypes(self) -> pl.Schema:
        return pl.Schema({"writer": pl.String, "number": pl.Int64})

    def arranged(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select("writer", "number").sort("writer", "number")


LEFT, RIGHT = Numbers("left"), Numbers("right")


def shard(writer: str, number: int) -> dict[str, pl.DataFrame]:
    return {f"{writer}-{number:04}": pl.DataFrame({"writer": [writer] * 3, "number": [number, number + 1, number + 2]})}


def commit(root: Path, writer: str, number: int) -> str:
    corpus = Corpus(root)
    head = corpus.head()
    held = shard(writer, number)
    return corpus.commit([append(LEFT, held), append(RIGHT, held)], parent=head.id if head else None).id


def die_at(operation: int, root: str) -> None:
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, args: tuple[Any, ...]) -> None:
        changes = event in CHANGES or (event == "open" and args[2] & WRITING)
        if changes and str(args[0]).startswith(root):
            count()

    def called(frame: FrameType, event: str, function: Any) -> None:
        # A write is not audited; without it no file would ever be met open and empty.
        if event == "c_call" and function.__name__ == "write" and frame.f_code.co_filename.endswith("durable.py"):
            count()

    sys.addaudithook(audited)
    sys.setprofile(called)


def main(root: str, writer: str, first: str, last: str, kill_at: str = "0") -> None:
    if int(kill_at):
        die_at(int(kill_at), root)
    for number in range(int(first), int(last) + 1):
        sys.stdout.write(f"{commit(Path(root), writer, number)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
