"""The trace formats by name: ours, and those of installed third parties under the entry-point group `twiceshy.sources`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.registry import Registry

if TYPE_CHECKING:
    from tasks.sources.source import Source

SOURCES = Registry(
    "source",
    built_in={
        name: f"tasks.sources.{name}:source"
        for name in ("claude_agent_sdk", "claude_code", "codex", "openai_agents", "openai_chat", "otlp")
    }
    | {"langfuse": "tasks.sources.langfuse.source:source"},
    group="twiceshy.sources",
)


def named(name: str) -> Source:
    """The source of that name. Raises PluginError where there is none, where two parties claim the name, or where it does not import."""
    source: Source = SOURCES.load(name)
    return source
