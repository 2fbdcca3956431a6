"""`make demo`: fourteen days of sample traces become a corpus, a catalog and fourteen replayed nights, and a site. Offline; a second run changes nothing."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.console import Steps, lines
from flows.running import balance
from flows.surroundings import settle

SAMPLES = Path("data/samples")
NIGHTS = 14
LAST = "2026-11-22"
MORNING = "2026-11-23"
"""The day after the last sample: the date from which raw copies live out their time."""


def main() -> None:
    """Both flows in this one process, so that they share the embedded server."""
    began = time.monotonic()
    # A server of its own: the demo meets neither the runs nor the settings of the person who starts it.
    os.environ["PREFECT_HOME"] = str(Path(".prefect").resolve())
    os.environ.pop("PREFECT_API_URL", None)
    settle()
    steps = Steps("demo")
    steps.say("loading; then an embedded Prefect server, which takes some 20 s to start")
    from flows.catalog import catalog
    from flows.refresh import refresh
    from tasks.prefect_tasks import heard_by

    with heard_by(steps):
        corpus = refresh("otlp", str(SAMPLES), as_of=MORNING)
        found = catalog(night=LAST, nights=NIGHTS, deployments=str(SAMPLES / "deployments.yaml"))
    steps.say(f"done in {time.monotonic() - began:.0f} s")
    sys.stdout.write("\n".join(report(corpus, found)) + "\n")


def report(corpus: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """What a person looks at first: what came in, every signature with its fourteen nights, the corpus id, and where the site is."""
    for held in corpus["accounts"]:
        yield balance(held)
    yield ""
    yield "A letter a night: passed, failed, diverged. The newest night is the last."
    yield from lines(found["signatures"])
    yield ""
    yield f"verdict of the newest night: {found['verdict']}"
    yield f"corpus id: {found['corpus_id']}"
    yield f"site: {found['site']}"


if __name__ == "__main__":
    main()
