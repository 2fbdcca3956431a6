"""The objects of a JSON file, one by one: its lines, the items of its one list, or of a list that its one object holds. What is no object is set aside alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import otlp_requests, payloads
from tasks.sources.otlp_fields import spelled
from tasks.sources.otlp_requests import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.source import Intake


class Entry(NamedTuple):
    """One object. place: where it stands in the file; flags: what reading it raised; around: the object whose list it is an item of."""

    held: dict[str, Any]
    place: str
    flags: frozenset[str]
    around: dict[str, Any]

    def reject(self, intake: Intake, reason: str, unit: str = "row") -> None:
        """Set it aside."""
        intake.reject(reason, unit, self.place, spelled(self.held))


def entries(intake: Intake, *lists: str) -> Iterator[Entry]:
    """Every object of the file, in its order. lists: members under which an object may hold them."""
    for document in otlp_requests.documents(intake.raw.content):
        if isinstance(document, Unreadable):
            intake.reject(document.reason, "row", document.locator, document.content, byte_offset=document.byte_offset)
            continue
        marks = set(document.flags)
        held = payloads.whole_text(document.value, marks) if document.lenient else document.value
        under = next((name for name in lists if isinstance(held, dict) and isinstance(held.get(name), list)), None)
        around = held if under else {}
        listed = held[under] if under else held if isinstance(held, list) else None
        for number, item in enumerate([held] if listed is None else listed):
            place = document.place if listed is None else f"{document.place}, item {number}"
            if isinstance(item, dict):
                yield Entry(item, place, frozenset(marks), around)
            else:
                intake.reject("bad_type", "row", place, spelled(item))


def inner(held: Any, name: str) -> dict[str, Any]:
    """The object that is this member of an object; an empty one where there is none."""
    found = held.get(name) if isinstance(held, dict) else None
    return found if isinstance(found, dict) else {}


def listed(held: Any, name: str) -> list[Any]:
    """The list that is this member of an object; an empty one where there is none."""
    found = held.get(name) if isinstance(held, dict) else None
    return found if isinstance(found, list) else []
