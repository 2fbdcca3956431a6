"""What a replayed run gets and what counts of it, over any run that was recorded and any that is tried (semantics.md §4)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_policy, recorded, replayed
from shop import Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.transcript import Transcript
from twiceshy.writes import DeclaredGrant

POLICY = a_policy(find="read", peek="read")
NAMES = ("find", "peek", "pay", "planner", "user", "boss", "fast")
scripts = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 1)), max_size=6)
Script = list[tuple[str, int]]


class Counter:
    """Live systems, people and flags that count how often each is reached, and answer with that."""

    def __init__(self) -> None:
        self.reached = 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.reached += 1
        return {"parts": [], "n": self.reached}


def build(script: Script, live: Counter, *, stubborn: bool = False) -> Callable[[Boundary], Agent]:
    """An agent that asks what a script says. stubborn: whatever is raised at it, it goes on."""

    def live_tool(n: int) -> Any:
        return live(n)

    def make(boundary: Boundary) -> Agent:
        find = boundary.tool("find", live_tool, effect="read")
        peek = boundary.tool("peek", live_tool, effect="read")
        pay = boundary.tool("pay", live_tool)
        planner, user, boss = (
            boundary.model("planner", live),
            boundary.user("user", live),
            boundary.human("boss", live),
        )
        ask: dict[str, Callable[[int], Any]] = {
            "find": lambda n: find(n=n), "peek": lambda n: peek(n=n), "pay": lambda n: pay(n=n), "planner": lambda n: planner({"n": n}),
            "user": user, "boss": boss, "fast": lambda n: boundary.flag("fast", live),
        }  # fmt: skip

        def agent(_: Any) -> Any:
            got = []
            for name, n in script:
                with suppress(*([Exception] if stubborn else [])):
                    got.append(ask[name](n))
            return got

        return agent

    return make


@given(scripts, scripts)
def test_no_call_of_a_replay_reaches_a_live_system(script: Script, other: Script) -> None:
    live = Counter()
    told = replayed(build(other, live, stubborn=True), recorded(build(script, Counter()), policy=POLICY), policy=POLICY)
    assert live.reached == 0
    assert BoundaryState.LIVE not in {played.boundary for played in told.played}


@given(scripts)
def test_a_recorded_run_is_its_own_replay(script: Script) -> None:
    envelope = recorded(build(script, Counter()), policy=POLICY)
    told = replayed(build(script, Counter()), envelope, policy=POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)


@given(scripts, scripts)
def test_nothing_after_the_first_divergence_counts(script: Script, other: Script) -> None:
    """What was done before it is told in the order asked, and the run has no end."""
    envelope = recorded(build(script, Counter()), policy=POLICY)
    told = replayed(build(other, Counter(), stubborn=True), envelope, policy=POLICY)
    names = [played.crossing.name for played in told.played]
    asked = [name for name, _ in other]
    assert names == asked[: len(names)]
    if told.divergence is None:
        assert (len(names), told.disposition is not None) == (len(asked), True)
        return
    assert told.disposition is None
    unanswered = names[-1:] == ["pay"] and told.played[-1].answered_by is None
    assert told.divergence.boundary.endswith(f":{asked[len(names) - unanswered]}")


def sorted_repr(value: Any) -> str:
    if isinstance(value, dict):
        return repr([(name, sorted_repr(item)) for name, item in sorted(value.items())])
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{[sorted_repr(item) for item in value]}"
    return repr(value)


raised = st.sampled_from([TimeoutError, ValueError, KeyError, LookupError, ConnectionResetError, RuntimeError])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(
    values | st.tuples(raised, st.text(max_size=5)).map(lambda made: made[0](made[1])), st.sampled_from(["find", "pay"])
)
def test_an_answer_comes_back_as_it_was(came: Any, name: str) -> None:
    """With its types; the order of an object's names is none of it."""

    def made(boundary: Boundary) -> Agent:
        def answer() -> Any:
            if isinstance(came, Exception):
                raise came
            return came

        tool = boundary.tool(name, answer)

        def agent(_: Any) -> Any:
            try:
                return sorted_repr(tool())
            except Exception as error:  # noqa: BLE001 - whatever was recorded
                return [type(error).__name__, str(error)]

        return agent

    envelope = recorded(made, policy=POLICY)
    assert replayed(made, envelope, policy=POLICY).disposition == envelope.disposition


