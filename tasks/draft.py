"""The corpus as it will be once a pull is in: all rows of a table for the steps that need them all, and what the commit will say of each table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import polars as pl

from tasks.contracts import Quarantine, Table, quarantined
from tasks.normalize.schema import Crossings, Scores, Spans, Traces
from tasks.pull.schema import Pulls
from tasks.store import Change, Corpus, Grown, Growth, Part, Snapshot, replace

CORPUS_WIDE = "corpus"
"""The shard of `quarantine` for rows of tables that are made anew each time: it is made anew with them."""


@dataclass(kw_only=True)
class Draft:
    """Grows table by table while a refresh runs. Nothing of it can be seen before `commit`, and a kill loses nothing but the work.

    traces, crossings, scores, quarantine: all rows of the corpus, once what came of this pull was taken in.
    """

    growth: Growth
    harness_state: str
    traces: pl.DataFrame = field(default_factory=Traces.no_rows)
    crossings: pl.DataFrame = field(default_factory=Crossings.no_rows)
    scores: pl.DataFrame = field(default_factory=Scores.no_rows)
    quarantine: pl.DataFrame = field(default_factory=Quarantine.no_rows)
    _changes: list[Change] = field(default_factory=list)
    _pulled: Mapping[str, pl.DataFrame | Part] = field(default_factory=dict)
    _broken: list[pl.DataFrame] = field(default_factory=list)

    @classmethod
    def of(cls, head: Snapshot | None, *, pulls: pl.DataFrame, trace_ids: Collection[str], harness_state: str) -> Self:
        """Begun with the rows of `pulls`. trace_ids: every trace that is new, came again or is put together again, whatever becomes of it."""
        draft = cls(growth=Growth.of(head, pulls=pulls, trace_ids=trace_ids), harness_state=harness_state)
        draft._took(draft.growth.by_key(Pulls, pulls, "pull_id"))
        return draft

    def complete(
        self, spans: pl.DataFrame, scores: pl.DataFrame, unfound: Sequence[str]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Redacted spans and scores, with the stored rows of traces that grew and whose earlier file is gone."""
        return (
            self.growth.completed(Spans, spans, "row_id", trace_ids=unfound),
            self.growth.completed(Scores, scores, "score_id", trace_ids=unfound),
        )

    def take(self, *, traces: pl.DataFrame, spans: pl.DataFrame, scores: pl.DataFrame, crossings: pl.DataFrame) -> None:
        """What normalize made of this pull's traces."""
        self._took(self.growth.by_trace(Spans, spans))
        self.traces = self._took(self.growth.by_trace(Traces, traces))
        self.scores = self._took(self.growth.by_trace(Scores, scores))
        self.crossings = self._took(self.growth.by_trace(Crossings, crossings))

    def set_aside(self, *found: pl.DataFrame) -> None:
        """Rows of `Quarantine` of this pull."""
        rows = pl.concat([Quarantine.no_rows(), *found]).unique("quarantine_id", maintain_order=True)
        grown = self.growth.by_key(Quarantine, rows, "quarantine_id")
        self.quarantine, self._pulled = grown.rows, grown.change.shards

    def anew(self, table: type[Table], rows: pl.DataFrame, broken: pl.DataFrame, *, step: str) -> pl.DataFrame:
        """The rows of a table that is made from the whole corpus. broken: what did not keep its contract."""
        self._changes.append(replace(table, rows))
        self._broken.append(quarantined(broken, table, step=step, harness_state=self.harness_state))
        return rows

    def commit(self, corpus: Corpus) -> Snapshot:
        """The generation; the head itself where nothing changed. Raises ChangedMeanwhile where another writer was faster."""
        broken = pl.concat([Quarantine.no_rows(), *self._broken])
        shards = {name: held for name, held in self._pulled.items() if name != CORPUS_WIDE}
        aside = replace(Quarantine, shards | ({CORPUS_WIDE: broken} if broken.height else {}))
        head = self.growth.head
        return corpus.commit([*self._changes, aside], parent=head.id if head else None)

    def _took(self, grown: Grown) -> pl.DataFrame:
        self._changes.append(grown.change)
        return grown.rows
