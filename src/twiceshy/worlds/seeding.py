"""Proposes a world from what a case recorded: its reads become rows, its writes are logged, and what nobody recorded stays unknown.

Every row comes from the record; one that rests on a simulated answer in it stands among the invented. What a write does to other rows the record does not say, so after it the tables it touches are unknown until a person says it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy.envelope import Effect
from twiceshy.history import START
from twiceshy.identity import canonical, equal
from twiceshy.matching import recordings
from twiceshy.paths import leaves
from twiceshy.policy import folded
from twiceshy.worlds.authority import overlapping
from twiceshy.worlds.worldfile import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twiceshy.envelope import Envelope
    from twiceshy.matching import Recording
    from twiceshy.policy import ToolsPolicy

    Written = dict[str, Any]


class Seeded(NamedTuple):
    """What a world.yaml would say, and what a person should look at."""

    world: Written
    notes: list[str]


class _Seeding:
    def __init__(self, policy: ToolsPolicy) -> None:
        self.policy = policy
        self.tables: dict[str, Written] = {}
        self.tools: dict[str, Written] = {}
        self.transient: list[str] = []
        self.notes: list[str] = []
        self._first: dict[tuple[str, str], Recording] = {}

    def read(self, tool: str, held: Sequence[Recording]) -> None:
        """The table and the binding of a read."""
        held = sorted(
            held, key=lambda recording: recording.crossing.simulated
        )  # what was recorded comes first, and counts
        lasting = [recording for recording in held if not self._passing(recording) and not self._contradicts(recording)]
        answered = [recording for recording in lasting if recording.crossing.error is None]
        failed = [recording for recording in lasting if self._known_absent(recording)]
        key = _entity_key(answered, self.policy.of(tool).fold) if answered else None
        table = self._table(tool, key)
        rows = _distinct(_row(recording, key) for recording in answered if not recording.crossing.simulated)
        simulated = _distinct(_row(recording, key) for recording in answered if recording.crossing.simulated)
        invented = [row for row in simulated if row not in rows]
        self.tables[table]["rows"] = rows
        if invented:
            self.tables[table]["invented"] = invented
        lookup: Written = {
            "table": table,
            "key": {name: f"${{args.{name}}}" for name in key} if key else {"args": "${args}"},
        }
        self.tools[tool] = {"rows": {"found": lookup}, "result": "${found}" if key else "${found.result}"}
        self._failures(tool, table, failed, key)

    def write(self, tool: str, held: Sequence[Recording]) -> None:
        """The log and the binding of a write. One without a known answer is left out: it would be an improvised one that does not say so."""
        succeeded = [one for one in held if one.crossing.error is None and not one.crossing.simulated]
        stated = self.policy.of(tool).answer
        if not succeeded and stated is UNSET:
            self.notes.append(f"{tool} has no known answer, so the world does not answer it")
            return
        answer = templated(succeeded[0].answer, succeeded[0].crossing.asked) if succeeded else stated
        touched = [name for name in self.tables if self._touches(tool, name)]
        log = self._free(tool)
        changes: list[Written] = [
            {"insert": log, "row": {"args": "${args}"}},
            *({"unsettle": name} for name in touched),
        ]
        self.tables[log] = {"closed": True}
        self.tools[tool] = {"changes": changes, "result": answer}
        if touched:
            self.notes.append(
                f"what {tool} changes in {', '.join(touched)} is not recorded; say it in its `changes` in the place of `unsettle`"
            )

    def _failures(self, tool: str, table: str, failed: Sequence[Recording], key: Sequence[str] | None) -> None:
        """Rows that are known not to be there, and how the tool says so: in one way, or in one for each call."""
        if not failed:
            return
        ways = [(recording.crossing.asked, _failure(recording)) for recording in failed]
        lookup = self.tools[tool]["rows"]["found"]
        if all(way == ways[0][1] for _, way in ways):
            lookup["absent"] = ways[0][1]
        else:
            lookup["optional"] = True
            self.tools[tool]["errors"] = _distinct(
                {"when": f"args == {msgspec.json.encode(args).decode()}", **way} for args, way in ways
            )
        once = {
            recording.key if key else canonical(recording.crossing.asked): recording.crossing.asked
            for recording in reversed(failed)
        }
        self.tables[table]["absent"] = [
            dict(args) if key and isinstance(args, dict) else {"args": args} for args in reversed(once.values())
        ]

    def _known_absent(self, recording: Recording) -> bool:
        """Whether a call failed, and somebody recorded that: an absence that was only simulated is not taken for known."""
        crossing = recording.crossing
        if crossing.error is not None and crossing.simulated:
            self.notes.append(f"{crossing.name} at {crossing.place} failed, which nobody recorded; it is left out")
        return crossing.error is not None and not crossing.simulated

    def _passing(self, recording: Recording) -> bool:
        """Whether a failure says nothing of the world: a timeout, a reset. It is left out by its place."""
        error = recording.crossing.error
        definite = (
            error is None or error.definite or error.type in self.policy.of(recording.crossing.name).definite_errors
        )
        if not definite:
            self.transient.append(recording.crossing.place)
            self.notes.append(
                f"{recording.crossing.name} at {recording.crossing.place} failed in passing; the world does not repeat it"
            )
        return not definite

    def _contradicts(self, recording: Recording) -> bool:
        """Whether the same question had another answer before. A world has one, so the later is left out by its place."""
        crossing = recording.crossing
        first = self._first.setdefault((crossing.name, recording.key), recording)
        if first is recording or _says(first) == _says(recording):
            return False
        self.transient.append(crossing.place)
        self.notes.append(
            f"{crossing.name} at {crossing.place} answered otherwise than at {first.crossing.place}; it is left out"
        )
        return True

    def _table(self, tool: str, key: Sequence[str] | None) -> str:
        resources = self.policy.of(tool).reads or ()
        name = self._free(resources[0] if key and len(resources) == 1 else tool)
        fold = [part for part in key or () if part in self.policy.of(tool).fold]
        self.tables[name] = {"key": list(key or ["args"]), **({"fold": fold} if fold else {}), "rows": []}
        return name

    def _free(self, name: str) -> str:
        return name if name not in self.tables else self._free(f"{name}_calls")

    def _touches(self, tool: str, table: str) -> bool:
        readers = [
            name
            for name, bound in self.tools.items()
            if any(row["table"] == table for row in bound.get("rows", {}).values())
        ]
        resources = self.policy.of(tool).resources
        return any(overlapping(resources, self.policy.of(reader).resources) for reader in readers)


def seeded(envelope: Envelope, policy: ToolsPolicy) -> Seeded:
    """A world that answers what was read before anything was written, and logs every write.

    Recorded reads under other writes are left to the person: they show what the writes did.
    """
    seeding = _Seeding(policy)
    reads, written = _by_tool(recordings(envelope.crossings, policy), policy)
    for tool, held in reads.items():
        seeding.read(tool, held)
    for tool, held in written.items():
        seeding.write(tool, held)
    resources = [policy.of(tool).resources for tool in reads]
    for tool in sorted(policy.tools.keys() - written.keys()):
        listed = policy.of(tool)
        touching = any(overlapping(listed.resources, others) for others in resources)
        if listed.effect is Effect.WRITE and listed.answer is not UNSET and touching:
            seeding.write(tool, [])
    world: Written = {"format": FORMAT, "tables": seeding.tables, "tools": seeding.tools}
    if seeding.transient:
        world["transient"] = seeding.transient
    return Seeded(world, seeding.notes)


def _by_tool(
    held: Iterable[Recording], policy: ToolsPolicy
) -> tuple[dict[str, list[Recording]], dict[str, list[Recording]]]:
    reads: dict[str, list[Recording]] = defaultdict(list)
    written: dict[str, list[Recording]] = defaultdict(list)
    for recording in held:
        crossing = recording.crossing
        effect = policy.effect_of(crossing)
        if effect is Effect.WRITE:
            written[crossing.name].append(recording)
        elif effect is Effect.READ and recording.state == START:
            reads[crossing.name].append(recording)
    return reads, written


def _entity_key(answered: Sequence[Recording], fold: Sequence[str]) -> list[str] | None:
    """The arguments that name a row, where every result is one object that repeats them."""
    names = {
        tuple(recording.crossing.asked) if isinstance(recording.crossing.asked, dict) else () for recording in answered
    }
    if len(names) != 1:
        return None
    (key,) = names
    for recording in answered:
        asked, row = recording.crossing.asked, recording.answer
        if (
            not isinstance(asked, dict)
            or not isinstance(row, dict)
            or not all(name in row and _alike(row[name], asked[name], folds=name in fold) for name in key)
        ):
            return None
    return list(key) or None


def _alike(left: Any, right: Any, *, folds: bool) -> bool:
    return equal(folded(left), folded(right)) if folds else equal(left, right)


def _says(recording: Recording) -> bytes:
    """The content of an answer, or the class and text of an error."""
    error = recording.crossing.error
    told = None if error is None else [error.cls, error.message]
    return canonical([told, None if recording.answer is UNSET else [recording.answer]])


def _failure(recording: Recording) -> Written:
    error, args = recording.crossing.error, recording.crossing.asked
    if error is None:
        return {}
    if recording.raised is None:
        return {"type": error.type, "answer": templated(recording.answer, args)}
    return {"class": error.cls, "type": error.type, "message": _inserted(error.message, args)}


def _row(recording: Recording, key: Sequence[str] | None) -> Written:
    row: Any = recording.answer
    return row if key else _whole(recording)


def _distinct(rows: Iterable[Written]) -> list[Written]:
    kept: list[Written] = []
    for row in rows:
        if row not in kept:
            kept.append(row)
    return kept


def _whole(recording: Recording) -> Written:
    return {"args": recording.crossing.asked, "result": recording.answer}


def templated(answer: Any, args: Any, name: str = "") -> Any:
    """The answer with the arguments that stand in it as they are; one that is no text only where it goes by the same name."""
    if isinstance(answer, dict):
        return {name: templated(item, args, name) for name, item in answer.items()}
    if isinstance(answer, list):
        return [templated(item, args) for item in answer]
    if isinstance(answer, str) and answer:
        return _inserted(answer, args, whole=True)
    if name and isinstance(args, dict) and name in args and equal(args[name], answer):
        return f"${{args.{name}}}"
    return answer


def _inserted(text: str, args: Any, *, whole: bool = False) -> str:
    """The text with arguments in the place of their values: the whole text, or words of it."""
    for path, value in leaves(args):
        if not isinstance(value, str) or not value or "[" in path:
            continue
        if text == value:
            return f"${{args.{path}}}"
        if not whole and len(value) > 2:  # noqa: PLR2004 - shorter ones stand in other words too
            text = text.replace(value, f"${{args.{path}}}")
    return text
