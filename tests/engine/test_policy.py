from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy import policy
from twiceshy.envelope import Effect
from twiceshy.errors import FormatError, InputError, PolicyError, UnknownTool
from twiceshy.policy import ToolPolicy, ToolsPolicy, identified

SCHEMA = {"properties": {"limit": {"default": 10}, "note": {}}}


def key(asked: Any, schema: Any = None, **fields: Any) -> str:
    return ToolsPolicy(workflow="w", tools={"t": ToolPolicy(**fields)}).key("t", asked, schema)


def write(folder: Path, text: str) -> Path:
    path = folder / "tools.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("fields", "left", "right"),
    [
        ({"volatile": ("request.id",)}, {"request": {"id": 1, "a": 2}}, {"request": {"id": 9, "a": 2}}),
        ({"volatile": ("items[].at",)}, {"items": [{"at": 1, "n": 1}]}, {"items": [{"n": 1}]}),
        ({"unordered": ("tags",)}, {"tags": ["b", "a"]}, {"tags": ["a", "b"]}),
        ({"instants": ("at",)}, {"at": "2026-06-02T10:00:00Z"}, {"at": "2026-06-02T12:00:00+02:00"}),
        ({"fold": ("name",)}, {"name": " Ana  LI "}, {"name": "ana li"}),
        ({"volatile": ("*.id",)}, {"a": {"id": 1}}, {"a": {"id": 2}}),
    ],
)
def test_a_listed_path_is_folded(fields: dict[str, Any], left: Any, right: Any) -> None:
    assert key(left, **fields) == key(right, **fields)
    assert key(left) != key(right)


def test_a_volatile_name_elsewhere_still_counts() -> None:
    assert key({"id": 1, "request": {"id": 1}}, volatile=("request.id",)) != key(
        {"id": 2, "request": {"id": 1}}, volatile=("request.id",)
    )


def test_an_impossible_date_is_no_instant() -> None:
    assert key({"at": "2026-02-30T10:00:00Z"}, instants=("at",)) != key(
        {"at": "2026-03-02T10:00:00Z"}, instants=("at",)
    )


def test_defaults_come_from_the_callers_schema() -> None:
    assert key({}, SCHEMA, defaults={"limit": "absent"}) == key({"limit": 10}, SCHEMA, defaults={"limit": "absent"})
    assert key({"limit": None}, SCHEMA, defaults={"limit": "absent"}) != key(
        {"limit": 10}, SCHEMA, defaults={"limit": "absent"}
    )
    assert key({"limit": None}, SCHEMA, defaults={"limit": "null"}) == key(
        {"limit": 10}, SCHEMA, defaults={"limit": "null"}
    )
    assert key({}, {"properties": {"limit": {"default": 5}}}, defaults={"limit": "absent"}) != key({"limit": 10})


def test_absent_null_and_default_are_three_values_unless_it_says_so() -> None:
    assert len({key({}, SCHEMA), key({"limit": None}, SCHEMA), key({"limit": 10}, SCHEMA)}) == 3
    assert key({"note": None}, SCHEMA, defaults={"note": "null"}) == key({}, SCHEMA, defaults={"note": "null"})


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.integers(), max_size=3), max_size=4))
def test_an_unlisted_tool_folds_nothing(asked: dict[str, Any]) -> None:
    bare = ToolsPolicy(workflow="w")
    assert bare.key("t", asked) == key(asked)


def test_silence_is_a_write() -> None:
    bare = ToolsPolicy(workflow="w", tools={"known": ToolPolicy(effect=Effect.READ)})
    assert bare.effect("unheard_of") is Effect.WRITE
    assert bare.effect("unheard_of", Effect.READ) is Effect.READ
    assert bare.effect("known", Effect.WRITE) is Effect.READ
    assert bare.of("unheard_of").touches is None


def test_identifying_touches_no_input() -> None:
    asked = {"tags": ["b", "a"], "request": {"id": 1}}
    key(asked, unordered=("tags",), volatile=("request.id",))
    assert asked == {"tags": ["b", "a"], "request": {"id": 1}}


def test_the_idempotency_key_is_read_from_its_path() -> None:
    listed = ToolsPolicy(workflow="w", tools={"pay": ToolPolicy(idempotency_key="meta.key")})
    assert listed.idempotency_key("pay", {"meta": {"key": "k1"}}) == "k1"
    assert listed.idempotency_key("pay", {}) is None


@pytest.mark.parametrize(
    ("text", "error", "phrase"),
    [
        ("workflow: w\ntools:\n  a: {effect: read}\n  b:\n    efect: write\n", PolicyError, ":5: unknown key 'efect'"),
        ("workflow: w\ntools:\n  a: {effect: wrte}\n", PolicyError, ":3: Invalid enum value 'wrte'"),
        ("workflow: w\ntools:\n  a:\n    volatile: ['x[0]']\n", PolicyError, ":4: 'x[0]' is no path"),
        ("workflow: w\ntools: {a: {}, a: {}}\n", FormatError, "stands twice"),
        ("workflow: [\n", FormatError, "not YAML"),
        ("workflow: a: b\n", FormatError, "Quote a text that holds ': '"),
        ("", FormatError, "empty"),
    ],
)
def test_a_wrong_policy_names_file_and_line(tmp_path: Path, text: str, error: type[InputError], phrase: str) -> None:
    with pytest.raises(error, match=r"tools\.yaml") as raised:
        policy.load(write(tmp_path, text))
    assert phrase in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_misspelt_tool_gets_a_hint(tmp_path: Path) -> None:
    path = write(tmp_path, "workflow: w\ntools:\n  get_ordr: {effect: read}\n")
    with pytest.raises(UnknownTool, match="Did you mean 'get_order'") as raised:
        policy.load(path, known_tools=["get_order", "issue_refund"])
    assert "tools.yaml:3" in str(raised.value)


def test_a_tool_that_is_no_more_may_stay_listed(tmp_path: Path) -> None:
    path = write(
        tmp_path, "workflow: w\ntools:\n  get_order: {effect: read}\n  get_orders: {effect: read}\n  audit: {}\n"
    )
    assert len(policy.load(path, known_tools=["get_order", "issue_refund"]).tools) == 3


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        policy.load(tmp_path / "none.yaml")


@pytest.mark.parametrize("spelt", ["2026-06-02T10:00:00", "2026-07-32T10:00:00+00:00", "Thursday", 5, None])
def test_what_names_no_instant_stays_what_it_is(spelt: object) -> None:
    """A time without a zone is not the same in every process."""
    tool = ToolPolicy(instants=("at",))
    assert identified(tool, {"at": spelt}) == {"at": spelt}
