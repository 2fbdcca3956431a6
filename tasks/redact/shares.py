"""Traces by workflow, since each has a policy of its own; and what came of them, put together again."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tasks.contracts import Quarantine, quarantined
from tasks.pull.claims import claimed
from tasks.redact.leakscan import Known
from tasks.redact.schema import RedactedSpans
from tasks.sources.schema import ScoreRecords
from twiceshy.redaction import Keyring, Policy

if TYPE_CHECKING:
    from tasks.redact.step import Redacted

UNCLAIMED = Policy(policy="unclaimed", version=1, namespace="unclaimed", key_id="unclaimed")
"""For traces that no policy speaks of: it names no field, so all that holds anything is held, without its payload."""

NO_KEY = Keyring({UNCLAIMED.key_id: bytes(32)})
"""No pseudonym is ever made under it."""


class Share(NamedTuple):
    """Whole traces of one workflow, None where no policy speaks of them."""

    workflow: str | None
    spans: pl.DataFrame
    scores: pl.DataFrame


class Joined(NamedTuple):
    """All shares together. known: trace id -> its raw values, in memory only."""

    spans: pl.DataFrame
    scores: pl.DataFrame
    quarantine: pl.DataFrame
    known: Mapping[str, Sequence[Known]]


def retakable(
    spans: pl.DataFrame, policies: Mapping[str, Policy], tools: Mapping[str, Collection[str]], *, asked: str | None
) -> list[str]:
    """The traces that are held bare, and that another policy than the one of that time speaks of now: a pull takes them again.

    spans: the stored ones. policies: of each workflow that can be redacted. tools: of each known workflow. asked: the workflow of traces that name none.
    """
    held = pl.col("key_id").eq(UNCLAIMED.key_id) | (pl.col("holds").list.len() > 0)
    bare = spans.filter(held.any().over("trace_id"))
    now = claimed(bare, tools, asked=asked).select("trace_id", "workflow", "policy_digest").unique()
    digests = {name: policy.digest for name, policy in policies.items()}
    return sorted({trace_id for trace_id, name, stamp in now.iter_rows() if name in digests and digests[name] != stamp})


def shares(spans: pl.DataFrame, scores: pl.DataFrame, workflows: Sequence[str]) -> Iterator[Share]:
    """The traces of each workflow that has any, by name; those of no workflow that is named here come last."""
    claimed = pl.col("workflow").is_in(list(workflows)).fill_null(value=False)
    for name in sorted(set(spans.filter(claimed)["workflow"])):
        yield _share(name, spans.filter(pl.col("workflow") == name), scores)
    rest = spans.filter(~claimed)
    if rest.height:
        yield _share(None, rest, scores)


def joined(parts: Sequence["Redacted"], *, harness_state: str) -> Joined:
    """The rows of all shares, with those that broke the contract as rows of `Quarantine`."""
    aside = [quarantined(part.quarantine, RedactedSpans, step="redact", harness_state=harness_state) for part in parts]
    return Joined(
        spans=pl.concat([RedactedSpans.no_rows(), *(part.spans for part in parts)]),
        scores=pl.concat([ScoreRecords.no_rows(), *(part.scores for part in parts)]),
        quarantine=pl.concat([Quarantine.no_rows(), *aside]),
        known={trace_id: values for part in parts for trace_id, values in part.known.items()},
    )


def _share(name: str | None, spans: pl.DataFrame, scores: pl.DataFrame) -> Share:
    return Share(name, spans, scores.join(spans.select("trace_id").unique(), on="trace_id", how="semi"))
