import html
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.envelope import Kind
from twiceshy.outcome import BoundaryState, DimensionName, Failure, Outcome
from twiceshy.outcome import Divergence as DivergenceKind
from twiceshy.reporting import annotations, console, jsonfile, junit, markdown
from twiceshy.reporting.escaping import LONGEST, code, plain
from twiceshy.verdict import (
    Boundary,
    ChampionRef,
    Dimension,
    Divergence,
    GraderRef,
    Near,
    Policy,
    Rate,
    Result,
    Verdict,
    Waiver,
)
from verdicts import SIGNATURE, TRACE, a_mode, a_result, a_verdict, a_violation

P, F, D, E = Outcome.PASSED, Outcome.FAILED, Outcome.DIVERGED, Outcome.ERROR

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07\x9b31m|`</details><script>alert(1)</script><!-- twiceshy:gate:refund -->"
    "[x](javascript:alert(1))![y](https://evil.example/z.png) @octocat #12 www.evil.example **bold** ]]>&lt;"
    "\r\n::error file=x::owned\n::set-output name=a::b\u202egpj.exe\u2066\u200b\u2028\ud800\ufffe\x00%0A|a|"
)
RENDERERS: dict[str, Callable[[Verdict], str]] = {
    "console": lambda verdict: console.render(verdict, verbose=True),
    "json": jsonfile.render,
    "junit": junit.render,
    "summary": markdown.summary,
    "comment": markdown.comment,
    "annotations": annotations.render,
}


def a_hostile_verdict() -> Verdict:
    near = Near(place=HOSTILE, reason=HOSTILE, paths=[HOSTILE])
    divergence = Divergence(
        kind=DivergenceKind.ARGS_MISMATCH, boundary=HOSTILE, place=HOSTILE, detail=HOSTILE, nearest=[near]
    )
    bound = Boundary(seq=1, sub=0, name=HOSTILE, kind=Kind.TOOL, effect=None, state=BoundaryState.LIVE)
    shared: dict[str, Any] = {
        "signature": HOSTILE,
        "trace_id": HOSTILE,
        "mode": HOSTILE,
        "boundaries": [bound],
        "report_url": HOSTILE,
    }
    violation = a_violation(HOSTILE, message=HOSTILE, detail=HOSTILE, place="#4", boundary=f"tool:{HOSTILE}")
    return a_verdict(
        a_result(F, violations=[violation], **shared), a_result(D, divergence=divergence, **shared), a_result(E, error=HOSTILE, **shared),
        a_result(P, **shared), workflow=HOSTILE, champion=ChampionRef(ref=HOSTILE, digest="d"), graders=[GraderRef(id=HOSTILE, version=1)],
        policy=Policy(accept_unexercised=[HOSTILE]),
    )  # fmt: skip


@pytest.mark.parametrize("name", RENDERERS)
def test_dimension_below_its_threshold_is_named(name: str) -> None:
    low = Dimension(
        name=DimensionName.TOOL_SELECTION, value=0.5, threshold=0.8, n=4, ci_low=0.15, ci_high=0.85, passed=False
    )
    high = Dimension(
        name=DimensionName.PLAN_COHERENCE, value=1.0, threshold=0.8, n=4, ci_low=0.5, ci_high=1.0, passed=True
    )
    failed = a_result(F, violations=[], failure=Failure.DIMENSION, dimensions=[low, high])
    shown = RENDERERS[name](a_verdict(failed))
    assert "tool" in shown
    assert "selection" in shown
    assert "0.8" in shown
    if name != "json":
        assert "coherence" not in shown


@pytest.mark.parametrize("render", [console.render, markdown.summary])
def test_rates_are_shown_beside_the_comparison(render: Callable[[Verdict], str]) -> None:
    mode = a_mode(
        mode="cut-point --live model:*", trials=4, passed=3, rate=Rate(k=2, value=0.5, floor=0.25), previous=P, previous_trials=4, previous_passed=4
    )  # fmt: skip
    shown = html.unescape(render(a_verdict(a_result(modes=[mode]))))
    assert "0.500 (3 of 4 trials passed), floor 0.250" in shown
    assert "1 regressions and 0 improvements in 1 pairs, exact McNemar p = 0.500" in shown


@pytest.mark.parametrize("name", RENDERERS)
def test_every_rendering_says_what_was_accepted_and_what_had_no_effect(name: str) -> None:
    verdict = msgspec.structs.replace(
        a_verdict(a_result(), policy=Policy(accept_unexercised=["prompt"])), warnings=["waiver w1 excuses nothing"]
    )
    text = html.unescape(RENDERERS[name](verdict))
    assert re.search(r"accept(ed |_)unexercised\W+prompt", text), text
    assert "waiver w1 excuses nothing" in text


def test_red_run_without_a_red_case_is_red_in_junit() -> None:
    green = a_verdict(a_result())
    red = msgspec.structs.replace(green, summary=msgspec.structs.replace(green.summary, exit_code=1, reasons=["worse"]))
    shown = ET.fromstring(junit.render(red))  # noqa: S314 - our own output
    assert [failure.get("message") for failure in shown.iter("failure")] == ["worse"]
    assert not list(ET.fromstring(junit.render(green)).iter("failure"))  # noqa: S314


@pytest.mark.parametrize("name", RENDERERS)
def test_hostile_text_has_no_control(name: str) -> None:
    shown = RENDERERS[name](a_hostile_verdict())
    wrong = {
        character
        for character in shown
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character != "\n"
    }
    assert wrong == set()
    shown.encode()


@pytest.mark.parametrize("name", [name for name in RENDERERS if name != "annotations"])
def test_hostile_text_gives_no_command(name: str) -> None:
    shown = RENDERERS[name](a_hostile_verdict())
    assert not [line for line in shown.splitlines() if line.lstrip().startswith(("::", "##["))]


def test_annotations_hold_only_our_commands() -> None:
    lines = annotations.render(a_hostile_verdict()).splitlines()
    assert len(lines) == 4
    command = re.compile(r"::(?:error|warning) (?:file=[^:,]*,)?title=[^:,]*::.*")
    assert all(command.fullmatch(line) for line in lines)


@pytest.mark.parametrize("name", ["summary", "comment"])
def test_hostile_text_is_no_markup(name: str) -> None:
    whole = RENDERERS[name](a_hostile_verdict())
    shown = whole.removeprefix(whole.splitlines()[0]) if name == "comment" else whole
    for wrong in (
        "<script",
        "</details><",
        "](",
        "![",
        "**bold",
        "javascript:",
        "https:",
        "@octocat",
        "www.evil",
        "`",
    ):
        assert wrong not in shown
    assert not re.search(r"(?<!&)#\d", shown), "an issue number"
    assert "<!--" not in shown
    assert whole.count("-->") == (1 if name == "comment" else 0)
    assert shown.count("<details>") == shown.count("</details>") == 3
    rows = [line for line in shown.splitlines() if line.startswith(("| ", "|---"))]
    assert {line.count("|") for line in rows} == {8}