def output(told: Transcript) -> Any:
    return told.disposition.output if told.disposition else diverged(told)


def test_what_lay_inside_a_call_is_not_served_outside_it() -> None:
    """The read in the body of `book` was the first of its kind; the loop gets its own."""

    def made(boundary: Boundary) -> Agent:
        live = Counter()
        find = boundary.tool("find", lambda n: live(n)["n"], effect="read")
        book = boundary.tool("peek", lambda: find(n=0), effect="read")
        return lambda _: [book(), find(n=0), find(n=0)]

    envelope = recorded(made, policy=POLICY)
    assert output(replayed(made, envelope, policy=POLICY)) == envelope.disposition.output == [1, 2, 3]


requests = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)), max_size=6)
"""(model, what it is asked)."""


def asking(asked: list[tuple[str, int]]) -> Callable[[Boundary], Agent]:
    def make(boundary: Boundary) -> Agent:
        live = Counter()
        models = {name: boundary.model(name, live) for name in "ab"}
        return lambda _: [models[name]({"messages": [n]})["n"] for name, n in asked]

    return make


def outputs(record: list[tuple[str, int]], asked: list[tuple[str, int]]) -> list[int] | Divergence:
    """By hand: the output of this very request, in turn and the last one again; else the next of that model that nobody got."""
    got: list[int] = []
    for name, n in asked:
        own = [at for at, (model, _) in enumerate(record, 1) if model == name]
        exact = [at for at in own if record[at - 1][1] == n]
        free = [at for at in exact if at not in got]
        left = [at for at in own if at not in got]
        known = [at for at in got if at in exact and asked[got.index(at)] == (name, n)]
        if not (free or known or left):
            return Divergence.MODEL_EXHAUSTED
        got.append(free[0] if free else known[-1] if known else left[0])
    return got


@given(requests, requests)
def test_outputs_are_served_as_the_rule_says(record: list[tuple[str, int]], asked: list[tuple[str, int]]) -> None:
    assert output(replayed(asking(asked), recorded(asking(record)))) == outputs(record, asked)


offers = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.lists(st.sampled_from([{"name": "pay"}, {"name": "pay", "parameters": {}}, {"name": "find"}]), max_size=2),
        "output_format": st.sampled_from([None, "json", {"type": "object"}]),
    },
)  # fmt: skip


proposals = st.sampled_from([[], [{"type": "tool_call", "name": "pay", "arguments": {}}]])


