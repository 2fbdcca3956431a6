"""The redact step: span records in, redacted span records out, a trace at a time and every trace whole.

A trace that cannot be redacted for certain is held: its rows go on without payloads, with the reasons, so that admission can say why.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl

from tasks.contracts import validated
from tasks.redact import labels, leakscan
from tasks.redact.detectors import Detectors
from tasks.redact.schema import RedactedSpans
from tasks.redact.trace import Shared, TraceRedaction
from tasks.sources.schema import ScoreRecords
from twiceshy import identity
from twiceshy.errors import KeyMismatch, PolicyError
from twiceshy.redaction import RESTRICTED, Keyring, Policy, Redactor, walking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

Row = dict[str, Any]

HOLD_SCHEMA = pl.Schema({"trace_id": pl.String, "reason": pl.String, "place": pl.String, "times": pl.Int64})
REPORT_SCHEMA = pl.Schema(
    {"rule": pl.String, "type": pl.String, "action": pl.String, "path": pl.String, "times": pl.Int64}
)
_WORDS_OF_PROGRAMS = re.compile(
    r"[a-z]+(?:[_-][a-z]+)+|good|bad|pass|passed|fail|failed|positive|negative|correct|incorrect|like|dislike|up|down"
)
_PAYLOADS = ("proposed", "seen", "raw", "shown")
_WITHHELD = (
    *_PAYLOADS, *(f"{side}_encoding" for side in _PAYLOADS), "messages_in", "messages_out", "system_text", "tool_defs", "model_params",
    "error_message", "goal", "clock_text", "clock_ns", "start_ns", "end_ns", "user_ref", "attributes_json", "provenance",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What redact takes from the rest of the workflow.

    reads: tools whose calls are reads; None where nobody knows, and then a banded argument of any tool holds its trace. schemas: tool -> schema of its arguments.
    table: pseudonym -> digest, of the whole namespace so far. verdicts: frame of spans -> {trace_id: digest of what every invariant says of it}, or None.
    scan: the leak scan of what is about to leave.
    """

    reads: Collection[str] | None = None
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    table: Mapping[str, str] = field(default_factory=dict)
    limits: walking.Limits = walking.LIMITS
    verdicts: Callable[[pl.DataFrame], Mapping[str, str]] | None = None
    scan: Callable[[bytes, Sequence[leakscan.Known]], Sequence[leakscan.Hit]] = leakscan.scan


class Redacted(NamedTuple):
    """What became of a shard.

    spans: one row a span (`RedactedSpans`), rows of held traces without payload. scores: one row a score. quarantine: rows that broke the contract, with `set_aside_for`.
    holds: one row a (trace, reason, place); report: one row a (rule, type, action, path), counts only. table: the namespace's pseudonyms, to be handed to the next shard.
    known: trace id -> its raw values, for the leak scan of what is made of it; in memory only. duplicates: rows that said the same as another.
    """

    spans: pl.DataFrame
    scores: pl.DataFrame
    quarantine: pl.DataFrame
    holds: pl.DataFrame
    report: pl.DataFrame
    table: dict[str, str]
    known: dict[str, list[leakscan.Known]]
    duplicates: int


_DEFAULTS = Options()


def redact(
    spans: pl.DataFrame,
    policy: Policy,
    keyring: Keyring,
    *,
    scores: pl.DataFrame | None = None,
    options: Options = _DEFAULTS,
) -> Redacted:
    """The spans and scores of whole traces, redacted under one policy and key; rows stamped with both pass as they are.

    Raises KeyMissing, PackageMissing; KeyMismatch and PolicyError for rows stamped otherwise.
    """
    stamped, raw = _by_stamp(spans, policy)
    distinct = raw.unique("row_id", keep="first", maintain_order=True)
    shard = _Shard(policy, keyring, options)
    given = ScoreRecords.no_rows() if scores is None else scores
    done = {*stamped["trace_id"]} if stamped.height else set()
    shard.run(distinct, given.filter(~pl.col("trace_id").is_in(list(done))))
    made = pl.concat([stamped, _frame(shard.rows, RedactedSpans)])
    good, set_aside = validated(made, RedactedSpans)
    kept = pl.concat([given.filter(pl.col("trace_id").is_in(list(done))), _frame(shard.scores, ScoreRecords)])
    return Redacted(
        spans=good,
        scores=ScoreRecords.arranged(kept),
        quarantine=set_aside,
        holds=_counted(shard.holds, HOLD_SCHEMA),
        report=_counted(shard.counts, REPORT_SCHEMA),
        table=shard.redactor.pseudonyms.table,
        known=shard.known,
        duplicates=raw.height - distinct.height,
    )


