"""What is offered to a LangChain model: tools that the agent runs, schemas that only shape an answer, and tools that the model's provider runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.tools import BaseTool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twiceshy.boundary import Boundary

_READING = frozenset(
    {"web_search", "web_search_preview", "file_search", "web_fetch", "google_search", "url_context", "tool_search"}
)
"""Tools of a provider that change nothing; they run inside the model's own crossing."""
_DATED = re.compile(r"_\d{8}$|_20\d\d_\d\d_\d\d$")
_CALLED = frozenset({None, "function", "custom"})
"""The types of tools that the agent itself calls."""


def hosted(tool: Any) -> str | None:
    """The name of a tool that the model's provider runs and that can write; None for any other."""
    if not isinstance(tool, dict) or "function" in tool or "function_declarations" in tool:
        return None
    kind = tool.get("type")
    if kind in _CALLED and ("name" in tool or "title" in tool):
        return None
    told = str(kind or next(iter(tool), "tool"))
    return None if _DATED.sub("", told) in _READING else told


def refuse_hosted(tools: Iterable[Any], agent: str, boundary: Boundary | None = None) -> None:
    """Raise UncontrolledTool for the first tool that the provider runs and that can write. boundary: of a run, which ends there."""
    for tool in tools:
        name = hosted(tool)
        if name is not None:
            refused = controlling.UncontrolledTool.named(name, agent, why="the model's provider runs it")
            if boundary is not None:
                boundary.refuse(name, refused)
            raise refused


def runs(tool: Any) -> str | None:
    """The name of a tool that has something to run; None for a schema, which only shapes an answer."""
    if isinstance(tool, BaseTool):
        schema_only = hasattr(tool, "func") and tool.func is None and getattr(tool, "coroutine", None) is None
        return None if schema_only else tool.name
    return getattr(tool, "__name__", None) if callable(tool) and not isinstance(tool, type) else None
