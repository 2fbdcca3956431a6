"""Model outputs in chunks: handed on one by one, told one by one, and closed when the agent has had enough."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from twiceshy.identity import equal
from twiceshy.seam import Closing
from twiceshy.stepping import within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from twiceshy.seam import Answer, Call

_TEXTS = ("text", "content", "arguments")
"""What grows piece by piece: a text by the name that its maker uses, and the arguments of a call as JSON text."""
_GROWING = ("text", "reasoning")
_INSTANT_S = 1e-9
"""Seconds that pass on the frozen clock only when nothing else can be done."""
_PLACING = ("index", "anew")
"""What a piece says of where it belongs."""


def joined(chunks: Sequence[Any]) -> dict[str, Any]:
    """The output that chunks make. A chunk is a part ({"type": "text", "text": ...}), a piece of one, or says how the output ended ({"finish_reason": ...}).

    Pieces carry the `index` of their part: those of one index make one, their texts joined, the last of everything else; one that says `anew` starts it over.
    Texts without an index that follow each other are one part if they are of one type; anything else is a part of its own.
    """
    growing = Growing()
    for chunk in chunks:
        growing.add(chunk)
    return growing.output()


def split(output: Any) -> list[Any]:
    """An output in chunks, one part a chunk and how it ended last: for a record that was not streamed."""
    if not isinstance(output, dict) or not isinstance(output.get("parts"), list):
        return [output]
    rest = {name: value for name, value in output.items() if name != "parts"}
    parts = output["parts"]
    apart = [  # two texts that follow each other stay two
        {**part, "index": at} if at and _goes_on(parts[:at], part) else part for at, part in enumerate(parts)
    ]
    return [*apart, *([rest] if rest else [])]


def ends(chunk: object) -> bool:
    """Whether a chunk says how the output ended."""
    return isinstance(chunk, dict) and "type" not in chunk and "finish_reason" in chunk


class Growing:
    """An output while its chunks come."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        """As far as they have come: the arguments of a call are still text where they came in pieces."""
        self._places: dict[Any, int] = {}
        self._end: dict[str, Any] = {}

    def add(self, chunk: Any) -> int | None:
        """Take one more chunk. The number of the part that it is of, from 0; None for how the output ended."""
        if ends(chunk):
            self._end |= chunk
            return None
        if isinstance(chunk, dict) and isinstance(chunk.get("index"), int | str):
            at = self._places.setdefault(chunk["index"], len(self.parts))
        else:
            last = len(self.parts) - 1
            goes_on = last not in self._places.values() and _goes_on(self.parts, chunk)
            at = last if goes_on else last + 1
        if at < len(self.parts):
            self.parts[at] = _grown(self.parts[at], chunk)
        else:
            self.parts.append(_grown({}, chunk) if at in self._places.values() else chunk)
        return at

    def output(self) -> dict[str, Any]:
        """All that has come, as an output."""
        pieced = set(self._places.values())
        parts = [_spelt(part) if at in pieced else part for at, part in enumerate(self.parts)]
        return {"parts": parts, **self._end}


def piece(before: Mapping[str, Any], after: Mapping[str, Any], index: int | str) -> dict[str, Any] | None:
    """The chunk that makes `after` of a part that has come as far as `before` ({} for a new one); None where nothing came."""
    came: dict[str, Any] = {}
    for name, value in after.items():
        had = before.get(name)
        if name in _TEXTS and isinstance(value, str) and isinstance(had, str):
            if not value.startswith(had):
                return {"index": index, "anew": True, **after}
            value = value.removeprefix(had)  # noqa: PLW2901 - what of it is new
            came |= {name: value} if value else {}
        elif name not in before or not equal(had, value):
            came[name] = value
    if before.keys() - after.keys():
        return {"index": index, "anew": True, **after}
    return {"index": index, "type": after["type"], **came} if came or not before else None


def _grown(part: dict[str, Any], piece: dict[str, Any]) -> dict[str, Any]:
    """A part with one more piece of it."""
    grown = {} if piece.get("anew") else dict(part)
    for name, value in piece.items():
        had = grown.get(name)
        longer = name in _TEXTS and isinstance(value, str) and isinstance(had, str)
        if name not in _PLACING:
            grown[name] = f"{had}{value}" if longer else value
    return grown


def _spelt(part: dict[str, Any]) -> dict[str, Any]:
    """A part whose pieces are all there: the arguments of a call are the value that their text spells. Text that is no JSON, as of a call left half way, stays text."""
    if part.get("type") != "tool_call" or not isinstance(part.get("arguments"), str):
        return part
    try:
        return {**part, "arguments": json.loads(part["arguments"])}
    except ValueError:
        return part


def _goes_on(parts: Sequence[Any], chunk: Any) -> bool:
    last = parts[-1] if parts else None
    return (
        isinstance(chunk, dict)
        and isinstance(last, dict)
        and chunk.get("type") in _GROWING
        and chunk.get("type") == last.get("type")
        and any(isinstance(chunk.get(name), str) and isinstance(last.get(name), str) for name in _TEXTS)
    )


class _Taking:
    """What was taken of one stream, told ahead chunk by chunk and once at its end."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._taken: list[Any] = []
        self._open = True

    def took(self, chunk: Any) -> Any:
        self._answer.part(chunk)
        self._taken.append(chunk)
        return chunk

    @property
    def left(self) -> bool:
        """Whether the record was left where its chunks end."""
        return self._answer.left is not None

    def through(self) -> None:
        """More is asked for than there is."""
        if self._answer.left is not None and self._open:
            self._answer.left()
        self.ended(whole=True)

    def ended(self, error: BaseException | None = None, *, whole: bool = False) -> None:
        """Closed early, what the boundary would have returned is unknown: only what was taken went back."""
        if not self._open:
            return
        self._open = False
        output = joined(self._taken)
        if error is not None:
            self._answer.close(Closing(error=error, chunks=self._taken))
        elif whole:
            self._answer.close(Closing(raw=output, shown=output, chunks=self._taken))
        else:
            self._answer.close(Closing(shown=output, chunks=self._taken))


