"""Which boundaries are frozen, live or intercepted, by name and by step."""

import pytest

from builders import a_policy
from twiceshy.cli.options import judges
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.errors import ConfigurationError
from twiceshy.outcome import BoundaryState, Mode
from twiceshy.seam import Call

POLICY = a_policy(find="read", docs="read")
DECLARED = [
    "flag:fast",
    "guard:limit",
    "handoff:billing",
    "human:boss",
    "model:planner",
    "retrieval:docs",
    "tool:find",
    "tool:pay",
]


def test_a_manifest_names_every_boundary() -> None:
    full = CutPoint().manifest(DECLARED, POLICY)
    assert full == {
        "flag:fast": "frozen", "guard:limit": "live", "handoff:billing": "live", "human:boss": "frozen", "model:planner": "frozen",
        "retrieval:docs": "frozen", "tool:find": "frozen", "tool:pay": "intercepted",
    }  # fmt: skip
    live = CutPoint(
        mode=Mode.CUT_POINT, live=frozenset({"model:*", "retrieval:docs"}), freeze=frozenset({"guard:limit"})
    )
    assert live.manifest(DECLARED, POLICY) == {
        **full,
        "model:planner": "live",
        "retrieval:docs": "live",
        "guard:limit": "frozen",
    }
    stub = CutPoint(mode=Mode.STUB).manifest(DECLARED, POLICY)
    assert stub == {**full, "guard:limit": "frozen"}


@pytest.mark.parametrize(
    ("seq", "state"), [(2, BoundaryState.FROZEN), (3, BoundaryState.FROZEN), (4, BoundaryState.LIVE)]
)
def test_a_prefix_ends_after_its_last_step(seq: int, state: BoundaryState) -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, after=3, live=frozenset({"model:planner"}))
    assert cut.state(Call(kind=Kind.GUARD, name="limit", seq=seq), None) is state
    assert cut.state(Call(kind=Kind.MODEL, name="planner", seq=seq), None) is state
    assert cut.manifest(["guard:limit"], POLICY) == {"guard:limit": "live"}


def test_stub_decides_nothing() -> None:
    assert [judge.mode for judge in judges("stub", None, None, None, comparing=True)] == [Mode.STUB]
    with pytest.raises(ConfigurationError, match="no gate accepts it"):
        judges("stub", None, None, None)
    with pytest.raises(ConfigurationError, match="everything comes from the record"):
        judges("stub", ["model:*"], None, None, comparing=True)
