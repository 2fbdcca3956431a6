"""Who is judged on which night: named candidates, or the versions that were in production then."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from flows import times
from flows.checkout import Checkout
from twiceshy.cli.options import candidate_spec
from twiceshy.documents import Document
from twiceshy.errors import InputError, nearest
from twiceshy.running import CandidateSpec


class Turn(NamedTuple):
    """One candidate on one night. name: as it was asked for, or as production called it."""

    night: date
    workflow: str
    name: str
    spec: CandidateSpec


def turns(
    place: Checkout, nights: Sequence[date], *, candidates: Sequence[str] = (), deployments: Path | None = None
) -> list[Turn]:
    """The turns of these nights, oldest first; of workflows that have cases.

    candidates: `workflow=name`, or a name that is a workflow; by default all of twiceshy.toml. deployments: a file that says which version was in production
    from which day on, in place of candidates. Raises InputError for a name, a workflow or a file that cannot be used, for a workflow that is named twice or has
    no case, and where nobody has a turn.
    """
    asked = _deployed(place, deployments) if deployments else dict.fromkeys(nights, _named(place, candidates))
    found = [
        Turn(night, workflow, name, candidate_spec(name, place.config))
        for night in nights
        for workflow, name in sorted(_then(asked, night).items())
        if workflow in place.cases
    ]
    if not found:
        raise InputError(
            f"nobody to judge from {nights[0]} to {nights[-1]}: no candidate of a workflow that has cases."
        )
    return found


def turns_of(place: Checkout, asked: Mapping[str, Any], *, today: date) -> list[Turn]:
    """The turns of a nightly as it was asked for, by the names of its parameters."""
    night, nights, deployments = asked.get("night"), asked.get("nights", 1), asked.get("deployments")
    played = times.nights(times.night(night) if night else today, nights)
    named = asked.get("candidates") or ()
    return turns(place, played, candidates=named, deployments=Path(deployments) if deployments else None)


def trials_of(place: Checkout, asked: int | None) -> int:
    """How many trials a case and judging mode gets: as asked, else as the settings say. Raises InputError for one: nobody knows then whether the next comes to the same."""
    least = 2
    if asked is not None and asked < least:
        raise InputError(f"a nightly needs at least {least} trials, and {asked} was asked for.")
    return asked or place.config.settings.gate.trials


def _named(place: Checkout, candidates: Sequence[str]) -> dict[str, str]:
    pairs = [_pair(place, text) for text in candidates or place.config.settings.candidate]
    named = dict(pairs)
    if len(named) < len(pairs):
        twice, _ = Counter(workflow for workflow, _ in pairs).most_common(1)[0]
        raise InputError(f"workflow {twice!r} is named twice: a night judges one candidate of each.")
    bare = [workflow for workflow in named if candidates and workflow not in place.cases]
    if bare:
        raise InputError(
            f"workflow {bare[0]!r} has no cases under {place.config.path('cases')}: nothing would judge {named[bare[0]]!r}."
        )
    return named


def _pair(place: Checkout, text: str) -> tuple[str, str]:
    workflow, equals, name = text.partition("=")
    if not equals and text not in place.workflows:
        raise InputError(f"candidate {text!r}: say of which workflow it is, as refund={text}.")
    return place.known(workflow), name if equals else text


def _then(asked: dict[date, dict[str, str]], night: date) -> dict[str, str]:
    """What the newest entry at or before a night says."""
    days = [day for day in asked if day <= night]
    return asked[max(days)] if days else {}


def _deployed(place: Checkout, file: Path) -> dict[date, dict[str, str]]:
    """Day -> workflow -> candidate."""
    if not file.is_file():
        raise InputError.missing(file)
    document = Document(file)
    return {_day(file, key): dict(_versions(place, document, str(key), held)) for key, held in _days(document)}


def _days(document: Document) -> Iterator[tuple[object, object]]:
    if not isinstance(document.value, dict):
        raise InputError.at(
            document.path, "not a map of days.", hint='Write "2026-11-09": {refund: package.module:factory}.'
        )
    yield from document.value.items()


def _day(file: Path, key: object) -> date:
    try:
        return date.fromisoformat(str(key))
    except ValueError:
        raise InputError.at(file, f"{key!r} is no date.") from None


def _versions(place: Checkout, document: Document, day: str, held: object) -> Iterator[tuple[str, str]]:
    """Each workflow with its candidate; `deployed`, which names those that changed that day, is for people."""
    if not isinstance(held, dict):
        raise InputError.at(document.path, f"{day} names no candidates.", line=document.line(f"$.{day}"))
    for workflow, name in held.items():
        if workflow == "deployed":
            continue
        line = document.line(f"$.{day}.{workflow}")
        if workflow not in place.workflows:
            known = nearest(workflow, place.workflows)
            raise InputError.at(document.path, f"{workflow!r} is no workflow of ours.", line=line, hint=known)
        if not isinstance(name, str):
            raise InputError.at(document.path, f"{workflow!r} on {day} names no candidate.", line=line)
        yield workflow, name
