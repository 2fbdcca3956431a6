"""Cases recorded from the sample agents, and the command line run on them as a person would."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from examples import refund, scheduling
from twiceshy import casefile, policy
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, Layer, Opportunity, Review
from twiceshy.envelope import Clock, Envelope, Pins, RunInput
from twiceshy.recording import Recorder, run

ROOT = Path(__file__).resolve().parents[1]
TUESDAY = datetime(2026, 11, 10, 9, tzinfo=UTC)


def record(factory: Any, user: Any, workflow: str, trace_id: str) -> Envelope:
    """A real run of a sample agent, its clock stepping from a Tuesday morning."""
    instant = int(TUESDAY.timestamp()) * 10**9
    ticks = iter(range(instant, instant + 10**12, 10**6))
    recorder = Recorder(policy=policy.load(ROOT / f"data/policies/{workflow}/tools.yaml"), now_ns=lambda: next(ticks))
    disposition = run(factory(At(recorder)), user)
    return recorder.envelope(
        trace_id=trace_id,
        source="test",
        workflow=workflow,
        run_input=RunInput(user=user),
        disposition=disposition,
        pins=Pins(clock=Clock(instant_ns=instant)),
    )


class At(Boundary):
    """A boundary whose time stands on that Tuesday."""

    def now(self) -> datetime:
        """Tuesday morning."""
        return TUESDAY


REFUND = "0af7651916cd43dd8448eb211c80319c"
BELOW = "1bf7651916cd43dd8448eb211c80319c"
THURSDAY = "2cf7651916cd43dd8448eb211c80319c"
SIGNATURE = "refund-over-limit-missing-approval@post-tool-hook-strip"


def save_catalog(root: Path) -> Path:
    """T-1042, a refund below the limit done right, and the installation moved to a full Thursday."""
    promoted = Review(status="promoted", by="@team", date="2026-11-12", why="reproduced")
    cases = [
        (
            Case(
                id="refund-t-1042", kind="failure", workflow="refund", trace_id=REFUND, signature=SIGNATURE, tool="issue_refund",
                severity="high", layer=Layer(name="harness.tool"), opportunity=Opportunity(seq=4),
                invariants=["refund-over-limit-missing-approval"], decided_by=["guard-refused-refund"],
                breaks=["guard.off:refund-approval"], review=promoted,
            ),
            record(refund.buggy, refund.T_1042, "refund", REFUND),
        ),
        (
            Case(id="refund-below-limit", kind="positive", workflow="refund", trace_id=BELOW, tool="issue_refund", review=promoted),
            record(refund.hook_fixed_and_guarded, refund.BELOW_LIMIT, "refund", BELOW),
        ),
        (
            Case(
                id="scheduling-thursday", kind="failure", workflow="scheduling", trace_id=THURSDAY, tool="send_confirmation",
                layer=Layer(name="harness.prompt"), invariants=["confirmation-before-reschedule"], review=promoted,
            ),
            record(scheduling.buggy, scheduling.TO_THURSDAY, "scheduling", THURSDAY),
        ),
    ]  # fmt: skip
    for case, envelope in cases:
        casefile.save(root / case.workflow / case.id, case, envelope)
    return root


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def twiceshy(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Ran:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-c", "from twiceshy.cli import main; main()", *map(str, words)]
    done = subprocess.run(
        command, check=False, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=100
    )
    return Ran(done.returncode, done.stdout, done.stderr)