def test_hostile_text_in_xml_and_json() -> None:
    tree = ET.fromstring(junit.render(a_hostile_verdict()))  # noqa: S314 - our own output
    assert tree.findall(".//script") == []
    assert len(tree.findall(".//testcase")) == 4
    assert json.loads(jsonfile.render(a_hostile_verdict()))["results"][0]["signature"].startswith("\x1b[31m")


def test_console_line_as_designed() -> None:
    result = a_result(F, mode="cut-point", change="regressed")
    assert console.line(result) == (
        f"FAILED {SIGNATURE} trace={TRACE} assertion=refund-over-limit-missing-approval at=#4 issue_refund[intercepted] "
        "mode=cut-point change=regressed case=data/cases/refund/over-limit/case.yaml"
    )


def test_console_shows_a_divergence() -> None:
    line = console.line(a_result(D, mode="cut-point --after 3", previous_outcome=P))
    for part in (
        "DIVERGED",
        "divergence=args_mismatch",
        "at=#9 get_order",
        'nearest="#2 other arguments: day"',
        'mode="cut-point --after 3"',
        "previous=passed",
    ):
        assert part in line


def test_console_ends_with_the_code() -> None:
    shown = console.render(
        a_verdict(a_result(), a_result(F, change="new"), policy=Policy(accept_unexercised=["prompt"]))
    )
    lines = shown.splitlines()
    assert len([line for line in lines if line.startswith("FAILED")]) == 1
    assert not [line for line in lines if line.startswith("PASSED")]
    assert "accepted unexercised: prompt" in lines
    assert lines[-1] == "exit 1: failed"
    assert "1 failed (new) · 1 passed" in shown


