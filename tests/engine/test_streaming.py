"""Streamed model outputs: served whole or in chunks, closed early, and what of them is evidence."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from builders import recorded, replayed
from shop import Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.outcome import BoundaryState, Divergence, Mode
from twiceshy.streaming import Growing, joined, piece, split

CHUNKS: list[Any] = [
    {"type": "text", "text": "I will "}, {"type": "text", "text": "pay"},
    {"type": "tool_call", "name": "pay", "arguments": {"amount": 5}}, {"finish_reason": "tool_calls"},
]  # fmt: skip
WHOLE = {"parts": [{"type": "text", "text": "I will pay"}, CHUNKS[2]], "finish_reason": "tool_calls"}


def streams(request: Any) -> Iterator[Any]:
    yield from CHUNKS


def answers(request: Any) -> Any:
    return WHOLE


def build(fn: Callable[[Any], Any], body: Callable[..., Any]) -> Callable[[Boundary], Agent]:
    def make(boundary: Boundary) -> Agent:
        planner = boundary.model("planner", fn)
        pay = boundary.tool("pay", lambda amount: {"paid": amount})
        return lambda _: body(planner, pay)

    return make


def takes(many: int | None = None, times: int = 1) -> Callable[..., Any]:
    def body(planner: Any, pay: Any) -> Any:
        out = []
        for _ in range(times):
            stream = planner({"messages": []})
            taken = []
            while len(taken) != many and (chunk := next(stream, None)) is not None:
                taken.append(chunk)
            stream.close()
            out.append(taken)
        return out

    return body


def output(told: Any) -> Any:
    assert told.disposition is not None, told.divergence
    return told.disposition.output


def test_chunks_are_recorded_and_served_again() -> None:
    envelope = recorded(build(streams, takes()))
    assert (envelope.crossings[0].chunks, envelope.crossings[0].raw) == (CHUNKS, WHOLE)
    told = replayed(build(streams, takes()), envelope)
    assert output(told) == [CHUNKS]
    assert (told.played[0].crossing.chunks, told.played[0].crossing.raw) == (CHUNKS, WHOLE)
    assert not told.played[0].stale


def test_a_streamed_record_is_served_whole() -> None:
    told = replayed(build(answers, lambda planner, pay: planner({"messages": []})), recorded(build(streams, takes())))
    assert output(told) == WHOLE


def test_a_whole_record_is_served_one_part_a_chunk() -> None:
    envelope = recorded(build(answers, lambda planner, pay: planner({"messages": []})))
    assert output(replayed(build(streams, takes()), envelope)) == [
        [{"type": "text", "text": "I will pay"}, CHUNKS[2], {"finish_reason": "tool_calls"}]
    ]


def test_an_early_close_consumes_the_output() -> None:
    told = replayed(build(streams, takes(1, times=2)), recorded(build(streams, takes())))
    assert [p.matched for p in told.played] == ["#1", "#1"]
    distinct = replayed(build(streams, asks(1, 2)), recorded(build(streams, asks(1))))
    assert diverged(distinct) is Divergence.MODEL_EXHAUSTED


def asks(*numbers: int) -> Callable[..., Any]:
    return lambda planner, pay: [next(planner({"messages": [number]})) for number in numbers]


def test_only_taken_chunks_are_evidence() -> None:
    told = replayed(build(streams, takes(2)), recorded(build(streams, takes())))
    crossing = told.played[0].crossing
    assert crossing.chunks == CHUNKS[:2]
    assert crossing.shown == {"parts": [{"type": "text", "text": "I will pay"}]}
    assert repr(crossing.raw) == "UNSET"


def test_taken_chunks_are_written_ahead() -> None:
    def acts(planner: Any, pay: Any) -> Any:
        for chunk in planner({"messages": []}):
            if chunk.get("type") == "tool_call":
                return planner({"messages": [2]})
        return None

    told = replayed(build(streams, acts), recorded(build(streams, takes())))
    assert diverged(told) is Divergence.MODEL_EXHAUSTED
    assert told.played[0].crossing.chunks == CHUNKS[:3]


def test_leaving_early_makes_the_rest_stale() -> None:
    def twice(first: int | None) -> Callable[..., Any]:
        def body(planner: Any, pay: Any) -> Any:
            takes(first)(planner, pay)
            return list(planner({"messages": [2]}))

        return body

    envelope = recorded(build(streams, twice(None)))
    assert [p.stale for p in replayed(build(streams, twice(None)), envelope).played] == [False, False]
    assert [p.stale for p in replayed(build(streams, twice(1)), envelope).played] == [False, True]


def test_nobody_knows_what_follows_a_stream_left_early() -> None:
    envelope = recorded(build(streams, takes(2)))
    assert output(replayed(build(streams, takes(2)), envelope)) == [CHUNKS[:2]]
    assert diverged(replayed(build(streams, takes()), envelope)) is Divergence.MODEL_EXHAUSTED
    whole = replayed(build(answers, lambda planner, pay: planner({"messages": []})), envelope)
    assert diverged(whole) is Divergence.SIDE_UNKNOWN


def test_a_stream_that_broke_breaks_again() -> None:
    def breaks(request: Any) -> Iterator[Any]:
        yield CHUNKS[0]
        raise TimeoutError("the model is slow")

    def body(planner: Any, pay: Any) -> Any:
        taken = []
        try:
            for chunk in planner({"messages": []}):
                taken += [chunk]
        except TimeoutError as late:
            return [taken, str(late)]

    envelope = recorded(build(breaks, body))
    assert envelope.crossings[0].error is not None
    told = replayed(build(streams, body), envelope)
    assert output(told) == [[CHUNKS[0]], "the model is slow"]


def test_calls_made_while_streaming_belong_to_the_output() -> None:
    def acts(planner: Any, pay: Any) -> Any:
        return [pay(**chunk["arguments"]) for chunk in planner({"messages": []}) if chunk.get("type") == "tool_call"]

    envelope = recorded(build(streams, acts))
    assert [(c.name, c.group) for c in envelope.crossings] == [("planner", None), ("pay", 1)]
    assert replayed(build(streams, acts), envelope).divergence is None


def test_a_dropped_stream_is_recorded() -> None:
    def drops(planner: Any, pay: Any) -> Any:
        next(planner({"messages": []}))
        planner({"messages": [1]})

    assert [c.chunks for c in recorded(build(streams, drops)).crossings] == [CHUNKS[:1], []]


def test_a_live_stream_runs_and_is_told() -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:*"}))
    told = replayed(build(streams, takes()), recorded(build(streams, takes())), cut=cut)
    assert (told.played[0].boundary, told.played[0].crossing.raw) == (BoundaryState.LIVE, WHOLE)


def test_async_streams_replay_alike() -> None:
    async def later(request: Any) -> AsyncIterator[Any]:
        for chunk in CHUNKS:
            await asyncio.sleep(0)
            yield chunk

    def make(*, early: bool) -> Callable[[Boundary], Agent]:
        def declare(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", later)

            async def agent(_: Any) -> Any:
                async with planner({"messages": []}) as stream:
                    if early:
                        return [await anext(stream)]
                    return [chunk async for chunk in stream]

            return agent

        return declare

    envelope = recorded(make(early=False))
    assert envelope.crossings[0].raw == WHOLE
    assert output(replayed(make(early=False), envelope)) == CHUNKS
    cut_short = replayed(make(early=True), envelope)
    assert (output(cut_short), cut_short.played[0].crossing.chunks) == (CHUNKS[:1], CHUNKS[:1])


def test_a_cancelled_reader_has_left_early() -> None:
    async def slowly(request: Any) -> AsyncIterator[Any]:
        for chunk in CHUNKS:
            yield chunk
            await asyncio.sleep(30)

    def make(boundary: Boundary) -> Agent:
        planner = boundary.model("planner", slowly)

        async def reads(taken: list[Any], first: asyncio.Event) -> None:
            async for chunk in planner({"messages": []}):
                taken.append(chunk)
                first.set()

        async def agent(_: Any) -> Any:
            taken: list[Any] = []
            first = asyncio.Event()
            task = asyncio.create_task(reads(taken, first))
            await first.wait()
            task.cancel()
            await asyncio.wait([task])
            return taken

        return agent

    envelope = recorded(make)
    crossing = envelope.crossings[0]
    assert (crossing.chunks, crossing.error, repr(crossing.raw)) == (CHUNKS[:1], None, "UNSET")
    assert output(replayed(make, envelope)) == CHUNKS[:1]


TEXT = st.text(max_size=6)
PART = st.one_of(
    st.builds(lambda kind, key, text: {"type": kind, key: text}, st.sampled_from(["text", "reasoning"]), st.sampled_from(["text", "content"]), TEXT),
    st.builds(lambda name, given: {"type": "tool_call", "id": name, "name": name, "arguments": given}, TEXT, st.dictionaries(TEXT, st.integers() | TEXT, max_size=2) | TEXT),
    st.builds(lambda text: {"type": "file", "native": {"uri": text}}, TEXT), st.integers(),
)  # fmt: skip


@example({"parts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "finish_reason": "stop"})
@given(st.fixed_dictionaries({"parts": st.lists(PART, max_size=4)}, optional={"finish_reason": st.just("stop")}))
def test_an_output_in_chunks_is_the_output(output: Any) -> None:
    assert joined(split(output)) == output


@given(st.data(), st.lists(st.tuples(TEXT, st.dictionaries(TEXT, st.integers(), max_size=3)), min_size=1, max_size=3))
def test_pieces_of_calls_make_calls(data: st.DataObject, calls: list[tuple[str, Any]]) -> None:
    """However the arguments of parallel calls are cut and mixed, each call gets its own."""
    left = [[{"index": at, "type": "tool_call", "id": f"c{at}", "name": name, "arguments": ""}] for at, (name, _) in enumerate(calls)]  # fmt: skip
    for at, (_, given_) in enumerate(calls):
        spelt = json.dumps(given_)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(spelt)), max_size=4)) | {0, len(spelt)})
        left[at] += [{"index": at, "type": "tool_call", "arguments": spelt[a:b]} for a, b in itertools.pairwise(cuts)]
    chunks = [pieces[0] for pieces in left]
    rest = [pieces[1:] for pieces in left]
    while any(rest):
        at = data.draw(st.sampled_from([at for at, pieces in enumerate(rest) if pieces]))
        chunks.append(rest[at].pop(0))
    assert joined(chunks)["parts"] == [
        {"type": "tool_call", "id": f"c{at}", "name": name, "arguments": given_}
        for at, (name, given_) in enumerate(calls)
    ]


GROWN = st.fixed_dictionaries(
    {"type": st.just("text"), "content": TEXT}, optional={"native": st.dictionaries(TEXT, TEXT, max_size=1), "id": TEXT}
)


@given(st.lists(GROWN, min_size=1, max_size=4), GROWN)
def test_pieces_tell_how_a_part_grew(states: list[dict[str, Any]], other: dict[str, Any]) -> None:
    growing = Growing()
    growing.add(piece({}, other, 0))
    for before, after in itertools.pairwise([{}, *states]):
        told = piece(before, after, 1)
        assert (told is None) == (before == after)
        if told is not None:
            assert growing.add(told) == 1
        assert growing.output()["parts"] == [other, after]


def test_a_call_left_half_way_stays_text() -> None:
    half = {"index": 1, "type": "tool_call", "id": "c", "name": "pay", "arguments": '{"amount": '}
    told = [{"index": 0, "type": "text", "content": "I "}, half, {"index": 0, "type": "text", "content": "pay"}]
    assert joined(told)["parts"] == [
        {"type": "text", "content": "I pay"},
        {"type": "tool_call", "id": "c", "name": "pay", "arguments": '{"amount": '},
    ]
