"""What goes back to an intercepted write, which writes are doubled, and what a server's hint may change, over any run (semantics.md §5)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_played, a_policy, a_transcript, a_write, an_envelope, recorded, replayed, some_invariants
from shop import Agent, diverged
from small_worlds import a_world
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Disposition, Effect, ErrorRecord
from twiceshy.evidence import replayed_run
from twiceshy.graders.duplicates import duplicates
from twiceshy.grading import case_grader
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Failure, Outcome
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Played
from twiceshy.worlds.authority import for_run
from twiceshy.writes import DeclaredWrite

ANSWERS = (AnsweredBy.RECORDED, AnsweredBy.VALIDATION, AnsweredBy.WORLD, AnsweredBy.DECLARED, AnsweredBy.TEMPLATE, AnsweredBy.OUTPUT_SCHEMA)  # fmt: skip
"""In the order in which they are tried; `ok` is what is left."""


def telling(body: str, *, pays: bool) -> Callable[[Boundary], Agent]:
    """An agent that makes one write, after another one where it `pays`."""

    def make(boundary: Boundary) -> Agent:
        tell, pay = boundary.tool("tell", lambda body: "recorded"), boundary.tool("pay", lambda: "paid")

        def agent(_: Any) -> Any:
            if pays:
                pay()
            with suppress(ValueError):
                return tell(body=body)

        return agent

    return make


@given(st.sets(st.sampled_from(ANSWERS)), st.booleans())
def test_a_write_gets_the_first_answer_there_is(there: set[AnsweredBy], elsewhere: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """elsewhere: what was recorded was recorded under other writes."""
    recording = AnsweredBy.RECORDED in there
    policy = a_policy(
        tell=ToolPolicy(
            touches=("letters",), schema={"properties": {"body": {"maxLength": 1}}} if AnsweredBy.VALIDATION in there else None,
            answer="template" if AnsweredBy.TEMPLATE in there else {}, result_schema={"const": "made"} if AnsweredBy.OUTPUT_SCHEMA in there else None,
        ),
        pay=ToolPolicy(touches=("letters",)),
    )  # fmt: skip
    if AnsweredBy.TEMPLATE not in there:
        policy = without_answer(policy)
    envelope = recorded(telling("hello", pays=elsewhere), policy=policy) if recording else an_envelope()
    told = replayed(
        telling("hello", pays=False), envelope, policy=policy,
        declared=[DeclaredWrite(tool="tell", answer="declared")] if AnsweredBy.DECLARED in there else [],
        world=for_run(a_world(), policy, first=False) if AnsweredBy.WORLD in there else None,
    )  # fmt: skip
    if recording and elsewhere and AnsweredBy.WORLD not in there:
        assert diverged(told) is Divergence.STATE_MISMATCH
        return
    left = [by for by in ANSWERS if by in there and not (by is AnsweredBy.RECORDED and elsewhere)]
    assert told.played[0].answered_by is (left[0] if left else AnsweredBy.OK)
    assert told.played[0].boundary is BoundaryState.INTERCEPTED


def without_answer(policy: Any) -> Any:
    import msgspec

    tell = policy.tools["tell"]
    return msgspec.structs.replace(
        policy, tools={**policy.tools, "tell": msgspec.structs.replace(tell, answer=msgspec.UNSET)}
    )


POLICY = a_policy(
    pay=ToolPolicy(touches=("money",), volatile=("id",), idempotency_key="id"), book=ToolPolicy(touches=("money", "slots")), mail=ToolPolicy(touches=("mail",)),
)  # fmt: skip
TOUCH = {"pay": {"money"}, "book": {"money", "slots"}, "mail": {"mail"}}
LATE = ErrorRecord(cls="TimeoutError", type="timeout")
REFUSED = ErrorRecord(cls="ValueError", type="validation", definite=True)
fates: Any = st.sampled_from([{}, {}, {"error": LATE}, {"error": REFUSED}, {"blocked_by": "limit"}])
calls = st.lists(
    st.tuples(st.sampled_from([*TOUCH]), st.integers(0, 1), st.sampled_from([None, "a", "b"]), fates), max_size=6
)
again = st.tuples(
    st.sampled_from(["pay", "pay", "book", "mail"]),
    st.just(0),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([{}, {"error": LATE}]),
)
repeats = st.lists(again, min_size=2, max_size=4)
"""Hardly anything but the same again."""
Write = tuple[str, int, Any, dict[str, Any]]


def doubled(made: list[Write]) -> list[int]:
    """By hand: the writes of a run that repeat an earlier one."""
    real = [
        (at, name, n, key if name == "pay" else None, fate)
        for at, (name, n, key, fate) in enumerate(made, 1)
        if fate not in ({"error": REFUSED}, {"blocked_by": "limit"})
    ]
    found = []
    for at, name, n, key, _ in real:
        earlier = [one for one in real if one[0] < at and one[1] == name]
        equal = [one for one in earlier if one[2] == n]
        anew = any(one[4] == {"error": LATE} and None not in (one[3], key) and one[3] != key for one in equal)
        reused = (
            key is not None
            and any(one[3] == key for one in earlier)
            and next(one for one in earlier if one[3] == key)[2] != n
        )
        found += [at] if anew or reused or _again(real, equal, at, key) else []
    return found


def _again(real: list[Any], equal: list[Any], at: int, key: Any) -> bool:
    if not equal:
        return False
    before, name, n, first, fate = equal[-1]
    retry = fate == {"error": LATE} and first is not None and first == key
    between = [one for one in real if before < one[0] < at and (one[1], one[2]) != (name, n)]
    return not retry and not any(TOUCH[one[1]] & TOUCH[name] for one in between)


def steps(made: list[Write]) -> list[Played]:
    rows = []
    for at, (name, n, key, fate) in enumerate(made, 1):
        seen = {"n": n} | ({"id": key} if key is not None and name == "pay" else {})
        rows.append(
            a_write(
                at,
                name,
                seen=seen,
                key=POLICY.key(name, seen),
                idempotency_key=POLICY.idempotency_key(name, seen),
                **fate,
            )
        )
    return rows


@given(calls | repeats)
def test_a_duplicate_is_what_the_rule_says(made: list[Write]) -> None:
    run = replayed_run(a_transcript(*steps(made)), POLICY)
    assert sorted({again.crossing.seq for again, _, _ in duplicates(run)}) == doubled(made)


TOLD = ({"id": "told", "kind": "must_happen", "at": {"tool": "mail"}},)
by = st.sampled_from(
    [AnsweredBy.RECORDED, AnsweredBy.DECLARED, AnsweredBy.TEMPLATE, AnsweredBy.OUTPUT_SCHEMA, AnsweredBy.OK]
)


@given(st.lists(by, max_size=3), st.booleans())
def test_nothing_rests_on_an_improvised_answer_alone(answers: list[AnsweredBy], ended: bool) -> None:  # noqa: FBT001 - a parameter of the test
    look = a_played(1, "look", effect=Effect.READ)
    made = [a_write(at, "mail", seen={"n": at}, answered_by=one) for at, one in enumerate(answers, 2)]
    grader = case_grader(
        a_case(an_envelope(look.crossing), kind="positive"), some_invariants(*TOLD, allowed_writes=[{"tool": "mail"}]), a_policy(look="read", mail="write")
    )  # fmt: skip
    verdict = grader.trial(a_transcript(look, *made, disposition=Disposition(ended=ended, output={})), CutPoint())
    improvised = [one in (AnsweredBy.OUTPUT_SCHEMA, AnsweredBy.OK) for one in answers]
    if improvised and (all(improvised) if ended else any(improvised)):
        assert verdict.divergence is not None
        assert (verdict.outcome, verdict.divergence.kind) == (Outcome.DIVERGED, Divergence.WRITE_UNANSWERABLE)
    elif ended and answers:
        assert verdict.outcome is Outcome.PASSED
    else:
        assert verdict.failure is (Failure.OPEN_MUST_HAPPEN if ended else Failure.CANDIDATE_CRASHED)


effects = st.sampled_from([None, *Effect])


@given(effects, effects, st.booleans())
def test_a_hint_only_tightens(listed: Effect | None, said: Effect | None, tightened: bool) -> None:  # noqa: FBT001 - a parameter of the test
    policy = a_policy(**({"find": listed} if listed else {}))

    def make(boundary: Boundary) -> Agent:
        find = boundary.tool("find", effect=said, tightened=tightened)
        return lambda _: find()

    def calls(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: 1, effect=listed or said)
        return lambda _: find()

    (played,) = replayed(make, recorded(calls, policy=policy), policy=policy).played
    in_force = Effect.WRITE if tightened else listed or said or Effect.WRITE
    assert played.crossing.effect is in_force
    assert (played.boundary is BoundaryState.INTERCEPTED) == (in_force is Effect.WRITE)
