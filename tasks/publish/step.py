"""Measures a generation and its runs, and publishes them together: whole, or not at all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tasks.buckets import TYPICAL
from tasks.contracts import Table, validated
from tasks.publish.expectations import EXPECTED, Bounds, unmet
from tasks.publish.judged import Judging, judged_rows
from tasks.publish.schema import ChampionDiff, Conversations, Coverage, Divergence, Quality, Results, Runs
from tasks.publish.universe import universe
from tasks.store import Limits, Publication, Published, connect
from tasks.workflows import Workflows
from twiceshy.identity import canonical
from twiceshy.statistics import wilson

_HERE = Path(__file__).parent
_OPEN = Bounds()


class Corpus(NamedTuple):
    """What is measured besides the runs: rows of these tables, of the generation that is published."""

    pulls: pl.DataFrame
    traces: pl.DataFrame
    strata: pl.DataFrame
    findings: pl.DataFrame
    signatures: pl.DataFrame
    attributions: pl.DataFrame
    admissions: pl.DataFrame
    quarantine: pl.DataFrame


class Measured(NamedTuple):
    """The tables that publish writes, each arranged, and rows that broke their contract, by table."""

    runs: pl.DataFrame
    results: pl.DataFrame
    conversations: pl.DataFrame
    coverage: pl.DataFrame
    divergence: pl.DataFrame
    champion_diff: pl.DataFrame
    quality: pl.DataFrame
    set_aside: Mapping[str, pl.DataFrame]


class Outcome(NamedTuple):
    """What became of a publication. unmet: the expectations that kept it back; the last good one is then still the latest."""

    publication: Publication | None
    unmet: list[str]


class Terms(NamedTuple):
    """What a generation is measured by. as_of_ns: the instant that counts as now, ns since the epoch."""

    workflows: Workflows
    as_of_ns: int
    limits: Limits
    harness_state: str


def measure(
    corpus: Corpus, replays: pl.DataFrame, judgings: Sequence[Judging], *, proven: pl.DataFrame, current: Sequence[str], terms: Terms,
    last: pl.DataFrame | None = None,
) -> Measured:  # fmt: skip
    """Runs, results, coverage, divergence, what differs from the champion, and the quality of the generation.

    replays: rows of `Replays` of all nights that are shown. proven: a row a case, as `tasks.publish.proof` gives it. current: the run ids that count as now.
    last: `Quality` of the last publication, None before the first.
    """
    tools = dict(proven.select("case_id", "tool").iter_rows())
    tables: dict[type[Table], pl.DataFrame] = {
        model: pl.DataFrame(rows, schema=model.dtypes())
        for model, rows in judged_rows(judgings, replays, tools).items()
    }
    tables[Coverage] = coverage(corpus.strata, proven, terms=terms)
    tables[Divergence] = divergence(replays, terms=terms)
    views = {**corpus._asdict(), "replays": replays, "coverage": tables[Coverage], "proof": proven}
    tables[Quality] = quality(views, runs=current, last=last, terms=terms)
    checked = {model: validated(frame, model) for model, frame in tables.items()}
    return Measured(
        runs=checked[Runs].good, results=checked[Results].good, conversations=checked[Conversations].good, coverage=checked[Coverage].good, divergence=checked[Divergence].good,
        champion_diff=checked[ChampionDiff].good, quality=checked[Quality].good,
        set_aside={model.named(): found.set_aside for model, found in checked.items() if found.set_aside.height},
    )  # fmt: skip


def coverage(strata: pl.DataFrame, proven: pl.DataFrame, *, terms: Terms) -> pl.DataFrame:
    """One row per cell: what schemas and declared codes make possible, what production met, what a case covers; columns of `Coverage`.

    proven: a row a case, as `tasks.publish.proof` gives it.
    """
    views = {"strata": strata, "proof": proven, "universe": universe(terms.workflows)}
    found = _asked("coverage.sql", views, {"typical": TYPICAL}, terms.limits)
    rows = found.with_columns(harness_state=pl.lit(terms.harness_state))
    return rows.select(Coverage.dtypes().names()).cast(Coverage.dtypes())


def divergence(replays: pl.DataFrame, *, terms: Terms) -> pl.DataFrame:
    """One row per (night, mode, workflow), with the Wilson bounds of the rate; columns of `Divergence`."""
    rows = [
        {
            "harness_state": terms.harness_state, **{name: row[name] for name in ("night", "mode", "workflow", "replays", "diverged")},
            **dict(zip(("wilson_low", "wilson_high"), wilson(row["diverged"], row["replays"]), strict=True)),
            "versions": canonical({"candidate": row["candidates"], "catalog": row["catalog"], "harness": row["harness"]}).decode(),
        }
        for row in _asked("divergence.sql", {"replays": replays}, {}, terms.limits).iter_rows(named=True)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=Divergence.dtypes())


def quality(
    views: Mapping[str, pl.DataFrame], *, runs: Sequence[str], last: pl.DataFrame | None, terms: Terms
) -> pl.DataFrame:
    """One row per metric, with the bounds it is held to; columns of `Quality`. views: the tables of `Corpus`, `replays`, `coverage` and `proof`, by name."""
    before = [] if last is None else last.filter(scope="all", metric="traces")["value"].to_list()
    params = {"as_of_ns": terms.as_of_ns, "runs": list(runs), "last_traces": before[0] if before else None}
    rows = [
        {"harness_state": terms.harness_state, **row, **_bounded(row)}
        for row in _asked("quality.sql", views, params, terms.limits).iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=Quality.dtypes())


def publish(
    published: Published, run_id: str, *, generation: str, tables: Mapping[str, pl.DataFrame], quality: pl.DataFrame,
    files: Mapping[str, bytes] | None = None,
) -> Outcome:  # fmt: skip
    """Publish the tables of a run, and make it the latest, if the suite of expectations holds; else publish nothing and say why.

    tables: by name, arranged; quality goes with them.
    """
    broken = unmet(quality)
    if broken:
        return Outcome(None, broken)
    whole = {**tables, Quality.named(): quality}
    return Outcome(published.publish(run_id, generation=generation, tables=whole, files=files), [])


def _bounded(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = EXPECTED.get(row["metric"], _OPEN) if row["scope"] == "all" else _OPEN
    if low is None and high is None:
        return {"low": None, "high": None, "met": None}
    within = (low is None or row["value"] >= low) and (high is None or row["value"] <= high)
    return {"low": low, "high": high, "met": within}


def _asked(query: str, views: Mapping[str, pl.DataFrame], params: Mapping[str, object], limits: Limits) -> pl.DataFrame:
    text = (_HERE / query).read_text(encoding="utf-8")
    with connect(views, limits=limits) as con:
        found: pl.DataFrame = con.sql(text, params=dict(params) or None).pl()
    return found
