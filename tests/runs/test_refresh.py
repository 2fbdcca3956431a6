import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checkouts import AS_OF, DAYS, ROOT, a_checkout, give
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


def decisions(place: Checkout) -> dict[str, tuple[str, list[str]]]:
    from tasks.admit.schema import Admissions

    found = rows(place, Admissions).select("trace_id", "decision", "reasons")
    return {trace: (decision, reasons) for trace, decision, reasons in found.iter_rows()}


def corpus_of(place: Checkout) -> list[pl.DataFrame]:
    """What a refresh makes of traces, by trace: where the rows lie in their shards does not count."""
    from tasks.admit.schema import Admissions
    from tasks.normalize.schema import Crossings, Scores, Spans, Traces

    keys = {Traces: ["trace_id"], Spans: ["row_id"], Scores: ["score_id"], Crossings: ["trace_id", "seq", "sub"]}
    return [
        rows(place, table).sort(keys.get(table, ["trace_id"]))
        for table in (Traces, Spans, Scores, Crossings, Admissions)
    ]


@pytest.mark.parametrize("late", ["redaction.yaml", "tools.yaml", "invariants.yaml"])
def test_traces_wait_for_a_file_that_is_not_written_yet(tmp_path: Path, late: str) -> None:
    """Nothing that came too early is lost: with the file there, the next refresh comes to what it would have come to at once."""
    policies = tmp_path / "policies"
    shutil.copytree(ROOT / "data/policies", policies)
    file = policies / "refund" / late
    written = file.read_text(encoding="utf-8")
    file.unlink()
    place = a_checkout(tmp_path / "early", policies=policies)
    first = refreshed(place)
    early = decisions(place)
    refund = {trace for trace, (_, reasons) in early.items() if f"waits_for:refund/{late}" in reasons}
    assert {early[trace][0] for trace in refund} <= {"hold"}
    assert bool(refund) is (late == "redaction.yaml")  # without the other two nothing is found that would be considered
    assert {held["file"] for held in first["awaited"]} == {str(file)}
    assert refreshed(place)["corpus_id"] == first["corpus_id"]
    file.write_text(written, encoding="utf-8")
    now, whole = Checkout.at(tmp_path / "early", {}), a_checkout(tmp_path / "whole", policies=policies)
    taken = refreshed(now)
    refreshed(whole)
    assert balanced(taken)
    assert taken["awaited"] == []
    assert "promote" in {decision for decision, _ in decisions(now).values()}
    for ours, theirs in zip(corpus_of(now), corpus_of(whole), strict=True):
        assert ours.drop("harness_state").equals(theirs.drop("harness_state"))


def test_traces_that_a_policy_did_not_name_are_taken_again_once_it_does(tmp_path: Path) -> None:
    """A field that nobody named holds a trace bare: with the field named, the same file gives what it holds."""
    policies = tmp_path / "policies"
    shutil.copytree(ROOT / "data/policies", policies)
    file = policies / "refund" / "redaction.yaml"
    written = file.read_text(encoding="utf-8")
    lines = [line for line in written.splitlines() if "policy_limit_gbp" not in line]
    assert len(lines) < len(written.splitlines())
    file.write_text("\n".join(lines), encoding="utf-8")
    place = a_checkout(tmp_path / "early", policies=policies)
    refreshed(place)
    held = {trace for trace, (_, reasons) in decisions(place).items() if "hold:unknown_field" in reasons}
    assert {decisions(place)[trace][0] for trace in held} == {"hold"}
    file.write_text(written, encoding="utf-8")
    now = Checkout.at(tmp_path / "early", {})
    assert balanced(refreshed(now))
    assert not any("hold:unknown_field" in reasons for _, reasons in decisions(now).values())


def test_a_rule_is_asked_about_traces_that_are_here_already(tmp_path: Path) -> None:
    from tasks.normalize.schema import Traces

    place, at_once = a_checkout(tmp_path / "later"), a_checkout(tmp_path / "once")
    refreshed(place, flagged="status == 'error'")
    before = dict(rows(place, Traces).select("trace_id", "flagged").iter_rows())
    later = refreshed(place, flagged="status == 'ok'")
    assert later["rejudged"] == list(before.values()).count(False) > 0
    assert balanced(later)
    assert rows(place, Traces)["flagged"].all()
    refreshed(at_once, flagged="status == 'ok' or status == 'error'")
    for ours, theirs in zip(corpus_of(place), corpus_of(at_once), strict=True):
        assert ours.equals(theirs)
    again = refreshed(place, flagged="status == 'error'")
    assert (again["rejudged"], again["corpus_id"]) == (0, later["corpus_id"])


def test_a_rule_is_asked_about_no_trace_outside_its_window(tmp_path: Path) -> None:
    from tasks.normalize.schema import Traces

    place = a_checkout(tmp_path, days=2)
    refreshed(place, flagged="status == 'error'")
    day = place.config.path("samples") / DAYS[0]
    held = refreshed(place, day, flagged="status == 'ok'")
    flagged = rows(place, Traces).filter("flagged")
    assert 0 < held["rejudged"] < rows(place, Traces).height
    assert {flag["flag"] for flags in flagged["flags"] for flag in flags} == {"status == 'ok'", "status == 'error'"}


def test_a_score_that_no_trace_has_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    place = a_checkout(tmp_path)
    with pytest.raises(InputError, match=r"no trace here has a 'statsu'\. Did you mean 'status'"):
        refreshed(place, flagged="status == 'error' or statsu == 'ok'")
    assert place.corpus.head() is None
    assert not list(tmp_path.rglob("raw/*"))


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
