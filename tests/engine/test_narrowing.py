from builders import a_crossing, a_policy, an_envelope
from twiceshy.envelope import Crossing, Effect, ErrorRecord
from twiceshy.narrowing import refutations
from twiceshy.policy import ToolPolicy, ToolsPolicy

READ, WRITE = Effect.READ, Effect.WRITE


def narrowed(
    *, reads: tuple[str, ...] | None = ("orders",), touches: tuple[str, ...] | None = ("notes",)
) -> ToolsPolicy:
    return a_policy(get_order=ToolPolicy(effect=READ, reads=reads), add_note=ToolPolicy(effect=WRITE, touches=touches))


def a_read(seq: int, answer: object, **given: object) -> Crossing:
    return a_crossing(seq, "get_order", seen={"id": "A1"}, raw=answer, shown=answer, **given)


def a_write(seq: int, **given: object) -> Crossing:
    return a_crossing(seq, "add_note", effect=WRITE, seen={"text": "x"}, raw={}, **given)


def refuted(policy: ToolsPolicy, *crossings: Crossing) -> list[tuple[str, str, str, list[str]]]:
    return [
        (found.tool, found.before, found.after, [write.place for write in found.writes])
        for found in refutations(an_envelope(*crossings), policy)
    ]


def test_changed_read_refutes_the_narrowing() -> None:
    run = (a_read(1, {"total": 1}), a_write(2), a_read(3, {"total": 2}))
    assert refuted(narrowed(), *run) == [("get_order", "#1", "#3", ["#2"])]


def test_policy_that_joins_them_is_not_refuted() -> None:
    run = (a_read(1, {"total": 1}), a_write(2), a_read(3, {"total": 2}))
    assert refuted(narrowed(touches=("orders",)), *run) == []
    assert refuted(narrowed(touches=None), *run) == []
    assert refuted(narrowed(reads=None), *run) == []


def test_same_answer_refutes_nothing() -> None:
    assert refuted(narrowed(), a_read(1, {"total": 1}), a_write(2), a_read(3, {"total": 1.0})) == []


def test_change_without_a_write_tells_of_the_world() -> None:
    assert refuted(narrowed(), a_read(1, {"total": 1}), a_read(2, {"total": 2})) == []


def test_write_without_effect_is_no_write() -> None:
    denied = ErrorRecord(cls="builtins.ValueError", type="denied", definite=True)
    assert refuted(narrowed(), a_read(1, 1), a_write(2, error=denied), a_read(3, 2)) == []
    assert refuted(narrowed(), a_read(1, 1), a_write(2, blocked_by="guard"), a_read(3, 2)) == []


def test_timeout_is_no_answer() -> None:
    slow = ErrorRecord(cls="builtins.TimeoutError", type="timeout")
    gone = ErrorRecord(cls="builtins.LookupError", type="LookupError", definite=True)
    assert refuted(narrowed(), a_read(1, 1), a_write(2), a_read(3, None, error=slow)) == []
    assert len(refuted(narrowed(), a_read(1, 1), a_write(2), a_read(3, None, error=gone))) == 1
