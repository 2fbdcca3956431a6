"""The flow that takes away what has expired, and closes runs that nobody runs any more."""

from datetime import UTC, datetime, timedelta

from prefect import flow

from flows import artifacts
from flows.checkout import Checkout
from flows.janitor import close_abandoned
from flows.times import instant, nanoseconds
from tasks.prefect_tasks import Retention, retain

GRACE = timedelta(hours=24)
"""Longer than the longest reader: a nightly resolves its generation once and may read it for hours."""

GENERATIONS = 30


@flow(name="retention", timeout_seconds=3600, persist_result=False)
def retention(root: str = ".", as_of: str | None = None, keep: int = GENERATIONS) -> dict[str, int]:
    """How many things went: raw copies past their time, what crashed writers left, generations beyond the newest; and how many abandoned runs were closed.

    as_of: ISO 8601 with a zone, the instant that counts as now. keep: generations that stay; one that a published run shows stays too.
    """
    place = Checkout.at(root)
    now = instant(as_of) if as_of else datetime.now(UTC)
    terms = Retention(as_of_ns=nanoseconds(now), grace_ns=GRACE // timedelta(microseconds=1) * 1000, keep=keep)
    removed = retain(place.corpus, place.published, [place.raw, place.quarantine], retention=terms)
    closed = close_abandoned(now=now)
    swept = {name: len(names) for name, names in removed._asdict().items()}
    artifacts.table(
        "retention-swept",
        [{"what": name, "removed": count} for name, count in swept.items()],
        about="What was removed.",
    )
    artifacts.table("retention-closed", [run._asdict() for run in closed], about="Runs whose worker was killed.")
    return {**swept, "runs_closed": len(closed)}