def _by_stamp(spans: pl.DataFrame, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows that went through this policy and key already, raw rows)."""
    if "key_id" not in spans.columns:
        return RedactedSpans.no_rows(), spans
    for key_id, digest in (
        spans.filter(pl.col("key_id").is_not_null()).select("key_id", "policy_digest").unique().iter_rows()
    ):
        if key_id != policy.key_id:
            raise KeyMismatch.between(policy.key_id, key_id)
        if digest != policy.digest:
            raise PolicyError(
                f"these rows were redacted under policy {digest[:16]}, this one is {policy.digest[:16]}. "
                "Dates and bands would move twice: redact again from the raw copies."
            )
    is_stamped = pl.col("key_id").is_not_null()
    return spans.filter(is_stamped), spans.filter(~is_stamped)


class _Shard:
    """The traces of one call, and what is gathered over them."""

    def __init__(self, policy: Policy, keyring: Keyring, options: Options) -> None:
        keyring.key(policy.key_id)  # a missing key is known before any work
        self._policy = policy
        self._options = options
        self.redactor = Redactor(policy, keyring, options.table, raw=True)
        detectors = Detectors(policy)
        self._shared = Shared(policy=policy, redactor=self.redactor, detectors=detectors, limits=options.limits)
        self.rows: list[Row] = []
        self.scores: list[Row] = []
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.holds: Counter[tuple[str, ...]] = Counter()
        self.known: dict[str, list[leakscan.Known]] = {}

    def run(self, spans: pl.DataFrame, scores: pl.DataFrame) -> None:
        traces = [TraceRedaction(rows, said, self._shared) for rows, said in _traces(spans, scores)]
        for trace in traces:
            trace.collect()
            self._hold_bands(trace)
        self._name_everybody([trace for trace in traces if not trace.findings.holds])
        for trace in traces:
            self._finish(trace)
        if self._options.verdicts is not None and self.rows:
            self._hold_changed_verdicts(spans, self._options.verdicts)

    def _hold_bands(self, trace: TraceRedaction) -> None:
        """A band inside a read's key would make two different reads one."""
        for name, place, _ in trace.findings.amounts:
            kind, _, rest = place.partition(".")
            tool, _, inside = rest.partition(".args")
            if kind == "tool" and inside and (self._options.reads is None or tool in self._options.reads):
                trace.findings.holds["band_in_read_key", f"{kind}.{tool}.args (relative to {name})"] += 1

    def _name_everybody(self, traces: Sequence[TraceRedaction]) -> None:
        """Give out pseudonyms in the order of the values, not of the traces: a clash is then decided alike whatever the order of the input."""
        values = {(found.kind, found.text) for trace in traces for found in trace.findings.occurrences}
        values |= {
            ("date_of_birth", text)
            for trace in traces
            for text, action in trace.findings.birthdays.items()
            if action == "synthesize"
        }
        self.redactor.avoid = frozenset(text.strip().casefold() for _, text in values)
        for kind, text in sorted(values):
            self.redactor.pseudonym_in(kind, text)

    def _finish(self, trace: TraceRedaction) -> None:
        rows, scores = self._replaced(trace) if not trace.findings.holds else ([], [])
        if trace.findings.holds:
            rows, scores = [_withheld(row) for row in trace.rows], [_withheld_score(row) for row in trace.scores]
            for (reason, place), times in trace.findings.holds.items():
                self.holds[trace.trace_id, reason, place] += times
        else:
            self.counts.update(trace.counts)
        stamp = {"policy_digest": self._policy.digest, "key_id": self._policy.key_id}
        reasons = sorted({reason for reason, _ in trace.findings.holds})
        self.rows += [row | stamp | {"holds": reasons} for row in rows]
        self.scores += scores

    def _replaced(self, trace: TraceRedaction) -> tuple[list[Row], list[Row]]:
        try:
            rows, scores = trace.replaced()
        except walking.BoundExceeded as bound:
            trace.findings.holds[bound.reason, ""] += 1
            return [], []
        raw = labels.Labelled(trace.rows, self._policy, self._options.schemas)
        redacted = labels.Labelled(rows, self._policy, self._options.schemas)
        for row, before, after in zip(rows, raw.by_row, redacted.by_row, strict=True):
            stored = labels.renamed(before, trace.renamed)
            for path in labels.changed(stored, after, row["tool_name"] or row["name"], self._policy):
                trace.findings.holds["bucket_changed", trace.shown(f"tool.{row['tool_name']}.args.{path}")] += 1
            row["bucket_labels"] = labels.column(stored)
        self._scan(trace, rows, scores)
        used = trace.used
        for at, row in enumerate(rows):
            row["pseudonyms"] = identity.canonical(used).decode() if at == 0 and used else None
        return rows, scores

    def _scan(self, trace: TraceRedaction, rows: Sequence[Row], scores: Sequence[Row]) -> None:
        """The independent look at what is about to leave; a scanner that fails admits nothing."""
        known = trace.known
        try:
            hits = self._options.scan(_final_bytes(rows, scores), known)
        except Exception:  # noqa: BLE001 - whatever broke, nothing was proven
            trace.findings.holds["scanner_error", ""] += 1
            return
        for hit in hits:
            trace.findings.holds["leak_hit", f"{hit.what} ({hit.view})"] += hit.times
        self.known[trace.trace_id] = known

    def _hold_changed_verdicts(self, raw: pl.DataFrame, verdicts: Callable[[pl.DataFrame], Mapping[str, str]]) -> None:
        before, after = verdicts(raw), verdicts(_frame(self.rows, RedactedSpans))
        for at, row in enumerate(self.rows):
            trace_id = row["trace_id"]
            if not row["holds"] and before.get(trace_id) != after.get(trace_id):
                self.holds[trace_id, "verdict_changed", ""] = 1
                self.rows[at] = _withheld(row) | {"holds": ["verdict_changed"]}
        held = {trace_id for trace_id, reason, _ in self.holds if reason == "verdict_changed"}
        self.scores = [_withheld_score(score) if score["trace_id"] in held else score for score in self.scores]


