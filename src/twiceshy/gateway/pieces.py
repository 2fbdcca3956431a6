"""A model output on its way, piece by piece: the chunks of a boundary as every wire can put them, and an output cut in them as a wire told it.

A wire's `Outflow(body, number, created)` makes events of pieces (`begin`, `piece`, `end`), its `Inflow()` makes chunks of events (`chunks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from twiceshy.gateway.messages import Unspeakable, said, spelled, text_part
from twiceshy.streaming import Growing, ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said

    Events = Iterable[tuple[str | None, Json]]

_TEXTS = frozenset({"text", "reasoning", "refusal"})


class Piece(NamedTuple):
    """What came of one part of an output. at: the number of the part, from 0; new: nothing of it had come before; part: as far as it has come; came: the text that is new."""

    at: int
    new: bool
    part: Json
    came: str


class Outflow(Protocol):
    """An output as the events of one wire, in order."""

    def begin(self) -> Events:
        """What comes before the first piece."""
        ...

    def piece(self, piece: Piece, /) -> Events:
        """What tells a piece."""
        ...

    def end(self, said: Said, /) -> Events:
        """What comes after the last one, once all is said."""
        ...

    def failed(self, told: Json, /) -> Events:
        """An error in the middle. told: its type, code and message."""
        ...


class Inflow(Protocol):
    """The events of one wire as chunks of a boundary."""

    def chunks(self, event: Mapping[str, Any], /) -> Iterator[Json]:
        """The chunks that one event makes."""
        ...


class Pieces:
    """The pieces that chunks make. Raises Unspeakable for a chunk that no wire can carry."""

    def __init__(self) -> None:
        self._growing = Growing()
        self._known: set[int] = set()

    def of(self, chunk: Any) -> list[Piece]:
        """The pieces in one chunk: one, none where it says how the output ended, several where it is a whole output."""
        if isinstance(chunk, list) or (isinstance(chunk, dict) and "parts" in chunk):
            return self._whole(chunk)
        if ends(chunk):
            self._growing.add(chunk)
            return []
        held = text_part(chunk) if isinstance(chunk, str) else chunk
        if not isinstance(held, dict) or not isinstance(held.get("type"), str) or held.get("anew"):
            raise Unspeakable.of(chunk)
        return [self._piece(held)]

    def said(self) -> Said:
        """All that has come."""
        return said(self._growing.output())

    def _whole(self, output: Any) -> list[Piece]:
        whole = said(output)
        self._growing.add(
            {"finish_reason": whole.finish, "usage": dict(zip(("input", "output"), whole.usage, strict=True))}
        )
        return [self._piece({**part, "index": f"whole {at}"}) for at, part in enumerate(whole.parts)]

    def _piece(self, chunk: Json) -> Piece:
        at = self._growing.add(chunk) or 0
        new = at not in self._known
        self._known.add(at)
        part = dict(self._growing.parts[at])
        if part["type"] == "tool_call":
            part.setdefault("arguments", "")
        elif part["type"] in _TEXTS:
            part.setdefault("content", part.get("text", ""))
        return Piece(at, new, part, _came(chunk))


def _came(chunk: Json) -> str:
    if chunk["type"] == "tool_call":
        return spelled(chunk["arguments"]) if "arguments" in chunk else ""
    return str(chunk.get("content", chunk.get("text", "")))
