"""What the catalog makes of a signature: open, covered by a proven case, or escaped, which is seen again in production although it was covered."""

from pathlib import Path

import polars as pl

from tasks.sign.schema import Signatures
from tasks.store import Limits, connect

_QUERY = Path(__file__).with_name("standing.sql").read_text(encoding="utf-8")


def standing(
    signatures: pl.DataFrame, proven: pl.DataFrame, *, limits: Limits, before: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The rows of `Signatures` with the state that replays prove.

    proven: a row a case, as `tasks.publish.proof` gives it; before: `Signatures` of the last publication.
    """
    views = {
        "signatures": signatures, "proof": proven, "before": Signatures.no_rows() if before is None else before
    }  # fmt: skip
    with connect(views, limits=limits) as con:
        states: pl.DataFrame = con.sql(_QUERY).pl()
    return Signatures.arranged(signatures.drop("state").join(states, on="signature", how="left"))
