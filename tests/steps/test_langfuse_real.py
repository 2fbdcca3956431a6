"""What real downloads of Langfuse hold (formats.md §9)."""

from typing import Any

import polars as pl
import pytest

from tasks.sources.langfuse.source import source
from tasks.sources.source import Window
from traces import HARNESS, normalized, real


def as_read(name: str) -> Any:
    (raw,) = source.fetch(Window(paths=(real(name),)))
    return source.spans(raw, harness_state=HARNESS)


@pytest.mark.parametrize(
    ("name", "spans", "scores", "models", "tools"),
    [
        ("autogen-2025-06-06", 2, 2, 1, 0), ("beeai-2025-08-01", 29, 2, 3, 1), ("claude-agent-2025-12-22", 7, 3, 4, 2),
        ("csharp-agent-with-gemini-2026-03-09", 8, 0, 3, 2), ("google-gemini-2025-08-01", 1, 2, 1, 0), ("langgraph-python-2025-08-22", 9, 2, 2, 1),
        ("llamaindex-2025-06-05", 2, 2, 1, 0), ("openai-agents-2025-09-30", 5, 2, 2, 1), ("pydantic-ai-2025-06-06", 3, 3, 1, 0),
        ("pydantic-ai-tools-2025-06-06", 3, 3, 1, 0), ("pydantic-ai-with-gemini-2025-12-24", 1, 0, 1, 0), ("vercel-aisdk-2025-11-17", 3, 2, 1, 1),
        ("vertex-ai-2025-08-01", 1, 2, 1, 0), ("google-vertex-tools-langchain-2025-09-19.merged", 1, 0, 1, 0),
    ],
)  # fmt: skip
def test_real_downloads_hold_the_crossings_that_happened(
    name: str, spans: int, scores: int, models: int, tools: int
) -> None:
    found = as_read(f"langfuse/{name}.json" if name.endswith("merged") else f"langfuse/{name}.trace.json")
    assert (found.spans_in, found.spans.height, found.scores.height, found.rejected) == (spans, spans, scores, [])
    made = normalized(found)
    assert (
        made.crossings.filter(kind="model").height,
        made.crossings.filter(kind="tool").height,
        made.quarantine.height,
    ) == (models, tools, 0)
    (trace,) = made.traces.to_dicts()
    clocked = name.startswith("csharp")  # its system text says which day it is
    assert trace["r4"] == ("derived" if clocked else "missing")


def test_real_structured_error_is_rung_three() -> None:
    found = as_read("langfuse/csharp-agent-with-gemini-2026-03-09.trace.json").spans
    assert found.filter(pl.col("is_error")).select("tool_name", "error_source").rows() == [
        ("get_custom_report", "structured")
    ]


@pytest.mark.parametrize(
    ("name", "observations", "r3", "r8"),
    [("langfuse-1.trace.json", 5, "recorded", "recorded"), ("langfuse-3.trace.json.gz", 7, "missing", "recorded")],
)
def test_real_chats_of_langfuse_itself(name: str, observations: int, r3: str, r8: str) -> None:
    found = as_read(f"agent-prism/{name}")
    assert found.spans.height == observations
    generations = found.spans.filter(pl.col("prompt_name").is_not_null())
    assert generations.select("prompt_name", "prompt_version").unique().rows() == [
        ("langfuse-docs-assistant-text", "10")
    ]
    (trace,) = normalized(found).traces.to_dicts()
    assert (trace["r3"], trace["r4"], trace["r6"], trace["r7"], trace["r8"]) == (
        r3,
        "missing",
        "recorded",
        "recorded",
        r8,
    )