class Stream:
    """The chunks of one output, for plain agents. Leaving it early, or dropping it, closes it."""

    def __init__(self, source: Callable[[], Iterable[Any]], call: Call, answer: Answer, taking: _Taking) -> None:
        self.live = answer.live
        """Whether its model answers now, and not the record."""
        self._call = call
        self._taking = taking
        self._chunks: Iterator[Any] | None = None
        self._source = source if answer.live else lambda: answer.value

    @classmethod
    def of(cls, source: Callable[[], Iterable[Any]], call: Call, answer: Answer) -> Self:
        """The stream that answers a call: `source()` where it runs live, else the recorded chunks."""
        return cls(source, call, answer, _Taking(answer))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            chunk = self.offered()
        except StopIteration:
            self.ended()
            raise
        return self.took(chunk)

    @property
    def left(self) -> bool:
        """Whether the record was left where its chunks end."""
        return self._taking.left

    def offered(self) -> Any:
        """The next chunk, which counts as taken only once `took` is told. Raises StopIteration where there is none, and what the model raised."""
        try:
            with within(self._call):
                if self._chunks is None:
                    self._chunks = iter(self._source())
                return next(self._chunks)
        except StopIteration:
            raise
        except BaseException as raised:
            self._taking.ended(raised)
            raise

    def took(self, chunk: Any) -> Any:
        """Count a chunk as taken, and give it on."""
        return self._taking.took(chunk)

    def ended(self) -> None:
        """All chunks were taken, and more was asked for. Where the record was left here, that ends the run."""
        self._taking.through()

    def close(self) -> None:
        """Take no more; what was not taken is no evidence."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()
        self._taking.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class AsyncStream:
    """The chunks of one output, for async agents."""

    def __init__(self, source: Callable[[], Any], call: Call, answer: Answer, taking: _Taking) -> None:
        self._call = call
        self._taking = taking
        self._chunks: AsyncIterator[Any] | None = None
        self._source = source if answer.live else lambda: _later(answer.value)

    @classmethod
    def of(cls, source: Callable[[], Any], call: Call, answer: Answer) -> Self:
        """The stream that answers a call: `source()` where it runs live, else the recorded chunks."""
        return cls(source, call, answer, _Taking(answer))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            with within(self._call):
                if self._chunks is None:
                    self._chunks = aiter(self._source())
                chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._taking.through()
            raise
        except BaseException as raised:
            self._taking.ended(None if _leaves(raised) else raised)
            raise
        return self._taking.took(chunk)

    async def aclose(self) -> None:
        """Take no more; what was not taken is no evidence."""
        if self._chunks is not None and hasattr(self._chunks, "aclose"):
            await self._chunks.aclose()
        self._taking.ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._taking.ended()


def _leaves(raised: BaseException) -> bool:
    """Whether whoever reads a stream is leaving it: what comes of that is no error of the model."""
    from asyncio import CancelledError  # 100 ms, and only async agents come here

    return isinstance(raised, CancelledError | GeneratorExit)


async def _later(chunks: Iterable[Any]) -> AsyncIterator[Any]:
    """Chunks from the record, each once everybody else has had their turn: who reads them elsewhere may leave before the next, as when they came over a wire."""
    import asyncio  # 100 ms, and only async agents come here

    came = iter(chunks)
    while True:
        await asyncio.sleep(_INSTANT_S)
        try:
            chunk = next(came)
        except StopIteration:
            return
        yield chunk
