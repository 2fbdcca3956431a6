"""Recorded runs taken through detect, stratify, sign and attribute to admit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from frames import frames
from sample_workflows import WORKFLOWS
from tasks.admit.step import Admitted, Tables, admit
from tasks.attribute.step import Tables as Suspects
from tasks.attribute.step import attribute
from tasks.detect.step import detect
from tasks.normalize.schema import Scores
from tasks.sign.ledger import Ledger
from tasks.sign.overrides import Overrides
from tasks.sign.step import Standing, sign
from tasks.store import Limits
from tasks.stratify.step import stratify
from tasks.workflows import Workflow
from twiceshy.envelope import Envelope


class Corpus(NamedTuple):
    """The tables of a small corpus, ready to be admitted."""

    tables: Tables
    ledger: Ledger


def a_corpus(
    failing: Iterable[Envelope], happy: Iterable[Envelope] = (), *, scratch: Path, catalog: dict[str, Standing] | None = None,
    workflows: dict[str, Workflow] | None = None, **columns: Any,
) -> Corpus:  # fmt: skip
    """A corpus of flagged and unflagged runs; `columns` win in every row of `Traces`."""
    held = workflows or WORKFLOWS
    flagged = {"flagged": True, "flags": [{"flag": "reward", "source": "reward"}]}
    pairs = [frames(failing, **flagged | columns), frames(happy, **columns)]
    traces, crossings = (pl.concat(tables) for tables in zip(*pairs, strict=True))
    policies = {name: workflow.policy for name, workflow in held.items()}
    findings = detect(traces, crossings, Scores.no_rows(), workflows=held, harness_state="h").findings
    strata = stratify(traces, crossings, seed="s", limits=Limits(spill=scratch / "spill"), harness_state="h").strata
    signed = sign(
        findings,
        traces,
        crossings,
        policies=policies,
        ledger=Ledger(),
        overrides=Overrides(),
        catalog=catalog or {},
        harness_state="h",
    )
    invariants = {name: workflow.invariants for name, workflow in held.items() if workflow.invariants}
    attributed = attribute(
        Suspects(signed.memberships, findings, traces, crossings, Scores.no_rows()), policies=policies, invariants=invariants,
        harness_state="h",
    )  # fmt: skip
    tables = Tables(traces, crossings, findings, strata, signed.memberships, signed.signatures, attributed.attributions)
    return Corpus(tables, signed.ledger)


def admitted(
    corpus: Corpus, scratch: Path, *, scan: Any = lambda *_: (), workflows: dict[str, Workflow] | None = None
) -> Admitted:
    """What admit makes of it; nothing leaks unless a scan says so."""
    found = admit(corpus.tables, workflows=workflows or WORKFLOWS, scan=scan, scratch=scratch, harness_state="h")
    assert found.set_aside.is_empty()
    return found


def decisions(found: Admitted) -> dict[str, tuple[str, list[str]]]:
    """First digit of the trace id -> decision and reasons."""
    rows = found.admissions.select("trace_id", "decision", "reasons").iter_rows()
    return {trace[0]: (decision, reasons) for trace, decision, reasons in rows}
