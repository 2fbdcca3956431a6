"""The blocks of an envelope that stand for the whole run: its input, its pins and its disposition (semantics.md §2)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from tasks.normalize.crossings import given
from tasks.normalize.sides import value
from tasks.normalize.tree import NUMBERED
from tasks.sources import clock
from tasks.sources.messages import texts
from twiceshy.encoding import written_record
from twiceshy.envelope import (
    UNKNOWN_ERROR,
    Clock,
    Disposition,
    ErrorRecord,
    Kind,
    LayerVersion,
    Pins,
    RunInput,
    Versions,
)
from twiceshy.history import effective
from twiceshy.identity import digest, ordered, untagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tasks.normalize.crossings import Passage
    from tasks.normalize.tree import Node
    from twiceshy.policy import ToolsPolicy

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pinned(NamedTuple):
    """The pinned clock and where it came from: `recorded`, or the rule that derived it; both None where nothing tells it."""

    clock: Clock | None
    origin: str | None


def stored(block: msgspec.Struct) -> str:
    """A block as its column holds it: canonical JSON, but for names, which keep their order."""
    return ordered(untagged(msgspec.json.decode(written_record(block)))).decode()


def root(nodes: Sequence[Node]) -> Node | None:
    """The span of the run itself: the outermost agent span, first one of several."""
    agents = [node for node in nodes if node.kind == "agent"]
    return min(agents, key=lambda node: node.depth, default=None)


def run_input(nodes: Sequence[Node], passages: Sequence[Passage]) -> RunInput:
    """What the run was given: system text, user input, goal."""
    top = root(nodes)
    asked = next((value(top, side) for side in ("seen",) if top), UNSET)
    first = given(nodes)
    if asked is UNSET and first is not None:
        asked = value(first, "raw")
    if asked is UNSET:
        asked = next(_said(passages, "user"), UNSET)
    return RunInput(
        system=_system(nodes, passages), user=None if asked is UNSET else asked, goal=top.row["goal"] if top else None
    )


def pinned(nodes: Sequence[Node], passages: Sequence[Passage]) -> Pinned:
    """The clock that the agent was given: pinned, drawn, or told in a text; the instant first, then what the text says."""
    rows = [node.row for node in nodes]
    told = next((row for row in rows if row["clock_text"]), None)
    text = told["clock_text"] if told else None
    tz = told["clock_tz"] if told else next((row["clock_tz"] for row in rows if row["clock_tz"]), None)
    drawn = next(
        (
            passage.crossing.raw
            for passage in passages
            if passage.crossing.kind is Kind.CLOCK and passage.crossing.name == "now"
        ),
        None,
    )
    instant = next((row["clock_ns"] for row in rows if row["clock_ns"] is not None), None)
    if instant is None:
        instant = _nanoseconds(drawn)
    derived = instant is None
    if instant is None and text is not None:
        instant = clock.instant_ns(text, tz)
    if instant is None:
        return Pinned(None, None)
    origin = "recorded" if not derived or not _is_derived(told, "clock_text") else "the date in a message"
    return Pinned(Clock(instant_ns=instant, tz=clock.zone_name(tz), as_given_to_agent=text), origin)


def pins(nodes: Sequence[Node], passages: Sequence[Passage], found: Clock | None) -> Pins:
    """The clock, the drawn flags, and a version for each layer as far as it is known."""
    flags = {passage.crossing.name: passage.crossing.raw for passage in passages if passage.crossing.kind is Kind.FLAG}
    return Pins(
        clock=found, flags={name: held for name, held in flags.items() if held is not UNSET}, versions=_versions(nodes)
    )


def disposition(
    nodes: Sequence[Node], passages: Sequence[Passage], policy: ToolsPolicy, *, label: str | None, flags: Iterable[str]
) -> Disposition:
    """How the run ended: its output, the tools whose writes took effect, the label the source gave it, its flags."""
    top = root(nodes)
    output = value(top, "raw") if top else UNSET
    told = top is not None and top.row["dialect"] == NUMBERED  # our own recorder says when a run never returned
    if output is UNSET and not told:
        output = _last_text(passages)
    failed = top is not None and top.row["error_class"] is not None
    return Disposition(
        ended=not failed and (output is not UNSET or not told), output=output, side_effects=[p.crossing.name for p in passages if effective(p.crossing, policy)],
        outcome_label=label, flags=sorted(set(flags)), error=_error(top) if top and failed else None,
    )  # fmt: skip


def outcome(scores: Iterable[dict[str, Any]]) -> str | None:
    """The label that the source gave the run: success or failure by its reward, else the label of a person's score."""
    held = list(scores)
    reward = next((score["value"] for score in held if score["name"] == "reward" and score["value"] is not None), None)
    if reward is not None:
        return "success" if reward >= 1 else "failure"
    return next((score["label"] for score in held if score["origin"] == "human" and score["label"]), None)


