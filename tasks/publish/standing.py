"""What the catalog makes of a signature: open, covered by a proven case, or escaped, which is seen again in production although it was covered."""

from pathlib import Path

import polars as pl

from tasks.publish.schema import Standings
from tasks.sign.schema import Signatures
from tasks.store import Limits, connect

_QUERY = Path(__file__).with_name("standing.sql").read_text(encoding="utf-8")


def standings(
    signatures: pl.DataFrame, proven: pl.DataFrame, *, limits: Limits, before: pl.DataFrame | None = None
) -> pl.DataFrame:
    """A row of `Standings` for each signature, as replays prove it.

    proven: a row a case, as `tasks.publish.proof` gives it; before: `Standings` of the last publication.
    """
    views = {
        "signatures": signatures, "proof": proven, "before": Standings.no_rows() if before is None else before
    }  # fmt: skip
    with connect(views, limits=limits) as con:
        found: pl.DataFrame = con.sql(_QUERY).pl()
    rows = found.join(signatures.select("signature", "harness_state"), on="signature")
    return rows.select(Standings.dtypes().names()).cast(Standings.dtypes())


def standing(signatures: pl.DataFrame, stand: pl.DataFrame) -> pl.DataFrame:
    """The rows of `Signatures` with the state of their `Standings`."""
    states = stand.select("signature", "state")
    return Signatures.arranged(signatures.drop("state").join(states, on="signature", how="left"))


def of_signatures(signatures: pl.DataFrame) -> pl.DataFrame:
    """`Standings` as far as `Signatures` tell them: of a publication that was made before there were any."""
    held = pl.col("state").is_in(["covered", "escaped"])
    rows = signatures.with_columns(
        covered_in=pl.lit([], dtype=pl.List(pl.String)),
        covered_by=pl.when(held).then(pl.concat_list("case_id")).otherwise(pl.lit([], dtype=pl.List(pl.String))),
        covered_traces=pl.when(held).then(pl.col("traces")),
        let_through=pl.col("state") == "escaped",
    )
    return rows.select(Standings.dtypes().names()).cast(Standings.dtypes())
