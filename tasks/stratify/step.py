"""Draws the traces worth looking at: every tool, argument bucket and error code has its quota, errors before happy paths."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tasks.contracts import validated
from tasks.store import Limits, connect
from tasks.stratify.schema import Strata

TYPICAL = "typical"
"""The bucket of an argument about which nothing stands out, and of a call without arguments."""

_QUERY = Path(__file__).with_name("strata.sql").read_text(encoding="utf-8")


class Quotas(NamedTuple):
    """How many traces are drawn from a stratum of calls that succeeded, and from one of an error code."""

    ok: int = 25
    error: int = 200


class Stratified(NamedTuple):
    """The strata, and rows that broke the contract."""

    strata: pl.DataFrame
    set_aside: pl.DataFrame


def stratify(
    traces: pl.DataFrame | Sequence[Path], crossings: pl.DataFrame | Sequence[Path], *, seed: str, limits: Limits, harness_state: str,
    quotas: Quotas | None = None,
) -> Stratified:  # fmt: skip
    """One row per (trace, tool, argument bucket, error code), with its draw, rank and weight; every trace has at least one.

    traces, crossings: those tables, as frames or as the files of a generation. seed: equal seed and rows, equal draw, whatever the number of threads.
    """
    drawn = quotas or Quotas()
    params = {"seed": seed, "quota_ok": drawn.ok, "quota_error": drawn.error, "typical": TYPICAL}
    with connect({"traces": traces, "crossings": crossings}, limits=limits) as con:
        found = con.sql(_QUERY, params=params).pl()
    rows = found.with_columns(harness_state=pl.lit(harness_state)).cast({"weight": pl.Float64})
    checked = validated(rows.select(Strata.dtypes().names()).cast(dict(Strata.dtypes())), Strata)
    return Stratified(checked.good, checked.set_aside)
