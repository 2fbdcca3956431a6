from collections.abc import Callable
from typing import Any

import pytest

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
