"""One trace through redaction: a walk that finds what is personal, a walk that replaces it, and the rows that come out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.redact import seeds
from tasks.redact.chat import Chat
from tasks.redact.findings import Collecting, Findings
from tasks.redact.leakscan import Known
from tasks.redact.meta import attributes
from tasks.redact.moving import Movement, movement
from tasks.redact.places import Payload, error_place, payloads, shown
from tasks.redact.propagation import SHORT_NAME, Propagator
from tasks.redact.replacing import Replacing
from tasks.redact.texts import Calendar, Texts
from twiceshy import identity
from twiceshy.redaction import Policy, Redactor, walking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tasks.redact.detectors import Detectors
    from tasks.redact.propagation import Seed

Row = dict[str, Any]
Counts = Counter[tuple[str, str, str, str]]

USER_REF = "user_ref"
"""The type of a source's own references to people, where no rule gives them another."""

_REFERENCES = {"user_ref": "meta.user_ref", "author_ref": "meta.author_ref"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all traces of a shard go through."""

    policy: Policy
    redactor: Redactor
    detectors: Detectors
    limits: walking.Limits


class TraceRedaction:
    """A trace on its way through redaction. rows: its spans in order; scores: what was said about it."""

    def __init__(self, rows: Sequence[Row], scores: Sequence[Row], shared: Shared) -> None:
        self.trace_id: str = (rows or scores)[0]["trace_id"]
        self.rows = rows
        self.scores = scores
        self.findings = Findings()
        self.counts: Counts = Counter()
        self.renamed: dict[str, str] = {}
        """Keys that were values -> what they became."""
        self.used: dict[str, str] = {}
        """The pseudonyms that stand in this trace, with the digests behind them."""
        self._shared = shared
        self._policy = shared.policy

    def collect(self) -> None:
        """Fill `findings`. A value beyond the bounds of a walk is a reason to hold, like any other."""
        visitor = Collecting(self._policy, self._shared.detectors, self.findings, self.shown)
        try:
            self._collect(visitor)
        except walking.BoundExceeded as bound:
            self.findings.holds[bound.reason, ""] += 1
        seeded = any(found.rank < len(self._policy.fields) for found in self.findings.occurrences)
        found = self.findings
        if found.has_text and not found.has_structure and not seeded and not found.holds:
            self.findings.holds["free_text_without_seeds", ""] += 1

    def _collect(self, visitor: Collecting) -> None:
        chat = Chat(self._walk(visitor))
        seen: set[tuple[Payload, str]] = set()
        for row in self.rows:
            for payload in payloads(row):
                if (payload, row[payload.column]) not in seen:
                    seen.add((payload, row[payload.column]))
                    self._payload(visitor, chat, row, payload)
            for place, text in _loose(row):
                visitor.text(text, place)
            attributes(row["attributes_json"], self._policy, visitor)
        for score in self.scores:
            self._score(visitor, chat, score)
        for name, reference in self._references():
            rule = self._policy.rule(_REFERENCES[name])
            if rule is None:
                visitor.occurred(USER_REF, reference, len(self._policy.fields))
            else:
                visitor.ruled(rule, _REFERENCES[name], reference)

    def _references(self) -> Iterator[tuple[str, str]]:
        for name, rows in (("user_ref", self.rows), ("author_ref", self.scores)):
            for reference in dict.fromkeys(row[name] for row in rows if row[name]):
                yield name, reference

    def _walk(self, visitor: Collecting | Replacing) -> Any:
        def walk(value: Any, place: str, *, free: bool) -> Any:
            visitor.root, visitor.default = place, "free" if free else "hold"
            return walking.walked(value, place, visitor, limits=self._shared.limits)

        return walk

    def _payload(self, visitor: Collecting | Replacing, chat: Chat, row: Mapping[str, Any], payload: Payload) -> Any:
        value = _decoded(row[payload.column])
        visitor.dated = payload.dated
        if payload.chat:
            return chat.walked(value, payload.place, free=payload.default == "free")
        visitor.root, visitor.default = payload.place, payload.default
        return walking.walked(value, payload.place, visitor, limits=self._shared.limits)

    def _score(self, visitor: Collecting | Replacing, chat: Chat, score: Row) -> Row:
        """Label, comment and text are free text; a text that is JSON, as the expected actions of a task, stands under the rules of its tools."""
        visitor.dated = True
        walk = self._walk(visitor)
        place = f"score.{score['name']}"
        made = {
            name: walk(score[name], f"{place}.{name}", free=True)
            for name in ("label", "comment")
            if score[name] is not None
        }
        if score["text"] is not None:
            tree = _json(score["text"])
            walked = walk(score["text"], place, free=True) if tree is None else chat.walked(tree, place)
            made["text"] = walked if tree is None else identity.canonical(walked).decode()
        return made

    def shown(self, place: str) -> str:
        """A place as a report may show it: no key that is a value."""
        return shown(place, self._policy)

    @cached_property
    def known(self) -> list[Known]:
        """The raw values that must not be left in anything that is made of this trace."""
        texts = [
            Known(seed.text, seed.name_word and len(seed.text) <= SHORT_NAME) for seed in self.seeds if not seed.number
        ]
        return [*texts, *(Known(day) for day, action in self.findings.birthdays.items() if action == "synthesize")]

    @cached_property
    def seeds(self) -> list[Seed]:
        """What acts outside its own field in this trace."""
        return list(seeds.seeds(self.findings, self._shared.redactor))

    @cached_property
    def movement(self) -> Movement:
        """How the dates of this trace move."""
        return movement(self.rows, self.findings, self._shared.redactor)

    def replaced(self) -> tuple[list[Row], list[Row]]:
        """(span rows, score rows) with everything replaced. Raises BoundExceeded."""
        redactor = self._shared.redactor
        redactor.pseudonyms.used = {}
        zone = next((row["clock_tz"] for row in self.rows if row["clock_tz"]), "UTC")
        birthdays = seeds.birthdays(self.findings, redactor)
        calendar = Calendar(days=self.movement.days, year=self.movement.year, zone=zone, birthdays=birthdays)
        texts = Texts(redactor, self._shared.detectors, Propagator(self.seeds), calendar, self.counts)
        visitor = Replacing(redactor, self.findings, texts, self.counts, self.shown)
        chat = Chat(self._walk(visitor))
        made = _Rows(self, visitor, chat, texts)
        rows = [made.span(row) for row in self.rows]
        scores = [made.score(row) for row in self.scores]
        self.renamed = visitor.renamed
        self.used = redactor.pseudonyms.used
        return rows, scores


class _Rows:
    """Makes the redacted rows of one trace; a payload that stands in several rows is worked on once."""

    def __init__(self, trace: TraceRedaction, visitor: Replacing, chat: Chat, texts: Texts) -> None:
        self._trace = trace
        self._visitor = visitor
        self._chat = chat
        self._texts = texts
        self._known: dict[tuple[Payload, str], tuple[str | None, dict[str, str]]] = {}

    def span(self, row: Row) -> Row:
        done = dict(self._trace.movement.crossed)
        made = dict(row)
        for payload in payloads(row):
            key = (payload, row[payload.column])
            if key not in self._known:
                self._visitor.done = {}
                new = self._trace._payload(self._visitor, self._chat, row, payload)  # noqa: SLF001 - one idea in two classes
                self._known[key] = (None if new is UNSET else identity.ordered(new).decode(), self._visitor.done)
            made[payload.column], did = self._known[key]
            if made[payload.column] is None and f"{payload.column}_encoding" in made:
                made[f"{payload.column}_encoding"] = None
            done |= did
        for name in ("name", "goal", "error_message", "clock_text"):
            made[name] = self._texts.redacted(row[name]) if row[name] is not None else None
        made |= self._moved(row, ("start_ns", "end_ns"), row["zone"]) | self._moved(
            row, ("clock_ns",), row["clock_tz"] or row["zone"]
        )
        made["user_ref"] = self._referred("user_ref", row["user_ref"])
        kept = attributes(row["attributes_json"], self._trace._policy, self._visitor)  # noqa: SLF001
        made["attributes_json"] = msgspec.json.encode(kept, order="sorted").decode() if kept else None
        made["redaction_map"] = identity.canonical(done).decode() if done else None
        return made

    def score(self, row: Row) -> Row:
        made = row | self._trace._score(self._visitor, self._chat, row)  # noqa: SLF001
        return (
            made
            | self._moved(row, ("created_ns",), row["zone"])
            | {"author_ref": self._referred("author_ref", row["author_ref"])}
        )

    def _moved(self, row: Mapping[str, Any], names: tuple[str, ...], zone: str) -> Row:
        return {name: None if row[name] is None else self._trace.movement.instant(row[name], zone) for name in names}

    def _referred(self, name: str, reference: str | None) -> str | None:
        if reference is None:
            return None
        rule = self._trace._policy.rule(_REFERENCES[name])  # noqa: SLF001
        if rule is not None:
            new = self._visitor.ruled(rule, _REFERENCES[name], reference)
            return None if rule.action == "drop" else str(new)
        return self._trace._shared.redactor.pseudonym_in(USER_REF, reference)  # noqa: SLF001


def _loose(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a span that are no payload."""
    for name, place in (
        ("name", "span.name"),
        ("goal", "input.goal"),
        ("clock_text", "clock.text"),
        ("error_message", error_place(row)),
    ):
        if row[name]:
            yield place, row[name]


def _decoded(text: str) -> Any:
    return identity.untagged(msgspec.json.decode(text))


def _json(text: str) -> Any:
    """The value of a JSON object or list; None for any other text."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict | list) else None
