"""Runs of the sample agents for tests: recorded on a fixed Tuesday, and replayed inside this process."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.rehearsal import rehearse
from twiceshy import candidates, policy
from twiceshy.breaking import Break, BreakingBoundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope, Kind
from twiceshy.journal import Journal, transcript_of
from twiceshy.recording import run
from twiceshy.replaying import Replay, RunDiverged, Terms
from twiceshy.transcript import Transcript

TUESDAY = datetime(2026, 11, 10, 9, 12, tzinfo=UTC)
POLICIES = {
    workflow: policy.load(Path(f"data/policies/{workflow}/tools.yaml"))
    for workflow in ("refund", "scheduling", "research")
}


def a_run(spec: str, user: dict[str, str], world: object = None) -> Envelope:
    """A live run of `workflow:version`, recorded."""
    return rehearse(f"examples.{spec}", user, started=TUESDAY, policy=POLICIES[spec.partition(":")[0]], world=world)


def replayed(spec: str, recorded: Envelope, cut: CutPoint | None = None, breaks: Sequence[Break] = ()) -> Transcript:
    """`workflow:version`, broken where breaks are given, against a record; in `full` mode unless a cut-point is given."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    factory, _ = candidates.load(f"examples.{spec}")
    terms = Terms(policy=POLICIES[recorded.workflow], cut=cut or CutPoint())
    with contextlib.suppress(RunDiverged):
        replay = Replay(recorded, terms, journal)
        boundary = BreakingBoundary(replay, breaks, record=recorded, terms=terms, on_applied=lambda _: None)
        agent = factory(boundary)
        boundary.complete()
        journal.ended(run(agent, recorded.input.user))
    return transcript_of(lines)


def status(envelope: Envelope) -> Any:
    """The status of the final output."""
    return envelope.disposition.output["status"]


def tools(envelope: Envelope) -> list[str]:
    """The names of the tool calls, in order."""
    return [crossing.name for crossing in envelope.crossings if crossing.kind is Kind.TOOL]
