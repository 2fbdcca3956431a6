"""What a stripped path and a set argument leave of a call, over any result and any arguments (semantics.md §8.2)."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_policy, recorded, replayed
from shop import Agent
from twiceshy import breaking
from twiceshy.boundary import Boundary
from twiceshy.breaking import BreakingBoundary
from twiceshy.replaying import Replay, Terms

POLICY = a_policy(get="read")
leaves = st.integers(0, 2) | st.none()
results = st.dictionaries(st.sampled_from("ab"), leaves | st.dictionaries(st.sampled_from("ab"), leaves, max_size=2), max_size=2)  # fmt: skip
places = st.sampled_from(["a", "b", "a.a", "a.b"])


def broken(text: str, result: Any, asked: dict[str, Any]) -> tuple[Any, Any, bool]:
    """What the agent was shown and what its write got under a break, and whether the break says that it changed something."""
    applied: list[str] = []

    def build(boundary: Boundary) -> Agent:
        get, pay = boundary.tool("get", lambda: result, effect="read"), boundary.tool("pay", lambda **given: given)
        return lambda _: [get(), pay(**asked)][0]

    envelope = recorded(build, policy=POLICY)

    def boundary(replay: Replay) -> Boundary:
        return BreakingBoundary(
            replay, [breaking.parse(text)], record=envelope, terms=Terms(policy=POLICY), on_applied=lambda found: applied.append(found.text)
        )  # fmt: skip

    def built(made: Boundary) -> Callable[[Any], Any]:
        agent = build(made)
        assert isinstance(made, BreakingBoundary)
        made.complete()
        return agent

    told = replayed(built, envelope, boundary=boundary, policy=POLICY)
    assert told.disposition is not None
    paid = next(played.crossing.seen for played in told.played if played.crossing.name == "pay")
    return told.disposition.output, paid, bool(applied)


def put(value: dict[str, Any], place: str, *to: Any) -> dict[str, Any]:
    """By hand: a copy with the place set, or taken out where it is there; nothing is set below what is no object."""
    copy = json.loads(json.dumps(value))
    *above, name = place.split(".")
    at = copy
    for part in above:
        if to and part not in at:
            at[part] = {}
        at = at.get(part)
        if not isinstance(at, dict):
            return copy
    if to:
        at[name] = to[0]
    else:
        at.pop(name, None)
    return copy


@given(results, places)
def test_a_stripped_path_is_all_that_goes(result: dict[str, Any], place: str) -> None:
    shown, _, applied = broken(f"hook.strip:get.{place}", result, {})
    assert shown == put(result, place)
    assert applied == (shown != result)


@given(results, places, leaves)
def test_a_set_argument_is_all_that_changes(asked: dict[str, Any], place: str, to: int | None) -> None:
    _, paid, applied = broken(f"args.set:pay.{place}={json.dumps(to)}", {}, asked)
    assert paid == put(asked, place, to)
    assert applied == (paid != asked)
