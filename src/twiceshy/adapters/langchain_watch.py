"""Tools that LangChain runs past the boundary: its own callbacks tell of each one that begins, in whatever node of whatever graph."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.envelope import Kind
from twiceshy.passing import current

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

if TYPE_CHECKING:
    from twiceshy.boundary import Boundary


class _Watch(BaseCallbackHandler):
    """Ends a replay at a tool that begins while no passage is open: whoever runs it does so past the boundary."""

    raise_error = True
    run_inline = True

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **told: Any) -> None:
        """A tool is about to run. One that is run within the body of another is that one's own matter."""
        if current() is not None or self._boundary.in_a_body():
            return
        name = str((serialized or {}).get("name") or told.get("name") or "tool")
        why = "a node of the graph runs it; run it in tool_node(boundary, tools)"
        self._boundary.beyond(Kind.TOOL, name, controlling.UncontrolledTool.named(name, "graph", why=why))


_WATCHING: ContextVar[BaseCallbackHandler | None] = ContextVar("twiceshy_watching", default=None)
# LangChain gives the handler in a context variable to every run that begins in its context.
register_configure_hook(_WATCHING, inheritable=True)


def watch(boundary: Boundary) -> None:
    """Know of every tool that LangChain runs from now on in this context, which is the candidate's: it is built where it runs."""
    _WATCHING.set(_Watch(boundary))
