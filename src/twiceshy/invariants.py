"""Invariants of a workflow (`data/policies/<workflow>/invariants.yaml`): read, checked and compiled, every fault with file and line (semantics.md §7)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from twiceshy import documents, paths
from twiceshy.conditions import CROSSING_NAMES, OUTPUT_NAMES, Condition
from twiceshy.errors import InvariantError, nearest
from twiceshy.identity import digest
from twiceshy.specs import (
    CODE_TARGETS,
    TARGETS,
    AllowedWrite,
    Checks,
    Effect,
    InvariantsFile,
    OnMissing,
    Read,
    Selector,
    Severity,
    Sort,
    Source,
    Spec,
    Tier,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from twiceshy.documents import Document

__all__ = [
    "BUILT_IN",
    "CODE_TARGETS",
    "AllowedWrite",
    "Checks",
    "Effect",
    "Invariant",
    "Invariants",
    "InvariantsFile",
    "OnMissing",
    "Read",
    "Selector",
    "Severity",
    "Sort",
    "Source",
    "Spec",
    "Tier",
    "check_schema",
    "load",
    "overlaid",
]

_RESULT_OF = re.compile(r"""result\(\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """An invariant ready to judge: its condition is compiled. where: file and line, as errors name it."""

    spec: Spec
    where: str
    condition: Condition | None = None
    holds: Condition | None = None
    reads: tuple[Read, ...] = ()

    @property
    def effect(self) -> Effect:
        """What its violation does: as written, else what its kind says."""
        return self.spec.effect or _EFFECTS[self.spec.kind]


@dataclass(frozen=True, kw_only=True)
class Invariants:
    """The invariants of one workflow, compiled. allowed: explained writes, each with its condition."""

    file: InvariantsFile
    invariants: tuple[Invariant, ...] = ()
    allowed: tuple[tuple[AllowedWrite, Condition | None], ...] = field(default=())

    def of(self, name: str) -> Invariant | None:
        """The invariant of an id, or None."""
        return next((invariant for invariant in self.invariants if invariant.spec.id == name), None)

    @cached_property
    def digest(self) -> str:
        """The sha256 of everything they say."""
        return digest(msgspec.to_builtins(self.file))


_EFFECTS: dict[Sort, Effect] = {
    Sort.MUST_NOT: "extra",
    Sort.MUST_HAPPEN: "missing",
    Sort.ORDER: "order",
    Sort.COUNT: "extra",
    Sort.SCHEMA: "wrong_args",
    Sort.OUTPUT: "none",
}

# What each kind must say, and what it may say besides id, version, tier, kind, reads, message, effect and severity.
_NEEDS: dict[Sort, frozenset[str]] = {
    Sort.MUST_NOT: frozenset({"at"}),
    Sort.MUST_HAPPEN: frozenset({"at"}),
    Sort.ORDER: frozenset({"first", "then"}),
    Sort.COUNT: frozenset({"at"}),
    Sort.SCHEMA: frozenset({"at", "schema"}),
    Sort.OUTPUT: frozenset(),
}
_TAKES: dict[Sort, frozenset[str]] = {
    Sort.MUST_NOT: frozenset({"when", "on_missing"}),
    Sort.MUST_HAPPEN: frozenset({"when", "on_missing", "only_if"}),
    Sort.ORDER: frozenset({"when", "on_missing", "same_turn"}),
    Sort.COUNT: frozenset({"when", "on_missing", "max", "min"}),
    Sort.SCHEMA: frozenset({"side"}),
    Sort.OUTPUT: frozenset({"when", "on_missing", "schema", "holds", "rubric"}),
}
_ALWAYS = frozenset({"id", "version", "tier", "kind", "reads", "message", "effect", "severity"})


def load(path: Path, *, tools: Collection[str] | None = None) -> Invariants:
    """The invariants in a file. tools: those that tools.yaml lists; a misspelt tool would judge nothing, so another name is refused. Raises InvariantError (or FormatError, InputError) with file and line; conditions are compiled here, so a CEL error is found before anything runs."""
    document = documents.Document(path)
    file = document.into(InvariantsFile, error=InvariantError)
    invariants = tuple(_compiled(document, at, spec) for at, spec in enumerate(file.invariants))
    _refuse_twice(document, file.invariants)
    if tools is not None:
        for at, write in enumerate(file.allowed_writes):
            _require_listed(document, f"$.allowed_writes[{at}]", write.tool, tools)
        _refuse_unlisted(document, file.invariants, tools)
    _refuse_unjudged(document, file.invariants, file)
    allowed = tuple((write, _allowed(document, at, write)) for at, write in enumerate(file.allowed_writes))
    return Invariants(file=file, invariants=invariants, allowed=allowed)


def overlaid(
    invariants: Invariants, document: Document, overlay: Sequence[Spec], *, tools: Collection[str]
) -> Invariants:
    """The invariants of a workflow as one case has them: one with an id that the workflow has stands in its place, another is added.

    document: the case.yaml that the overlay stands in. Raises InvariantError with file and line, as `load` does.
    """
    _refuse_twice(document, overlay, under="overlay")
    _refuse_unlisted(document, overlay, tools, under="overlay")
    _refuse_unjudged(document, overlay, invariants.file, under="overlay")
    own = {spec.id: _compiled(document, at, spec, under="overlay") for at, spec in enumerate(overlay)}
    kept = [own.pop(invariant.spec.id, invariant) for invariant in invariants.invariants]
    return replace(invariants, invariants=(*kept, *own.values()))


def _compiled(document: Document, at: int, spec: Spec, *, under: str = "invariants") -> Invariant:
    here = f"$.{under}[{at}]"
    _check_shape(document, here, spec)
    for part in ("at", "first", "then"):
        selector = getattr(spec, part)
        if selector is not None:
            _check_selector(document, f"{here}.{part}", selector)
    if spec.schema is not None:
        check_schema(spec.schema, where=document.path, line=document.line(f"{here}.schema"))
    reads = tuple(_read(document, f"{here}.reads[{number}]", text) for number, text in enumerate(spec.reads))
    return Invariant(
        spec=spec, where=f"{document.path}:{document.line(here)}", condition=_condition(document, here, spec, "when"),
        holds=_condition(document, here, spec, "holds"), reads=reads,
    )  # fmt: skip


def _condition(document: Document, here: str, spec: Spec, name: Literal["when", "holds"]) -> Condition | None:
    source = getattr(spec, name)
    if source is None:
        return None
    names = OUTPUT_NAMES if spec.kind is Sort.OUTPUT else CROSSING_NAMES
    return Condition(source, where=document.path, line=document.line(f"{here}.{name}"), names=names)


def _check_shape(document: Document, here: str, spec: Spec) -> None:
    said = {name for name in spec.__struct_fields__ if f"{here}.{name}" in document.lines}
    missing = sorted(_NEEDS[spec.kind] - said)
    if missing:
        raise InvariantError.at(
            document.path, f"{spec.id!r}: kind {spec.kind} needs {', '.join(missing)}.", line=document.line(here)
        )
    extra = sorted(said - _NEEDS[spec.kind] - _TAKES[spec.kind] - _ALWAYS)
    if extra:
        line = document.line(f"{here}.{extra[0]}")
        raise InvariantError.at(document.path, f"{spec.id!r}: kind {spec.kind} takes no {', '.join(extra)}.", line=line)
    problem = _incomplete(spec) or _ungranted(spec)
    if problem:
        raise InvariantError.at(document.path, f"{spec.id!r}: {problem}", line=document.line(here))


def _incomplete(spec: Spec) -> str | None:
    if spec.tier is Tier.SEMANTIC:
        return _unasked(spec)
    if spec.kind is Sort.COUNT and spec.max is None and spec.min is None:
        return "a count needs max, min or both."
    if spec.rubric is not UNSET:
        return "a rubric is for tier: semantic."
    if spec.kind is Sort.OUTPUT and spec.schema is None and spec.holds is None:
        return "an output invariant needs schema, holds or both."
    return None


def _ungranted(spec: Spec) -> str | None:
    """A request is not a grant, and neither is every answer to it (semantics.md §4)."""
    needed = spec.first if spec.kind is Sort.ORDER else spec.at if spec.kind is Sort.MUST_HAPPEN else None
    if needed is None or needed.human is None or needed.returned is not UNSET:
        return None
    return f"{needed.human} may refuse; say under `returned` which answer is meant, or `returned: {{}}` for any."


def _unasked(spec: Spec) -> str | None:
    if spec.rubric is UNSET:
        return "the semantic tier is judged by a rubric; write kind: output and rubric."
    return "a rubric stands alone; leave out schema and holds." if spec.schema or spec.holds else None


def _check_selector(document: Document, here: str, selector: Selector) -> None:
    named = [kind for kind in TARGETS if getattr(selector, kind) is not None]
    if len(named) != 1:
        raise InvariantError.at(
            document.path, f"a selector names exactly one boundary, found {', '.join(named) or 'none'}.",
            line=document.line(here), hint=f"Kinds: {', '.join(TARGETS)}.",
        )  # fmt: skip
    if selector.blocked is not None and named[0] not in ("tool", "memory", "guard"):
        raise InvariantError.at(document.path, f"a {named[0]} is never blocked.", line=document.line(here))
    for part in ("args", "returned"):
        for path in getattr(selector, part) or ():
            try:
                paths.parse(path)
            except ValueError as broken:
                raise InvariantError.at(document.path, f"{broken}.", line=document.line(f"{here}.{part}")) from None


def check_schema(schema: dict[str, Any], *, where: object, line: int | None) -> None:
    """Refuse what is no JSON Schema (draft 2020-12). Raises InvariantError."""
    import jsonschema  # 212 ms: only a file that has schemas pays for it

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as broken:
        raise InvariantError.at(
            where, f"not a JSON Schema: {broken.message} at {broken.json_path}.", line=line
        ) from None


def _allowed(document: Document, at: int, write: AllowedWrite) -> Condition | None:
    line = document.line(f"$.allowed_writes[{at}].when")
    return None if write.when is None else Condition(write.when, where=document.path, line=line)


def _read(document: Document, here: str, text: str) -> Read:
    try:
        return Read.parse(text)
    except ValueError as broken:
        raise InvariantError.at(document.path, f"{broken}.", line=document.line(here)) from None


def _refuse_unlisted(
    document: Document, specs: Sequence[Spec], tools: Collection[str], *, under: str = "invariants"
) -> None:
    for at, spec in enumerate(specs):
        for part, tool in _named(spec):
            _require_listed(document, f"$.{under}[{at}].{part}", tool, tools)


def _named(spec: Spec) -> Iterator[tuple[str, str]]:
    """The tools that an invariant names, each with the part of it that does."""
    for part in ("at", "first", "then"):
        selector = getattr(spec, part)
        if selector is not None and selector.tool not in (None, "*"):
            yield part, selector.tool
    for part in ("when", "holds"):
        source = getattr(spec, part)
        if source is not None:
            yield from ((part, tool) for tool in _RESULT_OF.findall(source))
    yield from (("reads", tool) for text in spec.reads if (tool := Read.parse(text).tool))


def _require_listed(document: Document, here: str, tool: str, tools: Collection[str]) -> None:
    if tool not in tools:
        problem = f"tool {tool!r} is not listed in tools.yaml."
        raise InvariantError.at(document.path, problem, line=document.line(here), hint=nearest(tool, tools))


def _refuse_unjudged(
    document: Document, specs: Sequence[Spec], file: InvariantsFile, *, under: str = "invariants"
) -> None:
    at = next((at for at, spec in enumerate(specs) if spec.tier is Tier.SEMANTIC), None)
    if at is not None and file.judge is UNSET:
        problem = "the semantic tier needs a judge in invariants.yaml: its model and version."
        raise InvariantError.at(document.path, problem, line=document.line(f"$.{under}[{at}]"))


def _refuse_twice(document: Document, specs: Sequence[Spec], *, under: str = "invariants") -> None:
    seen = set(BUILT_IN)
    for at, spec in enumerate(specs):
        if spec.id in seen:
            whose = "the name of a built-in check" if spec.id in BUILT_IN else "given twice"
            raise InvariantError.at(
                document.path, f"the id {spec.id!r} is {whose}.", line=document.line(f"$.{under}[{at}].id")
            )
        seen.add(spec.id)


BUILT_IN = (
    "explained_writes",
    "no_duplicate_write",
    "call_schemas",
    "call_counts",
    "no_loop",
    "allowed_tools",
    "forbidden_tools",
    "goal",
    "nothing_else",
    "no_swallowed_error",
    "expected_writes",
    "latency",
    "context_drift",
)
"""The ids of the built-in checks."""
