"""The step that does I/O: fetch a window of a source, map it to canonical spans, and account for every one of them; a second pull changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import polars as pl

from tasks.contracts import Quarantine, quarantined, validated
from tasks.pull.claims import claimed
from tasks.pull.lengths import caps, marked
from tasks.pull.schema import Pulls
from tasks.pull.survey import began_in
from tasks.sources.records import SYNTHETIC, frame
from tasks.sources.schema import ScoreRecords, SpanRecords
from twiceshy.identity import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tasks.sources.source import Raw, Rejected, Source, Window

_STEP = "pull"
_NO_SPANS = pl.DataFrame(schema={"trace_id": pl.String, "row_id": pl.String})
_NO_SCORES = pl.DataFrame(schema={"score_id": pl.String})


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What earlier pulls left: the rows of `pulls`, (trace_id, row_id) of every stored span that a source gave, and the stored score_ids.

    retake: traces of which nothing was kept under the policy of that time; they are read again wherever they lie in the window.
    """

    pulls: pl.DataFrame = field(default_factory=Pulls.no_rows)
    spans: pl.DataFrame = field(default_factory=_NO_SPANS.clone)
    scores: pl.DataFrame = field(default_factory=_NO_SCORES.clone)
    retake: Collection[str] = ()

    @classmethod
    def of(
        cls, *, pulls: pl.DataFrame, spans: pl.DataFrame, scores: pl.DataFrame, retake: Collection[str] = ()
    ) -> Self:
        """From the stored tables `pulls`, `spans` (less the roots that normalize added) and `scores`."""
        wanted = pl.col("trace_id").is_in(list(retake))
        given = spans.filter((pl.col("dialect") != SYNTHETIC) & ~wanted).select("trace_id", "row_id")
        return cls(pulls=pulls, spans=given, scores=scores.select("score_id"), retake=retake)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a pull goes by. workflows: the tools of each known workflow; workflow: the one of traces that record none.

    keep: puts a raw copy away and gives its reference; without it no copy is kept. expires_at_ns: until when those copies may stay.
    """

    harness_state: str
    workflows: Mapping[str, Collection[str]] = field(default_factory=dict)
    workflow: str | None = None
    keep: Callable[[Raw], str] | None = None
    expires_at_ns: int | None = None


class Pulled(NamedTuple):
    """spans, scores: every row of each trace that is new or grew, whole traces; pulls: a row a file that was read; quarantine: what was set aside.

    unfound: traces that grew and of which an earlier row is in no file of the window any more; their stored rows have to be joined.
    """

    spans: pl.DataFrame
    scores: pl.DataFrame
    pulls: pl.DataFrame
    quarantine: pl.DataFrame
    unfound: tuple[str, ...]


def pull(source: Source, window: Window, terms: Terms, known: Known | None = None) -> Pulled:
    """A window of a source, but for what earlier pulls have.

    A file is read again only if it changed, or if a trace has rows in it that grew or of which nothing was kept. A time window takes the traces that began in it, and those known
    before of which a row is new, however late it came. Raises InputError where a file is missing, empty, damaged or of another format.
    """
    known = known or Known()
    done = set(known.pulls["pull_id"])
    read: list[_File] = []
    unchanged: list[Raw] = []
    for raw in source.fetch(window):
        pull_id = digest([source.name, _label(window, raw.name), raw.digest])
        if pull_id in done:
            unchanged.append(raw._replace(content=b""))
        else:
            read.append(_read(source, raw, pull_id, terms))
    read = _checked(read)
    chosen = _chosen(read, window, known)
    files = [held.only(chosen) for held in read]
    spans, scores = _joined(files)
    if unchanged:
        judged = set(chosen) - set(spans["trace_id"])
        wanted = {*_short(spans, known)["trace_id"], *known.retake, *judged}
        again = _again(source, window, {raw.name for raw in unchanged}, wanted, terms)
        spans, scores = _joined([*files, *again])
    spans = marked(spans, caps(pl.concat([SpanRecords.no_rows(), *(held.spans for held in read)])))
    return Pulled(
        SpanRecords.arranged(claimed(spans, terms.workflows, asked=terms.workflow)), ScoreRecords.arranged(scores),
        Pulls.arranged(frame([held.account(source.name, window, terms) for held in files], Pulls)),
        Quarantine.arranged(pl.concat([Quarantine.no_rows(), *(held.set_aside(source.name, terms) for held in files)])),
        tuple(sorted(set(_short(spans, known)["trace_id"]))),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file that was read: all its rows, exact duplicates included, and what was set aside of it."""

    raw: Raw
    pull_id: str
    spans: pl.DataFrame
    broken: pl.DataFrame
    scores: pl.DataFrame
    rejected: list[Rejected]
    raw_ref: str | None = None

    def only(self, trace_ids: pl.Series) -> _File:
        """The same with nothing but these traces; a rejected span whose trace nobody can read stays."""
        wanted = pl.col("trace_id").is_in(trace_ids.implode())
        held = set(trace_ids)
        rejected = [
            row for row in self.rejected if row.trace_id is None or row.trace_id in held or self.spans.is_empty()
        ]
        return replace(self, spans=self.spans.filter(wanted), scores=self.scores.filter(wanted), rejected=rejected)

    def account(self, source: str, window: Window, terms: Terms) -> dict[str, Any]:
        """The row of `Pulls`."""
        out, aside = self.spans.height, self.broken.height + len(self.rejected)
        distinct = self.spans["row_id"].n_unique()
        return {
            "harness_state": terms.harness_state, "pull_id": self.pull_id, "source": source, "window": _label(window, self.raw.name),
            "window_start_ns": window.start_ns, "window_end_ns": window.end_ns, "zone": "UTC", "input_digest": self.raw.digest,
            "cursor": msgspec.json.encode({"file": self.raw.name, "bytes": self.raw.size, "digest": self.raw.digest}).decode(),
            "spans_in": out + aside, "spans_out": out, "quarantined": aside, "distinct": distinct, "duplicates": out - distinct,
            "traces": self.spans["trace_id"].n_unique(), "scores": self.scores.height, "state": "complete", "newest_ns": self.spans["end_ns"].max(), "raw_ref": self.raw_ref,
            "expires_at_ns": terms.expires_at_ns if self.raw_ref else None,
        }  # fmt: skip

    def set_aside(self, source: str, terms: Terms) -> pl.DataFrame:
        """The rows of `Quarantine`, without a byte of what they held."""
        expires = terms.expires_at_ns if self.raw_ref else None
        rows = [
            {
                "harness_state": terms.harness_state, "quarantine_id": digest([source, self.raw.digest, row.locator, row.reason]), "step": _STEP,
                "unit": row.unit, "table": SpanRecords.named(), "source": source, "trace_id": row.trace_id, "span_id": row.span_id,
                "reason": row.reason, "locator": f"{self.raw.digest} {row.locator}", "byte_offset": row.byte_offset,
                "content_digest": row.content_digest, "raw_ref": self.raw_ref, "expires_at_ns": expires,
            }
            for row in self.rejected
        ]  # fmt: skip
        broken = quarantined(
            self.broken, SpanRecords, step=_STEP, harness_state=terms.harness_state, raw_ref=self.raw_ref, expires_at_ns=expires
        )  # fmt: skip
        # formats.md §1 knows nothing of columns: a span that does not keep the record's contract is of a bad type.
        return pl.concat(
            [frame(rows, Quarantine), broken.with_columns(source=pl.lit(source), reason=pl.lit("bad_type"))]
        )


