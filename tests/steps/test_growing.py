from pathlib import Path
from typing import Any

import polars as pl

from tables import some_rows
from tasks.contracts import Quarantine, Table
from tasks.draft import CORPUS_WIDE, Draft
from tasks.normalize.schema import Crossings, Scores, Spans, Traces
from tasks.pull.schema import Pulls
from tasks.store import Corpus

ONE, TWO = "1" * 32, "2" * 32


def made(model: type[Table], *rows: dict[str, Any]) -> pl.DataFrame:
    return some_rows(model, *rows) if rows else model.no_rows()


def a_draft(corpus: Corpus, pull: str, *spans: tuple[str, int]) -> Draft:
    """A draft that took in one pull: (trace, row) of each of its spans."""
    pulls = made(Pulls, {"pull_id": pull * 64}) if spans else Pulls.no_rows()
    held = made(Spans, *({"trace_id": trace, "row_id": f"{row:064x}"} for trace, row in spans))
    draft = Draft.of(corpus.head(), pulls=pulls, trace_ids=held["trace_id"], harness_state="h")
    traces = made(Traces, *({"trace_id": trace} for trace in sorted({trace for trace, _ in spans})))
    draft.take(traces=traces, spans=held, scores=Scores.no_rows(), crossings=Crossings.no_rows())
    draft.set_aside()
    return draft


def stored(corpus: Corpus, table: Any, column: str) -> list[str]:
    head = corpus.head()
    assert head is not None
    return head.frame(table)[column].to_list()


def test_new_traces_come_beside_the_old(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    first = a_draft(corpus, "a", (ONE, 1)).commit(corpus)
    second = a_draft(corpus, "b", (TWO, 2)).commit(corpus)
    assert stored(corpus, Traces, "trace_id") == [ONE, TWO]
    kept = {part.file for part in first.manifest.parts if part.table == "spans"}
    assert kept <= {part.file for part in second.manifest.parts}


def test_trace_that_came_again_gives_way_to_itself(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    a_draft(corpus, "a", (ONE, 1), (TWO, 2)).commit(corpus)
    a_draft(corpus, "b", (ONE, 3), (ONE, 4)).commit(corpus)
    assert stored(corpus, Traces, "trace_id") == [ONE, TWO]
    assert [int(row, 16) for row in stored(corpus, Spans, "row_id")] == [2, 3, 4]


def test_trace_of_which_nothing_is_left_is_gone(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    a_draft(corpus, "a", (ONE, 1)).commit(corpus)
    draft = a_draft(corpus, "b", (ONE, 2))
    draft.take(traces=Traces.no_rows(), spans=Spans.no_rows(), scores=Scores.no_rows(), crossings=Crossings.no_rows())
    assert draft.traces.is_empty()


def test_pull_of_nothing_makes_no_generation(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    first = a_draft(corpus, "a", (ONE, 1)).commit(corpus)
    assert a_draft(corpus, "b").commit(corpus).id == first.id


def test_late_spans_find_their_stored_trace(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    a_draft(corpus, "a", (ONE, 1), (TWO, 2)).commit(corpus)
    fresh = some_rows(Spans, {"trace_id": ONE, "row_id": f"{3:064x}"})
    draft = a_draft(corpus, "b", (ONE, 3))
    spans, scores = draft.complete(fresh, Scores.no_rows(), [ONE])
    assert ([int(row, 16) for row in sorted(spans["row_id"])], scores.height) == ([1, 3], 0)
    assert draft.complete(fresh, Scores.no_rows(), [])[0].height == 1


def test_rows_of_corpus_wide_steps_are_set_aside_anew(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    broken = some_rows(Traces, {"trace_id": ONE}).with_columns(set_aside_for=pl.lit("trace_id: unique"))
    draft = a_draft(corpus, "a", (ONE, 1))
    draft.anew(Scores, Scores.no_rows(), broken, step="detect")
    snapshot = draft.commit(corpus)
    assert set(snapshot.parts(Quarantine)) == {CORPUS_WIDE}
    assert a_draft(corpus, "b").commit(corpus).parts(Quarantine) == {}
