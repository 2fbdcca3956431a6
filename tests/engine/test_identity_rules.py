"""Which calls are one call under a tool's policy, and what a miss shows of two that are not, over any arguments (semantics.md §3.2, §3.4)."""

import json
from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, a_policy
from twiceshy.envelope import Effect
from twiceshy.matching import Matcher
from twiceshy.policy import ToolPolicy

TOOL = ToolPolicy(
    effect=Effect.READ, volatile=("id", "meta.id", "rows[].seq"), unordered=("tags",), instants=("at",), fold=("name",), defaults={"size": "absent", "kind": "null"},
)  # fmt: skip
SCHEMA = {"properties": {"size": {"default": 10}, "kind": {"default": "any"}}}
POLICY = a_policy(find=TOOL)

NAMES = ["id", "meta", "rows", "tags", "order", "at", "name", "title", "size", "kind"]
SPELT = {"2026-06-02T10:00:00Z": "2026-06-02T12:00:00+02:00"}
instants = st.sampled_from(["2026-06-02T10:00:00Z", "2026-06-02T12:00:00+02:00", "2026-06-02T10:00:01Z", "2026-06-02T10:00:00", "thu"])  # fmt: skip
few = st.integers(0, 1)
asked = st.fixed_dictionaries(
    {},
    optional={
        "id": few, "meta": st.dictionaries(st.sampled_from(["id", "note"]), few, max_size=2) | few, "rows": st.lists(st.fixed_dictionaries({"seq": few, "n": few}), max_size=2),
        "tags": st.lists(few, max_size=2), "order": st.lists(few, max_size=2), "at": instants, "name": st.sampled_from(["Ana Li", 5, None]),
        "title": st.sampled_from(["Ana", "ana"]), "size": st.sampled_from([10, 20, None]), "kind": st.sampled_from(["any", "some", None]),
    },
)  # fmt: skip


def respelled(args: dict[str, Any]) -> dict[str, Any]:
    """The same call in other words: everything that the policy folds is another."""
    held = json.loads(json.dumps(args))
    for inner in [held, held.get("meta"), *held.get("rows", [])]:
        if isinstance(inner, dict):
            inner |= {name: inner[name] + 5 for name in ("id", "seq") if name in inner}
    held |= {"tags": held["tags"][::-1]} if "tags" in held else {}
    held |= {"at": SPELT.get(held["at"], held["at"])} if "at" in held else {}
    held |= {"name": f"  {held['name'].upper()} "} if isinstance(held.get("name"), str) else {}
    return {name: value for name, value in held.items() if (name, value) != ("size", 10)} | (
        {"kind": None} if held.get("kind") == "any" else {}
    )


def _pair(left: dict[str, Any], other: dict[str, Any], names: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two calls that differ at most in these arguments, one of them respelled."""
    kept = {name: value for name, value in left.items() if name not in names}
    return left, respelled({**kept, **{name: value for name, value in other.items() if name in names}})


pairs = st.builds(_pair, asked, asked, st.sets(st.sampled_from(NAMES), max_size=1))


def compared(args: dict[str, Any]) -> str:
    """By hand: what these arguments are, as the policy above says."""
    held = json.loads(json.dumps(args))
    held.pop("id", None)
    for inner in [held.get("meta"), *held.get("rows", [])]:
        if isinstance(inner, dict):
            inner.pop("id" if inner is held.get("meta") else "seq", None)
    if "tags" in held:
        held["tags"].sort()
    if held.get("at", "thu").startswith("2026") and held["at"] != "2026-06-02T10:00:00":
        held["at"] = datetime.fromisoformat(held["at"]).timestamp()
    if isinstance(held.get("name"), str):
        held["name"] = " ".join(held["name"].lower().split())
    held.setdefault("size", 10)
    held["kind"] = "any" if held.get("kind") is None else held["kind"]
    return json.dumps(held, sort_keys=True)


@given(pairs)
def test_a_policy_folds_what_it_lists_and_nothing_else(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    left, right = pair
    same = POLICY.key("find", left, SCHEMA) == POLICY.key("find", right, SCHEMA)
    assert same == (compared(left) == compared(right))


@given(pairs)
def test_a_miss_shows_what_counts_and_nothing_else(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    left, right = pair
    matcher = Matcher([a_crossing(1, "find", seen={"size": 10, "kind": "any", **left})], POLICY)
    key = POLICY.key("find", right, SCHEMA)
    (near,) = matcher.nearest("find", key, "s0", right, schema=SCHEMA)
    fields = {field.path for field in near.fields}
    assert bool(fields) == (near.reason == "other arguments")
    assert not any(path.endswith(("id", "seq")) for path in fields)
