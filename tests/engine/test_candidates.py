from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from twiceshy import arguments
from twiceshy.boundary import Boundary
from twiceshy.candidates import Candidate, described, layers, same
from twiceshy.envelope import LayerVersion, Versions
from twiceshy.errors import CandidateError
from twiceshy.exercise import changed_layers

SAID = Candidate(workflow="refund")


def strip(found: Any) -> Any:
    return found


def strip_more(found: Any) -> Any:
    return [found]


def to_team(value: Any) -> str:
    return "team"


def to_person(value: Any) -> str:
    return "person"


def a_factory(**other: Any) -> Callable[[Boundary], Any]:
    given = {
        "prompt": "be kind", "schema": {"type": "object"}, "hook": strip, "guard": strip, "router": to_team, "model": strip, "agent": strip, **other}  # fmt: skip

    def build(boundary: Boundary) -> Any:
        boundary.tool("find", effect="read", schema=given["schema"])
        boundary.model("planner", given["model"], prompt=given["prompt"])
        boundary.hook("strip", given["hook"], after="find")
        boundary.guard("limit", given["guard"], before="find")
        boundary.router("way", given["router"])
        return given["agent"]

    return build


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        ({}, set()),
        ({"prompt": "be firm"}, {"prompt"}),
        ({"schema": {"type": "object", "required": ["day"]}}, {"tool:find"}),
        ({"hook": strip_more}, {"harness"}),
        ({"guard": strip_more}, {"harness"}),
        ({"agent": strip_more}, {"harness"}),
        ({"router": to_person}, {"routing", "harness"}),
        ({"model": strip_more}, {"model"}),
    ],
)
def test_each_part_changes_its_layer(other: dict[str, Any], changed: set[str]) -> None:
    ours, theirs = (layers(a_factory(**given), SAID) for given in (other, {}))
    unknown = {"memory", "skills"}
    assert changed_layers(ours, theirs) - unknown == changed


def test_a_stated_version_outweighs_the_source() -> None:
    said = Candidate(workflow="refund", versions={"model": "2", "prompt": "7", "harness": "1", "memory": "3"})
    ours, theirs = layers(a_factory(prompt="x", model=strip_more, hook=strip_more), said), layers(a_factory(), said)
    assert changed_layers(ours, theirs) == {"skills"}
    assert (ours.prompt.version, ours.memory.version) == ("7", "3")
    of_tool = Candidate(workflow="refund", versions={"tool:find": "2"})
    assert layers(a_factory(schema={"type": "array"}), of_tool).tools == layers(a_factory(), of_tool).tools


class Order:
    pass


class Whole(TypedDict):
    id: str


def find(day: str, size: int = 10) -> list[str]:
    return [day] * size


def longer(day: str, size: int = 20) -> list[str]:
    return [day] * size


def any_day(day: object, size: int = 10) -> list[str]:
    return [str(day)] * size


def by_name(date: str, size: int = 10) -> list[str]:
    return [date] * size


def of_others(day: str, size: int = 10) -> list[int]:
    return [size]


def same_again(day: str, size: int = 10) -> list[str]:
    return []


def of_an_object(day: str, order: Order = Order()) -> list[str]:  # noqa: B008 - what nobody can compare
    return [day]


@pytest.mark.parametrize(
    ("fn", "changed"),
    [(find, False), (same_again, False), (longer, True), (any_day, True), (by_name, True), (of_others, True), (of_an_object, True), (None, True)],
)  # fmt: skip
def test_a_tool_without_a_schema_is_known_by_what_its_function_takes(fn: Any, changed: Any) -> None:
    """Its body is the tool's, which no replay runs; without a function nothing is known, which compares as changed even with itself."""

    def build(fn: Any, **more: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: [boundary.tool("find", fn, effect="read", **more), strip][1]

    ours, theirs = layers(build(fn), SAID), layers(build(find), SAID)
    assert ("tool:find" in changed_layers(ours, theirs)) is changed
    assert ("tool:find" in changed_layers(ours, ours)) is (fn in (of_an_object, None))
    assert "tool:find" in changed_layers(layers(build(fn, schema={"type": "object"}), SAID), ours)


def test_a_class_that_annotates_a_tool_is_part_of_what_it_takes() -> None:
    def takes(order: Whole) -> None: ...

    known = arguments.signature(takes)
    assert known is not None
    assert "id: str" in str(known[0][-1])


def test_a_tool_of_two_agents_is_known_only_where_both_are() -> None:
    def build(fn: Any) -> Callable[[Boundary], Any]:
        def helper(boundary: Boundary) -> Any:
            boundary.tool("find", fn, effect="read")
            return strip

        def first(boundary: Boundary) -> Any:
            boundary.tool("find", effect="read", schema={"type": "object"})
            return boundary.handoff("helper", helper)

        return first

    for fn, known in ((find, True), (None, False)):
        found = layers(build(fn), SAID)
        assert ("tool:find" not in changed_layers(found, found)) is known


def test_what_is_not_known_says_so() -> None:
    found = layers(lambda boundary: lambda user: user, SAID)
    assert (found.prompt, found.memory, found.skills) == (LayerVersion(), LayerVersion(), LayerVersion())
    assert {"prompt", "memory", "skills"} <= changed_layers(found, found)
    assert set(Versions.__struct_fields__) == {"model", "prompt", "tools", "routing", "memory", "skills", "harness"}


def test_boundaries_are_told_by_kind_and_name() -> None:
    names = {"tool:find", "model:planner", "hook:strip", "guard:limit", "router:way"}
    assert described(a_factory(), SAID).boundaries == names


def test_a_factory_that_crosses_while_it_builds_is_refused() -> None:
    with pytest.raises(CandidateError, match="crosses clock 'now' while it builds"):
        described(lambda boundary: boundary.now(), SAID)


@pytest.mark.parametrize("raised", [KeyError("SETTING"), SystemExit("no licence")])
def test_a_factory_that_raises_is_a_candidates_fault(raised: BaseException) -> None:
    def build(boundary: Boundary) -> Any:
        raise raised

    with pytest.raises(CandidateError, match=f"raised {type(raised).__name__} while it was built"):
        described(build, SAID)


def test_a_factory_returns_an_agent() -> None:
    with pytest.raises(CandidateError, match="returned dict and no agent"):
        described(lambda boundary: {"agent": boundary}, SAID)  # type: ignore[arg-type, return-value]


def test_a_run_needs_every_boundary_that_was_declared() -> None:
    class Unheard:
        def cross(self, call: Any) -> Any:
            raise AssertionError

    built = Boundary(Unheard())
    a_factory()(built)
    same(described(a_factory(), SAID).boundaries, built)
    with pytest.raises(CandidateError, match=r"declared tool:other when it was loaded and not for this run"):
        same(frozenset({"tool:find", "tool:other"}), built)
