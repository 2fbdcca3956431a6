"""Which conventions a span follows: decided for each span, from its scope and its attribute keys, by an ordered list; traces mix them (formats.md §4)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDER = "twiceshy"
"""Spans of our own recorder: crossings with `twiceshy.kind`, and the root of a run it exported."""

_CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
_OPERATION = ("gen_ai.operation.name", "gen_ai.system", "gen_ai.provider.name")
_INFRA_KEYS = ("http.", "rpc.", "db.", "url.", "messaging.", "network.", "a2a.")
_INFRA_SCOPE = re.compile(
    r"\b(?:http|httpx|rpc|grpc|db|a2a|asgi|wsgi|fastapi|starlette|requests|urllib3?|aiohttp|sqlalchemy|redis|psycopg\w*|asyncpg|botocore)\b"
)


def dialect_of(attributes: Mapping[str, Any], resource: Mapping[str, Any], scope: str) -> str:
    """The name of the dialect: twiceshy, genai, genai_old, infra or unknown; the first whose evidence is there."""
    if "twiceshy.kind" in attributes or (scope == RECORDER and "twiceshy.workflow" in {**resource, **attributes}):
        return RECORDER
    if any(key in attributes for key in _CONTENT):
        return "genai"
    if _is_infra(attributes, scope):
        return "infra"
    if any(key in attributes for key in _OPERATION):
        # 1.37 and later without content look the same as 1.36: what is told is told alike.
        return "genai_old"
    return "unknown"


def _is_infra(attributes: Mapping[str, Any], scope: str) -> bool:
    if "gen_ai.operation.name" in attributes:
        return False
    return bool(_INFRA_SCOPE.search(scope.lower())) or any(key.startswith(_INFRA_KEYS) for key in attributes)