def _read(source: Source, raw: Raw, pull_id: str, terms: Terms) -> _File:
    mapped = source.spans(raw, harness_state=terms.harness_state)
    ref = terms.keep(raw) if terms.keep else None
    return _File(
        raw=raw._replace(content=b""), pull_id=pull_id, spans=mapped.spans, broken=mapped.spans.clear(), scores=mapped.scores,
        rejected=mapped.rejected, raw_ref=ref,
    )  # fmt: skip


def _checked(read: list[_File]) -> list[_File]:
    """The files with the rows apart that do not keep the contract; all files at once, since a validation costs 0.1 s however few the rows."""
    spans, scores = _joined(read)
    bad = validated(spans, SpanRecords).set_aside.select("row_id", "set_aside_for")
    good_scores = validated(scores, ScoreRecords).good.select("score_id")
    return [
        replace(
            held, spans=held.spans.join(bad, on="row_id", how="anti", maintain_order="left"),
            broken=held.spans.join(bad, on="row_id", maintain_order="left"), scores=held.scores.join(good_scores, on="score_id", how="semi"),
        )
        for held in read
    ]  # fmt: skip


def _chosen(read: list[_File], window: Window, known: Known) -> pl.Series:
    """The ids of the traces that have a span or score nobody had before, and began in the window or are known."""
    rows = pl.concat([SpanRecords.no_rows(), *(held.spans for held in read)]).select("trace_id", "row_id", "start_ns")
    scores = pl.concat([ScoreRecords.no_rows(), *(held.scores for held in read)])
    fresh = pl.concat(
        [rows.join(known.spans, on="row_id", how="anti")["trace_id"], scores.join(known.scores, on="score_id", how="anti")["trace_id"]]
    )  # fmt: skip
    began = rows.group_by("trace_id").agg(pl.col("start_ns").min())
    inside = (
        pl.col("start_ns").is_null()
        | began_in(window)
        | pl.col("trace_id").is_in(known.spans["trace_id"].unique().implode())
    )
    found = began.filter(inside & pl.col("trace_id").is_in(fresh.unique().implode()))["trace_id"]
    # A score that came by itself, in a file or page of scores: its trace is read again from the files that have it.
    judged = scores.join(known.spans, on="trace_id", how="semi").join(known.scores, on="score_id", how="anti")[
        "trace_id"
    ]
    return pl.concat([found, judged]).unique().sort()


def _short(spans: pl.DataFrame, known: Known) -> pl.DataFrame:
    """(trace_id, row_id) of the stored rows that the pulled traces lack."""
    return known.spans.join(spans.select("trace_id").unique(), on="trace_id", how="semi").join(
        spans, on="row_id", how="anti"
    )


def _again(source: Source, window: Window, names: set[str], trace_ids: set[str], terms: Terms) -> Iterator[_File]:
    """From the files that did not change, the traces that grew elsewhere, and those to be taken again."""
    if not trace_ids:
        return
    wanted = pl.Series(sorted(trace_ids))
    for raw in source.fetch(window):
        if raw.name in names:
            (held,) = _checked([_read(source, raw, "", terms)])
            yield held.only(wanted)


def _joined(files: list[_File]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Distinct spans and scores of all files; of equal spans the smallest spelling, whatever the order of the files."""
    order = ["row_id", "container", "source_span_id", "source_trace_id"]
    spans = (
        pl.concat([SpanRecords.no_rows(), *(held.spans for held in files)])
        .sort(order, maintain_order=True)
        .unique("row_id", keep="first", maintain_order=True)
    )
    scores = pl.concat([ScoreRecords.no_rows(), *(held.scores for held in files)]).unique(
        "score_id", maintain_order=True
    )
    return spans, scores


def _label(window: Window, name: str) -> str:
    if window.start_ns is None and window.end_ns is None:
        return name
    return f"{_day(window.start_ns)}/{_day(window.end_ns)} {name}"


def _day(instant_ns: int | None) -> str:
    return ".." if instant_ns is None else datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC).isoformat()