def test_decided_pass_is_marked() -> None:
    divergence = Divergence(kind=DivergenceKind.STATE_MISMATCH, boundary="tool:send_message", place="#6")
    decided = a_result(P, decided=True, divergence=divergence, open=["no-large-refund"])
    shown = console.render(a_verdict(a_result(), decided))
    assert shown.startswith("PASSED")
    assert "decided=state_mismatch at=#6 send_message open=no-large-refund" in shown
    assert shown.count("PASSED") == 1
    listed = markdown.summary(a_verdict(decided))
    assert "decided before state&#95;mismatch" in listed
    assert code("no-large-refund") in listed


WAIVED = a_result(
    F,
    change="known",
    waiver=Waiver(id="w", case="refund-over-limit", assertions=["x"], by="@a", date="2026-06-01", why="known"),
)
LOST = a_result(D, modes=[a_mode(D, previous=P)], previous_outcome=P)
POLICIES = st.builds(
    Policy,
    fail_on=st.sets(st.sampled_from([F, D, E])).map(tuple),
    max_diverged=st.sampled_from(["0", "1", "99", "20%"]),
    min_cases=st.integers(0, 3),
)


@given(
    st.lists(
        st.sampled_from([a_result(), a_result(F), a_result(D), a_result(E), WAIVED, LOST, a_result(isolation="weak")]),
        max_size=5,
    ),
    POLICIES,
    st.integers(0, 1),
)
def test_junit_colour_equals_exit_code(results: list[Result], policy: Policy, not_run: int) -> None:
    verdict = a_verdict(*results, policy=policy, not_run=not_run)
    suite = ET.fromstring(junit.render(verdict)).find("testsuite")  # noqa: S314 - our own output
    assert suite is not None
    red = suite.findall("testcase/failure") + suite.findall("testcase/error")
    assert bool(red) == (verdict.summary.exit_code != 0)
    assert int(suite.attrib["failures"]) + int(suite.attrib["errors"]) == len(red)
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))


@pytest.mark.parametrize(
    ("given_", "kind"),
    [
        ({}, "HardInvariant"),
        ({"violations": [a_violation(tier="trajectory")]}, "TrajectoryConstraint"),
        ({"violations": [a_violation("call_counts", tier="trajectory")]}, "CallCount"),
        ({"violations": [], "failure": Failure.CANDIDATE_CRASHED}, "CandidateCrashed"),
        ({"violations": [], "failure": Failure.CANDIDATE_TIMEOUT}, "CandidateTimeout"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_junit_names_the_failure(given_: dict[str, Any], kind: str) -> None:
    tree = ET.fromstring(junit.render(a_verdict(a_result(F, **given_))))  # noqa: S314 - our own output
    failure = tree.find(".//failure")
    assert failure is not None
    assert failure.attrib["type"] == kind


def test_junit_skips_what_is_allowed() -> None:
    tree = ET.fromstring(junit.render(a_verdict(a_result(), WAIVED, a_result(D), policy=Policy(max_diverged="1"))))  # noqa: S314 - our own output
    assert [skipped.attrib["message"].split(":")[0] for skipped in tree.findall(".//skipped")] == ["waived", "diverged"]


def test_markdown_table_names_everything() -> None:
    shown = markdown.summary(a_verdict(a_result(), a_result(F, change="regressed")))
    assert shown.startswith("## ❌ Replay gate: 1 regressed · 1 passed")
    for part in (
        code("refund-over-limit-missing-approval"),
        code("issue_refund"),
        "intercepted",
        TRACE,
        "exit code 1",
        "1 passed, 0 newly covered",
    ):
        assert part in shown


def test_markdown_drops_detail_then_rows() -> None:
    many = a_verdict(*(a_result(F, change="new") for _ in range(200)), a_result())
    whole = markdown.summary(many)
    half = markdown.summary(many, limit=len(whole.encode()) // 2)
    assert len(half.encode()) <= len(whole.encode()) // 2
    assert "<details>" not in half
    assert "more rows, left out for length" in half
    short = markdown.comment(many, limit=800)
    assert len(short.encode()) <= 800
    for part in ("200 failed (new)", "exit code 1", "more rows, left out"):
        assert part in short


def test_annotations_are_few() -> None:
    lines = annotations.render(
        a_verdict(*(a_result(F) for _ in range(30)), *(a_result(D) for _ in range(3)))
    ).splitlines()
    assert len(lines) == annotations.MOST + 1 + 3
    assert "and 21 more" in lines[annotations.MOST]


@given(st.text())
def test_plain_is_one_harmless_line(text: str) -> None:
    shown = plain(text)
    assert len(shown) <= LONGEST
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in shown)
    assert plain(shown) == shown
