"""Every break operator at the boundary: what it changes, what it leaves alone, and that it says so only where it changed something."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import broken_runs
from builders import a_policy, recorded
from twiceshy import breaking
from twiceshy.boundary import Blocked, Boundary
from twiceshy.breaking import Break, CodeBreak
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import CaseError
from twiceshy.outcome import Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript

Build = Callable[[Boundary], Callable[[Any], Any]]

POLICY = a_policy(get="read")


def build(boundary: Boundary) -> Callable[[Any], Any]:
    get = boundary.tool("get", lambda: {"limit": 500, "total": 750}, effect="read")
    pay = boundary.tool("pay", lambda amount: {"paid": amount})
    boundary.hook("note", lambda order: {**order, "noted": True}, after="get")
    boundary.guard("limit", lambda asked: "too much" if asked["amount"] > 500 else None, before="pay")

    def agent(_: Any) -> Any:
        order = get()
        try:
            return [order, pay(amount=order["total"])]
        except Blocked as refused:
            return [order, refused.reason]

    return agent


def run_broken(
    build: Build, *texts: str, at: Build | None = None, policy: Any = POLICY, cut: CutPoint | None = None
) -> tuple[Transcript, set[str]]:
    """A replay under these breaks, and the breaks that changed something. at: the agent that was recorded, where it is another."""
    envelope = recorded(at or build, policy=policy)
    told, applied = broken_runs.broken(build, envelope, *texts, policy=policy, cut=cut)
    return told, set(applied)


def broken(*texts: str) -> tuple[Any, set[str]]:
    """The output of a replay of the agent above under these breaks, and the breaks that changed something."""
    told, applied = run_broken(build, *texts)
    return told.disposition.output if told.disposition else None, applied


def calling(*calls: tuple[str, dict[str, Any]], effects: dict[str, str] | None = None) -> Build:
    """An agent that makes these calls and tells what it was told of each; `fail` raises."""

    def answering(name: str) -> Callable[..., Any]:
        def answer(**asked: Any) -> Any:
            if name == "fail":
                raise LookupError("no such thing")
            return {"of": name, **asked}

        return answer

    def make(boundary: Boundary) -> Callable[[Any], Any]:
        effect = effects or {}
        tools = {
            name: boundary.tool(name, answering(name), effect=effect.get(name))
            for name in sorted({n for n, _ in calls})
        }

        def agent(_: Any) -> Any:
            told: list[Any] = []
            for name, asked in calls:
                try:
                    told.append(tools[name](**asked))
                except Exception as raised:  # noqa: BLE001 - told like any other answer
                    told.append(type(raised).__name__)
            return told

        return agent

    return make


def made(told: Transcript) -> list[tuple[str, Any]]:
    """The calls that crossed, in order."""
    return [(p.crossing.name, p.crossing.seen) for p in told.played if p.crossing.kind is Kind.TOOL]


def output(told: Transcript) -> Any:
    return told.disposition.output if told.disposition else None


def test_without_a_break_nothing_changes() -> None:
    assert broken() == ([{"limit": 500, "total": 750, "noted": True}, "too much"], set())


def test_guard_off_lets_the_write_pass() -> None:
    shown, applied = broken("guard.off:limit")
    assert shown[1] == {"ok": True}
    assert applied == {"guard.off:limit"}


def test_hook_off_passes_on_what_it_got() -> None:
    shown, applied = broken("hook.off:note")
    assert shown[0] == {"limit": 500, "total": 750}
    assert applied == {"hook.off:note"}


def test_hook_strip_removes_a_path_after_all_hooks() -> None:
    shown, applied = broken("hook.strip:get.limit", "hook.strip:get.noted")
    assert shown[0] == {"total": 750}
    assert applied == {"hook.strip:get.limit", "hook.strip:get.noted"}


@pytest.mark.parametrize(
    "text", ["guard.off:other", "hook.off:other", "hook.strip:get.missing", "hook.strip:nothing.limit"]
)
def test_a_break_that_finds_nothing_is_not_applied(text: str) -> None:
    assert broken(text) == (broken()[0], set())


FIND, PAY, TELL = ("find", {"day": "thu"}), ("pay", {"amount": 100}), ("tell", {"to": "ann"})
SHOP = a_policy(find="read", look="read")
APART = a_policy(
    find=ToolPolicy(effect=Effect.READ, reads=("c",)), pay=ToolPolicy(touches=("a",)), tell=ToolPolicy(touches=("b",)), fail=ToolPolicy(touches=("d",)),
)  # fmt: skip
"""No call of these sees another."""


def test_a_dropped_call_never_crosses_and_is_told_like_the_recorded_one() -> None:
    told, applied = run_broken(calling(FIND, PAY, TELL), "call.drop:pay", policy=APART)
    assert made(told) == [FIND, TELL]
    assert output(told) == [{"of": name, **asked} for name, asked in (FIND, PAY, TELL)]
    assert applied == {"call.drop:pay"}


def test_a_dropped_write_nobody_recorded_is_told_what_it_would_be_answered() -> None:
    policy = a_policy(pay=ToolPolicy(answer={"paid": "${args.amount}"}))
    told, applied = run_broken(calling(PAY), "call.drop:pay", at=calling(FIND), policy=policy)
    assert (made(told), output(told), applied) == ([], [{"paid": 100}], {"call.drop:pay"})


def test_a_read_nobody_recorded_is_not_dropped() -> None:
    told, applied = run_broken(calling(("look", {})), "call.drop:look", at=calling(FIND), policy=SHOP)
    assert told.divergence is not None
    assert (told.divergence.kind, applied) == (Divergence.UNRECORDED_CALL, set())


def test_a_doubled_call_crosses_twice_and_is_told_once() -> None:
    told, applied = run_broken(calling(FIND), "call.duplicate:find", policy=SHOP)
    assert (made(told), output(told)) == ([FIND, FIND], [{"of": "find", "day": "thu"}])
    assert applied == {"call.duplicate:find"}


def test_a_doubled_write_is_an_intent_twice_even_where_the_record_cannot_answer_it() -> None:
    told, _ = run_broken(calling(PAY), "call.duplicate:pay", policy=SHOP)
    assert [p.intent for p in told.played] == [True, True]
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.STATE_MISMATCH


def test_a_call_that_fails_is_not_doubled() -> None:
    told, applied = run_broken(calling(("fail", {})), "call.duplicate:fail", policy=SHOP)
    assert (len(made(told)), applied) == (1, set())


def test_swapped_calls_cross_in_the_other_order_and_are_told_in_time() -> None:
    told, applied = run_broken(calling(PAY, FIND, TELL), "order.swap:pay,tell", policy=APART)
    assert made(told) == [FIND, TELL, PAY]
    assert output(told) == [{"of": name, **asked} for name, asked in (PAY, FIND, TELL)]
    assert applied == {"order.swap:pay,tell"}


def test_only_the_first_pair_is_swapped() -> None:
    told, _ = run_broken(calling(PAY, TELL, ("pay", {"amount": 1}), TELL), "order.swap:pay,tell", policy=APART)
    assert [name for name, _ in made(told)][:3] == ["tell", "pay", "pay"]


@pytest.mark.parametrize("calls", [(PAY,), (TELL, PAY)], ids=["no-second", "already-swapped"])
def test_without_a_pair_in_order_nothing_is_swapped(calls: Any) -> None:
    assert run_broken(calling(*calls), "order.swap:pay,tell", policy=SHOP)[1] == set()


def test_a_swapped_call_is_made_even_where_the_other_fails() -> None:
    told, applied = run_broken(calling(PAY, ("fail", {})), "order.swap:pay,fail", policy=APART)
    assert [name for name, _ in made(told)] == ["fail", "pay"]
    assert (output(told)[1], applied) == ("LookupError", {"order.swap:pay,fail"})


def test_a_swallowed_error_is_shown_as_success() -> None:
    policy = a_policy(
        fail=ToolPolicy(
            effect="read", result_schema={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        )
    )
    told, applied = run_broken(calling(("fail", {})), "error.swallow:fail", policy=policy)
    assert (output(told), applied) == ([{"n": 0}], {"error.swallow:fail"})
    assert told.played[0].crossing.error is not None


def test_a_swallowed_refusal_is_shown_as_done() -> None:
    shown, applied = broken("error.swallow:pay")
    assert (shown[1], applied) == ({"ok": True}, {"error.swallow:pay"})


def test_where_nothing_fails_nothing_is_swallowed() -> None:
    told, applied = run_broken(calling(PAY), "error.swallow:pay", policy=SHOP)
    assert (output(told), applied) == ([{"of": "pay", "amount": 100}], set())


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("args.set:pay.amount=999", {"amount": 999}),
        ('args.set:pay.amount="100"', {"amount": "100"}),
        ("args.set:pay.note=a=b", {"amount": 100, "note": "a=b"}),
        ("args.set:pay.who.name=ann", {"amount": 100, "who": {"name": "ann"}}),
        ("args.set:pay.amount=null", {"amount": None}),
    ],
)
def test_an_argument_is_set_after_every_hook(text: str, seen: dict[str, Any]) -> None:
    told, applied = run_broken(calling(PAY), text, policy=SHOP)
    assert (made(told), applied) == ([("pay", seen)], {text})


@pytest.mark.parametrize("text", ["args.set:pay.amount=100", "args.set:pay.amount=1e2", "args.set:tell.to=ann"])
def test_an_argument_that_is_so_already_is_not_set(text: str) -> None:
    assert run_broken(calling(PAY), text, policy=SHOP)[1] == set()


def talking(first: str, *, name: str = "planner", asynchronous: bool = False) -> Build:
    """An agent that shows what its model said, twice."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        def say(request: dict[str, Any]) -> dict[str, Any]:
            return {"parts": [], "says": first if request["messages"] == [1] else "end"}

        async def say_later(request: dict[str, Any]) -> dict[str, Any]:
            return say(request)

        model = boundary.model(name, say_later if asynchronous else say)

        async def later(_: Any) -> Any:
            return [(await model({"messages": [n]}))["says"] for n in (1, 2)]

        return later if asynchronous else lambda _: [model({"messages": [n]})["says"] for n in (1, 2)]

    return build