@given(offers, offers, proposals)
def test_an_output_needs_the_shape_it_was_made_for(was: dict[str, Any], now: dict[str, Any], parts: list[Any]) -> None:

    def asks(offer: dict[str, Any]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", lambda _: {"parts": parts})
            return lambda _: planner({"messages": [], **offer})

        return make

    def shape(offer: dict[str, Any]) -> tuple[Any, Any]:
        return offer.get("tools") or None, offer.get("output_format")

    told = replayed(asks(now), recorded(asks(was)))
    offered = "tools" not in now or any(tool["name"] == "pay" for tool in now["tools"])
    expected = Divergence.MODEL_SHAPE if shape(was) != shape(now) else None
    assert diverged(told) is (expected or (Divergence.PROPOSAL_NOT_OFFERED if parts and not offered else None))


prompts = st.tuples(st.sampled_from(["be kind", "be firm"]), st.lists(st.sampled_from(["hi", "ho"]), max_size=2))


@given(prompts, prompts)
def test_another_request_is_drift(was: tuple[str, list[str]], now: tuple[str, list[str]]) -> None:
    def asks(system: str, said: list[str]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", Counter())
            messages = [{"role": "system", "content": system}, *({"role": "user", "content": text} for text in said)]
            return lambda _: planner({"messages": messages})

        return make

    (played,) = replayed(asks(*now), recorded(asks(*was))).played
    assert played.drift == (None if was == now else "messages" if was[0] == now[0] else "template")


@given(st.lists(st.booleans(), max_size=5), st.lists(st.booleans(), max_size=5))
def test_outputs_after_the_first_other_answer_are_stale(was: list[bool], now: list[bool]) -> None:
    """Hooks on a tool that is called before each model turn: where one changes what is shown and did not, or the other way round."""

    def build_with(changes: list[bool]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            find = boundary.tool("find", lambda n: n, effect="read")
            planner = boundary.model("planner", Counter())
            turn = iter(changes)
            boundary.hook("mark", lambda found: [found] if next(turn) else found, after="find")
            return lambda _: [[find(n=at), planner({"at": at})] for at in range(len(changes))]

        return make

    told = replayed(build_with(now), recorded(build_with(was), policy=POLICY), policy=POLICY)
    stale = [played.stale for played in told.played if played.crossing.name == "planner"]
    differs = [first != second for first, second in zip(was, now, strict=False)]
    assert stale == [any(differs[: at + 1]) for at in range(len(stale))]


messages = st.lists(st.integers(0, 1), max_size=4)


@given(messages, messages)
def test_a_turn_of_a_user_answers_its_own_message(was: list[int], now: list[int]) -> None:
    def says(said: list[int]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            user = boundary.user("user", Counter())
            return lambda _: [user(text)["n"] for text in said]

        return make

    same = next((at for at, (first, second) in enumerate(zip(was, now, strict=False)) if first != second), None)
    told = replayed(says(now), recorded(says(was)))
    if same is not None:
        assert diverged(told) is Divergence.STALE_USER_TURN
    elif len(now) > len(was):
        assert diverged(told) is (Divergence.EXHAUSTED if was else Divergence.UNRECORDED_CALL)
    else:
        assert output(told) == list(range(1, len(now) + 1))


@given(messages, messages, st.lists(st.integers(0, 1), max_size=2))
def test_a_grant_answers_one_request(was: list[int], now: list[int], declared: list[int]) -> None:
    """Recorded ones first, each once; then those the case declares, each once; nobody makes one up."""

    def requests_of(asked: list[int]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            boss = boundary.human("boss", lambda asked: "recorded")
            return lambda _: [boss({"n": n}) for n in asked]

        return make

    grants = [DeclaredGrant(human="boss", args={"n": n}, answer="declared") for n in declared]
    told = replayed(requests_of(now), recorded(requests_of(was)), grants=grants)
    left, wanted = {"recorded": list(was), "declared": list(declared)}, []
    for n in now:
        by = next((by for by, held in left.items() if n in held), None)
        if by is None:
            break
        left[by].remove(n)
        wanted.append(by)
    assert [played.crossing.raw for played in told.played] == wanted
    assert (told.divergence is None) == (len(wanted) == len(now))


flags = st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 1)), max_size=5)


@given(flags, st.lists(st.sampled_from("xy"), max_size=5), st.dictionaries(st.sampled_from("xy"), st.just("overlay")))
def test_a_flag_has_its_recorded_values(was: list[tuple[str, int]], now: list[str], overlay: dict[str, str]) -> None:
    def reads(names: list[str], values: list[int]) -> Callable[[Boundary], Agent]:
        live = iter(values)
        return lambda boundary: lambda _: [boundary.flag(name, lambda: next(live)) for name in names]

    envelope = recorded(reads([name for name, _ in was], [value for _, value in was]))
    told = replayed(reads(now, []), envelope, flags=overlay)
    wanted: list[Any] = []
    for at, name in enumerate(now):
        values = [value for held, value in was if held == name]
        nth = now[:at].count(name)
        if not values and name not in overlay:
            assert diverged(told) is Divergence.FLAG_UNRECORDED
            return
        if nth >= len(values) and len(set(values)) > 1:
            assert diverged(told) is Divergence.EXHAUSTED
            return
        wanted.append(values[min(nth, len(values) - 1)] if values else "overlay")
    assert output(told) == wanted


dates = st.sampled_from(["2026-06-02", "2026-06-03", "no date"])


@given(dates, st.lists(dates, min_size=1, max_size=2))
def test_a_live_model_is_told_the_recorded_date(was: str, now: list[str]) -> None:
    def asks(texts: list[str]) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", Counter())
            return lambda _: planner({"messages": [{"content": f"today: {text}."} for text in texts]})

        return make

    told = replayed(asks(now), recorded(asks([was])), cut=CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:*"})))
    lacking = was == "2026-06-02" and was not in now
    assert diverged(told) is (Divergence.CLOCK_NOT_IN_PROMPT if lacking else None)
    assert lacking or told.played[0].answered_by is AnsweredBy.LIVE
