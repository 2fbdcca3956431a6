"""Where the payloads of a span stand in the language of a policy: `tool.get_order.args`, `input.user`, `model.planner.messages`, `meta.*`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from twiceshy.redaction import fieldpaths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twiceshy.redaction import Policy

Default = Literal["hold", "free", "drop"]
"""What a field without a rule means: the trace is held, the field is free text, or its value goes."""

_ARGUMENTS, _RESULTS = ("proposed", "seen"), ("raw", "shown")
_SIDES = (*_ARGUMENTS, *_RESULTS)
# Kinds whose payloads are somebody's words or draws, not records with fields.
_FREE_KINDS = frozenset({"clock", "random", "flag"})
# Kinds that are no boundary: nothing downstream reads their payloads, so what no rule keeps goes.
_CONTEXT_KINDS = frozenset({"step", "eval", "infra"})


_NAME = re.compile(r"\[\]|<key>|[a-z_$][A-Za-z_-]{0,40}")


class Payload(NamedTuple):
    """One payload column of a span: the place it stands for, what an unknown field in it means, whether it is a chat, and whether its dates move."""

    column: str
    place: str
    default: Default
    chat: bool = False
    dated: bool = True


def payloads(row: Mapping[str, Any]) -> Iterator[Payload]:
    """The payloads of a span that were recorded."""
    name = _model_name(row)
    chat: tuple[tuple[str, str, bool], ...] = (
        ("messages_in", f"model.{name}.messages", True),
        ("messages_out", f"model.{name}.messages", True),
        ("system_text", "input.system", True),
        ("tool_defs", f"model.{name}.tools", False),
        ("model_params", f"model.{name}.params", False),
        ("versions", f"model.{name}.versions", False),
    )
    for column in _SIDES:
        if row[column] is not None:
            yield _side(row, column)
    for column, place, dated in chat:
        if row[column] is not None:
            yield Payload(column, place, "free", chat=True, dated=dated)


def _side(row: Mapping[str, Any], column: str) -> Payload:
    kind = row["kind"]
    part = "args" if column in _ARGUMENTS else "result"
    if kind == "tool":
        return Payload(column, f"tool.{row['tool_name'] or row['name']}.{part}", "hold")
    if kind in {"hook", "guard"} and row["at"]:
        return _code(row, column)
    if kind == "agent":
        return Payload(column, "input.user" if part == "args" else "output", "hold", chat=True)
    if kind == "user":
        return Payload(column, "input.user", "free", chat=True)
    if kind == "model":
        return Payload(column, f"model.{_model_name(row)}.messages", "free", chat=True)
    default: Default = "free" if kind in _FREE_KINDS else "drop" if kind in _CONTEXT_KINDS else "hold"
    return Payload(column, f"{kind}.{row['name']}.{part}", default)


def _code(row: Mapping[str, Any], column: str) -> Payload:
    """A hook takes and returns what its tool takes or returns; a guard answers with a verdict and its reason."""
    side, _, tool = row["at"].partition(":")
    if row["kind"] == "guard" and column in _RESULTS:
        return Payload(column, f"guard.{row['name']}.result", "free")
    return Payload(column, f"tool.{tool}.{'args' if side == 'before' else 'result'}", "hold")


def _model_name(row: Mapping[str, Any]) -> str:
    return str(row["name"] if row["kind"] == "model" else row["agent_name"] or "any")


def error_place(row: Mapping[str, Any]) -> str:
    """Where the text of a span's error stands."""
    return f"{row['kind']}.{row['tool_name'] or row['name']}.error"


def shown(place: str, policy: Policy) -> str:
    """A place as a report may show it: a key that may itself be a value is a star."""
    segments = place.split(".")
    made = []
    for at, segment in enumerate(segments):
        is_name = (
            _NAME.fullmatch(segment) is not None and policy.rule(fieldpaths.key_of(".".join(segments[:at]))) is None
        )
        made.append(segment if is_name or at < 2 else "*")  # noqa: PLR2004 - the kind, and the name of a tool or model
    return ".".join(made)
