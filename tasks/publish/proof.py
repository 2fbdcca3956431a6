"""When a case is proven, and what a positive case vouches for: the one place that says so, for signatures and for the cells of coverage."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from tasks.store import Limits, connect
from twiceshy.breaking import parse
from twiceshy.casefile import Case

_QUERY = Path(__file__).with_name("proof.sql").read_text(encoding="utf-8")
_CASES = pl.Schema(
    {
        "case_id": pl.String, "workflow": pl.String, "case_kind": pl.String, "tool": pl.String, "signature": pl.String, "trace_id": pl.String,
        "digest": pl.String, "breaks": pl.Int64,
    }
)  # fmt: skip


def proof(
    catalog: Iterable[Case], strata: pl.DataFrame, replays: pl.DataFrame, *, runs: Sequence[str], digests: Mapping[str, str], limits: Limits
) -> pl.DataFrame:  # fmt: skip
    """One row per case of the catalog: passed, proven and in which judging modes, its breaks (wanted, applied, killed, equivalent), which tools it vouches for, and whether a positive vouches for it.

    strata, replays: rows of `Strata` and `Replays`. runs: the run ids that are current. digests: case id -> the digest of the case as it stands today, its
    world included; a case that is not in it is not proven.
    """
    rows = [
        (case.id, case.workflow, case.kind, case.tool, case.signature_id, case.trace_id, digests.get(case.id), len(_declared(case)))
        for case in catalog
    ]  # fmt: skip
    views = {"strata": strata, "replays": replays, "cases": pl.DataFrame(rows, schema=_CASES, orient="row")}
    with connect(views, limits=limits) as con:
        found: pl.DataFrame = con.sql(_QUERY, params={"runs": list(runs)}).pl()
    return found


def _declared(case: Case) -> set[str]:
    """The breaks that a case declares, as outputs name them."""
    return {parse(written).text for written in case.breaks}
