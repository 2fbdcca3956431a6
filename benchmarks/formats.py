"""Claim: every file of real traces that people write is read whole, every span of it accounted for, and what is incomplete is held with the reason.

Per set: files, spans in, out and quarantined, traces, tool crossings, tool errors by code, grades of R1..R11, and what completeness decides (formats.md §6): `complete` or `derived`
may go on, `hold` with what is missing, `discard` where a call has neither arguments nor result. Nothing is redacted here, so no trace is admitted; what a redaction policy would
hold besides is not counted. Files beside the traces that are none (databases, questions) are listed with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from benchmarks import report
from tasks.admit.considering import HOLDING, Facts, failure
from tasks.admit.schema import BLOCKING, REQUIREMENTS
from tasks.envelopes import envelopes
from tasks.normalize.step import normalize, unredacted
from tasks.sources import registry
from tasks.sources.source import Window
from twiceshy.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
TRACES = next(
    (above / "shared/real-traces" for above in ROOT.parents if (above / "shared/real-traces").exists()),
    ROOT.parent / "shared/real-traces",
)
NO_TRACES = {
    "envdb-": "a database that the tools read",
    "eval_set": "questions and what is expected of the answers",
    "evalset_": "questions and what is expected of the answers",
}
"""Beginning of a file's name -> why it holds no trace."""

SOURCES = (
    ("agent-prism/langfuse-*", "langfuse"), ("agent-prism/*", "otlp"), ("agentevals/*", "otlp"), ("claude-agent-sdk/*", "claude_agent_sdk"),
    ("inspect-ai/*", "inspect"), ("langfuse/*", "langfuse"), ("langsmith/*", "langsmith"), ("openinference/bedrock-*", "messages"),
    ("openinference/*", "otlp"), ("strands-evals/claude_code_*", "claude_code"), ("strands-evals/codex_*", "codex"),
    ("strands-evals/strands_agent_skills.json", "messages"), ("strands-evals/*", "otlp"), ("swe-agent/*", "swe_agent"),
    ("tau-bench/*few-shot*", "messages"), ("tau-bench/*", "openai_chat"), ("who-and-when/*", "who_and_when"),
)  # fmt: skip
"""The source of each file; the first pattern that fits."""

EXPECTED = {
    "tau-bench": {"traces": 145, "derived": 100, "hold": 45, "tool_calls": 868}, "who-and-when": {"traces": 92, "hold": 92},
    "agent-prism": {"traces": 5, "derived": 2, "hold": 3}, "agentevals": {"traces": 3, "hold": 3}, "langfuse": {"traces": 14, "derived": 1, "hold": 13},
    "inspect-ai": {"traces": 15, "hold": 15}, "swe-agent": {"traces": 14, "hold": 14}, "langsmith": {"traces": 9, "hold": 9},
    "claude-agent-sdk": {"traces": 1, "hold": 1},
}  # fmt: skip
"""What is known of each set: one agent of langfuse was told "today is 2026-03-09" by its system text; both spellings of the agent-prism trace pass."""


