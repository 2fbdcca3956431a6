"""A LangGraph graph that interrupts itself to ask a person: its questions are a human boundary, and its run goes on with the answers."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.errors import CandidateError

controlling.require("langgraph", extra="adapters-langchain")

from langgraph.types import Command
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from twiceshy.boundary import Boundary

INTERRUPT = "interrupt"
"""The human boundary of a graph that asks by `interrupt()`."""


def answered(graph: Any, boundary: Boundary, ask: Callable[[Any], Any], *, name: str = INTERRUPT) -> AnsweredGraph:
    """The graph, whose interrupts a person answers through the human boundary of that name. Call it while the candidate is built.

    ask: the value of an interrupt in, what the run resumes with out. Only what was answered in a record, or what its case declares, is an answer in a replay.
    Raises CandidateError for a graph without a checkpointer, which cannot be resumed.
    """
    if not getattr(graph, "checkpointer", None):
        raise CandidateError("a graph that asks people needs a checkpointer to go on from; compile it with an InMemorySaver.")  # fmt: skip
    return AnsweredGraph(graph, boundary.human(name, ask))


class AnsweredGraph:
    """The graph as a candidate runs it: until it has nothing more to ask."""

    def __init__(self, graph: Any, ask: Callable[[Any], Any]) -> None:
        self._graph = graph
        self._ask = ask

    def invoke(self, given: Any, config: Any, **options: Any) -> Any:
        """`invoke`, resumed with each answer until nothing is asked any more."""
        result = self._graph.invoke(given, config, **options)
        while waiting := self._graph.get_state(config).interrupts:
            result = self._graph.invoke(self._resumed(waiting), config, **options)
        return result

    async def ainvoke(self, given: Any, config: Any, **options: Any) -> Any:
        """`invoke` for async runs; `ask` may be async too."""
        result = await self._graph.ainvoke(given, config, **options)
        while waiting := (await self._graph.aget_state(config)).interrupts:
            result = await self._graph.ainvoke(await self._aresumed(waiting), config, **options)
        return result

    def stream(self, given: Any, config: Any, **options: Any) -> Iterator[Any]:
        """`stream`, one run after the other."""
        yield from self._graph.stream(given, config, **options)
        while waiting := self._graph.get_state(config).interrupts:
            yield from self._graph.stream(self._resumed(waiting), config, **options)

    async def astream(self, given: Any, config: Any, **options: Any) -> AsyncIterator[Any]:
        """`stream` for async runs."""
        async for chunk in self._graph.astream(given, config, **options):
            yield chunk
        while waiting := (await self._graph.aget_state(config)).interrupts:
            async for chunk in self._graph.astream(await self._aresumed(waiting), config, **options):
                yield chunk

    def _resumed(self, waiting: Sequence[Any]) -> Command[Any]:
        return Command(resume={one.id: self._ask(_asked(one)) for one in waiting})

    async def _aresumed(self, waiting: Sequence[Any]) -> Command[Any]:
        said = {}
        for one in waiting:
            answer = self._ask(_asked(one))
            said[one.id] = await answer if isawaitable(answer) else answer
        return Command(resume=said)


def _asked(waiting: Any) -> Any:
    return to_jsonable_python(waiting.value, fallback=repr)
