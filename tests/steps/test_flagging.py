import re
from typing import Any

import pytest

from tasks.normalize.flagging import Flag, FlagError, Rule, flagged


def a_score(
    name: str = "reward", value: float | None = None, label: str | None = None, origin: str = "code"
) -> dict[str, Any]:
    return {"name": name, "value": value, "label": label, "origin": origin}


@pytest.mark.parametrize(
    ("rule", "held"),
    [
        ("reward == 0.0", True),
        ("reward == 0", True),
        ("reward != 0", False),
        ("reward < -1", False),
        ("reward <= 0 and grade == 'poor'", True),
        ('reward > 0 or grade == "poor"', True),
        ("reward > 0 and grade == 'poor' or status == 'error'", True),
        ("reward > 0 and status == 'error' or grade == 'good'", False),
        ("no_such < 1", False),
        ("grade == 0", False),
        ("status == 'error'", True),
    ],
)
def test_rule_decides_what_is_flagged(rule: str, held: bool) -> None:  # noqa: FBT001 - a row of the table
    scores = [a_score(value=0.0), a_score("grade", label="poor", origin="llm")]
    assert bool(Rule(rule).flags(scores, failed=True)) is held


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("reward == 0", None),
        ("status == 'ok' or tag == 'x' and reward > 0", None),
        ("rewrd == 0", "no trace here has a 'rewrd'. Did you mean 'reward'?"),
        ("reward == 0 or sentiment < 1", "no trace here has a 'sentiment'. Known: reward, status, tag."),
    ],
)
def test_rule_may_only_speak_of_what_some_trace_has(rule: str, says: str | None) -> None:
    if says is None:
        Rule(rule).refuse_unknown(["reward"])
        return
    with pytest.raises(FlagError, match=re.escape(says)):
        Rule(rule).refuse_unknown(["reward"])


def test_flags_name_their_terms_and_sources() -> None:
    scores = [
        a_score(value=0.0),
        a_score("grade", label="poor", origin="llm"),
        a_score("thumb", 0.0, origin="api"),
        a_score("review", label="x", origin="human"),
    ]
    rule = Rule("reward == 0 and grade == 'poor' or thumb < 1 or review == 'x' or status == 'error'")
    assert {(flag.flag, flag.source) for flag in rule.flags(scores, failed=True)} == {
        ("reward == 0.0", "reward"), ("grade == 'poor'", "online_grader"), ("thumb < 1.0", "user_feedback"), ("review == 'x'", "human"),
        ("status == 'error'", "error_status"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("", "a name at character 1"),
        ("reward", "one of == != < <= > >= at character 7"),
        ("reward = 0", "one of == != < <= > >= at character 8"),
        ("reward == zero", "a number or a quoted text at character 11"),
        ("reward == 0 xor x == 1", "and, or at character 13"),
        ("reward == 0 and", "a name at character 16"),
        ("__import__('os')", "one of == != < <= > >= at character 11"),
    ],
)
def test_broken_rule_says_where(rule: str, expected: str) -> None:
    with pytest.raises(FlagError, match="expected") as raised:
        Rule(rule)
    assert expected in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("score", "source"),
    [
        (a_score(value=0.0), "reward"),
        (a_score("grade", value=0.4, origin="llm"), "online_grader"),
        (a_score("thumb", value=-1.0, origin="api"), "user_feedback"),
        (a_score("review", label="Incorrect", origin="human"), "human"),
        (a_score("tag", label="flagged", origin="api"), "tag"),
    ],
)
def test_bad_score_flags_by_default(score: dict[str, Any], source: str) -> None:
    assert flagged([score], failed=False) == [Flag(score["name"], source)]


@pytest.mark.parametrize(
    "score",
    [a_score(value=1.0), a_score("review", label="correct", value=0.5), a_score("tag", label="beta"), a_score("notes")],
)
def test_other_scores_flag_nothing(score: dict[str, Any]) -> None:
    assert flagged([score], failed=False) == []


def test_error_status_flags_by_default() -> None:
    assert flagged([], failed=True) == [Flag("status", "error_status")]
