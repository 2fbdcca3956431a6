"""A small diary as a world: appointments that are an open table, slots that are a closed one, and an agent whose body gets the tools."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from builders import a_policy, replayed
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope
from twiceshy.outcome import Mode
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript
from twiceshy.worlds import loading
from twiceshy.worlds.authority import for_run
from twiceshy.worlds.loading import LoadedWorld

POLICY = a_policy(
    look=ToolPolicy(effect=Effect.READ, reads=("appointments",), definite_errors=("LookupError",)),
    slots=ToolPolicy(effect=Effect.READ, reads=("slots",)),
    move=ToolPolicy(
        touches=("appointments", "slots"), definite_errors=("LookupError",),
        schema={"type": "object", "required": ["id", "slot"], "properties": {"id": {"type": "string"}}},
    ),
    tell=ToolPolicy(touches=("letters",), answer={"queued": True}),
    weather=ToolPolicy(effect=Effect.READ, reads=("weather",)),
)  # fmt: skip

ABSENT = {"class": "LookupError", "message": "no appointment ${args.id}"}
NOT_OPEN = {"class": "LookupError", "message": "slot ${args.slot} is not open"}
FOUND = {"table": "appointments", "key": {"id": "${args.id}"}, "absent": ABSENT}
WORLD: dict[str, Any] = {
    "format": "twiceshy/world/1",
    "tables": {
        "appointments": {"key": ["id"], "rows": [{"id": "K1", "day": "mon"}], "invented": [{"id": "K2", "day": "tue"}], "absent": [{"id": "K9"}]},
        "slots": {"key": ["slot"], "closed": True, "rows": [{"slot": "S1", "day": "thu", "open": True}, {"slot": "S2", "day": "fri", "open": False}]},
        "letters": {"closed": True},
    },
    "tools": {
        "look": {"rows": {"found": FOUND}, "result": "${found}"},
        "slots": {
            "rows": {"free": {"table": "slots", "where": "row.open && row.day == args.day"}},
            "result": {"day": "${args.day}", "free": {"$each": "free", "as": "${row.slot}"}, "count": {"$cel": "size(free)"}},
        },
        "move": {
            "rows": {"found": FOUND, "slot": {"table": "slots", "key": {"slot": "${args.slot}"}, "absent": NOT_OPEN}},
            "errors": [{"when": "!slot.open", **NOT_OPEN}],
            "changes": [{"update": "found", "set": {"day": "${slot.day}"}}, {"update": "slot", "set": {"open": False}}],
            "result": {"id": "${args.id}", "status": "moved to ${slot.day}"},
        },
        "tell": {"changes": [{"insert": "letters", "row": {"body": "${args.body}"}}], "result": {"queued": True}},
    },
}  # fmt: skip

LIVE = {
    "look": lambda id: {"id": id, "day": "mon"},  # noqa: A006 - the tool's own argument
    "slots": lambda day: {"day": day, "free": ["S1"], "count": 1},
    "move": lambda id, slot: {"id": id, "status": "moved to thu"},  # noqa: A006
    "tell": lambda body: {"queued": True},
    "weather": lambda: "rain",
}
"""The real system, as the recording met it."""

Body = Callable[..., Any]


def build_with(body: Body) -> Callable[[Boundary], Callable[[Any], Any]]:
    """An agent whose body gets every tool by name."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        reads = {"look", "slots", "weather"}
        tools = {name: boundary.tool(name, fn, effect="read" if name in reads else None) for name, fn in LIVE.items()}
        return lambda _: body(**tools)

    return build


def changed(world: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """A copy of what a world.yaml says, with one part of it changed."""
    copy = deepcopy(world)
    at = copy
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return copy


def a_world(written: dict[str, Any] = WORLD, policy: Any = POLICY) -> LoadedWorld:
    """A world loaded from a file that says this."""
    return world_of(json.dumps(written, indent=1), policy)


_KEPT: dict[tuple[str, str], LoadedWorld] = {}


def world_of(text: str, policy: Any = POLICY) -> LoadedWorld:
    """The world of this world.yaml. Compiling conditions takes longer than a run, so it is loaded once."""
    rules = json.dumps(policy, default=msgspec.to_builtins)
    if (text, rules) not in _KEPT:
        _KEPT[text, rules] = _written(text, policy)
    return _KEPT[text, rules]


def _written(text: str, policy: Any) -> LoadedWorld:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "world.yaml"
        path.write_text(text, encoding="utf-8")
        return loading.load(path, policy)


def in_world(
    body: Body, envelope: Envelope, world: LoadedWorld | None = None, *, mode: Mode = Mode.WORLD, **terms: Any
) -> Transcript:
    """The transcript of one replay with a world: alone in the mode `world`, else where the record misses."""
    started = for_run(world or a_world(), terms.get("policy", POLICY), first=mode is Mode.WORLD)
    usual = {"policy": POLICY, "cut": CutPoint(mode=mode), "world": started}
    return replayed(build_with(body), envelope, **{**usual, **terms})


def refusal(call: Callable[[], Any]) -> str:
    """The text of the LookupError that a call ends in."""
    with suppress(AssertionError):
        try:
            call()
        except LookupError as refused:
            return str(refused)
    return "none"