def files(root: Path) -> Iterator[tuple[str, Path]]:
    """(set, file) of every file that is data."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name not in ("LICENSE", "NOTICE", "PROVENANCE.md"):
            yield path.relative_to(root).parts[0], path


def read(path: Path, source: str) -> tuple[Counter[str], Counter[str], pl.DataFrame, pl.DataFrame, Counter[str]]:
    """(counts, reasons of quarantine, traces, crossings, decisions) of one file. Raises FormatError where all of it is refused."""
    held = registry.named(source)
    (raw,) = held.fetch(Window(paths=(path,)))
    mapped = held.spans(raw, harness_state="benchmark")
    counts = Counter(files=1, spans_in=mapped.spans_in, spans_out=mapped.spans.height, quarantined=len(mapped.rejected))
    made = normalize(
        unredacted(mapped.spans.with_columns(workflow=pl.lit("w"))),
        mapped.scores,
        policies={},
        harness_state="benchmark",
    )
    whole = {envelope.trace_id: envelope for envelope in envelopes(made.traces, made.crossings)}
    decided: Counter[str] = Counter()
    for trace in made.traces.iter_rows(named=True):
        decided.update(_decided(trace, whole[trace["trace_id"]]))
    return counts, Counter(row.reason for row in mapped.rejected), made.traces, made.crossings, decided


def _decided(trace: dict[str, Any], envelope: Any) -> Iterator[str]:
    """The decision, and behind it each reason."""
    found = failure(trace, envelope, None, Facts())
    missing = [f"{name}_missing" for name in BLOCKING if found.grades[name] == "missing"]
    reasons = [*missing, *(mark for mark in trace["marks"] if mark in HOLDING)]
    decision = "discard" if found.discards else "hold" if reasons else found.completeness
    yield decision
    yield from (f"{decision}: {reason}" for reason in (found.discards or reasons))


def main() -> int:
    """Print what each set holds; 0 where no file is refused, all spans balance and the known outcomes are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="the folder of real traces")
    root = parser.parse_args().traces
    if not root.exists():
        print(f"{root}: not here. Give the folder of real traces with --traces.", file=sys.stderr)
        return 2
    sets: dict[str, dict[str, Any]] = defaultdict(
        lambda: {
            "counts": Counter(),
            "quarantine": Counter(),
            "errors": Counter(),
            "grades": defaultdict(Counter),
            "decisions": Counter(),
        }
    )
    refused, aside = {}, {}
    for name, path in files(root):
        why = next((why for start, why in NO_TRACES.items() if path.name.startswith(start)), None)
        if why is not None:
            aside[path.relative_to(root).as_posix()] = why
            continue
        source = next(source for pattern, source in SOURCES if path.relative_to(root).match(pattern))
        try:
            _add(sets[name], *read(path, source))
        except FormatError as told:
            refused[path.relative_to(root).as_posix()] = str(told)
    found = {name: _told(held) for name, held in sets.items()}
    balanced = all(held["spans_in"] == held["spans_out"] + held["quarantined"] for held in found.values())
    differing = _differing(found)
    figures = {
        "files_refused_whole": len(refused),
        "refused": refused,
        "balanced": int(balanced),
        "differing": differing,
        "no_traces": aside,
        "sets": found,
    }
    return report("formats", figures, holds=not refused and balanced and not differing)


def _differing(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Set -> figure -> [expected, found], where the two differ."""
    got = {
        name: {key: found[name].get(key, found[name]["decisions"].get(key, 0)) for key in known}
        for name, known in EXPECTED.items()
    }
    return {
        name: {key: [wanted, got[name][key]] for key, wanted in known.items()}
        for name, known in EXPECTED.items()
        if got[name] != known
    }  # fmt: skip


def _add(
    held: dict[str, Any],
    counts: Counter[str],
    quarantine: Counter[str],
    traces: pl.DataFrame,
    crossings: pl.DataFrame,
    decided: Counter[str],
) -> None:
    tools = crossings.filter(pl.col("kind") == "tool")
    held["counts"] += counts + Counter(traces=traces.height, tool_calls=tools.height)
    held["quarantine"] += quarantine
    held["errors"] += Counter(tools["error_code"].drop_nulls().to_list())
    held["decisions"] += decided
    for name in REQUIREMENTS:
        held["grades"][name] += Counter(traces[name].to_list())


def _told(held: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: held["counts"][name] for name in ("files", "spans_in", "spans_out", "quarantined", "traces", "tool_calls")},
        "quarantine": dict(held["quarantine"]), "tool_errors": dict(sorted(held["errors"].items())),
        "grades": {name: dict(sorted(counts.items())) for name, counts in held["grades"].items()}, "decisions": dict(sorted(held["decisions"].items())),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
