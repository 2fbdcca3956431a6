"""Names of boundaries and what is refused of them, word for word: a refusal that names nothing helps nobody."""

from collections.abc import Callable

import pytest

from builders import a_policy
from twiceshy.cutpoint import CutPoint, LivePerson, LiveWrite, UnknownBoundary
from twiceshy.envelope import Effect, Kind
from twiceshy.outcome import BoundaryState, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.seam import Call

POLICY = a_policy(**{"get:order": ToolPolicy(effect=Effect.READ), "pay:now": ToolPolicy(effect=Effect.WRITE)})


def live(*names: str) -> CutPoint:
    return CutPoint(mode=Mode.CUT_POINT, live=frozenset(names))


def said(refuse: Callable[[], object], error: type[Exception]) -> str:
    with pytest.raises(error) as refused:
        refuse()
    return str(refused.value)


def test_a_name_may_hold_colons_of_its_own() -> None:
    live("tool:get:order").refuse_live_writes(POLICY)
    text = said(lambda: live("tool:pay:now").refuse_live_writes(POLICY), LiveWrite)
    assert text == (
        "--live tool:pay:now: this tool is a write (or not listed as a read in tools.yaml), and no replay executes a write. "
        "List it with `effect: read` if it changes nothing."
    )
    live("tool:*").refuse_unknown({"tool:get:order"})


def test_a_manifest_knows_a_name_with_colons_and_what_the_policy_does_not_say() -> None:
    states = live("retrieval:docs").manifest(
        ["tool:get:order", "tool:pay:now", "retrieval:docs", "memory:notes"], POLICY
    )
    assert states == {
        "tool:get:order": "frozen", "tool:pay:now": "intercepted", "retrieval:docs": "live", "memory:notes": "intercepted",
    }  # fmt: skip


def test_all_of_a_kind_that_may_write_is_refused() -> None:
    for kind in (Kind.TOOL, Kind.MEMORY, Kind.RETRIEVAL):
        assert f"--live {kind}:*:" in said(lambda kind=kind: live(f"{kind}:*").refuse_live_writes(POLICY), LiveWrite)


def test_where_the_policy_is_silent_a_retrieval_reads_and_a_memory_writes() -> None:
    live("retrieval:docs").refuse_live_writes(POLICY)
    said(lambda: live("memory:notes").refuse_live_writes(POLICY), LiveWrite)


def test_a_person_is_never_live() -> None:
    assert said(lambda: live("human:approver").refuse_live_writes(POLICY), LivePerson).startswith(
        "--live human:approver: people,"
    )


@pytest.mark.parametrize("name", ["planner", "model:", "modle:planner"])
def test_what_names_no_boundary_is_told_the_form(name: str) -> None:
    kinds = ", ".join(Kind)
    assert said(lambda: live(name), UnknownBoundary) == (
        f"{name!r} names no boundary. Write kind:name, as in model:planner; kinds are {kinds}."
    )


def test_what_a_candidate_does_not_declare_is_told_what_it_does() -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, freeze=frozenset({"guard:limt"}))
    assert said(lambda: cut.refuse_unknown({"tool:b", "guard:limit"}), UnknownBoundary) == (
        "the candidate declares no boundary 'guard:limt'. It declares guard:limit, tool:b."
    )
    assert said(lambda: cut.refuse_unknown(()), UnknownBoundary).endswith("It declares none.")


@pytest.mark.parametrize(("frozen", "state"), [(False, BoundaryState.LIVE), (True, BoundaryState.FROZEN)])
def test_a_handoff_runs_unless_it_is_frozen(*, frozen: bool, state: BoundaryState) -> None:
    names = frozenset({"handoff:billing"}) if frozen else frozenset()
    call = Call(kind=Kind.HANDOFF, name="billing", seq=2)
    for mode in (Mode.FULL, Mode.STUB):
        assert CutPoint(mode=mode, freeze=names, after=3).state(call, None) is state
