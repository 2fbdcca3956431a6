"""Goals and damage of a world, and the dimensions that count what a run did, against their formulas written out by hand (semantics.md §7)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_divergence, a_played, a_policy, a_transcript, a_write, an_envelope, some_invariants
from twiceshy.casefile import Expect
from twiceshy.conditions import Condition
from twiceshy.cutpoint import CutPoint
from twiceshy.dimensions import Measures, scores
from twiceshy.envelope import Disposition, Effect, ErrorRecord
from twiceshy.evidence import Run, replayed_run
from twiceshy.grading import case_grader
from twiceshy.judgement import Judgement
from twiceshy.outcome import DimensionName, Mode, Truth
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Played, RowChange
from twiceshy.worlds.goals import Goal, MayChange

POLICY = a_policy(move="write", tell=ToolPolicy(closing=True), find="read", status=ToolPolicy(effect=Effect.READ, poll=True, max_polls=2))  # fmt: skip
INVARIANTS = some_invariants(allowed_writes=[{"tool": "move"}, {"tool": "tell"}])
START = {"K1": {"day": "mon", "note": ""}, "K2": {"day": "tue", "note": ""}}
changes = st.lists(st.tuples(st.sampled_from(["K1", "K1", "K2"]), st.sampled_from(["day", "day", "note"]), st.sampled_from(["mon", "thu", "thu"])), max_size=4)  # fmt: skip


def a_run(made: list[tuple[str, str, str]]) -> tuple[list[Played], dict[str, dict[str, str]]]:
    """Writes that change one field of one row each, and the rows at the end."""
    rows, played = {key: dict(row) for key, row in START.items()}, []
    for seq, (key, name, value) in enumerate(made, 1):
        before = dict(rows[key])
        rows[key][name] = value
        change = RowChange(table="diary", row=f"diary[{key}]", key={"id": key}, before=before, after=dict(rows[key]))
        played.append(a_write(seq, "move", seen={"at": seq}, changes=[change] if before != rows[key] else []))
    return played, rows


@given(changes, st.booleans(), st.booleans())
def test_rows_become_what_the_goal_says_and_nothing_else_does(made: Any, ended: bool, may: bool) -> None:  # noqa: FBT001 - parameters of the test
    played, rows = a_run(made)
    goal = Goal(table="diary", key={"id": "K1"}, fields={"day": "thu"})
    expect = Expect(
        goal=[goal], may_change=[MayChange(table="diary", key={"id": "K2"}, fields=["note"])] if may else []
    )
    case = a_case(an_envelope(), kind="positive", world="world.yaml", expect=expect)
    ending = {} if ended else {"divergence": a_divergence()}
    verdict = case_grader(case, INVARIANTS, POLICY).trial(a_transcript(*played, **ending), CutPoint(mode=Mode.WORLD))
    found = {judgement.id: judgement.truth for judgement in verdict.judgements}
    met = rows["K1"]["day"] == "thu"
    assert found["goal"] is (Truth.SATISFIED if met else Truth.VIOLATED if ended else Truth.OPEN)
    covered = {("K1", "day"), *([("K2", "note")] if may else [])}
    damage = any((key, name) not in covered and step.changes for (key, name, _), step in zip(made, played, strict=True))
    assert found["nothing_else"] is (Truth.VIOLATED if damage else Truth.SATISFIED if ended else Truth.OPEN)


def measured(name: DimensionName, run: Run, found: Any = (), names: Any = (), **measures: Any) -> tuple[int, int]:
    made = {score.name: score for score in scores(run, found, Measures(**measures), names=names)}
    return made[name].hits, made[name].n


LATE = ErrorRecord(cls="TimeoutError", type="timeout", message="took too long")
asked = st.lists(st.tuples(st.sampled_from(["find", "status"]), st.integers(0, 1), st.booleans()), max_size=5)
outputs = st.sampled_from(["all is well", "it took too long", "TimeoutError", "I could not"])


@given(asked, outputs)
def test_an_error_is_recovered_by_another_call_or_a_word(calls: list[tuple[str, int, bool]], output: str) -> None:
    played = [
        a_played(seq, name, seen={"n": n}, error=LATE if failed else None)
        for seq, (name, n, failed) in enumerate(calls, 1)
    ]
    run = replayed_run(a_transcript(*played, disposition=Disposition(output={"message": output})), POLICY)
    failed = [at for at, call in enumerate(calls) if call[2]]
    told = output != "all is well"
    hits = sum(told or any(later[:2] != calls[at][:2] for later in calls[at + 1 :]) for at in failed)
    assert measured(DimensionName.ERROR_RECOVERY, run) == (hits, len(failed))


plans = st.lists(st.tuples(st.sampled_from(["find", "find", "status", "move", "tell"]), st.integers(0, 1)), max_size=7)


@given(plans, st.booleans())
def test_a_plan_wastes_what_repeats_and_what_follows_its_end(calls: list[tuple[str, int]], ends: bool) -> None:  # noqa: FBT001 - a parameter of the test
    played = [
        (a_write if name in ("move", "tell") else a_played)(seq, name, seen={"n": n}, raw=1, shown=1)
        for seq, (name, n) in enumerate(calls, 1)
    ]
    done = Condition("state.writes.exists(w, w.tool == 'move')", where="tools.yaml") if ends else None
    wasted, since = 0, 0
    for at, (name, n) in enumerate(calls):
        same = calls[since:at].count((name, n))
        over = ends and name != "tell" and "move" in [earlier for earlier, _ in calls[:at]]
        wasted += over or (same >= (2 if name == "status" else 1))
        since = at + 1 if name in ("move", "tell") else since
    assert measured(DimensionName.PLAN_COHERENCE, replayed_run(a_transcript(*played), POLICY), done=done) == (
        len(calls) - wasted,
        len(calls),
    )


judged = st.lists(
    st.tuples(st.sampled_from(["must_happen", "output", "must_not", "order"]), st.sampled_from(Truth), st.booleans(), st.booleans()), max_size=5
)  # fmt: skip


@given(judged)
def test_a_task_is_complete_by_what_had_to_be(rows: list[tuple[str, Truth, bool, bool]]) -> None:
    """(kind, truth, whether it is advisory, whether the case stands for it)."""
    found = [
        Judgement(id=str(at), kind=kind, truth=truth, advisory=advisory)
        for at, (kind, truth, advisory, _) in enumerate(rows)
    ]
    names = [str(at) for at, row in enumerate(rows) if row[3]]
    required = [row for row in rows if not row[2] and (row[0] in ("must_happen", "output") or row[3])]
    done = sum(truth is Truth.SATISFIED for _, truth, _, _ in required)
    run = replayed_run(a_transcript(), POLICY)
    assert measured(DimensionName.TASK_COMPLETION, run, found, names) == (done, len(required))