LIVE = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:*"}))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_live_model_says_again_what_was_recorded(*, asynchronous: bool) -> None:
    old, new = talking("pay", asynchronous=asynchronous), talking("ask", asynchronous=asynchronous)
    told, applied = run_broken(new, "proposal.replace:1", at=old, cut=LIVE)
    assert (output(told), applied) == (["pay", "end"], {"proposal.replace:1"})


@pytest.mark.parametrize("step", [2, 3])
def test_an_output_that_is_the_recorded_one_is_not_replaced(step: int) -> None:
    told, applied = run_broken(talking("ask"), f"proposal.replace:{step}", at=talking("pay"), cut=LIVE)
    assert (output(told), applied) == (["ask", "end"], set())


def test_the_output_of_another_model_is_not_replaced() -> None:
    told, applied = run_broken(talking("ask", name="writer"), "proposal.replace:1", at=talking("pay"), cut=LIVE)
    assert (output(told), applied) == (["ask", "end"], set())


AROUND = ["call.drop:{0}", "call.duplicate:{0}", "args.set:{0}.extra=1", "error.swallow:{0}", "order.swap:{0},{1}"]
some_calls = st.lists(
    st.tuples(st.sampled_from(["find", "pay", "tell"]), st.fixed_dictionaries({"n": st.integers(0, 2)})), max_size=6
)


