"""Each version of the research agent has the failure in its name, and only that one."""

import pytest

from examples.research import ONE_PAPER, TWO_PAPERS
from examples.research.library import Library
from sample_runs import a_run, replayed, status, tools


def test_fixed_searches_reads_and_saves() -> None:
    library = Library()
    done = ["search_papers", "open_paper", "count_words", "save_brief", "notify_requester"]
    assert tools(a_run("research:fixed", TWO_PAPERS, library)) == done
    assert library.briefs[0]["hits"] == 2
    assert library.notices == [{"to": "lena.vogt@example.org", "brief_id": "B-001"}]


def test_looping_repeats_one_search() -> None:
    failed = a_run("research:looping", ONE_PAPER)
    assert set(tools(failed)) == {"search_papers"}
    assert len({crossing.key for crossing in failed.crossings if crossing.name == "search_papers"}) == 1
    assert status(failed) == "gave_up"


def test_fixed_stops_without_progress() -> None:
    names = tools(a_run("research:fixed", ONE_PAPER))
    assert (names.count("search_papers"), names.count("save_brief")) == (2, 1)


def test_guard_refuses_the_third_repeat() -> None:
    run_again = replayed("research:fixed", a_run("research:looping", ONE_PAPER))
    refused = [played.crossing.blocked_by for played in run_again.played if played.crossing.name == "search_papers"]
    assert refused == [None, None, "no-progress"]


@pytest.mark.parametrize(("renamed", "hits"), [("no", 2), ("yes", 0)])
def test_renamed_total_is_read_as_zero(renamed: str, hits: int) -> None:
    library = Library(renamed=renamed == "yes")
    a_run("research:misreads_total", TWO_PAPERS, library)
    assert library.briefs[0]["hits"] == hits


def test_replayed_brief_has_its_hits_again() -> None:
    run_again = replayed("research:fixed", a_run("research:misreads_total", TWO_PAPERS))
    (brief,) = [played.crossing for played in run_again.played if played.crossing.name == "save_brief"]
    assert (brief.proposed.get("hits"), brief.seen["hits"]) == (None, 2)


@pytest.mark.parametrize("request_text", [ONE_PAPER, TWO_PAPERS])
def test_calls_go_on_after_done(request_text: dict[str, str]) -> None:
    names = tools(a_run("research:no_done_condition", request_text))
    after = names[names.index("save_brief") + 1 :]
    assert after[0] == "search_papers"
    assert after[-1] == "notify_requester"


@pytest.mark.parametrize("version", ["fixed", "misreads_total", "looping"])
def test_only_closing_calls_follow_done(version: str) -> None:
    names = tools(a_run(f"research:{version}", TWO_PAPERS))
    assert names[names.index("save_brief") + 1 :] == ["notify_requester"]


@pytest.mark.parametrize(
    ("message", "ends"),
    [("Hello?", "needs_information"), ("A brief on glacier fleas, please.", "nothing_found")],
)
def test_other_requests_end_sensibly(message: str, ends: str) -> None:
    assert status(a_run("research:fixed", {"message": message})) == ends


def test_same_clock_gives_same_bytes() -> None:
    assert a_run("research:fixed", TWO_PAPERS).digest == a_run("research:fixed", TWO_PAPERS).digest
