"""Pulls from the APIs of Langfuse and LangSmith: to the end, whatever the store does meanwhile, and nothing twice or lost."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from langfuse_rows import TRACE_ID, a_run, a_score, an_observation
from pulling_pages import Folder, window
from tasks.pull.step import Known, Terms, pull
from tasks.sources.langfuse.source import source as langfuse
from tasks.sources.langsmith.source import source as langsmith
from tasks.sources.otlp import source as otlp
from tasks.sources.source import Api, Window
from tasks.sources.spool import Page, Spool
from tasks.sources.web import ATTEMPTS, Refused, Unavailable
from trace_stores import ALangfuse, ALangsmith, AStore, serving
from traces import HARNESS
from twiceshy.errors import InputError

HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
NOON_NS = 1793664000_000000000  # 2026-11-03


@pytest.fixture
def store() -> Iterator[AStore]:
    with serving(ALangfuse(rows=a_run(), scores=[a_score()])) as held:
        yield held


def an_api(store: AStore, waited: list[float] | None = None, **keys: str) -> Api:
    named = keys or {"LANGFUSE_PUBLIC_KEY": "pk-1", "LANGFUSE_SECRET_KEY": "sk-1"}
    return Api(url=store.url, keys=named, sleep=(waited if waited is not None else []).append)


def pulled(api: Api, source: Any = langfuse, known: Known | None = None, **times: int) -> Any:
    return pull(source, Window(api=api, **times), Terms(harness_state=HARNESS), known)


def told(store: AStore) -> list[str]:
    return sorted(pulled(an_api(store)).spans["row_id"])


def test_all_pages_are_asked_for_with_every_field(store: AStore) -> None:
    found = pulled(an_api(store))
    assert (found.spans.height, found.scores["name"].to_list(), sorted(found.pulls["spans_in"])) == (
        3,
        ["correctness"],
        [0, 1, 2],
    )
    assert found.spans.filter(kind="model")["prompt_name"].to_list() == ["support"]
    paths = [path for path, _ in store.asked]
    assert paths == ["/api/public/v2/observations"] * 2 + ["/api/public/v3/scores"]
    (_, first), (_, second), _ = store.asked
    assert ("cursor" in first, "cursor" in second, "fromStartTime" in first) == (False, True, False)
    assert {"io", "metadata", "prompt", "model", "trace_context"} <= set(first["fields"].split(","))


def test_second_pull_of_the_same_changes_nothing(store: AStore) -> None:
    first = pulled(an_api(store))
    known = Known.of(pulls=first.pulls, spans=first.spans, scores=first.scores)
    again = pulled(an_api(store), known=known)
    assert (again.spans.height, again.scores.height, again.pulls.height) == (0, 0, 0)


def test_score_that_is_given_later_brings_its_trace_again(store: AStore) -> None:
    first = pulled(an_api(store))
    known = Known.of(pulls=first.pulls, spans=first.spans, scores=first.scores)
    store.scores = [*store.scores, a_score("later", value=1), a_score("unknown", traceId="d" * 32)]
    second = pulled(an_api(store), known=known)
    assert (sorted(second.spans["row_id"]), second.unfound) == (sorted(first.spans["row_id"]), ())
    assert set(second.scores.filter(trace_id=TRACE_ID)["name"]) == {"correctness", "later"}
    known = Known.of(pulls=second.pulls, spans=second.spans, scores=second.scores)
    assert pulled(an_api(store), known=known).spans.height == 0


def test_window_asks_with_a_margin_and_takes_what_began_in_it(store: AStore) -> None:
    before = [
        row | {"traceId": "b" * 32, "startTime": "2026-11-02T23:59:59.000Z", "endTime": None} for row in a_run()[:1]
    ]
    late = [row | {"traceId": "b" * 32, "id": "c" * 16} for row in a_run()[:1]]
    store.rows = [*before, *late, *a_run()]
    found = pulled(an_api(store), start_ns=NOON_NS, end_ns=NOON_NS + DAY_NS)
    assert found.spans["trace_id"].unique().to_list() == [TRACE_ID]
    (_, query) = store.asked[0]
    assert (query["fromStartTime"], query["toStartTime"]) == ("2026-11-02T23:00:00Z", "2026-11-04T01:00:00Z")
    assert "toTimestamp" not in store.asked[-1][1], "a score may be given long after"


def test_empty_window_is_no_error(store: AStore) -> None:
    store.rows, store.scores = [], []
    found = pulled(an_api(store))
    assert (found.spans.height, found.pulls.height) == (0, 0)


@pytest.mark.parametrize(
    ("faults", "waits"),
    [
        ([(429, {"retry-after": "7"})], [7.0]), ([(503, {})] * 3, [1.0, 2.0, 4.0]), ([(429, {})], [1.0]), ([(500, {"retry-after": "soon"})], [1.0]),
        ([(429, {"retry-after": "Tue, 01 Dec 2026 12:00:09 GMT", "date": "Tue, 01 Dec 2026 12:00:00 GMT"})], [9.0]),
    ],
)  # fmt: skip
def test_store_that_is_busy_is_asked_again(store: AStore, faults: list[Any], waits: list[float]) -> None:
    whole, waited = told(store), []
    store.faults = list(faults)
    found = pulled(an_api(store, waited))
    assert (sorted(found.spans["row_id"]), waited) == (whole, waits)


def test_store_that_stays_away_is_an_error_of_its_own(store: AStore) -> None:
    waited: list[float] = []
    store.faults = [(502, {})] * ATTEMPTS
    with pytest.raises(Unavailable, match=r"no answer in 8 attempts \(502\).*goes on"):
        pulled(an_api(store, waited))
    assert len(waited) == ATTEMPTS - 1
    store.faults = [(429, {"retry-after": "3600"})]
    with pytest.raises(Unavailable, match="to be asked again in 3600 s"):
        pulled(an_api(store))


def test_host_that_does_not_answer_at_all_is_unavailable() -> None:
    nobody = ALangfuse(url="http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="ConnectError"):
        pulled(an_api(nobody))
    assert issubclass(httpx.ConnectError, httpx.TransportError)


@pytest.mark.parametrize(("status", "hint"), [(401, "Check LANGFUSE_PUBLIC_KEY"), (403, "Check LANGFUSE"), (404, "no such API"), (302, "sends us elsewhere"), (400, "does not take")])  # fmt: skip
def test_refusal_is_told_at_once_and_without_what_was_answered(store: AStore, status: int, hint: str) -> None:
    store.faults = [(status, {"location": "/login"})]
    with pytest.raises(Refused, match=hint) as refused:
        pulled(an_api(store))
    assert len(store.asked) == 1
    assert not any(word in str(refused.value) for word in ("secret payload", "sk-1", "pk-1"))
    assert isinstance(refused.value, InputError)


def test_wrong_keys_are_refused(store: AStore) -> None:
    with pytest.raises(Refused, match="401"):
        pulled(an_api(store, LANGFUSE_PUBLIC_KEY="pk-2", LANGFUSE_SECRET_KEY="sk-1"))
    assert "sk-1" not in repr(an_api(store))


def test_answer_that_is_no_json_is_refused(store: AStore) -> None:
    store.listed = lambda path, query, headers: (200, b"<html>", {})  # type: ignore[method-assign]
    with pytest.raises(Refused, match="no JSON"):
        pulled(an_api(store))
    store.listed = lambda path, query, headers: (200, {"items": []}, {})  # type: ignore[method-assign]
    with pytest.raises(Refused, match="no such list"):
        pulled(an_api(store))


def test_cut_metadata_is_asked_for_by_name(store: AStore) -> None:
    long = "x" * 300
    store.rows = [an_observation(1, input="a", metadata={"note": long, "attributes": json.dumps({"session.id": long})})]
    found = pulled(an_api(store)).spans
    assert found["flags"].to_list() == [[]]
    assert json.loads(found["attributes_json"][0])["metadata"]["note"] == long
    assert [query["expandMetadata"] for path, query in store.asked if path.endswith("observations")] == ["attributes,resourceAttributes,scope", "attributes,note,resourceAttributes,scope"]  # fmt: skip


def test_metadata_that_stays_cut_is_flagged(store: AStore) -> None:
    store.rows = [an_observation(1, input="a", metadata={"note": "x" * 200})]
    assert pulled(an_api(store)).spans["flags"].to_list() == [["truncated"]]


@pytest.mark.parametrize("page", [1, 2])
def test_expired_cursor_begins_the_window_anew(store: AStore, page: int) -> None:
    whole = told(store)
    store.page = page
    cursors = [query["cursor"] for path, query in store.asked if "cursor" in query] or ["Mg=="]
    store.expired = {"Mg==" if page == 2 else "MQ==", *cursors}
    found = pulled(an_api(store))
    assert sorted(found.spans["row_id"]) == whole
    assert found.pulls["pull_id"].is_unique().all()


def test_cursor_that_names_itself_is_refused(store: AStore) -> None:
    store.paged = lambda rows, cursor: (list(rows), "Mg==")  # type: ignore[method-assign]
    with pytest.raises(Refused, match="would never end"):
        pulled(an_api(store))


def test_interrupted_pull_goes_on_where_it_stopped(store: AStore, tmp_path: Path) -> None:
    whole = told(store)
    store.page, store.asked = 1, []
    begun = langfuse.fetch(window(store.url, tmp_path))
    assert [next(begun).name for _ in range(2)] == ["observations 000000", "observations 000001"]
    begun.close()
    asked, store.asked = store.asked, []
    held = window(store.url, tmp_path)
    found = pull(langfuse, held, Terms(harness_state=HARNESS))
    assert sorted(found.spans["row_id"]) == whole
    assert (len(asked), [path.rpartition("/")[2] for path, _ in store.asked]) == (2, ["observations", "scores"])
    assert held.api is not None
    held.api.spool.done()
    store.asked = []
    pull(langfuse, window(store.url, tmp_path), Terms(harness_state=HARNESS))
    assert len(store.asked) == 4, "what is taken in is asked for anew"


def test_killed_pull_goes_on_where_it_stopped(store: AStore, tmp_path: Path) -> None:
    whole = told(store)
    store.page, store.asked = 1, []
    script = Path(__file__).parents[1] / "pulling_pages.py"
    running: list[subprocess.Popen[bytes]] = []
    store.hook = lambda number: running[0].kill() if number == 3 else None
    running.append(
        subprocess.Popen(
            [sys.executable, str(script), store.url, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    )
    said, _ = running[0].communicate(timeout=120)
    assert running[0].returncode == -9
    assert said.decode().split("\n") == ["observations 000000", "observations 000001", ""]
    store.asked, store.hook = [], lambda number: None
    found = pull(langfuse, window(store.url, tmp_path), Terms(harness_state=HARNESS))
    assert sorted(found.spans["row_id"]) == whole
    assert "cursor" in store.asked[0][1]


def test_page_that_is_not_kept_any_more_is_asked_for_again(store: AStore, tmp_path: Path) -> None:
    store.page = 1
    whole = sorted(pull(langfuse, window(store.url, tmp_path), Terms(harness_state=HARNESS)).spans["row_id"])
    (tmp_path / "pages" / "observations 000001").unlink()
    store.asked = []
    again = pull(langfuse, window(store.url, tmp_path), Terms(harness_state=HARNESS))
    assert sorted(again.spans["row_id"]) == whole
    assert [path.rpartition("/")[2] for path, _ in store.asked] == ["observations", "observations"]


def test_journal_with_a_torn_line_counts_up_to_it(tmp_path: Path) -> None:
    spool = Spool(journal=tmp_path / "j", vault=Folder(tmp_path / "v"))
    for number in range(2):
        spool.add("a", Page(f"p{number}", b"{}", str(number), 1))
    spool.restart("a")
    spool.add("a", Page("p2", b"[]", None, 1))
    with (tmp_path / "j").open("ab") as journal:
        journal.write(b'{"listing": "a", "na')
    held = Spool(journal=tmp_path / "j", vault=Folder(tmp_path / "v")).pages("a")
    assert held == [Page("p2", b"[]", None, 1)]
    assert b"[]" not in (tmp_path / "j").read_bytes()


def test_source_of_files_has_no_address() -> None:
    with pytest.raises(InputError, match="is read from files"):
        next(otlp.fetch(Window(api=Api(url="http://x", keys={}))))


def run(number: int, **fields: Any) -> dict[str, Any]:
    held = f"d0d84d31-923d-4cb5-94a8-{number:012}"
    root = f"d0d84d31-923d-4cb5-94a8-{1:012}"
    return {
        "id": held, "trace_id": root, "parent_run_id": None if number == 1 else root, "name": "step", "run_type": "chain",
        "start_time": f"2026-11-03T09:14:0{number}", "end_time": f"2026-11-03T09:14:0{number}", "inputs": {"q": 1}, "outputs": {}, "feedback_stats": {},
    } | fields  # fmt: skip


def test_langchain_docs_3300_runs_are_paged_to_the_end_with_their_feedback() -> None:
    judged = run(2, feedback_stats={"correct": {"n": 1, "avg": 0.0}})
    given = {
        "key": "correct",
        "run_id": judged["id"],
        "trace_id": judged["trace_id"],
        "score": 0,
        "feedback_source": {"type": "app"},
    }
    with serving(ALangsmith(rows=[run(1), judged, run(3)], scores=[given])) as store:
        api = an_api(store, LANGSMITH_API_KEY="ls-1")
        found = pulled(api, langsmith, start_ns=NOON_NS, end_ns=NOON_NS + DAY_NS)
        assert (found.spans.height, found.scores.select("name", "value", "origin").rows()) == (
            3,
            [("correct", 0.0, "human")],
        )
        paths = [path for path, _ in store.asked]
        assert paths == ["/sessions", "/runs/query", "/feedback", "/runs/query"]
        query = store.asked[1][1]
        assert (query["session"], query["limit"], query["start_time"]) == (
            ["p-default", "p-other"],
            100,
            "2026-11-02T23:00:00Z",
        )
        assert (query["filter"], {"inputs", "outputs", "dotted_order"} <= set(query["select"])) == (
            'lt(start_time, "2026-11-04T01:00:00Z")',
            True,
        )


def test_langsmith_project_may_be_named() -> None:
    with serving(ALangsmith(rows=[run(1)])) as store:
        pulled(an_api(store, LANGSMITH_API_KEY="ls-1", LANGSMITH_PROJECT="other"), langsmith)
        assert store.asked[1][1]["session"] == ["p-other"]
        with pytest.raises(InputError, match=r"no project 'third' \(LANGSMITH_PROJECT\)"):
            pulled(an_api(store, LANGSMITH_API_KEY="ls-1", LANGSMITH_PROJECT="third"), langsmith)
        with pytest.raises(Refused, match="Check LANGSMITH_API_KEY"):
            pulled(an_api(store, LANGSMITH_API_KEY="ls-2"), langsmith)


def test_langsmith_payload_that_lies_elsewhere_is_flagged() -> None:
    with serving(
        ALangsmith(rows=[run(1, inputs=None, inputs_s3_urls={"ROOT": {"presigned_url": "http://x"}})])
    ) as store:
        assert "ref_unresolved" in pulled(an_api(store, LANGSMITH_API_KEY="ls-1"), langsmith).spans["flags"][0]
