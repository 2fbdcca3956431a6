"""What a case offers over the wire: its models' names, its tools as they were offered to the model, the embeddings it holds. Built once a trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.identity import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.envelope import Envelope
    from twiceshy.policy import ToolsPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """One tool as an MCP server lists it. parameters: the schema that the model was told; description: None where none was recorded."""

    name: str
    parameters: Mapping[str, Any]
    description: str | None = None
    effect: Effect = Effect.WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """models: boundary names with the wire name each request bore; renamed: wire name -> boundary name; instant_s: of the run, since the epoch."""

    models: Mapping[str, frozenset[str]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[OfferedTool, ...] = ()
    embedded: frozenset[str] = frozenset()
    """Digests of the recorded embedding requests."""
    instant_s: int = 0

    def model(self, wire_name: object) -> str:
        """The boundary that a request for a model means: as configured, by its own name, by the name that recorded requests bore, or the only one there is."""
        name = str(wire_name)
        if name in self.renamed:
            return self.renamed[name]
        bearing = [boundary for boundary, names in self.models.items() if name == boundary or name in names]
        if len(bearing) == 1:
            return bearing[0]
        return next(iter(self.models)) if len(self.models) == 1 else name

    @property
    def wire_names(self) -> list[str]:
        """Every name under which a model may be asked for."""
        return sorted({*self.models, *self.renamed, *(name for names in self.models.values() for name in names)})


def catalog_of(envelope: Envelope, policy: ToolsPolicy, renamed: Mapping[str, str] | None = None) -> Catalog:
    """The catalog of one record under a policy."""
    models: dict[str, frozenset[str]] = {}
    requests = [crossing for crossing in envelope.crossings if crossing.kind is Kind.MODEL]
    for crossing in requests:
        asked = crossing.seen if isinstance(crossing.seen, dict) else {}
        named = {str(asked["model"])} if asked.get("model") is not None else set()
        models[crossing.name] = models.get(crossing.name, frozenset()) | named
    clock = envelope.pins.clock
    return Catalog(
        models=models, renamed=dict(renamed or {}), tools=tuple(_tools(envelope.crossings, requests, policy)),
        embedded=frozenset(digest(crossing.seen) for crossing in requests if embeds(crossing.seen)),
        instant_s=clock.instant_ns // 1_000_000_000 if clock else 0,
    )  # fmt: skip


def embeds(request: Any) -> bool:
    """Whether a model request asks for embeddings."""
    return isinstance(request, dict) and "embed" in request


def _tools(crossings: Iterable[Crossing], requests: Iterable[Crossing], policy: ToolsPolicy) -> Iterator[OfferedTool]:
    """As the first request that offers a tool tells it, so that an agent which passes the list on asks the model for the same; then those only called or listed."""
    told: dict[str, Mapping[str, Any]] = {}
    for crossing in requests:
        for tool in _offered(crossing.seen):
            told.setdefault(str(tool["name"]), tool)
    called = [crossing.name for crossing in crossings if crossing.kind is Kind.TOOL]
    for name in dict.fromkeys([*told, *called, *policy.tools]):
        schema = told.get(name, {}).get("parameters") or policy.of(name).schema or {"type": "object"}
        description = told.get(name, {}).get("description")
        yield OfferedTool(name=name, parameters=schema, description=description, effect=policy.effect(name))


def _offered(request: Any) -> Iterator[Mapping[str, Any]]:
    offered = request.get("tools") if request is not UNSET and isinstance(request, dict) else None
    for tool in offered if isinstance(offered, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield tool
