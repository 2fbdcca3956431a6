"""Tools and models that LangChain runs past the boundary: its own callbacks tell of each one that begins, in whatever node of whatever graph."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.envelope import Kind
from twiceshy.passing import current

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from twiceshy.adapters.langchain_model import BoundChatModel

if TYPE_CHECKING:
    from twiceshy.boundary import Boundary


class _Watch(BaseCallbackHandler):
    """Ends a replay at a tool or a model that begins while no passage is open: whoever runs it does so past the boundary."""

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

    def on_chat_model_start(self, serialized: dict[str, Any] | None, messages: Any, **told: Any) -> None:
        """A chat model is about to be asked: a bound one, which asks its boundary, or another."""
        self._asked(serialized)

    def on_llm_start(self, serialized: dict[str, Any] | None, prompts: Any, **told: Any) -> None:
        """The same for a model of plain texts."""
        self._asked(serialized)

    def _asked(self, serialized: dict[str, Any] | None) -> None:
        path = (serialized or {}).get("id") or ["model"]
        if path[-1] == BoundChatModel.__name__ or self._boundary.in_a_body():
            return
        why = "the code of the graph or of its middleware asks it; give that bound_model(boundary, model, name=...)"
        self._boundary.beyond(
            Kind.MODEL, str(path[-1]), controlling.UncontrolledModel.named(str(path[-1]), "graph", why=why)
        )


_WATCHING: ContextVar[BaseCallbackHandler | None] = ContextVar("twiceshy_watching", default=None)
# LangChain gives the handler in a context variable to every run that begins in its context.
register_configure_hook(_WATCHING, inheritable=True)


def watch(boundary: Boundary) -> None:
    """Know of every tool that LangChain runs from now on in this context, which is the candidate's: it is built where it runs."""
    _WATCHING.set(_Watch(boundary))
