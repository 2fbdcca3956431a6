"""Model outputs in chunks: handed on one by one, told one by one, and closed when the agent has had enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from twiceshy.seam import Closing
from twiceshy.stepping import within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from twiceshy.seam import Answer, Call

_TEXTS = ("text", "reasoning")


def joined(chunks: Sequence[Any]) -> dict[str, Any]:
    """The output that chunks make: texts of one type that follow each other are one part, anything else is a part of its own.

    A chunk is a part ({"type": "text", "text": ...}) or says how the output ended ({"finish_reason": ...}).
    """
    parts: list[Any] = []
    output: dict[str, Any] = {"parts": parts}
    for chunk in chunks:
        if isinstance(chunk, dict) and "type" not in chunk and "finish_reason" in chunk:
            output |= chunk
        elif _goes_on(parts, chunk):
            parts[-1] = {**parts[-1], "text": parts[-1]["text"] + chunk["text"]}
        else:
            parts.append(chunk)
    return output


def split(output: Any) -> list[Any]:
    """An output in chunks, one part a chunk and how it ended last: for a record that was not streamed."""
    if not isinstance(output, dict) or not isinstance(output.get("parts"), list):
        return [output]
    rest = {name: value for name, value in output.items() if name != "parts"}
    return [*output["parts"], *([rest] if rest else [])]


def _goes_on(parts: Sequence[Any], chunk: Any) -> bool:
    last = parts[-1] if parts else None
    return (
        isinstance(chunk, dict)
        and isinstance(last, dict)
        and chunk.get("type") in _TEXTS
        and chunk.get("type") == last.get("type")
        and isinstance(chunk.get("text"), str)
        and isinstance(last.get("text"), str)
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
            with within(self._call):
                if self._chunks is None:
                    self._chunks = iter(self._source())
                chunk = next(self._chunks)
        except StopIteration:
            self._taking.ended(whole=True)
            raise
        except BaseException as raised:
            self._taking.ended(raised)
            raise
        return self._taking.took(chunk)

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
            self._taking.ended(whole=True)
            raise
        except BaseException as raised:
            self._taking.ended(raised)
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


async def _later(chunks: Iterable[Any]) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield chunk
