"""Claim: the bare matcher, on real traces, diverges where and as often as an independent count says, so keys and the state rule are right.

Every ordered pair of same-task trials in which B reads anything: trial B's calls are replayed against trial A's envelope. Every read of B counts,
divergence or not; a write of B without a recorded answer at its state counts as effective. `stateless` covers a read by tool and arguments alone.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from benchmarks import report
from tasks.envelopes import envelopes
from tasks.normalize.step import normalize, unredacted
from tasks.sources import openai_chat
from tasks.sources.source import Window
from twiceshy import policy
from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.history import History, effective
from twiceshy.matching import Hit, Matcher, recordings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twiceshy.policy import ToolsPolicy

ROOT = Path(__file__).parents[1]
_SET = "shared/real-traces/tau-bench/gpt-4o-airline.trajectories.jsonl.gz"
TRACES = next((above / _SET for above in ROOT.parents if (above / _SET).exists()), ROOT.parent / _SET)
KNOWN = {"pairs": 267, "identical_writes": 0.228}
KNOWN_STATELESS = {"fully_covered": 0.625, "reads_covered": 0.740, "first_miss_median": 0.333}
"""What an independent count gave; 3 decimals."""

_Z = statistics.NormalDist().inv_cdf(0.975)


class Reads(NamedTuple):
    """The reads of one trial B against one trial A: for each, in order, None where it was answered, else the kind of miss."""

    misses: tuple[str | None, ...]

    @property
    def covered(self) -> int:
        """How many were answered."""
        return sum(miss is None for miss in self.misses)

    @property
    def first_miss(self) -> float | None:
        """The share of the reads before the first miss; None where there was none."""
        first = next((at for at, miss in enumerate(self.misses) if miss is not None), None)
        return None if first is None else first / len(self.misses)


def trials(path: Path, tools: ToolsPolicy) -> dict[str, list[tuple[Crossing, ...]]]:
    """The tool crossings of every trial, by task."""
    by_task: dict[str, list[tuple[Crossing, ...]]] = defaultdict(list)
    for raw in openai_chat.source.fetch(Window(paths=(path,))):
        mapped = openai_chat.spans(raw, harness_state="benchmark")
        spans = unredacted(mapped.spans.with_columns(workflow=pl.lit(tools.workflow)))
        made = normalize(spans, mapped.scores, policies={tools.workflow: tools}, harness_state="benchmark")
        names = dict(made.traces.select("trace_id", "source_trace_id").iter_rows())
        for envelope in envelopes(made.traces, made.crossings):
            task = names[envelope.trace_id].split("/")[-2]
            by_task[task].append(tuple(crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL))
    return by_task


def replayed(recorded: Sequence[Crossing], asked: Sequence[Crossing], tools: ToolsPolicy) -> Reads:
    """Trial B (`asked`) against what trial A recorded, by the state rule."""
    matcher, history = Matcher(recorded, tools), History(tools)
    misses: list[str | None] = []
    for crossing in asked:
        effect = tools.effect(crossing.name)
        if effect is Effect.NONE:
            continue
        history.begin(crossing.scope, crossing.group)
        key = tools.key(crossing.name, crossing.asked)
        found = matcher.serve(crossing.name, key, history.state(crossing.name))
        if effect is Effect.READ:
            misses.append(None if isinstance(found, Hit) else found.kind.value)
            continue
        error = found.recording.crossing.error if isinstance(found, Hit) else None
        if effective(msgspec.structs.replace(crossing, error=error), tools):
            history.enter(crossing.scope, crossing.name, key)
    return Reads(tuple(misses))


def by_key(recorded: Sequence[Crossing], asked: Sequence[Crossing], tools: ToolsPolicy) -> Reads:
    """The same by tool and arguments alone, whatever was written."""
    known = {(recording.crossing.name, recording.key) for recording in recordings(recorded, tools)}
    reads = [crossing for crossing in asked if tools.effect(crossing.name) is Effect.READ]
    hits = ((crossing.name, tools.key(crossing.name, crossing.asked)) in known for crossing in reads)
    return Reads(tuple(None if hit else "no_such_call" for hit in hits))


def figures(pairs: Sequence[Reads]) -> dict[str, object]:
    """Shares over pairs and over reads, with 95 % Wilson intervals; misses by kind."""
    whole = sum(reads.first_miss is None for reads in pairs)
    covered, asked = sum(reads.covered for reads in pairs), sum(len(reads.misses) for reads in pairs)
    kinds = Counter(miss for reads in pairs for miss in reads.misses if miss is not None)
    first = [reads.first_miss for reads in pairs if reads.first_miss is not None]
    return {
        "fully_covered": round(whole / len(pairs), 3), "fully_covered_wilson": wilson(whole, len(pairs)),
        "reads_covered": round(covered / asked, 3), "reads_covered_wilson": wilson(covered, asked),
        "first_miss_median": round(statistics.median(first), 3), "reads": asked, "misses": dict(sorted(kinds.items())),
    }  # fmt: skip


def wilson(hits: int, of: int) -> list[float]:
    """The 95 % Wilson score interval of a share (Wilson 1927)."""
    share, spread = hits / of, _Z * _Z / of
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return [round(middle - half, 3), round(middle + half, 3)]


def _writes(asked: Iterable[Crossing], tools: ToolsPolicy) -> list[tuple[str, str]]:
    """Every call that is neither read nor pure, failed ones too."""
    return [(held.name, tools.key(held.name, held.asked)) for held in asked if tools.effect(held.name) is Effect.WRITE]


def main() -> int:
    """Print the figures; 0 when the known ones are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="the airline trajectories of tau-bench")
    path = parser.parse_args().traces
    if not path.exists():
        print(f"{path}: no such file. Give the airline trajectories of tau-bench with --traces.", file=sys.stderr)
        return 2
    tools = policy.load(ROOT / "data/policies/airline/tools.yaml")
    pairs = [
        (first, second)
        for runs in trials(path, tools).values()
        for first, second in permutations(runs, 2)
        if any(tools.effect(crossing.name) is Effect.READ for crossing in second)
    ]
    stateless = figures([by_key(*pair, tools) for pair in pairs])
    same = sum(_writes(first, tools) == _writes(second, tools) for first, second in pairs)
    found = {
        "pairs": len(pairs), **figures([replayed(*pair, tools) for pair in pairs]), "stateless": stateless,
        "identical_writes": round(same / len(pairs), 3), "identical_writes_wilson": wilson(same, len(pairs)),
    }  # fmt: skip
    holds = all(found[name] == value for name, value in KNOWN.items()) and all(
        stateless[name] == value for name, value in KNOWN_STATELESS.items()
    )
    return report(
        "tau_divergence", found, holds=holds, peers={"independent_count": KNOWN | {"stateless": KNOWN_STATELESS}}
    )


if __name__ == "__main__":
    sys.exit(main())
