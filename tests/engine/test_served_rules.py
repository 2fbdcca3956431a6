"""What a frozen call may answer, against the rules written out by hand, over any record and any run (semantics.md §4)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, a_policy
from twiceshy.envelope import Crossing, Effect, ErrorRecord
from twiceshy.history import Attempts, History, effective
from twiceshy.matching import Hit, Matcher
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.policy import ToolPolicy

POLICY = a_policy(
    find=ToolPolicy(effect=Effect.READ, reads=("slots",)), peek="read", add="none", pay=ToolPolicy(touches=("money",), definite_errors=("denied",)),
    book=ToolPolicy(touches=("slots", "money")), wipe="write",
)  # fmt: skip
READS, WRITES = ("find", "peek"), ("pay", "book", "wipe")
TOUCHED = {"find": ("book", "wipe"), "peek": WRITES}
"""By hand: the writes that touch what each read reads."""

ERRORS = {
    "late": ErrorRecord(cls="TimeoutError", type="timeout"),
    "denied": ErrorRecord(cls="PermissionError", type="denied"),
    "invalid": ErrorRecord(cls="ValueError", type="validation", definite=True),
}
fates = st.sampled_from(["done", "done", "blocked", *ERRORS])
reads = st.tuples(st.sampled_from(READS), st.integers(0, 1), st.integers(0, 1) | st.just("late"))
writes = st.tuples(st.sampled_from(WRITES), st.integers(0, 1), fates)
runs = st.lists(reads | writes, max_size=8)
Call = tuple[str, int, Any]


def crossings(run: list[Call]) -> list[Crossing]:
    return [_crossing(seq, *call) for seq, call in enumerate(run, 1)]


def _crossing(seq: int, name: str, n: int, came: Any) -> Crossing:
    effect = Effect.READ if name in READS else Effect.WRITE
    raw = None if came in ERRORS or came == "blocked" else {"came": came}
    blocked = "limit" if came == "blocked" else None
    return a_crossing(seq, name, effect=effect, seen={"n": n}, raw=raw, shown=raw, error=ERRORS.get(came), blocked_by=blocked)  # fmt: skip


def happened(name: str, fate: Any) -> bool:
    """By hand: whether a write changed something or may have. Only for `pay` does tools.yaml say that a denial proves it did not."""
    return fate in ("done", "late") or (fate == "denied" and name != "pay")


@given(st.sampled_from(WRITES), fates)
def test_only_proof_of_nothing_is_nothing(name: str, fate: str) -> None:
    assert effective(_crossing(1, name, 0, fate), POLICY) == happened(name, fate)


def entered(run: list[Call], tool: str) -> list[tuple[str, int]]:
    """By hand: the writes of a run that a read of this tool sees."""
    return [(name, n) for name, n, fate in run if name in TOUCHED[tool] and happened(name, fate)]


def state(run: list[Call], tool: str) -> str:
    history = History(POLICY)
    for name, n, fate in run:
        history.begin("", None)
        if name in WRITES and happened(name, fate):
            history.enter("", name, POLICY.key(name, {"n": n}))
    history.begin("", None)
    return history.state(tool)


@given(runs, runs, st.sampled_from(READS))
def test_a_read_sees_the_writes_that_touch_it(left: list[Call], right: list[Call], tool: str) -> None:
    assert (state(left, tool) == state(right, tool)) == (entered(left, tool) == entered(right, tool))


def served(run: list[Call], asked: list[Call]) -> list[Any]:
    """By hand, §4.1 to §4.3: what each read of a run gets that is answered from this record."""
    recordings = [
        {"name": name, "n": n, "sees": entered(run[:at], name), "came": came, "left": True}
        for at, (name, n, came) in enumerate(run)
        if name in READS
    ]
    return [
        _served([one for one in recordings if one["name"] == name], n, entered(asked[:at], name))
        for at, (name, n, _) in enumerate(asked)
        if name in READS
    ]


def _served(named: list[dict[str, Any]], n: int, sees: list[tuple[str, int]]) -> Any:
    keyed = [one for one in named if one["n"] == n]
    exact = [one for one in keyed if one["sees"] == sees]
    if not exact:
        return Divergence.STATE_MISMATCH if keyed else Divergence.ARGS_MISMATCH if named else Divergence.UNRECORDED_CALL
    for one in exact:
        if one["left"]:
            one["left"] = False
            return AnsweredBy.RECORDED, one["came"]
    came = {one["came"] for one in exact}
    return (AnsweredBy.REPEATED, *came) if len(came) == 1 and "late" not in came else Divergence.EXHAUSTED


@given(runs, runs)
def test_reads_get_what_the_rules_say(run: list[Call], asked: list[Call]) -> None:
    matcher, got = Matcher(crossings(run), POLICY), []
    for at, (name, n, _) in enumerate(asked):
        if name in READS:
            found = matcher.serve(name, POLICY.key(name, {"n": n}), state(asked[:at], name))
            got.append((found.by, _came(found.recording.crossing)) if isinstance(found, Hit) else found.kind)
    assert got == served(run, asked)


def _came(crossing: Crossing) -> Any:
    return "late" if crossing.error else crossing.raw["came"]


@given(runs, st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=3), st.integers(0, 2))
def test_a_pure_tool_is_answered_by_its_key_alone(run: list[Call], sums: list[tuple[int, int]], asked: int) -> None:
    pure = [a_crossing(20 + at, "add", effect=Effect.NONE, seen={"n": n}, raw=raw) for at, (n, raw) in enumerate(sums)]
    matcher = Matcher([*crossings(run), *pure], POLICY)
    wanted = [raw for n, raw in sums if n == asked]
    for raw in wanted:
        found = matcher.serve_pure("add", POLICY.key("add", {"n": asked}))
        assert isinstance(found, Hit)
        assert found.recording.answer == raw
    again = matcher.serve_pure("add", POLICY.key("add", {"n": asked}))
    assert isinstance(again, Hit) == (len(set(wanted)) == 1)


@given(st.lists(st.tuples(st.sampled_from(["", "a"]), st.integers(0, 1), st.booleans()), max_size=10))
def test_an_attempt_follows_its_own_error_and_nothing_else(asked: list[tuple[str, int, bool]]) -> None:
    attempts, numbers, wanted = Attempts(), [], []
    for at, (scope, n, failed) in enumerate(asked):
        key, before = str(n), [now for now in asked[:at] if now[:2] == (scope, n)]
        number = attempts.next(scope, "find", key)
        error = ERRORS["late"] if failed else None
        attempts.answered(a_crossing(at + 1, "find", scope=scope, key=key, attempt=number, error=error))
        numbers.append(number)
        row = 0
        while row < len(before) and before[-1 - row][2]:
            row += 1
        wanted.append(row + 1)
    assert numbers == wanted
