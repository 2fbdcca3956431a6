"""Redaction over what people have: the committed samples, and the airline runs of tau-bench where ../shared is at hand."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from examples.samples.people import FIRST, LAST
from redacting import a_span, some_spans
from tasks import workflows
from tasks.detect.step import detect
from tasks.normalize.step import normalize, unredacted
from tasks.redact.leakscan import scan
from tasks.redact.step import Redacted, redact
from tasks.sources import openai_chat, otlp
from tasks.sources.source import Mapped, Window
from twiceshy import redaction
from twiceshy.redaction import Keyring, Redactor

ROOT = Path(__file__).parents[2]
SHARED = next((found for up in (ROOT.parent, ROOT.parent.parent) if (found := up / "shared").is_dir()), None)
KEYS = Keyring({"airline": b"a" * 32})

pytestmark = pytest.mark.slow
needs_shared = pytest.mark.skipif(SHARED is None, reason="../shared is not here: it holds the tau-bench runs")


def policy(workflow: str) -> redaction.Policy:
    return redaction.load(ROOT / "data" / "policies" / workflow / "redaction.yaml")


def airline() -> Mapped:
    path = SHARED / "real-traces/tau-bench/gpt-4o-airline.trajectories.jsonl.gz" if SHARED else Path()
    (raw,) = openai_chat.source.fetch(Window(paths=(path,)))
    return openai_chat.spans(raw, harness_state="test")


def held(result: Redacted) -> Counter[str]:
    return Counter(reason for _, reason in result.holds.select("trace_id", "reason").unique().iter_rows())


def texts(frame: pl.DataFrame) -> str:
    return "\n".join(str(value) for row in frame.iter_rows() for value in row if value is not None)


@pytest.fixture(scope="module")
def flown() -> tuple[Mapped, Redacted]:
    found = airline()
    return found, redact(found.spans, policy("airline"), KEYS, scores=found.scores)


@needs_shared
def test_airline_runs_are_redacted(flown: tuple[Mapped, Redacted]) -> None:
    found, result = flown
    assert found.spans["trace_id"].n_unique() == result.spans["trace_id"].n_unique() == 100
    assert result.spans.height == found.spans.height
    assert result.quarantine.height == 0
    # Runs in which nothing structured was ever read or written: who is spoken of cannot be known.
    assert set(held(result)) <= {"free_text_without_seeds"}
    assert held(result)["free_text_without_seeds"] <= 9


@needs_shared
def test_airline_people_are_gone(flown: tuple[Mapped, Redacted]) -> None:
    found, result = flown
    folder = SHARED / "pii" if SHARED else Path()
    people = [json.loads(line) for line in (folder / "tau_airline_traces.jsonl").read_bytes().splitlines()]
    named = dict(found.spans.select("source_trace_id", "trace_id").unique().iter_rows())
    known, left = 0, Counter[str]()
    for person in people:
        _, task, trial = person["id"].split("-")
        trace_id = next(trace for source, trace in named.items() if source.endswith(f"/{task}/{trial}"))
        out = texts(result.spans.filter(pl.col("trace_id") == trace_id))
        for kind, value in person["values"]:
            known += 1
            left[kind] += bool(re.search(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", out))
    # What is left is a name that only its owner ever spoke, in runs that never looked anybody up.
    assert known > 900
    assert sum(left.values()) / known <= 0.01, left
    assert {kind for kind, count in left.items() if count} <= {"PERSON", "PERSON_FIRST", "PERSON_LAST", "CITY"}


@needs_shared
def test_airline_calls_stay_distinct_and_equal(flown: tuple[Mapped, Redacted]) -> None:
    found, result = flown
    alike = found.spans.filter(pl.col("kind") == "tool").join(
        result.spans.filter(pl.col("holds").list.len() == 0), on="row_id", suffix="_new"
    )
    for (_,), calls in alike.group_by("trace_id"):
        pairs = set(calls.select("tool_name", "proposed", "proposed_new").iter_rows())
        assert len({pair[:2] for pair in pairs}) == len({(name, new) for name, _, new in pairs}) == len(pairs)


@needs_shared
def test_airline_artifacts_hold_no_known_value(flown: tuple[Mapped, Redacted]) -> None:
    _, result = flown
    for (trace_id,), rows in result.spans.group_by("trace_id"):
        if str(trace_id) in result.known:
            assert scan(rows.write_ndjson().encode(), result.known[str(trace_id)]) == []
    assert scan((result.report.write_ndjson() + result.holds.write_ndjson()).encode()) == []


@needs_shared
def test_airline_twice_is_once(flown: tuple[Mapped, Redacted]) -> None:
    _, once = flown
    again = redact(once.spans, policy("airline"), KEYS, scores=once.scores)
    assert again.spans.equals(once.spans)
    assert again.scores.equals(once.scores)


@needs_shared
def test_few_shot_transcripts_are_held() -> None:
    folder = SHARED / "real-traces/tau-bench" if SHARED else Path()
    lines = [
        line
        for path in sorted(folder.glob("*-few-shot-transcripts*"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    rows = [
        a_span(1, "user", "user", raw=json.loads(line)["messages_display"], trace_id=f"{number:032x}")
        for number, line in enumerate(lines, 1)
    ]
    assert len(rows) == 45
    result = redact(some_spans(*rows), policy("airline"), KEYS)
    assert result.spans["holds"].to_list() == [["free_text_without_seeds"]] * 45


@pytest.mark.parametrize("workflow", ["refund", "scheduling", "research"])
def test_samples_are_redacted(workflow: str) -> None:
    found = [
        otlp.spans(raw, harness_state="test")
        for raw in otlp.source.fetch(Window(paths=tuple((ROOT / "data" / "samples").glob("*.jsonl"))))
    ]
    spans = pl.concat([one.spans for one in found])
    scores = pl.concat([one.scores for one in found])
    claimed = spans.filter(pl.col("workflow") == workflow)["trace_id"].unique()
    result = redact(
        spans.filter(pl.col("trace_id").is_in(claimed.implode())), policy(workflow), Keyring(),
        scores=scores.filter(pl.col("trace_id").is_in(claimed.implode())),
    )  # fmt: skip
    assert result.quarantine.height == 0
    # Customers who never said which order it is about: nothing was looked up, so nobody can be known.
    assert set(held(result)) <= {"free_text_without_seeds"}
    passed = result.spans.filter(pl.col("holds").list.len() == 0)
    assert passed["trace_id"].n_unique() > 0.9 * claimed.len()
    said = texts(passed.select("messages_in", "messages_out", "seen", "raw", "proposed", "shown", "error_message"))
    people = [name for name in (*FIRST, *LAST) if re.search(rf"\b{name}\b", said)]
    assert people == []
    assert scan(said.encode()) == []
    assert unsettled(result, policy(workflow), Keyring()) == []


def unsettled(result: Redacted, rules: redaction.Policy, keys: Keyring) -> list[str]:
    """Tools whose redacted arguments a replay would change once more."""
    found = []
    for _, rows in result.spans.filter(pl.col("holds").list.len() == 0).group_by("trace_id"):
        table = next((json.loads(held) for held in rows["pseudonyms"].drop_nulls()), {})
        redactor = Redactor(rules, keys, table)
        for tool, held in (
            rows.filter(pl.col("kind") == "tool").select("tool_name", pl.coalesce("seen", "proposed")).iter_rows()
        ):
            args = json.loads(held)
            found += [tool] if redactor.redact_arguments(tool, args) != args else []
    return found


@needs_shared
def test_airline_arguments_come_back_as_they_are(flown: tuple[Mapped, Redacted]) -> None:
    _, result = flown
    assert unsettled(result, policy("airline"), KEYS) == []
    assert unsettled(result, policy("airline"), Keyring()) == []


def judged(spans: pl.DataFrame, scores: pl.DataFrame, passed: pl.Series) -> tuple[Counter[Any], pl.DataFrame]:
    """(what detect finds, the grades R1..R11) in the traces that redaction passed."""
    rules = workflows.load(ROOT / "data" / "policies")
    policies = {name: rule.policy for name, rule in rules.items()}
    tables = normalize(spans, scores, policies=policies, harness_state="test")
    found = detect(tables.traces, tables.crossings, tables.scores, workflows=rules, harness_state="test").findings
    said = (
        "trace_id",
        "invariant_id",
        "level",
        "effect",
        "severity",
        "tool",
        "boundary",
        "onset_seq",
        "end_seq",
        "occurrences",
    )
    kept = found.filter(pl.col("trace_id").is_in(passed.implode())).select(*said)
    grades = tables.traces.filter(pl.col("trace_id").is_in(passed.implode())).sort("trace_id").select("^r[0-9]+$")
    return Counter(kept.iter_rows()), grades


@needs_shared
def test_airline_findings_and_grades_survive(flown: tuple[Mapped, Redacted]) -> None:
    found, result = flown
    passed = result.spans.filter(pl.col("holds").list.len() == 0)["trace_id"].unique()
    claim = pl.lit("airline").alias("workflow")
    before = judged(unredacted(found.spans.with_columns(claim)), found.scores, passed)
    after = judged(result.spans.with_columns(claim), result.scores, passed)
    assert sum(before[0].values()) > 50
    assert after[0] == before[0]
    assert after[1].equals(before[1])
