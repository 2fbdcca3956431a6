from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, a_policy
from twiceshy.envelope import Effect, ErrorRecord, Kind
from twiceshy.history import Attempts, History, effective
from twiceshy.policy import ToolPolicy

POLICY = a_policy(
    get_order="read", get_weather=ToolPolicy(effect=Effect.READ, reads=("weather",)),
    cancel=ToolPolicy(touches=("orders",), definite_errors=("not_found",)), notify=ToolPolicy(touches=("mail",)), add="none",
)  # fmt: skip
writes = st.lists(
    st.tuples(
        st.sampled_from(["", "a"]), st.sampled_from(["cancel", "notify", "other"]), st.sampled_from(["k1", "k2"])
    ),
    max_size=5,
)


def state_after(entered: list[tuple[str, str, str]], tool: str = "get_order") -> str:
    history = History(POLICY)
    history.begin("", 1)
    for scope, name, key in entered:
        history.enter(scope, name, key)
    history.begin("", 2)
    return history.state(tool)


@given(writes, st.randoms())
def test_arrival_order_within_a_group_changes_nothing(entered: list[tuple[str, str, str]], chance: object) -> None:
    shuffled = list(entered)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert state_after(shuffled) == state_after(entered)


@given(writes)
def test_a_group_sees_the_state_at_its_start(entered: list[tuple[str, str, str]]) -> None:
    history = History(POLICY)
    history.begin("", 1)
    before = history.state("get_order")
    for scope, name, key in entered:
        history.enter(scope, name, key)
        assert history.state("get_order") == before


def test_order_of_groups_matters() -> None:
    history, other = History(POLICY), History(POLICY)
    for at, key in enumerate(["k1", "k2"]):
        history.begin("", at)
        history.enter("", "cancel", key)
        other.begin("", at)
        other.enter("", "cancel", "k2" if key == "k1" else "k1")
    history.begin("", 9)
    other.begin("", 9)
    assert history.state("get_order") != other.state("get_order")


def test_a_call_nobody_asked_for_is_its_own_group() -> None:
    history = History(POLICY)
    history.begin("", None)
    history.enter("", "cancel", "k1")
    before = history.state("get_order")
    history.begin("", None)
    assert history.state("get_order") != before


def test_a_write_elsewhere_leaves_a_narrowed_read_alone() -> None:
    assert state_after([("", "cancel", "k1")], "get_weather") == state_after([], "get_weather")
    assert state_after([("", "other", "k1")], "get_weather") != state_after([], "get_weather")
    assert state_after([("", "cancel", "k1")], "get_order") != state_after([], "get_order")
    assert state_after([("", "notify", "k1")], "cancel") == state_after([], "cancel")


def test_only_a_definite_error_has_no_effect() -> None:
    def write(**given: object) -> bool:
        return effective(a_crossing(name="cancel", effect=Effect.WRITE, **given), POLICY)

    assert write()
    assert write(error=ErrorRecord(cls="TimeoutError", type="timeout"))
    assert not write(error=ErrorRecord(cls="LookupError", type="not_found"))
    assert not write(error=ErrorRecord(cls="ValueError", definite=True))
    assert not write(blocked_by="refund-approval")


def test_reads_and_pure_tools_change_nothing() -> None:
    assert not effective(a_crossing(name="get_order", effect=Effect.WRITE), POLICY)
    assert not effective(a_crossing(name="add"), POLICY)
    assert effective(a_crossing(name="unheard_of", effect=None), POLICY)
    assert not effective(a_crossing(name="planner", kind=Kind.MODEL, effect=None), POLICY)


def test_an_attempt_follows_an_error() -> None:
    attempts = Attempts()
    failed = a_crossing(key="k", error=ErrorRecord(cls="TimeoutError"))
    assert attempts.next("", "get_order", "k") == 1
    attempts.answered(failed)
    assert attempts.next("", "get_order", "k") == 2
    attempts.answered(a_crossing(key="k", attempt=2))
    assert attempts.next("", "get_order", "k") == 1
    assert attempts.next("other", "get_order", "k") == 1


def test_a_memory_put_is_a_write() -> None:
    put = a_crossing(name="remember", kind=Kind.MEMORY, effect=Effect.WRITE)
    assert effective(put, POLICY)
    assert not effective(a_crossing(name="recall", kind=Kind.MEMORY, effect=Effect.READ), POLICY)


def state_of(keys: list[str]) -> str:
    history = History(POLICY)
    for at, key in enumerate(keys):
        history.begin("", at)
        history.enter("", "cancel", key)
    history.begin("", len(keys))
    return history.state("get_order")


histories = st.lists(st.sampled_from(["k1", "k2", "k3"]), max_size=5)


@given(histories, histories)
def test_every_history_is_a_state_of_its_own(left: list[str], right: list[str]) -> None:
    assert (state_of(left) == state_of(right)) == (left == right)
