"""Streams over any output, left after any chunk (semantics.md §4)."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from builders import recorded, replayed
from shop import Agent
from twiceshy.boundary import Boundary
from twiceshy.streaming import joined, split

parts = st.sampled_from(
    [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "reasoning", "text": "c"}, {"type": "tool_call", "name": "pay", "arguments": {"n": 1}}]
)  # fmt: skip
outputs = st.lists(
    st.lists(parts, max_size=4).map(lambda made: [*made, {"finish_reason": "stop"}]), min_size=2, max_size=2
)
many = st.none() | st.integers(0, 5)


def build(said: list[list[Any]], taken: list[int | None], *, streamed: bool = True) -> Callable[[Boundary], Agent]:
    """An agent that asks twice, each time something else, and takes so many chunks of each output."""

    def make(boundary: Boundary) -> Agent:
        def streams(request: dict[str, Any]) -> Iterator[Any]:
            yield from said[request["n"]]

        planner = boundary.model("planner", streams if streamed else lambda request: joined(said[request["n"]]))

        def agent(_: Any) -> list[Any]:
            return [_take(planner({"n": n}), upto) if streamed else planner({"n": n}) for n, upto in enumerate(taken)]

        return agent

    return make


def _take(stream: Any, upto: int | None) -> list[Any]:
    chunks: list[Any] = []
    while len(chunks) != upto and (chunk := next(stream, None)) is not None:
        chunks.append(chunk)
    stream.close()
    return chunks


@given(outputs, st.lists(many, min_size=2, max_size=2))
def test_a_stream_gives_its_chunks_and_they_are_the_evidence(said: list[list[Any]], taken: list[int | None]) -> None:
    told = replayed(build(said, taken), recorded(build(said, [None, None])))
    got = [chunks[:upto] for chunks, upto in zip(said, taken, strict=True)]
    assert told.disposition is not None
    assert told.disposition.output == got
    first, second = (played.crossing for played in told.played)
    for crossing, chunks, whole, upto in zip((first, second), got, said, taken, strict=True):
        assert (crossing.chunks or []) == chunks
        exhausted = upto is None or upto > len(whole)
        assert crossing.raw == (joined(whole) if exhausted else UNSET)
    left = joined(got[0]) != joined(said[0])
    assert [played.stale for played in told.played] == [False, left]


@given(outputs)
def test_an_output_is_one_value_whole_or_in_parts(said: list[list[Any]]) -> None:
    whole = [joined(chunks) for chunks in said]
    streamed, plain = recorded(build(said, [None, None])), recorded(build(said, [None, None], streamed=False))
    for envelope, streams, output in (
        (streamed, False, whole), (plain, False, whole), (streamed, True, said), (plain, True, [split(value) for value in whole]),
    ):  # fmt: skip
        told = replayed(build(said, [None, None], streamed=streams), envelope)
        assert told.disposition is not None
        assert told.disposition.output == output