def _traces(spans: pl.DataFrame, scores: pl.DataFrame) -> Iterator[tuple[list[Row], list[Row]]]:
    """(spans in order, scores) of each trace, traces by id."""
    rows: dict[str, list[Row]] = {}
    said: dict[str, list[Row]] = {}
    for row in spans.sort("trace_id", "seq", "row_id").iter_rows(named=True):
        rows.setdefault(row["trace_id"], []).append(row)
    for row in scores.sort("trace_id", "score_id").iter_rows(named=True):
        said.setdefault(row["trace_id"], []).append(row)
    for trace_id in sorted({*rows, *said}):
        yield rows.get(trace_id, []), said.get(trace_id, [])


def _withheld(row: Row) -> Row:
    """The row of a held trace: what it was and where it stood, and nothing that anybody said."""
    bare: Row = dict.fromkeys(_WITHHELD)
    named = {
        "name": row["tool_name"] or row["kind"],
        "source_trace_id": row["trace_id"],
        "source_span_id": row["span_id"],
    }
    rest: Row = {
        "conversation_id": None,
        "bucket_labels": [],
        "redaction_map": None,
        "pseudonyms": None,
        "time_precision": "none",
    }
    return row | bare | named | rest


def _withheld_score(row: Row) -> Row:
    """The score of a held trace: its number and a label that is one of a program's words, since these say whether the trace was flagged."""
    label = row["label"] if row["label"] and _WORDS_OF_PROGRAMS.fullmatch(row["label"]) else None
    spoken = row["value"] is None and label is None
    return row | {
        "label": RESTRICTED if spoken else label,
        "text": None,
        "comment": None,
        "author_ref": None,
        "created_ns": None,
    }


def _final_bytes(rows: Sequence[Row], scores: Sequence[Row]) -> bytes:
    """Everything that leaves, each distinct value once: a model's next request repeats all earlier messages."""
    parts: dict[bytes, None] = {}
    for row in (*rows, *scores):
        for name, value in row.items():
            if name in {"messages_in", "messages_out"} and value:
                parts |= dict.fromkeys(_items(value))
            elif isinstance(value, str) and name != "row_id":
                parts[value.encode(errors="replace")] = None
            elif value is not None and not isinstance(value, str):
                parts[msgspec.json.encode(value)] = None
    return b"\n".join(parts)


def _items(text: str) -> list[bytes]:
    try:
        return [bytes(item) for item in msgspec.json.decode(text, type=list[msgspec.Raw])]
    except msgspec.ValidationError:
        return [text.encode(errors="replace")]


def _frame(rows: Sequence[Row], model: Any) -> pl.DataFrame:
    return pl.DataFrame(
        {
            name: pl.Series(name, [row.get(name) for row in rows], dtype=dtype, strict=True)
            for name, dtype in model.dtypes().items()
        }
    )


def _counted(counts: Mapping[tuple[str, ...], int], schema: pl.Schema) -> pl.DataFrame:
    rows = [(*key, times) for key, times in sorted(counts.items())]
    return pl.DataFrame(rows, schema=schema, orient="row")
