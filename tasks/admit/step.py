"""Decides which traces become cases: promote, member, hold or discard, with reasons; happy paths give the positives."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl

from tasks.admit.breaks import Grounds, Standing
from tasks.admit.considering import Considered, Facts, failure, positive
from tasks.admit.proposals import Proposal, clean_writes, failure_case, positive_case
from tasks.admit.schema import Admissions
from tasks.admit.trying import Scan, tried
from tasks.contracts import validated
from tasks.envelopes import envelopes
from tasks.workflows import Workflows
from twiceshy.errors import InfrastructureError


class Tables(NamedTuple):
    """What admit reads: rows of these tables, in any order."""

    traces: pl.DataFrame
    crossings: pl.DataFrame
    findings: pl.DataFrame
    strata: pl.DataFrame
    memberships: pl.DataFrame
    signatures: pl.DataFrame
    attributions: pl.DataFrame


class Balance(NamedTuple):
    """What became of every trace that came in."""

    traces: int
    promoted: int
    members: int
    held: int
    discarded: int
    unflagged: int
    quarantined: int


class Admitted(NamedTuple):
    """The admissions, the cases proposed, the balance of all traces, and rows that broke the contract."""

    admissions: pl.DataFrame
    proposals: tuple[Proposal, ...]
    balance: Balance
    set_aside: pl.DataFrame


class Unbalanced(InfrastructureError):
    """Traces that vanished or came from nowhere."""

    @classmethod
    def of(cls, balance: Balance) -> Self:
        """All the numbers."""
        rest = ", ".join(f"{name} {count}" for name, count in balance._asdict().items() if name != "traces")
        return cls(f"{balance.traces} traces came in, and {sum(balance[1:])} are accounted for: {rest}.")


def admit(
    tables: Tables, *, workflows: Workflows, scan: Scan, scratch: Path, harness_state: str, quarantined: int = 0
) -> Admitted:
    """One row per trace considered: every flagged or failing trace, and the happy ones that become positives.

    A signature has one case: that of the catalog where it has one (`signatures.case_trace_id`), else the first of its traces, by completeness, redaction,
    length and content, that is written, loaded and replayed red. scan: the leak scan, (trace id, bytes) -> hits. scratch: an empty place to write cases to for trying.
    quarantined: traces that earlier steps set aside. Raises Unbalanced.
    """
    admitting = _Admitting(tables, workflows, scan, scratch)
    rows = [{"harness_state": harness_state, **row} for row in admitting.rows()]
    checked = validated(pl.DataFrame(rows, schema=Admissions.dtypes()), Admissions)
    decided = Counter(checked.good["decision"])
    balance = Balance(
        traces=tables.traces.height + quarantined, promoted=decided["promote"], members=decided["member"], held=decided["hold"],
        discarded=decided["discard"], unflagged=admitting.unflagged(rows), quarantined=quarantined + checked.set_aside.height,
    )  # fmt: skip
    if sum(balance[1:]) != balance.traces:
        raise Unbalanced.of(balance)
    kept = set(checked.good.filter(decision="promote")["trace_id"])
    proposals = tuple(proposal for proposal in admitting.proposals if proposal.case.trace_id in kept)
    return Admitted(checked.good, proposals, balance, checked.set_aside)


@dataclass
class _Admitting:
    tables: Tables
    workflows: Workflows
    scan: Scan
    scratch: Path
    proposals: list[Proposal] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of failing traces, then those of the positives."""
        facts = _facts(self.tables)
        considered = [
            failure(trace, envelope, self.workflows.get(envelope.workflow), facts.get(envelope.trace_id, Facts()))
            for trace, envelope in _runs(self.tables, self._wanted())
        ]
        return [*self._failures(considered), *self._positives(~self._wanted())]

    def unflagged(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """The happy traces that are no case. Counted from the traces, not from the rows, so that a failing trace without a row shows."""
        positives = len([row for row in rows if row["case_kind"] == "positive"])
        happy: int = self.tables.traces.filter(~self._wanted()).height
        return happy - positives

    def _wanted(self) -> pl.Expr:
        """Flagged, failing, or not to be judged at all."""
        telling = self.tables.findings.filter(pl.col("level") == "unjudged")["trace_id"]
        failing = pl.concat([self.tables.memberships["trace_id"], telling])
        return pl.col("flagged") | pl.col("trace_id").is_in(failing.implode())

    def _failures(self, considered: Sequence[Considered]) -> list[dict[str, Any]]:
        by_signature: dict[str | None, list[Considered]] = defaultdict(list)
        for one in considered:
            fit = not one.reasons and not one.discards and one.membership is not None
            by_signature[one.membership["signature"] if fit and one.membership else None].append(one)
        rows = [_refused(one) for one in by_signature.pop(None, [])]
        signatures = {row["signature"]: row for row in self.tables.signatures.iter_rows(named=True)}
        for signature, members in sorted(by_signature.items(), key=lambda pair: str(pair[0])):
            rows += self._signature(signatures[str(signature)], members)
        return rows

    def _signature(self, signature: Mapping[str, Any], members: Sequence[Considered]) -> list[dict[str, Any]]:
        """Its case is sticky: the trace that is one already, else the best that proves consistent. The others are members."""
        rows: list[dict[str, Any]] = []
        case_id = signature["case_id"]
        ordered = sorted(members, key=lambda one: (one.envelope.trace_id != signature["case_trace_id"], one.order))
        for one in ordered:
            if case_id is not None and one.envelope.trace_id != signature["case_trace_id"]:
                rows.append(_row(one, "member", case_id=case_id))
                continue
            found = self._try(one, self._failure_case(one, signature["slug"]))
            rows.append(found)
            case_id = found["case_id"] or case_id
        return rows

    def _failure_case(self, one: Considered, slug: str) -> Proposal:
        if one.membership is None or one.finding is None or one.workflow is None:
            raise InfrastructureError(f"trace {one.envelope.trace_id} was to become a case without a key.")
        stood = _stood(self.tables, one.envelope.workflow)
        return failure_case(one.envelope, Grounds(one.membership, slug, one.finding, one.layer), one.workflow, stood)

    def _positives(self, happy: pl.Expr) -> list[dict[str, Any]]:
        """One per write tool of a workflow, from the happy paths that stratify drew."""
        drawn = self.tables.strata.filter("sampled")["trace_id"].unique()
        wanted: dict[tuple[str, str], list[Considered]] = defaultdict(list)
        for trace, envelope in _runs(self.tables, happy & pl.col("trace_id").is_in(drawn.implode())):
            workflow = self.workflows.get(envelope.workflow)
            one = positive(trace, envelope, workflow) if workflow is not None and envelope.disposition.ended else None
            if one is not None and workflow is not None and not one.reasons and not one.discards:
                for tool in clean_writes(envelope, workflow):
                    wanted[envelope.workflow, tool].append(one)
        rows: list[dict[str, Any]] = []
        for (_, tool), candidates in sorted(wanted.items()):
            rows += self._positive(tool, candidates, {row["trace_id"] for row in rows})
        return rows

    def _positive(self, tool: str, candidates: Sequence[Considered], taken: set[str]) -> list[dict[str, Any]]:
        for one in sorted(candidates, key=lambda one: one.order):
            if one.envelope.trace_id not in taken and one.workflow is not None:
                found = self._try(one, positive_case(one.envelope, tool, one.workflow))
                if found["decision"] == "promote":
                    return [found]
        return []

    def _try(self, one: Considered, proposal: Proposal) -> dict[str, Any]:
        outcome = tried(proposal, one, scan=self.scan, scratch=self.scratch)
        if outcome.reasons:
            return _refused(one.because(*outcome.reasons), self_consistent=outcome.self_consistent)
        self.proposals.append(proposal)
        return _row(one, "promote", case_id=proposal.case.id, self_consistent=True)


def _runs(tables: Tables, wanted: pl.Expr) -> Iterable[tuple[dict[str, Any], Any]]:
    chosen = tables.traces.filter(wanted).sort("trace_id")
    return zip(chosen.iter_rows(named=True), envelopes(chosen, tables.crossings), strict=True)


def _facts(tables: Tables) -> dict[str, Facts]:
    memberships, findings, attributions = (
        _by_trace(table) for table in (tables.memberships, tables.findings, tables.attributions)
    )
    return {
        trace: Facts(
            memberships=memberships.get(trace, []), findings={row["finding_id"]: row for row in findings.get(trace, [])},
            attributions=attributions.get(trace, []),
        )
        for trace in {*memberships, *findings}
    }  # fmt: skip


def _by_trace(table: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.iter_rows(named=True):
        grouped[row["trace_id"]].append(row)
    return grouped


def _stood(tables: Tables, workflow: str) -> list[Standing]:
    """Guards and hooks that any recorded run of the workflow passed, and where they sat."""
    of_workflow = tables.traces.filter(pl.col("workflow") == workflow)["trace_id"]
    code = tables.crossings.filter(
        pl.col("kind").is_in(["guard", "hook"])
        & pl.col("at").is_not_null()
        & pl.col("trace_id").is_in(of_workflow.implode())
    )
    return [Standing(*row) for row in code.select("kind", "name", "at").unique().sort("kind", "name", "at").iter_rows()]


def _refused(one: Considered, *, self_consistent: bool | None = None) -> dict[str, Any]:
    if one.discards:
        return _row(one, "discard", reasons=one.discards)
    return _row(one, "hold", reasons=one.reasons, self_consistent=self_consistent)


def _row(
    one: Considered,
    decision: str,
    *,
    reasons: Iterable[str] = (),
    case_id: str | None = None,
    self_consistent: bool | None = None,
) -> dict[str, Any]:
    finding, membership = one.finding, one.membership
    return {
        "trace_id": one.envelope.trace_id, "source": one.trace["source"], "workflow": one.trace["workflow"], **one.grades,
        "completeness": one.completeness, "case_kind": "positive" if one.positive else "failure", "redacted": one.redacted,
        "attributed": one.attributed, "versioned": one.versioned, "self_consistent": self_consistent, "reproduced": None,
        "decision": decision, "reasons": sorted(reasons), "warnings": one.warnings,
        "signature": membership["signature"] if membership is not None else None, "case_id": case_id,
        "envelope_digest": one.envelope.digest, "severity": finding["severity"] if finding is not None else None,
    }  # fmt: skip
