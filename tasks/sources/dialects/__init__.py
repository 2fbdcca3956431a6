"""Which conventions a span follows: decided for each span, from its scope and attribute keys, by an ordered list; traces mix them (formats.md §4).

The first dialect that is evident reads the span; later ones only fill what it left empty.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.sources.dialects import (
    adk,
    genai,
    genai_old,
    langsmith_otel,
    mlflow,
    openinference,
    openllmetry,
    pydantic_ai,
    vercel_ai,
)
from tasks.sources.dialects.told import Dialect, Told

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.otlp_values import Values

RECORDER = "twiceshy"
"""Spans of our own recorder: crossings with `twiceshy.kind`, and the root of a run it exported."""

INFRA = "infra"
UNKNOWN = "unknown"

_CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
_OPERATION = ("gen_ai.operation.name", "gen_ai.system", "gen_ai.provider.name")
_INFRA_KEYS = ("http.", "rpc.", "db.", "url.", "messaging.", "network.", "a2a.")
_INFRA_SCOPE = re.compile(
    r"\b(?:http|httpx|rpc|grpc|db|a2a|asgi|wsgi|fastapi|starlette|requests|urllib3?|aiohttp|sqlalchemy|redis|psycopg\w*|asyncpg|botocore)\b"
)


def dialects_of(span: Carried) -> list[Dialect]:
    """The dialects that are evident in a span, the one that reads it first; `unknown` alone where none is."""
    return [dialect for dialect in DIALECTS if dialect.evident(span)] or [_NONE]


def _recorded(span: Carried) -> bool:
    keys = span.attributes
    return "twiceshy.kind" in keys or (span.scope_name == RECORDER and "twiceshy.workflow" in {**span.resource, **keys})


def _has_content(span: Carried) -> bool:
    return any(key in span.attributes for key in _CONTENT)


def _is_infra(span: Carried) -> bool:
    if "gen_ai.operation.name" in span.attributes:
        return False
    scope = (span.scope_name or "").lower()
    return bool(_INFRA_SCOPE.search(scope)) or any(key.startswith(_INFRA_KEYS) for key in span.attributes)


def _names_an_operation(span: Carried) -> bool:
    """1.37 and later without content look the same as 1.36: what is told is told alike."""
    return any(key in span.attributes for key in _OPERATION)


def _context(kind: str) -> Dialect:
    def read(span: Carried, values: Values) -> Told:
        return Told(kind, genai.columns(kind, span, values), {})

    return Dialect(kind if kind == INFRA else UNKNOWN, genai.MAPPER, _is_infra, read)


DIALECTS = (
    Dialect(RECORDER, genai.MAPPER, _recorded, genai.read),
    Dialect("openinference", openinference.MAPPER, openinference.evident, openinference.read),
    Dialect("genai", genai.MAPPER, _has_content, genai.read),
    Dialect("adk", adk.MAPPER, adk.evident, adk.read),
    Dialect("vercel_ai", vercel_ai.MAPPER, vercel_ai.evident, vercel_ai.read),
    Dialect("pydantic_ai", pydantic_ai.MAPPER, pydantic_ai.evident, pydantic_ai.read),
    Dialect("mlflow", mlflow.MAPPER, mlflow.evident, mlflow.read),
    Dialect("langsmith_otel", langsmith_otel.MAPPER, langsmith_otel.evident, langsmith_otel.read),
    Dialect("openllmetry", openllmetry.MAPPER, openllmetry.evident, openllmetry.read),
    _context(INFRA),
    Dialect("genai_old", genai_old.MAPPER, _names_an_operation, genai_old.read),
)
_NONE = _context("step")
