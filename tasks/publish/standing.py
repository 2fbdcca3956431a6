"""What the catalog makes of a signature: open, covered by a proven case, or escaped, which is seen again in production although it was covered."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from tasks.sign.schema import Signatures
from tasks.store import Limits, connect
from tasks.stratify.schema import Strata
from twiceshy.breaking import parse
from twiceshy.casefile import Case

_QUERY = Path(__file__).with_name("standing.sql").read_text(encoding="utf-8")
CASES = pl.Schema(
    {
        "case_id": pl.String, "workflow": pl.String, "case_kind": pl.String, "tool": pl.String, "signature": pl.String, "trace_id": pl.String,
        "breaks": pl.Int64,
    }
)  # fmt: skip
"""One case of the catalog, with the id of its signature and how many breaks it declares."""


def standing(
    signatures: pl.DataFrame, replays: pl.DataFrame, catalog: Iterable[Case], *, runs: Sequence[str], limits: Limits,
    strata: pl.DataFrame | None = None, before: pl.DataFrame | None = None,
) -> pl.DataFrame:  # fmt: skip
    """The rows of `Signatures` with the state that these replays prove.

    runs: the run ids that are current; strata: which tools a positive case used well; before: `Signatures` of the last publication.
    """
    rows = [
        (case.id, case.workflow, case.kind, case.tool, case.signature_id, case.trace_id, len(declared(case)))
        for case in catalog
    ]
    views = {
        "signatures": signatures, "replays": replays, "cases": pl.DataFrame(rows, schema=CASES, orient="row"),
        "before": Signatures.no_rows() if before is None else before, "strata": Strata.no_rows() if strata is None else strata,
    }  # fmt: skip
    with connect(views, limits=limits) as con:
        states: pl.DataFrame = con.sql(_QUERY, params={"runs": list(runs)}).pl()
    return Signatures.arranged(signatures.drop("state").join(states, on="signature", how="left"))


def declared(case: Case) -> set[str]:
    """The breaks that a case declares, as outputs name them."""
    return {parse(written).text for written in case.breaks}
