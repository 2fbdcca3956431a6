"""The trace formats by name: ours, and those of installed third parties under the entry-point group `twiceshy.sources`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.registry import Registry

if TYPE_CHECKING:
    from tasks.sources.source import Source

SOURCES = Registry(
    "source",
    built_in={
        "braintrust": "tasks.sources.braintrust:source",
        "claude_agent_sdk": "tasks.sources.claude_agent_sdk:source",
        "claude_code": "tasks.sources.claude_code:source",
        "codex": "tasks.sources.codex:source",
        "inspect": "tasks.sources.inspect_logs.source:source",
        "langfuse": "tasks.sources.langfuse.source:source",
        "langsmith": "tasks.sources.langsmith.source:source",
        "logfire": "tasks.sources.logfire:source",
        "messages": "tasks.sources.messages_source:source",
        "mlflow": "tasks.sources.mlflow:source",
        "openai_agents": "tasks.sources.openai_agents:source",
        "openai_chat": "tasks.sources.openai_chat:source",
        "otlp": "tasks.sources.otlp:source",
        "swe_agent": "tasks.sources.swe_agent:source",
        "who_and_when": "tasks.sources.who_and_when:source",
    },
    group="twiceshy.sources",
)


def named(name: str) -> Source:
    """The source of that name. Raises PluginError where there is none, where two parties claim the name, or where it does not import."""
    source: Source = SOURCES.load(name)
    return source
