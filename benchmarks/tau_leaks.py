"""Claim: of what is known to be personal in 50 airline traces a hundredth at most is readable in what redaction makes, and nothing in what is admitted.

published_share: known values of a trace readable in any column of its redacted rows, or in another trace's, with the leak scan off. admitted_share: the same with the scan
on, over the traces that it does not hold. A value that is a common word (a city that everybody names) acts in its own field only, and a short name in capitals is a code
(MIA, the airport): such a spelling elsewhere is counted as explained, not as readable. Over-redaction: leaves of the raw traces, outside the fields that the policy
takes, that hold no known value and came out changed; a date that was moved is counted apart, since all dates of a trace move together.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from benchmarks import report
from tasks.redact.propagation import SHORT_NAME, acts
from tasks.redact.step import Options, Redacted, redact
from tasks.sources import openai_chat
from tasks.sources.source import Window
from twiceshy import policy, redaction
from twiceshy.envelope import Effect
from twiceshy.redaction import Keyring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tasks.sources.source import Mapped

ROOT = Path(__file__).parents[1]
_SET = "shared/pii/tau_airline_traces.jsonl"
TRACES = next((above / _SET for above in ROOT.parents if (above / _SET).exists()), ROOT.parent / _SET)
POLICIES = ROOT / "data/policies/airline"
PAYLOADS = ("proposed", "seen", "raw", "shown", "messages_in", "messages_out", "system_text")
_MOST = 0.01
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+)?|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?"
    r"|(?:sun|mon|tues|wednes|thurs|fri|satur)day",
    re.IGNORECASE,
)

Known = dict[str, list[tuple[str, str]]]


def read(path: Path) -> tuple[Mapped, Known]:
    """The spans of the set, and the known personal values of each trace, by its id."""
    (raw,) = openai_chat.source.fetch(Window(paths=(path,)))
    mapped = openai_chat.spans(raw, harness_state="benchmark")
    ids = {
        name.rsplit("/", 1)[-1]: trace
        for name, trace in mapped.spans.select("source_trace_id", "trace_id").unique().iter_rows()
    }
    listed = [json.loads(line) for line in path.read_bytes().splitlines()]
    return mapped, {ids[held["id"]]: [(kind, value) for kind, value in held["values"]] for held in listed}


def made(mapped: Mapped, *, scan: bool) -> Redacted:
    """What redaction makes of them under the committed policy of the workflow."""
    tools = policy.load(POLICIES / "tools.yaml")
    reads = frozenset(name for name in tools.tools if tools.effect(name) is Effect.READ)
    options = Options(reads=reads) if scan else Options(reads=reads, scan=lambda *_: ())
    return redact(
        mapped.spans, redaction.load(POLICIES / "redaction.yaml"), Keyring({"airline": b"b" * 32}), scores=mapped.scores, options=options
    )  # fmt: skip


class Readable(NamedTuple):
    """How many of the known values stand in the text of their trace, by kind; explained: those that stand there as something else."""

    left: Counter[str]
    explained: Counter[str]


def readable(known: Known, texts: Mapping[str, str]) -> Readable:
    """Which known values stand in what was written of their trace, as words of their own, in any case."""
    left: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    for trace, values in known.items():
        text = texts.get(trace, "")
        for kind, value in values:
            spelled = {
                hit[0] for hit in re.finditer(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])", text, re.IGNORECASE)
            }
            if not spelled:
                continue
            code = kind.startswith("PERSON") and len(value) <= SHORT_NAME and all(one.isupper() for one in spelled)
            (explained if code or not acts(value) else left)[kind] += 1
    return Readable(left, explained)


def texts_of(result: Redacted) -> dict[str, str]:
    """All that is written of each trace: every column of its spans and scores."""
    found: dict[str, list[str]] = {}
    for frame in (result.spans, result.scores):
        for row in frame.iter_rows(named=True):
            found.setdefault(row["trace_id"], []).extend(
                str(value) for name, value in row.items() if value is not None and name != "row_id"
            )
    return {trace: "\n".join(held) for trace, held in found.items()}


def changed(mapped: Mapped, result: Redacted, known: Known) -> dict[str, int]:
    """Leaves of the raw payloads without a known value: all, those that came out changed in more than dates, and those in which only dates moved."""
    before = {row["row_id"]: row for row in mapped.spans.iter_rows(named=True)}
    taken = _taken(redaction.load(POLICIES / "redaction.yaml"))
    count: Counter[str] = Counter()
    for row in result.spans.filter(pl.col("holds").list.len() == 0).iter_rows(named=True):
        personal = [value.casefold() for _, value in known.get(row["trace_id"], [])]
        for column in PAYLOADS:
            raw = before[row["row_id"]][column]
            if raw is None:
                continue
            after = dict(leaves(json.loads(row[column]))) if row[column] is not None else {}
            for path, leaf in leaves(json.loads(raw)):
                if taken.search(path) or any(value in f"{path} {leaf}".casefold() for value in personal):
                    continue
                count["leaves"] += 1
                if after.get(path, None) != leaf:
                    moved = _DATE.sub("", str(after.get(path))) == _DATE.sub("", str(leaf))
                    count["dates" if moved else "changed"] += 1
    return dict(count)


def _taken(held: redaction.Policy) -> re.Pattern[str]:
    """Paths within a payload that end in a field which the policy changes, whatever stands above it."""
    ends = {rule.path.rpartition(".")[2] for rule in held.fields if rule.action != "keep"}
    names = {name for end in ends for name in end.strip("{}[]").split(",") if name.isidentifier()}
    return re.compile(rf"\.(?:{'|'.join(sorted(names))})(?:\[\d+\])?$")


def leaves(held: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, scalar) of every scalar in a value."""
    if isinstance(held, dict):
        for name, value in held.items():
            yield from leaves(value, f"{path}.{name}")
    elif isinstance(held, list):
        for at, value in enumerate(held):
            yield from leaves(value, f"{path}[{at}]")
    else:
        yield path, held


def main() -> int:
    """Print the shares and the rest by kind; 0 where the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--traces", type=Path, default=TRACES, help="airline traces with the personal values known to be in them"
    )
    path = parser.parse_args().traces
    if not path.exists():
        print(f"{path}: no such file. Give the labelled airline traces with --traces.", file=sys.stderr)
        return 2
    mapped, known = read(path)
    unscanned, scanned = made(mapped, scan=False), made(mapped, scan=True)
    values = sum(map(len, known.values()))
    published = readable(known, texts_of(unscanned))
    held = set(scanned.holds["trace_id"])
    admitted = readable({trace: listed for trace, listed in known.items() if trace not in held}, texts_of(scanned))
    over = changed(mapped, scanned, known)
    found: dict[str, Any] = {
        "traces": len(known), "values": values, "published_share": round(published.left.total() / values, 4), "published": dict(published.left),
        "admitted_share": round(admitted.left.total() / values, 4), "admitted": dict(admitted.left), "explained": dict(published.explained), "held": len(held & known.keys()),
        "held_for": dict(Counter(scanned.holds.select("trace_id", "reason").unique()["reason"])), "non_personal_leaves": over.get("leaves", 0),
        "non_personal_leaves_changed": over.get("changed", 0), "dates_moved": over.get("dates", 0),
    }  # fmt: skip
    holds = found["published_share"] <= _MOST and not admitted.left.total()
    return report("tau_leaks", found, holds=holds)


if __name__ == "__main__":
    sys.exit(main())
