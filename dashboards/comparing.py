"""The steps of a record and of its replay as a page shows them: what differs leaf by leaf, what the middleware did, and what may be folded away."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from tasks.contracts import SIDES
from twiceshy import identity
from twiceshy.errors import TwiceshyError
from twiceshy.matching import differences

SHOWN_CHARS = 4096
"""Of a payload; the rest is folded away (faces.md §8.9)."""

_CONTEXT = 60
_PREVIEW = 110
_HAS_MIDDLEWARE = ("tool", "retrieval", "memory", "user", "human")
_AMBIENT = ("clock", "random", "flag")
_Runs = Literal["recorded", "replayed"]


class Payload(NamedTuple):
    """A side as text: what is shown, what is folded, and whether even that was cut when it was published."""

    shown: str
    rest: str
    cut: bool


class Leaf(NamedTuple):
    """A leaf of one run: the part that differs between what both have before and after it. None: the leaf is not there."""

    before: str
    part: str
    after: str


class LeafDiff(NamedTuple):
    """One leaf in which the runs differ; on both sides of the middleware where it differs alike there."""

    sides: tuple[str, ...]
    path: str
    recorded: Leaf | None
    replayed: Leaf | None


class Passage(NamedTuple):
    """What the middleware did on the way in or out, in one run. edits: (`removed` | `added` | `changed`, path)."""

    said: Literal["unchanged", "changed", "unknown", "cut"]
    edits: list[tuple[str, str]]


class Sides(NamedTuple):
    """One side in both runs; `both` where they are equal, `like` where it equals the side before it."""

    side: str
    recorded: Payload | None
    replayed: Payload | None
    both: bool
    like: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One aligned step, ready to be shown. `row`: the row of `steps` it comes from."""

    row: Mapping[str, Any]
    anchor: str
    place: str
    preview: str
    diffs: list[LeafDiff]
    middleware: list[tuple[str, Passage | None, Passage | None]]
    sides: list[Sides]

    @property
    def remarkable(self) -> bool:
        """Whether a reader has to see it."""
        return self.differs or self.row["diverged"] or bool(self.row["violated"])

    @property
    def differs(self) -> bool:
        """Whether the runs differ here. A clock or a draw that only one of them noted is none: most sources do not record them."""
        alone = self.row["status"] in ("only_recorded", "only_replayed")
        return self.row["status"] != "same" and not (alone and self.row["kind"] in _AMBIENT)

    @property
    def consequence(self) -> bool:
        """Whether only the request of a model differs: it repeats all that came before it, and the answer is as recorded."""
        return self.row["kind"] == "model" and {side for diff in self.diffs for side in diff.sides} == {"seen"}


class Stretch(NamedTuple):
    """Neighbouring steps. folded: why they are folded away, or None where each stands for itself."""

    folded: Literal["beginning", "same", "unreached"] | None
    steps: list[StepView]


class Comparison(NamedTuple):
    """All steps of one trial. first: the first one that differs; diverged: where the replay ended; violated: where an invariant broke."""

    steps: list[StepView]
    stretches: list[Stretch]
    first: StepView | None
    diverged: StepView | None
    violated: list[StepView]


def compare(rows: Sequence[Mapping[str, Any]], *, prefix: str = "") -> Comparison:
    """The comparison of one trial. rows: those of `Steps`, in order of position; prefix: sets its anchors apart from other trials on the page."""
    steps = [_view(row, prefix) for row in rows]
    return Comparison(
        steps=steps,
        stretches=list(_stretches(steps)),
        first=next((step for step in steps if step.differs), None),
        diverged=next((step for step in steps if step.row["diverged"]), None),
        violated=[step for step in steps if step.row["violated"]],
    )


def anchor(place: str, *, recorded: bool = False) -> str:
    """`step-4-1` for the place #4.1 of the replay; `recorded-4-1` for a step that only the record has."""
    return f"{'recorded' if recorded else 'step'}-{place.removeprefix('#').replace('.', '-')}"


def _view(row: Mapping[str, Any], prefix: str) -> StepView:
    alone = row["replayed_place"] is None
    place = row["recorded_place"] if alone else row["replayed_place"]
    run: _Runs = "recorded" if alone else "replayed"
    return StepView(
        row=row, anchor=prefix + anchor(place, recorded=alone), place=place, preview=_preview(row, run),
        diffs=list(_leaf_diffs(msgspec.json.decode(row["diffs"]))), middleware=_middleware(row),
        sides=list(_sides(row)),
    )  # fmt: skip


def _stretches(steps: Sequence[StepView]) -> Iterable[Stretch]:
    """Two or more steps alike in a row are folded, as are those the replay never came to."""
    reached = max((at for at, step in enumerate(steps) if step.row["replayed_place"]), default=-1)
    alike: list[StepView] = []
    for at, step in enumerate(steps[: reached + 1]):
        if not step.remarkable:
            alike.append(step)
            continue
        yield from _folded(alike, at)
        alike = []
        yield Stretch(None, [step])
    yield from _folded(alike, reached + 1)
    if unreached := list(steps[reached + 1 :]):
        yield Stretch("unreached", unreached)


def _folded(alike: list[StepView], end: int) -> Iterable[Stretch]:
    if len(alike) == 1:
        yield Stretch(None, alike)
    elif alike:
        yield Stretch("beginning" if len(alike) == end else "same", alike)


