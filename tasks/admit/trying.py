"""Tries a proposed case before anybody sees it: its final bytes are scanned for leaks, it is loaded again, replayed against its own record, and graded."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.admit.considering import Considered
from tasks.admit.proposals import Proposal
from tasks.admit.rerunning import rerun
from twiceshy import casefile
from twiceshy.cutpoint import CutPoint
from twiceshy.errors import InputError
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import Outcome
from twiceshy.results import broken

Scan = Callable[[str, bytes], Sequence[object]]
"""(trace id, bytes) -> what a leak scan found; it may raise."""


class Tried(NamedTuple):
    """What came of it: reasons to hold the trace, and whether the recorded run is graded as its case says; None where it did not come to that."""

    reasons: tuple[str, ...]
    self_consistent: bool | None


def tried(proposal: Proposal, one: Considered, *, scan: Scan, scratch: Path) -> Tried:
    """Write the case into `scratch`, and judge it. Nothing stays there."""
    folder = scratch / proposal.case.id
    try:
        casefile.save(folder, proposal.case, proposal.envelope)
        leaks = _leaks(proposal.case.trace_id, folder, scan)
        return Tried(leaks, None) if leaks else _graded(proposal, one, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leaks(trace_id: str, folder: Path, scan: Scan) -> tuple[str, ...]:
    """A scanner that raises lets nothing through."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            found = scan(trace_id, file.read_bytes())
        except Exception:  # noqa: BLE001 - whatever breaks a scan, the case stays out
            return ("hold:scanner_error",)
        if found:
            return ("hold:leak_hit",)
    return ()


def _graded(proposal: Proposal, one: Considered, folder: Path) -> Tried:
    workflow = one.workflow
    if workflow is None or workflow.invariants is None:
        return Tried(("no_policy",), None)
    try:
        loaded = casefile.load(folder)
        grader = case_grader(loaded, workflow.invariants, workflow.policy)
    except InputError:
        return Tried(("case_refused",), False)
    verdict = grader.trial(rerun(loaded.envelope, workflow.policy), CutPoint())
    reasons = tuple(_inconsistent(verdict, proposal))
    return Tried(reasons, not reasons)


def _inconsistent(verdict: TrialVerdict, proposal: Proposal) -> Iterable[str]:
    """A failure must be red on what the case stands for, without leaving the record; a positive must be green."""
    if verdict.outcome is Outcome.ERROR:
        yield "not_self_consistent:error"
    elif verdict.divergence is not None and verdict.outcome is not Outcome.FAILED:
        yield f"not_self_consistent:{verdict.divergence.kind}"
    elif proposal.case.kind == "positive":
        if verdict.outcome is not Outcome.PASSED:
            yield "not_self_consistent:red"
    elif verdict.outcome is not Outcome.FAILED or not set(proposal.case.invariants) & set(broken(verdict)):
        yield "not_self_consistent:green"
