"""The words of a break as case.yaml writes them: an operator with its target, or a change to real code. Data only."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from twiceshy import paths
from twiceshy.envelope import Record
from twiceshy.errors import CaseError, InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Operator(StrEnum):
    """What is done. The last three change real code in a private copy; the others act at the boundary."""

    GUARD_OFF = "guard.off"
    HOOK_OFF = "hook.off"
    HOOK_STRIP = "hook.strip"
    ARGS_SET = "args.set"
    CALL_DROP = "call.drop"
    CALL_DUPLICATE = "call.duplicate"
    ORDER_SWAP = "order.swap"
    ERROR_SWALLOW = "error.swallow"
    PROPOSAL_REPLACE = "proposal.replace"
    PATCH = "patch"
    ENV = "env"
    GIT = "git"


OF_CODE = frozenset({Operator.PATCH, Operator.ENV, Operator.GIT})

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CodeBreak(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A break of real code, exactly one of: `patch` (a unified diff beside case.yaml), `env` (variables that are set), `git` (another revision)."""

    patch: str | None = None
    env: dict[str, str] | None = None
    git: str | None = None


Written = str | CodeBreak
"""A break as it stands in case.yaml."""


@dataclass(frozen=True, slots=True)
class Break:
    """One break operator with its target: what stands after the colon. settings: the variables of `env`."""

    operator: Operator
    target: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """How outputs name it: as it is written in case.yaml, or `patch:file.diff`."""
        return f"{self.operator}:{self.target}"

    @property
    def names(self) -> tuple[str, ...]:
        """The tools, or the guard or hook, that it is about."""
        if self.operator is Operator.ORDER_SWAP:
            return tuple(self.target.split(","))
        if self.operator in (Operator.HOOK_STRIP, Operator.ARGS_SET):
            return (self.target.partition(".")[0],)
        return (self.target,)

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the path, where it has one."""
        return paths.parse(self.target.partition("=")[0].partition(".")[2])

    @property
    def value(self) -> Any:
        """What `args.set` sets."""
        return _value(self.target.partition("=")[2])

    @property
    def of_code(self) -> bool:
        """Whether it changes real code, so that the candidate is started anew."""
        return self.operator in OF_CODE


def parse(written: Written) -> Break:
    """The break that case.yaml names. Raises CaseError for an unknown operator or a target it cannot have."""
    if isinstance(written, CodeBreak):
        return _of_code(written)
    operator, colon, target = written.partition(":")
    at_boundary = [known.value for known in Operator if known not in OF_CODE]
    if operator in OF_CODE:
        raise CaseError(f"{written!r}: write it as a mapping, {operator}: ..., not as one word.")
    if operator not in at_boundary:
        raise CaseError(
            f"{written!r} is no break: no operator is called {operator!r}. {nearest(operator, at_boundary)}"
        )
    found = Break(Operator(operator), target)
    problem = _SHAPES.get(found.operator, _named)(found) if colon and target.strip() else "it names nothing"
    if problem:
        raise CaseError(f"{written!r} is no break: {problem}.")
    return found


def _of_code(written: CodeBreak) -> Break:
    given = {name: value for name in ("patch", "env", "git") if (value := getattr(written, name)) is not None}
    if len(given) != 1:
        raise CaseError("a break of real code has exactly one of patch, env and git.")
    ((name, value),) = given.items()
    if not value:
        raise CaseError(f"{name}: it names nothing.")
    if name == "env":
        return _of_environment(value)
    if name == "patch" and (value.startswith("/") or ".." in value.split("/")):
        raise CaseError(f"patch {value!r}: name a file in the folder of the case.")
    if name == "git" and value.startswith("-"):
        raise CaseError(f"git {value!r} is no revision.")
    return Break(Operator(name), value)


def _of_environment(variables: dict[str, str]) -> Break:
    wrong = next((name for name in variables if not _VARIABLE.fullmatch(name)), None)
    if wrong is not None:
        raise CaseError(f"env: {wrong!r} is no name of a variable.")
    _refuse_secrets(variables)
    pairs = tuple(sorted(variables.items()))
    return Break(Operator.ENV, " ".join(f"{name}={value}" for name, value in pairs), pairs)


def _refuse_secrets(variables: Collection[str]) -> None:
    from twiceshy.sealing.environment import scrubbed_environment  # only a case with such a break pays for it

    try:
        scrubbed_environment({}, allow=variables)
    except InputError as refused:
        raise CaseError(f"env: {refused}") from None


def _named(found: Break) -> str | None:
    return "write it without blanks" if found.target != found.target.strip() else None


def _stripped(found: Break) -> str | None:
    return None if _has_path(found) else f"write hook.strip:TOOL.path, as in hook.strip:{found.names[0]}.limit"


def _set(found: Break) -> str | None:
    if "=" not in found.target or not _has_path(found):
        return f"write args.set:TOOL.path=VALUE, as in args.set:{found.names[0]}.amount=100"
    try:
        _ = found.value
    except ValueError:
        return "its value begins like JSON and is none"
    return None


def _swapped(found: Break) -> str | None:
    tools = found.names
    plain = len(set(tools)) == len(tools) == 2 and all(tool and tool == tool.strip() for tool in tools)  # noqa: PLR2004 - a pair
    return None if plain else "write order.swap:A,B with two tools"


def _step(found: Break) -> str | None:
    plain = found.target.isascii() and found.target.isdigit() and not found.target.startswith("0")
    return None if plain else "write proposal.replace:SEQ with the number of a recorded model step"


_SHAPES: dict[Operator, Callable[[Break], str | None]] = {
    Operator.HOOK_STRIP: _stripped,
    Operator.ARGS_SET: _set,
    Operator.ORDER_SWAP: _swapped,
    Operator.PROPOSAL_REPLACE: _step,
}


def _has_path(found: Break) -> bool:
    try:
        return bool(found.names[0]) and bool(found.path)
    except ValueError:
        return False


def _value(text: str) -> Any:
    """JSON where it is JSON, else the text itself; what begins like JSON and is none would be a slip."""
    try:
        return json.loads(text)
    except ValueError:
        if text[:1] in ("{", "[", '"'):
            raise
        return text