def _preview(row: Mapping[str, Any], run: _Runs) -> str:
    """The arguments on one line; a model's request is too long to say anything there."""
    text = row[f"{run}_seen"] or row[f"{run}_proposed"] or ""
    return "" if row["kind"] == "model" else _shortened(text, _PREVIEW)


def _leaf_diffs(diffs: Iterable[Mapping[str, Any]]) -> Iterable[LeafDiff]:
    sides: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for diff in diffs:
        recorded, replayed = (_leaf_text(diff, run) for run in ("recorded", "replayed"))
        sides[diff["path"], recorded, replayed].append(diff["side"])
    for (path, recorded, replayed), found in sides.items():
        yield LeafDiff(tuple(found), path, *_leaves(recorded, replayed))


def _leaves(recorded: str | None, replayed: str | None) -> tuple[Leaf | None, Leaf | None]:
    if recorded is None or replayed is None:
        return _whole(recorded), _whole(replayed)
    head = _common(recorded, replayed)
    tail = _common(recorded[head:][::-1], replayed[head:][::-1])
    return _parted(recorded, head, tail), _parted(replayed, head, tail)


def _leaf_text(diff: Mapping[str, Any], run: _Runs) -> str | None:
    """None where the leaf is not there; an error or a guard that is null is not there either."""
    value = diff.get(run, UNSET)
    nothing = value is UNSET or (value is None and diff["side"] in ("error", "blocked_by"))
    return None if nothing else json.dumps(value, ensure_ascii=False)


def _whole(text: str | None) -> Leaf | None:
    return None if text is None else Leaf("", text, "")


def _parted(text: str, head: int, tail: int) -> Leaf:
    end = len(text) - tail
    before, after = text[:head], text[end:]
    return Leaf(
        before if len(before) <= _CONTEXT else "…" + before[-_CONTEXT:],
        text[head:end],
        after if len(after) <= _CONTEXT else after[:_CONTEXT] + "…",
    )


def _common(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def _middleware(row: Mapping[str, Any]) -> list[tuple[str, Passage | None, Passage | None]]:
    """What happened between the agent and the boundary, in each run (None: it has no such step), where anything happened in one of them."""
    if row["kind"] not in _HAS_MIDDLEWARE:
        return []
    ways = (("proposed → seen", "proposed", "seen"), ("raw → shown", "raw", "shown"))
    found = [
        (name, _passage(row, "recorded", one, other), _passage(row, "replayed", one, other))
        for name, one, other in ways
    ]
    return [way for way in found if any(passage and passage.said in ("changed", "cut") for passage in way[1:])]


def _passage(row: Mapping[str, Any], run: str, one: str, other: str) -> Passage | None:
    columns = [f"{run}_{one}", f"{run}_{other}"]
    if row[f"{run}_place"] is None:
        return None
    if any(row[column] is None for column in columns):
        return Passage("unknown", [])
    if any(column in row["cut"] for column in columns):
        return Passage("cut", [])
    edits = [_edit(diff) for diff in differences(*(_value(row[column]) for column in columns))]
    return Passage("changed" if edits else "unchanged", edits)


def _edit(diff: Any) -> tuple[str, str]:
    kind = "added" if diff.recorded is UNSET else "removed" if diff.got is UNSET else "changed"
    return kind, diff.path or "(all)"


def _value(text: str) -> Any:
    try:
        return identity.untagged(msgspec.json.decode(text))
    except (msgspec.DecodeError, TwiceshyError):
        return text


def _sides(row: Mapping[str, Any]) -> Iterable[Sides]:
    earlier: dict[str, str] = {"seen": "proposed", "shown": "raw"}
    for side in (*SIDES, "error"):
        texts = [row[f"recorded_{side}"], row[f"replayed_{side}"]]
        if texts == [None, None]:
            continue
        like = earlier.get(side)
        repeats = like is not None and texts == [row[f"recorded_{like}"], row[f"replayed_{like}"]]
        recorded, replayed = (_payload(row, f"{run}_{side}") for run in ("recorded", "replayed"))
        yield Sides(side, recorded, replayed, texts[0] == texts[1], like if repeats else None)


def _payload(row: Mapping[str, Any], column: str) -> Payload | None:
    if row[column] is None:
        return None
    cut = column in row["cut"]
    text = row[column] if cut else _pretty(row[column])
    return Payload(text[:SHOWN_CHARS], text[SHOWN_CHARS:], cut)


def _pretty(text: str) -> str:
    """Indented JSON; short objects and lists stay on their line."""
    try:
        return _indented(json.loads(text), 0)
    except (ValueError, RecursionError):
        return text


def _indented(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(flat) + 2 * depth <= _PREVIEW:
        return flat
    pad = "  " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(name, ensure_ascii=False)}: {_indented(item, depth + 1)}" for name, item in value.items()]  # fmt: skip
        return "{\n" + ",\n".join(items) + "\n" + pad[2:] + "}"
    return "[\n" + ",\n".join(pad + _indented(item, depth + 1) for item in value) + "\n" + pad[2:] + "]"


def _shortened(text: str, limit: int) -> str:
    flat = re.sub(r"\s+", " ", text)
    return flat if len(flat) <= limit else flat[:limit] + "…"
