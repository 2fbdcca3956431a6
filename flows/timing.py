"""Wall-clock values of a run, kept beside the corpus and in no generation: they are the one table that a second run changes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flows.checkout import Checkout
from tasks.contracts import Timings
from tasks.prefect_tasks import heard_by


@contextmanager
def timed(place: Checkout, run: str) -> Iterator[None]:
    """Keep when the block began and how long each step in it took, once it has ended well."""
    began = time.time_ns()
    took: dict[str, int] = {}

    def heard(step: str, seconds: float | None) -> None:
        if seconds is not None:
            took[step] = took.get(step, 0) + int(seconds * 1e9)

    with heard_by(heard):
        yield
    row = {"table": "runs", "row_key": f"{run} {began}"}
    rows = [{**row, "name": "began", "kind": "instant", "value_ns": began}]
    rows += [{**row, "name": step, "kind": "duration", "value_ns": value} for step, value in took.items()]
    place.corpus.add_timings(Timings, Timings.of(rows, harness_state=place.harness_state))