@given(some_calls, st.sampled_from(AROUND), st.sampled_from([("pay", "tell"), ("find", "pay"), ("look", "fail")]))
def test_a_break_that_says_nothing_changed_nothing(calls: Any, pattern: str, names: tuple[str, str]) -> None:
    text = pattern.format(*names)
    told, applied = run_broken(calling(*calls), text, policy=SHOP)
    held = text.startswith("order.swap") and names[0] in [
        name for name, _ in calls
    ]  # never made, where no second follows
    if not applied and not held:
        hooks = [p for p in told.played if p.crossing.kind is Kind.HOOK]
        plain, _ = run_broken(calling(*calls), policy=SHOP)
        assert hooks or told.digest == plain.digest
        assert (made(told), output(told)) == (made(plain), output(plain))
    elif applied:
        assert names[0] in [name for name, _ in calls]


@given(some_calls, st.sampled_from(AROUND))
def test_a_frozen_prefix_stays_as_it_was_recorded(calls: Any, pattern: str) -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, after=len(calls) + 1)
    told, applied = run_broken(calling(*calls), pattern.format("pay", "tell"), policy=SHOP, cut=cut)
    assert (made(told), applied) == (list(map(tuple, calls)), set())


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("guard.of:limit", "Did you mean 'guard.off'?"),
        ("guard.off", "it names nothing"),
        ("guard.off:", "it names nothing"),
        ("call.drop: pay", "without blanks"),
        ("hook.strip:get", "hook.strip:TOOL.path"),
        ("hook.strip:get.[0]", "hook.strip:TOOL.path"),
        ("args.set:pay.amount", "args.set:TOOL.path=VALUE"),
        ("args.set:pay=1", "args.set:TOOL.path=VALUE"),
        ('args.set:pay.amount={"a": 1', "begins like JSON"),
        ("order.swap:pay", "two tools"),
        ("order.swap:pay,pay", "two tools"),
        ("order.swap:a,b,c", "two tools"),
        ("proposal.replace:0", "number of a recorded model step"),
        ("proposal.replace:four", "number of a recorded model step"),
        ("patch:file.diff", "write it as a mapping"),
        (CodeBreak(), "exactly one of patch, env and git"),
        (CodeBreak(patch="a", git="b"), "exactly one of patch, env and git"),
        (CodeBreak(patch="../a"), "in the folder of the case"),
        (CodeBreak(patch="/a"), "in the folder of the case"),
        (CodeBreak(git="--output=x"), "no revision"),
        (CodeBreak(env={}), "it names nothing"),
        (CodeBreak(env={"A B": "1"}), "no name of a variable"),
        (CodeBreak(env={"OPENAI_API_KEY": "1"}), "may not enter a sealed process"),
    ],
)
def test_a_wrong_break_is_refused(written: Any, says: str) -> None:
    with pytest.raises(CaseError, match=re.escape(says)):
        breaking.parse(written)


@pytest.mark.parametrize(
    "text",
    [
        "guard.off:a", "hook.off:a", "hook.strip:a.b", "args.set:a.b=1", "call.drop:a", "call.duplicate:a", "order.swap:a,b", "error.swallow:a",
        "proposal.replace:4",
    ],
)  # fmt: skip
def test_every_operator_is_written_as_it_is_read(text: str) -> None:
    assert breaking.parse(text).text == text


def test_breaks_of_code_have_a_name() -> None:
    written = [CodeBreak(patch="a.diff"), CodeBreak(env={"B": "2", "A": "1"}), CodeBreak(git="v1")]
    assert [breaking.parse(one).text for one in written] == ["patch:a.diff", "env:A=1 B=2", "git:v1"]


def test_a_break_reads_as_it_was_written() -> None:
    assert breaking.parse("hook.strip:get.a.b") == Break("hook.strip", "get.a.b")
    assert breaking.parse("guard.off:limit").text == "guard.off:limit"
