import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checkouts import AS_OF, DAYS, a_checkout, give
from flows.checkout import Checkout
from twiceshy.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def refreshed(place: Checkout, path: Path | None = None, source: str = "otlp", **asked: Any) -> dict[str, Any]:
    """The flow's body: every step as itself, without a server."""
    from flows.refresh import refresh

    at = place.config.path("samples") if path is None else path
    account: dict[str, Any] = refresh.fn(source, str(at), as_of=AS_OF, root=str(place.config.root), **asked)
    return account


def rows(place: Checkout, table: Any) -> pl.DataFrame:
    head = place.corpus.head()
    assert head is not None
    frame: pl.DataFrame = head.frame(table)
    return frame


def balanced(account: dict[str, Any]) -> bool:
    return all(
        held.pop("traces") == sum(count for name, count in held.items() if name != "source")
        for held in account["accounts"]
    )


def test_every_trace_is_accounted_for(tmp_path: Path) -> None:
    from tasks.admit.schema import Admissions
    from twiceshy import casefile

    place = a_checkout(tmp_path)
    account = refreshed(place)
    assert account["accounts"][0]["traces"] > 20
    assert balanced(account)
    assert account["generation"] == 1
    proposed = {casefile.load(path).case.id for path in casefile.find(place.proposed)}
    assert (
        proposed
        == {held["case"] for held in account["proposed"]}
        == set(rows(place, Admissions).filter(decision="promote")["case_id"])
    )
    assert not place.config.path("cases").exists()


def test_second_refresh_changes_nothing(tmp_path: Path) -> None:
    place = a_checkout(tmp_path)
    first = refreshed(place)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert refreshed(place) == first
    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path for path, held in files.items() if now.get(path) != held] == []
    assert {path.parent.name for path in now.keys() - files.keys()} == {"timings"}


def test_days_one_by_one_or_at_once(tmp_path: Path) -> None:
    from tasks.admit.schema import Admissions
    from tasks.normalize.schema import Crossings, Scores, Spans, Traces
    from tasks.sign.schema import Signatures

    once, daily = a_checkout(tmp_path / "once", days=2), a_checkout(tmp_path / "daily")
    refreshed(once)
    refreshed(daily)
    give(daily.config.root, 2)
    refreshed(daily)
    for table in (Traces, Spans, Scores, Crossings, Signatures, Admissions):
        assert rows(once, table).equals(rows(daily, table)), table.named()
    assert [len(place.corpus.list()) for place in (once, daily)] == [1, 2]


def test_trace_that_grew_gives_way_to_itself(tmp_path: Path) -> None:
    from tasks.normalize.schema import Spans, Traces

    place, whole = a_checkout(tmp_path / "grown", days=0), a_checkout(tmp_path / "whole")
    lines = give(whole.config.root, 1).joinpath(DAYS[0]).read_text(encoding="utf-8").splitlines()
    early, late = place.config.path("samples") / "early.jsonl", place.config.path("samples") / "late.jsonl"
    cut = json.loads(lines[0])
    spans = cut["resourceSpans"][0]["scopeSpans"][0]
    spans["spans"], rest = spans["spans"][:3], spans["spans"][3:]
    early.write_text("\n".join([json.dumps(cut), *lines[1:]]), encoding="utf-8")
    refreshed(place, early)
    spans["spans"] = rest
    late.write_text(json.dumps(cut), encoding="utf-8")
    early.unlink()
    refreshed(place, late)
    refreshed(whole)
    assert set(rows(place, Spans)["row_id"]) == set(rows(whole, Spans)["row_id"])
    assert rows(place, Traces)["trace_id"].to_list() == rows(whole, Traces)["trace_id"].to_list()


def test_broken_line_is_set_aside(tmp_path: Path) -> None:
    from tasks.contracts import Quarantine

    place = a_checkout(tmp_path)
    file = place.config.path("samples") / DAYS[0]
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3][:200]
    file.write_text("\n".join(lines), encoding="utf-8")
    account = refreshed(place)
    assert account["accounts"][0]["quarantined"] == 1
    assert balanced(account)
    assert rows(place, Quarantine).select("step", "reason").rows() == [("pull", "bad_json")]


def test_only_samples_take_the_sample_key(tmp_path: Path) -> None:
    place = a_checkout(tmp_path, samples=tmp_path / "elsewhere")
    with pytest.raises(InputError, match="twiceshy keys new"):
        refreshed(place, tmp_path / "samples")
    assert place.corpus.head() is None


def test_unclaimed_traces_are_held_bare(tmp_path: Path) -> None:
    from tasks.normalize.schema import Spans

    place = a_checkout(tmp_path, policies=tmp_path / "policies")
    account = refreshed(place)
    (held,) = account["accounts"]
    assert (held["promoted"], held["members"]) == (0, 0)
    assert held["held"] + held["discarded"] + held["unflagged"] == held["traces"]
    spans = rows(place, Spans)
    assert (
        spans.select("proposed", "seen", "raw", "shown", "messages_in", "messages_out", "system_text")
        .null_count()
        .row(0)
        == (spans.height,) * 7
    )


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [
        ({"path": "nowhere"}, "no such file"),
        ({"source": "otpl"}, "Did you mean 'otlp'"),
        ({"flagged": "reward = 3"}, "character 8"),
        ({"window": "yesterday"}, "2026-11-01/2026-11-08"),
        ({"workflow": "refnd"}, "Did you mean 'refund'"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, asked: dict[str, Any], phrase: str) -> None:
    place = a_checkout(tmp_path)
    given = {**asked, "path": tmp_path / asked["path"]} if "path" in asked else asked
    with pytest.raises(InputError, match=phrase):
        refreshed(place, **given)
    assert place.corpus.head() is None