def _versions(nodes: Sequence[Node]) -> Versions:
    recorded = next((held for node in nodes if (held := value(node, "versions")) is not UNSET), UNSET)
    if isinstance(recorded, dict):
        try:
            return msgspec.convert(recorded, Versions)
        except msgspec.ValidationError:
            pass  # layers of a later release: what the spans themselves tell stands instead
    rows = [node.row for node in nodes]
    tools: dict[str, LayerVersion] = {}
    for node in nodes:
        for tool in _definitions(node):
            tools.setdefault(
                str(tool.get("name")), LayerVersion(name=str(tool.get("name")), digest=digest(tool.get("parameters")))
            )
    return Versions(
        model=LayerVersion(name=_first(rows, "model_answered") or _first(rows, "model_requested")),
        prompt=LayerVersion(name=_first(rows, "prompt_name"), version=_first(rows, "prompt_version"), digest=_first(rows, "prompt_hash")),
        tools=dict(sorted(tools.items())),
        harness=LayerVersion(name=_first(rows, "agent_name"), version=_first(rows, "agent_version")),
    )  # fmt: skip


def _definitions(node: Node) -> Iterator[dict[str, Any]]:
    held = value(node, "tool_defs")
    for tool in held if isinstance(held, list) else ():
        if isinstance(tool, dict) and tool.get("name"):
            yield tool


def _first(rows: Sequence[dict[str, Any]], column: str) -> Any:
    return next((row[column] for row in rows if row[column] is not None), None)


def _is_derived(row: dict[str, Any] | None, column: str) -> bool:
    held = msgspec.json.decode(row["provenance"]) if row and row["provenance"] else {}
    return bool(held.get(column, {}).get("grade") == "derived")


def _nanoseconds(drawn: Any) -> int | None:
    if isinstance(drawn, str):
        try:
            drawn = datetime.fromisoformat(drawn)
        except ValueError:
            return None
    if not isinstance(drawn, datetime) or drawn.tzinfo is None:
        return None
    since = drawn - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def _system(nodes: Sequence[Node], passages: Sequence[Passage]) -> str | None:
    held = next((held for node in nodes if (held := value(node, "system_text")) is not UNSET), UNSET)
    if held is UNSET:
        return next(_said(passages, "system"), None)
    return held if isinstance(held, str) else texts(held)


def _said(passages: Sequence[Passage], role: str) -> Iterator[str]:
    """The texts of the messages of a role in the first model request."""
    for passage in passages:
        asked = passage.crossing.seen
        if passage.crossing.kind is Kind.MODEL and isinstance(asked, dict):
            for message in asked.get("messages") or ():
                if isinstance(message, dict) and message.get("role") == role:
                    yield texts(message.get("parts", message.get("content")))
            return


def _last_text(passages: Sequence[Passage]) -> Any:
    for passage in reversed(passages):
        said = passage.crossing.raw
        if passage.crossing.kind is Kind.MODEL and isinstance(said, dict):
            text = texts(said.get("parts"))
            if text:
                return text
    return UNSET


def _error(top: Node) -> ErrorRecord:
    row = top.row
    return ErrorRecord(cls=row["error_class"] or UNKNOWN_ERROR, type="unknown", message=row["error_message"] or "")
