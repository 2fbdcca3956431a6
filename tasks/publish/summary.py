"""A publication in a few plain rows, for artifacts and the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from twiceshy import gate
from twiceshy.trials import WORST

_WORDS = {0: "passed", 1: "regressed", 3: "diverged", 4: "error", 5: "nothing_judged"}
PRECEDENCE: Mapping[int, str] = {code: _WORDS[code] for code in gate.PRECEDENCE}
"""Exit code of a run -> what a nightly or a gate flow says, the worst first."""

NOTHING_JUDGED = 5


def verdict(runs: pl.DataFrame, judged: Sequence[str]) -> str:
    """What these runs come to between them. Raises StopIteration for an exit code that no run of the nightly has."""
    codes = set(runs.filter(pl.col("run_id").is_in(list(judged)))["exit_code"]) or {NOTHING_JUDGED}
    return next(word for code, word in PRECEDENCE.items() if code in codes)


def nights(runs: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per (night, workflow), newest first: candidate, verdict, counts, and why it is not green."""
    columns = ("night", "workflow", "candidate", "verdict", "passed", "failed", "diverged", "error", "not_run")
    return (
        runs.sort("night", "workflow", descending=[True, False])
        .select(*columns, pl.col("reasons").list.join("; ").alias("why"))
        .to_dicts()
    )


def outcomes(results: pl.DataFrame, judged: Sequence[str]) -> list[dict[str, Any]]:
    """One row per case of these runs: what did not pass first."""
    rank = {outcome.value: at for at, outcome in enumerate(WORST)}
    return (
        results.filter(pl.col("run_id").is_in(list(judged)))
        .sort(pl.col("outcome").replace_strict(rank), "workflow", "case_id")
        .select(
            "workflow", "case_id", pl.col("slug").alias("signature"), "outcome", "change", "champion_outcome", "modes"
        )
        .with_columns(pl.col("modes").list.join(" + "))
        .to_dicts()
    )


def conversations(whole: pl.DataFrame, judged: Sequence[str]) -> list[dict[str, Any]]:
    """One row per conversation of these runs: what its turns came to, and what they violate together; what did not pass first."""
    rank = {outcome.value: at for at, outcome in enumerate(WORST)}
    return (
        whole.filter(pl.col("run_id").is_in(list(judged)))
        .sort(pl.col("outcome").replace_strict(rank), "workflow", "conversation_id")
        .select(
            "workflow", pl.col("conversation_id").alias("conversation"), "outcome", "outcomes", "violated", "reason"
        )
        .with_columns(pl.col("outcomes").list.join(" + "), pl.col("violated").list.join(", "))
        .to_dicts()
    )


def signatures(standing: pl.DataFrame, results: pl.DataFrame, current: Sequence[str]) -> list[dict[str, Any]]:
    """One row per signature: its state, how many traces show it, a letter a night, and what its case came to on the newest; `no_case` where none is replayed."""
    now = results.filter(pl.col("run_id").is_in(list(current))).select("signature", "outcome")
    letters = _letters(results)
    return (
        standing.join(now, on="signature", how="left", maintain_order="left")
        .with_columns(
            pl.col("outcome").fill_null("no_case"), nights=pl.col("signature").replace_strict(letters, default="")
        )
        .sort("workflow", "slug")
        .select("workflow", pl.col("slug").alias("signature"), "severity", "state", "traces", "nights", "outcome")
        .to_dicts()
    )


def _letters(results: pl.DataFrame) -> dict[str, str]:
    """Signature -> P(assed), F(ailed), D(iverged) or E(rror) for each night that is shown, oldest first; a dot where it was not replayed."""
    played = sorted(set(results["night"]))
    came: dict[str, dict[str, str]] = {}
    for signature, night, outcome in (
        results.drop_nulls("signature").select("signature", "night", "outcome").iter_rows()
    ):
        came.setdefault(signature, {})[night] = outcome[0].upper()
    return {signature: "".join(of.get(night, ".") for night in played) for signature, of in came.items()}
