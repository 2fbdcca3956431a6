"""Writes what admit proposes into the folder that people review, and marks what a real agent turned red. The catalog itself is never written."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from tasks.admit.proposals import Proposal
from tasks.admit.schema import Admissions
from twiceshy import casefile


def propose(proposals: Iterable[Proposal], root: Path) -> list[Path]:
    """Make the folder hold exactly these cases, `<workflow>/<slug>/` each; the same proposals give the same bytes. The paths, sorted."""
    wanted = {root / proposal.folder: proposal for proposal in proposals}
    for path, proposal in wanted.items():
        casefile.save(path, proposal.case, proposal.envelope)
    for path in casefile.find(root) if root.exists() else ():
        if path not in wanted:
            shutil.rmtree(path)
    return sorted(wanted)


def with_reproduced(admissions: pl.DataFrame, replays: pl.DataFrame) -> pl.DataFrame:
    """The admissions with `reproduced` known for every promoted case that was replayed: a real agent, or a break of one, turned it red.

    replays: rows of `Replays`; a trial that FAILED counts whatever its mode.
    """
    tried = replays.group_by("case_id").agg((pl.col("outcome") == "failed").any().alias("red"))
    known = (pl.col("decision") == "promote") & pl.col("red").is_not_null()
    joined = admissions.join(tried, on="case_id", how="left", maintain_order="left")
    marked = pl.when(known).then("red").otherwise("reproduced")
    return Admissions.arranged(joined.with_columns(reproduced=marked).drop("red"))
