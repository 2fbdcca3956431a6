"""Worlds written in Python: a class over the seeded tables, its methods the tools, each marked as a read or a write.

    class Airline(World):
        @read
        def get_user(self, user_id: str) -> Any:
            user = self.tables.find("users", user_id=user_id)
            if user is None:
                raise Refused("Error: user not found", type="user_not_found")
            return user

        @write
        def send_certificate(self, user_id: str, amount: int) -> str:
            ...

Named in world.yaml as `python: package.module:Airline`.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, UnsetType

from twiceshy.envelope import Effect, ErrorRecord
from twiceshy.errors import CaseError
from twiceshy.recording import error_record
from twiceshy.worlds.bindings import Failed, WorldAnswer
from twiceshy.worlds.tables import WorldMiss

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.worlds.tables import Tables

    Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__twiceshy_effect__"


class World:
    """The base of a world in Python. tables: find, rows, insert, update, delete; whatever it needs to remember stands there, so that a change is seen."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables


class Refused(Exception):
    """Raised by a method: the call fails and nothing changes.

    With an exception the agent gets that one raised; with anything else it gets that value back, as a tool does that returns its errors.
    """

    def __init__(self, answer: Any, *, type: str | None = None, definite: bool = True) -> None:  # noqa: A002 - the word of the record
        super().__init__()
        self.answer = answer
        self.type = type
        self.definite = definite


def read(method: Method) -> Method:
    """Marks a method as a tool that changes nothing."""
    setattr(method, _MARK, Effect.READ)
    return method


def write(method: Method) -> Method:
    """Marks a method as a tool that changes rows."""
    setattr(method, _MARK, Effect.WRITE)
    return method


def imported(spec: str, where: object) -> type[World]:
    """The class that `package.module:Class` names. Raises CaseError where it is none."""
    module, _, name = spec.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as broken:
        raise CaseError.at(where, f"the world {spec!r} cannot be imported ({type(broken).__name__}).") from broken
    if not (isinstance(found, type) and issubclass(found, World)):
        raise CaseError.at(where, f"{spec!r} is no class that builds on twiceshy.worlds.World.")
    return found


def tools(world: type[World]) -> dict[str, Effect]:
    """The marked methods of a class, with what they do."""
    held = ((name, getattr(member, _MARK, None)) for name, member in inspect.getmembers(world))
    return {name: effect for name, effect in held if effect is not None}


class CodedTool:
    """One marked method of a world, as a tool."""

    def __init__(self, world: World, name: str, effect: Effect) -> None:
        self._method = getattr(world, name)
        self._signature = inspect.signature(self._method)
        self.name = name
        self.writes = effect is Effect.WRITE
        self.tables = None

    def answer(self, tables: Tables, args: Any) -> WorldAnswer:
        """What the method answers, its changes made. Raises Failed or WorldMiss, and CaseError for a read that changed rows."""
        try:
            bound = self._signature.bind(**(args if isinstance(args, dict) else {"": args}))
        except TypeError:
            raise WorldMiss(f"the world's {self.name} does not take these arguments") from None
        try:
            value = self._method(*bound.args, **bound.kwargs)
        except Refused as refused:
            raise Failed(_failed(refused)) from None
        if (tables.changes or tables.unsettling) and not self.writes:
            raise CaseError(f"the world's {self.name} is marked as a read and changed a row.")
        return WorldAnswer(value=value, changes=tables.changes, unsettled=tables.unsettling)


def _failed(refused: Refused) -> WorldAnswer:
    if isinstance(refused.answer, BaseException):
        told = error_record(refused.answer, ())
        error = ErrorRecord(
            cls=told.cls, type=refused.type or told.type, message=told.message, definite=refused.definite
        )
        return WorldAnswer(error=error, raised=True)
    value: Any | UnsetType = refused.answer
    error = ErrorRecord(
        cls="returned", type=refused.type or "unknown", message=value if isinstance(value, str) else "", definite=refused.definite
    )  # fmt: skip
    return WorldAnswer(value=None if value is UNSET else value, error=error)
