"""Gives every failure its key and its signature."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from tasks.contracts import SEVERITIES, validated
from tasks.envelopes import envelopes
from tasks.sign.keys import KEY_VERSION
from tasks.sign.ledger import Entry, Ledger, Newcomer, unused
from tasks.sign.occurrences import Occurrence, RunFacts, failing, occurrences
from tasks.sign.overrides import Overrides
from tasks.sign.schema import Memberships, Signatures
from twiceshy.identity import canonical
from twiceshy.policy import ToolsPolicy


class Standing(NamedTuple):
    """What the catalog holds of a signature: its case, the trace that is the case, and since when it is covered (ns since the epoch), if it is."""

    case_id: str
    trace_id: str
    covered_since_ns: int | None = None
    retired: bool = False


class Signed(NamedTuple):
    """The two tables, the ledger with the new lines at its end, and rows that broke a contract."""

    memberships: pl.DataFrame
    signatures: pl.DataFrame
    ledger: Ledger
    set_aside: Mapping[type[Memberships | Signatures], pl.DataFrame]


def sign(
    findings: pl.DataFrame, traces: pl.DataFrame, crossings: pl.DataFrame, *, policies: Mapping[str, ToolsPolicy], ledger: Ledger,
    overrides: Overrides, catalog: Mapping[str, Standing], harness_state: str,
) -> Signed:  # fmt: skip
    """One membership per (failing trace, key), and one row per signature met.

    findings, traces, crossings: rows of those tables, in any order; only findings of level `failure` make keys. policies: by workflow.
    catalog: by signature id. The same rows and ledger give the same result in any order, and running it twice adds nothing to the ledger.
    """
    failures = failing(findings.iter_rows(named=True))
    runs = {row["trace_id"]: row for row in traces.iter_rows(named=True) if row["trace_id"] in failures}
    failed = pl.col("trace_id").is_in(list(runs))
    facts = _facts(traces.filter(failed), crossings.filter(failed), policies)
    found = {trace: occurrences(failures[trace], facts[trace], overrides) for trace in sorted(runs)}
    grown = ledger.assigned(_newcomers(found, runs), overrides)
    rows = [row for trace in found for row in _memberships(found[trace], runs[trace], grown, overrides)]
    memberships = validated(_frame(rows, Memberships, harness_state), Memberships)
    severities = _severities(failures)
    signed = _signatures(memberships.good, runs, severities, grown, overrides, catalog)
    signatures = validated(_frame(signed, Signatures, harness_state), Signatures)
    aside: dict[type[Memberships | Signatures], pl.DataFrame] = {
        Memberships: memberships.set_aside,
        Signatures: signatures.set_aside,
    }
    return Signed(memberships.good, signatures.good, grown, aside)


def _frame(
    rows: Sequence[Mapping[str, Any]], model: type[Memberships | Signatures], harness_state: str
) -> pl.DataFrame:
    return pl.DataFrame([{"harness_state": harness_state, **row} for row in rows], schema=model.dtypes())


def _facts(traces: pl.DataFrame, crossings: pl.DataFrame, policies: Mapping[str, ToolsPolicy]) -> dict[str, RunFacts]:
    labels: dict[str, dict[tuple[int, int], Sequence[Mapping[str, Any]]]] = defaultdict(dict)
    for trace, seq, sub, held in crossings.select("trace_id", "seq", "sub", "bucket_labels").iter_rows():
        labels[trace][seq, sub] = held
    return {
        run.trace_id: RunFacts(
            run.crossings, labels[run.trace_id], policies.get(run.workflow, ToolsPolicy(workflow=run.workflow))
        )
        for run in envelopes(traces, crossings)
    }


def _newcomers(found: Mapping[str, Sequence[Occurrence]], runs: Mapping[str, Mapping[str, Any]]) -> list[Newcomer]:
    """Each key once, as the run that was first to have it brings it."""
    first: dict[str, tuple[tuple[bool, int, str], Newcomer]] = {}
    for trace, of_run in found.items():
        start = runs[trace]["start_ns"]
        for one in of_run:
            order = (start is not None, start or 0, trace)
            newcomer = Newcomer(start, one.key.id, one.key, trace, runs[trace]["workflow"], one.slug)
            if one.key.id not in first or order < first[one.key.id][0]:
                first[one.key.id] = order, newcomer
    return [newcomer for _, newcomer in first.values()]


def _memberships(
    of_run: Sequence[Occurrence], run: Mapping[str, Any], ledger: Ledger, overrides: Overrides
) -> Iterator[dict[str, Any]]:
    """A row a key: the first of its violations stands, the rest are counted as retries. The first key of the run is its primary one."""
    by_key: dict[str, list[Occurrence]] = {}
    for one in of_run:
        by_key.setdefault(one.key.id, []).append(one)
    for number, (key_id, same) in enumerate(by_key.items()):
        first, finding = same[0], same[0].finding
        yield {
            "trace_id": run["trace_id"], "key_id": key_id, "key_version": KEY_VERSION, "branch_id": first.branch,
            "finding_id": finding["finding_id"], "workflow": run["workflow"], "agent_name": run["agent_name"],
            **_keyed(first.key.block._asdict(), first.key.facets._asdict()), "stage_inferred": first.stage.inferred,
            "evidence": canonical(first.stage.evidence).decode(), "primary": number == 0, "onset_seq": finding["onset_seq"],
            "onset_sub": finding["onset_sub"], "retries": sum(one.occurrences for one in same) - 1, "template": first.key.template,
            **_assigned(ledger.by_key[key_id], run["trace_id"], overrides),
        }  # fmt: skip


def _keyed(block: dict[str, Any], facets: dict[str, Any]) -> dict[str, Any]:
    return {**block, **facets, "schema_pairs": list(facets["schema_pairs"])}


def _assigned(entry: Entry, trace_id: str, overrides: Overrides) -> dict[str, Any]:
    """The signature in force, and why. Only the run that brought a key first says how it was placed; to the others it was known."""
    signature = overrides.signature(entry.signature, entry.key)
    if signature != entry.signature:
        return {"signature": signature, "reason": "override", "score": None, "maybe": None}
    if trace_id != entry.trace_id:
        return {"signature": signature, "reason": "known", "score": None, "maybe": None}
    maybe = entry.maybe if entry.maybe and not _forbidden(signature, entry.maybe, overrides) else None
    return {"signature": signature, "reason": entry.reason, "score": entry.score, "maybe": maybe}


def _forbidden(one: str, other: str, overrides: Overrides) -> bool:
    pairs = {frozenset(pair) for pair in overrides.never_merge}
    return frozenset((one, other)) in pairs or overrides.settled(one) == overrides.settled(other)


def _severities(failures: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    return {finding["finding_id"]: finding["severity"] for of_run in failures.values() for finding in of_run}


def _signatures(
    memberships: pl.DataFrame, runs: Mapping[str, Mapping[str, Any]], severities: Mapping[str, str], ledger: Ledger,
    overrides: Overrides, catalog: Mapping[str, Standing],
) -> list[dict[str, Any]]:  # fmt: skip
    by_signature: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in memberships.iter_rows(named=True):
        by_signature[row["signature"]].append(row)
    slugs = _slugs(by_signature, ledger, overrides)
    rows = []
    for signature, members in sorted(by_signature.items()):
        founding = _founding(signature, members, ledger)
        representative = ledger.by_key.get(overrides.pinned().get(signature, ""), founding)
        traces = [runs[trace] for trace in sorted({member["trace_id"] for member in members})]
        standing = catalog.get(signature)
        rows.append({
            "signature": signature, "slug": slugs[signature], "aliases": _aliases(signature, slugs[signature], ledger, overrides),
            **_keyed(founding.key.block._asdict(), founding.key.facets._asdict()), "workflow": founding.workflow,
            "founding_key": founding.key_id, "representative_key": representative.key_id,
            "representative_template": representative.template,
            "severity": min((severities[member["finding_id"]] for member in members), key=SEVERITIES.index),
            "state": _state(standing, traces), "case_id": standing.case_id if standing else None,
            "case_trace_id": standing.trace_id if standing else None, **_counted(members, traces),
        })  # fmt: skip
    return rows


def _counted(members: Sequence[Mapping[str, Any]], traces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    starts = [trace["start_ns"] for trace in traces if trace["start_ns"] is not None]
    return {
        "traces": len(traces), "keys": len({member["key_id"] for member in members}),
        "branches": len({member["branch_id"] for member in members}), "first_seen_ns": min(starts, default=None),
        "last_seen_ns": max(starts, default=None), "zone": traces[0]["zone"], "crossings_min": min(trace["crossings"] for trace in traces),
    }  # fmt: skip


def _founding(signature: str, members: Sequence[Mapping[str, Any]], ledger: Ledger) -> Entry:
    """The line that founded it; of a signature that was split off, the first line of its keys."""
    founding = ledger.founding.get(signature)
    if founding is not None:
        return founding
    held = {member["key_id"] for member in members}
    return next(entry for entry in ledger.entries if entry.key_id in held)


def _slugs(signatures: Iterable[str], ledger: Ledger, overrides: Overrides) -> dict[str, str]:
    """A slug each: a person's, else the founding line's; where two are alike the person's stands. Labels only."""
    given = overrides.slugs()
    slugs: dict[str, str] = {}
    for signature in sorted(signatures, key=lambda name: (name not in given, name)):
        founding = ledger.founding.get(signature)
        wanted = given.get(signature) or (founding.slug if founding else None) or f"{signature}@final"
        slugs[signature] = unused(wanted, set(slugs.values()))
    return slugs


def _aliases(signature: str, slug: str, ledger: Ledger, overrides: Overrides) -> list[str]:
    """Ids merged into it, and every slug it or they went by."""
    merged = overrides.merged_into(signature)
    given = overrides.slugs()
    slugs = {given.get(name) for name in merged}
    slugs |= {ledger.founding[name].slug for name in [signature, *merged] if name in ledger.founding}
    return sorted({*merged, *(name for name in slugs if name and name != slug)})


def _state(standing: Standing | None, traces: Sequence[Mapping[str, Any]]) -> str:
    """`escaped`: a run that began after it was covered shows it again."""
    if standing is None:
        return "open"
    if standing.retired:
        return "retired"
    if standing.covered_since_ns is None:
        return "open"
    later = any((trace["start_ns"] or 0) > standing.covered_since_ns for trace in traces)
    return "escaped" if later else "covered"
