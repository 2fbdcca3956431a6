"""What tools.yaml might say of tools: effects that MCP hints and recorded traces speak for, as a diff for a person. Nothing here is ever applied by itself.

A hint is what a server says of itself: it may propose a read, and a person decides; at run time it only tightens (semantics.md §5.5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy import documents
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import FormatError
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from twiceshy.documents import Document
    from twiceshy.envelope import Envelope
    from twiceshy.policy import ToolsPolicy

_EFFECT = re.compile(r"""(\beffect["']?:\s*)["']?(?:read|none)\b["']?""")
LISTING = "tools/list"
"""The crossing in which an MCP client's adapter records what its server lists."""


@dataclass(slots=True)
class Evidence:
    """What is known of one tool. declared: effects that recorded calls carry. changed: `trace #place` of a read that answered differently after it."""

    calls: int = 0
    traces: int = 0
    hint: Effect | None = None
    declared: set[Effect | None] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Proposal:
    """The effect that the evidence speaks for, and why in one clause."""

    effect: Effect
    why: str


def hinted(listing: Any) -> dict[str, Effect]:
    """The effect that an MCP `tools/list` result hints at for each tool; none where it hints at nothing. A tool that is called both is a write."""
    tools = listing.get("tools", []) if isinstance(listing, dict) else listing
    found = {}
    for tool in tools if isinstance(tools, list) else ():
        hints = tool.get("annotations") if isinstance(tool, dict) else None
        if not isinstance(hints, dict):
            continue
        if hints.get("destructiveHint") is True or hints.get("readOnlyHint") is False:
            found[str(tool.get("name"))] = Effect.WRITE
        elif hints.get("readOnlyHint") is True:
            found[str(tool.get("name"))] = Effect.READ
    return found


def evidence(envelopes: Iterable[Envelope], hints: Mapping[str, Effect]) -> dict[str, Evidence]:
    """What these runs and hints know of each tool; what a run's own listing hints at counts too, and of two hints the stricter."""
    found: dict[str, Evidence] = {}
    for name, effect in hints.items():
        _hint(found, name, effect)
    for envelope in envelopes:
        _tell(found, envelope)
    found.pop(LISTING, None)
    return found


def proposals(known: Mapping[str, Evidence], policy: ToolsPolicy) -> dict[str, Proposal]:
    """The entries that tools.yaml lacks, and those that a hint would tighten. A listed tool is never proposed to be less than it is."""
    made = {}
    for name, told in sorted(known.items()):
        if name not in policy.tools:
            made[name] = _proposed(told)
        elif policy.effect(name) is not Effect.WRITE and told.hint is Effect.WRITE:
            made[name] = Proposal(Effect.WRITE, "its server hints that it writes")
    return made


def diff(document: Document | None, path: str, made: Mapping[str, Proposal], workflow: str) -> str:
    """The proposals as a diff of tools.yaml at `path`, for `git apply`; empty where there are none. document: the file as it is, None where there is none.

    Raises FormatError for a file that is written in another way than lines can be put into (as `tools: {a: {effect: read}}`).
    """
    if not made:
        return ""
    if document is None:
        lines = [f"workflow: {workflow}", "version: 1", "tools:", *(_line(*one) for one in made.items())]
        return documents.patch(path, None, "".join(f"{line}\n" for line in lines))
    before = document.path.read_text(encoding="utf-8")
    after = "".join(f"{line}\n" for line in _written(document, before.splitlines(), made))
    _check(document.path, after, made)
    return documents.patch(path, before, after)


def _written(document: Document, lines: list[str], made: Mapping[str, Proposal]) -> list[str]:
    fresh = []
    for name, proposal in made.items():
        at = document.line(f"$.tools.{name}.effect")
        if at is not None:
            lines[at - 1] = _EFFECT.sub(r"\1write", lines[at - 1], count=1)
        elif document.line(f"$.tools.{name}") is None:
            fresh.append(_line(name, proposal))
    end = _end_of_tools(lines)
    return [*lines[:end], *fresh, *lines[end:]]


def _check(path: Path, text: str, made: Mapping[str, Proposal]) -> None:
    """That the text says what is proposed: a diff that says something else, or nothing, is worse than none."""
    try:
        tools = documents.Document(path, text).value["tools"]
        said = {name: tools[name]["effect"] for name in made}
    except (FormatError, KeyError, TypeError):
        said = {}
    if said != {name: str(proposal.effect) for name, proposal in made.items()}:
        wanted = ", ".join(f"{_key(name)}: {{effect: {proposal.effect}}}" for name, proposal in made.items())
        raise FormatError.at(
            path, f"no diff can be made of a file that is written like this. Propose by hand: {wanted}"
        )


def _line(name: str, proposal: Proposal) -> str:
    return f"  {_key(name)}: {{effect: {proposal.effect}}}  # {proposal.why}"


def _tell(found: dict[str, Evidence], envelope: Envelope) -> None:
    calls = [crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL]
    for name in {crossing.name for crossing in calls}:
        found.setdefault(name, Evidence()).traces += 1
    answers: dict[tuple[str, str], tuple[int, bytes]] = {}
    for at, crossing in enumerate(calls):
        told = found[crossing.name]
        told.calls += 1
        told.declared.add(crossing.effect)
        if crossing.name == LISTING:
            for name, effect in hinted(crossing.raw).items():
                _hint(found, name, effect)
        if crossing.raw is UNSET or crossing.error is not None:
            continue
        asked = (crossing.name, crossing.key)
        earlier, answer = answers.get(asked, (at, canonical(crossing.raw)))
        answers[asked] = (at, canonical(crossing.raw))
        if answer != canonical(crossing.raw):
            for between in {call.name for call in calls[earlier + 1 : at]}:
                found[between].changed.append(f"{envelope.trace_id[:12]} {crossing.place}")


def _hint(found: dict[str, Evidence], name: str, effect: Effect) -> None:
    told = found.setdefault(name, Evidence())
    told.hint = Effect.WRITE if Effect.WRITE in (told.hint, effect) else effect


def _proposed(told: Evidence) -> Proposal:
    seen = f"{told.calls} calls in {told.traces} traces"
    if told.hint is Effect.WRITE:
        return Proposal(Effect.WRITE, f"its server hints that it writes; {seen}")
    if told.changed:
        return Proposal(Effect.WRITE, f"a read answered differently after it, as at {told.changed[0]}; {seen}")
    if told.hint is Effect.READ:
        return Proposal(Effect.READ, f"its server hints that it only reads, and nothing changed after it; {seen}")
    if told.calls and told.declared == {Effect.READ}:
        return Proposal(Effect.READ, f"the agent's code declares a read, and nothing changed after it; {seen}")
    return Proposal(Effect.WRITE, f"nothing says that it only reads; {seen}")


def _key(name: str) -> str:
    import json

    plain = name.replace("_", "").replace("-", "")
    return name if plain.isalnum() and not plain.isdigit() else json.dumps(name)


def _end_of_tools(lines: list[str]) -> int:
    """The index after the last line of the `tools:` block, blank lines and comments at its end left below."""
    start = next((at for at, line in enumerate(lines) if line.startswith("tools:")), None)
    if start is None:
        lines.append("tools:")
        return len(lines)
    end = start
    for at in _block(lines, start):
        end = at
    return end + 1


def _block(lines: list[str], start: int) -> Iterator[int]:
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if line.strip() and not line.startswith((" ", "#")):
            return
        if line.strip() and not line.lstrip().startswith("#"):
            yield at
