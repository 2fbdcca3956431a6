"""What the tools of a workflow do (`data/policies/<workflow>/tools.yaml`): effects, identity, resources, answers (semantics.md §3-§5).

A tool that is not listed is a write that touches everything; nothing of its arguments is folded.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy import documents, identity, paths
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import PolicyError, UnknownTool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from twiceshy.envelope import Crossing


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool. Paths are those of `twiceshy.paths`, into its arguments."""

    effect: Effect = Effect.WRITE
    volatile: tuple[str, ...] = ()
    """Dropped from the key: request ids, idempotency keys. By path, never by a bare name anywhere."""
    unordered: tuple[str, ...] = ()
    """Lists compared as bags."""
    instants: tuple[str, ...] = ()
    """Compared as instants, not as spellings."""
    fold: tuple[str, ...] = ()
    """Compared without case and with white space folded."""
    defaults: dict[str, Literal["absent", "null"]] = {}
    """Arguments filled from the caller's schema: when `absent` only, or when `null` too."""
    touches: tuple[str, ...] | None = None
    """Resources a write touches; None is everything."""
    reads: tuple[str, ...] | None = None
    """Resources a read reads; None is everything."""
    definite_errors: tuple[str, ...] = ()
    """Error types that prove the call had no effect."""
    idempotency_key: str | None = None
    answer: Any | UnsetType = UNSET
    """What an intercepted write answers when nothing was recorded or declared: "${args.path}" inserts an argument."""
    schema: dict[str, Any] | None = None
    result_schema: dict[str, Any] | None = None
    poll: bool = False
    max_polls: int | None = None
    closing: bool = False
    """A call that may follow when the work is done."""

    @property
    def as_they_are(self) -> bool:
        """Whether nothing of its arguments is filled, dropped or folded."""
        return not (self.defaults or self.volatile or self.instants or self.fold or self.unordered)

    @property
    def resources(self) -> tuple[str, ...] | None:
        """What its state rests on: what a read reads, what a write touches."""
        return self.touches if self.effect is Effect.WRITE else self.reads


class ToolsPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tools of one workflow, by name. `done` is a CEL condition that says the work is done."""

    workflow: str
    version: int = 1
    tools: dict[str, ToolPolicy] = {}
    done: str | None = None

    def of(self, name: str) -> ToolPolicy:
        """The policy of a tool; an unlisted tool is a write."""
        return self.tools.get(name, _UNLISTED)

    def effect(self, name: str, declared: Effect | None = None) -> Effect:
        """The effect in force: tools.yaml wins over the code, and silence is a write."""
        listed = self.tools.get(name)
        if listed is not None:
            return listed.effect
        return declared or Effect.WRITE

    def effect_of(self, crossing: Crossing) -> Effect:
        """The effect in force of a recorded or replayed call. A server's hint may only tighten, and a look-up of documents reads unless it is listed."""
        if crossing.tightened:
            return Effect.WRITE
        silent = Effect.READ if crossing.kind is Kind.RETRIEVAL else None
        return self.effect(crossing.name, crossing.effect or silent)

    def identified(self, name: str, asked: Any, schema: Mapping[str, Any] | None = None) -> Any:
        """The arguments of a call as they are compared under this policy. schema: the caller's own, from which defaults are filled."""
        listed = self.tools.get(name)
        return asked if listed is None else identified(listed, asked, schema)

    def key(self, name: str, asked: Any, schema: Mapping[str, Any] | None = None) -> str:
        """The key of a call under this policy. schema: see `identified`."""
        return identity.key(name, self.identified(name, asked, schema))

    def keyed(self, name: str, asked: Any, schema: Mapping[str, Any] | None = None) -> tuple[str, bytes | None]:
        """The key of a call, and the JSON of its arguments where they are compared as they are."""
        listed = self.tools.get(name)
        if listed is None or listed.as_they_are:
            return identity.keyed(name, asked)
        return identity.key(name, identified(listed, asked, schema)), None

    def idempotency_key(self, name: str, asked: Any) -> Any:
        """The value at the tool's declared idempotency path, or None."""
        path = self.of(name).idempotency_key
        return next(paths.found(asked, paths.parse(path)), None) if path else None


_UNLISTED = ToolPolicy()


def load(path: Path, *, known_tools: Collection[str] = ()) -> ToolsPolicy:
    """The policy at `path`. Raises PolicyError with file and line.

    known_tools: those that the candidate declares or the record holds. A listed name that is none of them but near one that is not listed is misspelt, and the
    tool it means would count as a write: UnknownTool. Another unknown name may be that of a tool which this version has no more.
    """
    document = documents.Document(path)
    policy = document.into(ToolsPolicy, error=PolicyError)
    unlisted = set(known_tools) - policy.tools.keys()
    for name, tool in policy.tools.items():
        if name not in known_tools and get_close_matches(name, unlisted, n=1):
            raise UnknownTool.among(f"{path}:{document.line(f'$.tools.{name}')}", name, unlisted)
        _check_paths(document, name, tool)
    return policy


def identified(tool: ToolPolicy, asked: Any, schema: Mapping[str, Any] | None = None) -> Any:
    """The arguments as they are compared: defaults filled, volatile paths dropped, the listed paths folded. Nothing else changes."""
    filled = _filled(tool, asked, schema if schema is not None else tool.schema) if tool.defaults else asked
    for parts, edit in _edits(tool.volatile, tool.unordered, tool.instants, tool.fold):
        filled = paths.edited(filled, parts, edit)
    return filled


@lru_cache(maxsize=1024)
def _edits(
    volatile: tuple[str, ...], unordered: tuple[str, ...], instants: tuple[str, ...], fold: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], Callable[[Any], Any]], ...]:
    groups = ((volatile, _removed), (instants, _instant), (fold, folded), (unordered, _sorted))
    return tuple((paths.parse(path), edit) for listed, edit in groups for path in listed)


def _filled(tool: ToolPolicy, asked: Any, schema: Mapping[str, Any] | None) -> Any:
    if not isinstance(asked, dict) or schema is None:
        return asked
    filled = dict(asked)
    for name, when in tool.defaults.items():
        default = schema.get("properties", {}).get(name, {}).get("default", UNSET)
        missing = name not in filled or (when == "null" and filled[name] is None)
        if missing and default is not UNSET:
            filled[name] = default
        elif missing and name in filled:
            del filled[name]  # null says "absent" here, and there is no default to stand in
    return filled


def _removed(_: object) -> UnsetType:
    return UNSET


def _sorted(value: Any) -> Any:
    return sorted(value, key=identity.canonical) if isinstance(value, list) else value


def folded(value: Any) -> Any:
    """Text without case and with white space folded; anything else as it is."""
    return " ".join(unicodedata.normalize("NFC", value).casefold().split()) if isinstance(value, str) else value


def _instant(value: Any) -> Any:
    """ISO 8601 text with a zone as the instant it names; anything else (no zone, no date: July 32) stays what it is."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    return moment.astimezone(UTC).isoformat() if moment.tzinfo else value


def _check_paths(document: documents.Document, name: str, tool: ToolPolicy) -> None:
    listed = {"volatile": tool.volatile, "unordered": tool.unordered, "instants": tool.instants, "fold": tool.fold}
    for field, values in listed.items():
        for at, path in enumerate(values):
            where = f"$.tools.{name}.{field}[{at}]"
            check = partial(paths.parse, path)
            try:
                check()
            except ValueError as broken:
                raise PolicyError.at(document.path, f"{broken}.", line=document.line(where)) from None
