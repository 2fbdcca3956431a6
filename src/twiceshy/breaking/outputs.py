"""A model whose live output is replaced, at one step, by what was recorded there: whole or as a stream, whichever its function gives."""

from __future__ import annotations

from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, NamedTuple

from twiceshy.identity import equal
from twiceshy.matching import fresh
from twiceshy.stepping import running
from twiceshy.streaming import joined, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from twiceshy.breaking.operators import Break
    from twiceshy.envelope import Crossing


class Replacing(NamedTuple):
    """Which outputs are replaced: by step, the break and the recorded crossing. heard: told where an output was another one."""

    replaced: Mapping[int, tuple[Break, Crossing]]
    heard: Callable[[Break], None]

    def around(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The model's function with other outputs, of the same sort as it is."""
        if isgeneratorfunction(fn):
            return partial(self._streamed, fn)
        if isasyncgenfunction(fn):
            return partial(self._streamed_async, fn)
        if iscoroutinefunction(fn) or iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004 - an object that is called like a function
            return partial(self._whole_async, fn)
        return lambda request: self._said(fn(request))

    def _streamed(self, fn: Callable[..., Iterable[Any]], request: Any) -> Iterator[Any]:
        yield from fn(request) if self._here() is None else self._chunks(list(fn(request)))

    async def _streamed_async(self, fn: Callable[..., AsyncIterator[Any]], request: Any) -> AsyncIterator[Any]:
        if self._here() is None:
            async for chunk in fn(request):
                yield chunk
            return
        for chunk in self._chunks([chunk async for chunk in fn(request)]):
            yield chunk

    async def _whole_async(self, fn: Callable[..., Awaitable[Any]], request: Any) -> Any:
        return self._said(await fn(request))

    def _here(self) -> tuple[Break, Crossing] | None:
        passage = running()
        return self.replaced.get(passage.seq if passage else 0)

    def _said(self, output: Any) -> Any:
        here = self._here()
        if here is None or equal(output, here[1].raw):
            return output
        self.heard(here[0])
        return fresh(here[1].raw)

    def _chunks(self, chunks: Sequence[Any]) -> Sequence[Any]:
        """The recorded chunks, or one part a chunk; the model's own where they make the recorded output."""
        output, here = joined(chunks), self._here()
        if here is None or self._said(output) is output:
            return chunks
        recorded = here[1]
        said: Sequence[Any] = fresh(split(recorded.raw) if recorded.chunks is None else recorded.chunks)
        return said
