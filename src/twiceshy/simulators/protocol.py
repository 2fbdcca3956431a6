"""What a simulator is asked, and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from twiceshy.registry import PluginError, Registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

GROUP = "twiceshy.simulators"
_BUILT_IN = {"nearest": "twiceshy.simulators.nearest:Nearest", "openai": "twiceshy.simulators.openai:OpenAI"}


class CannotSimulate(Exception):
    """A simulator that has no answer. Its text holds names, never a value."""


class Example(NamedTuple):
    """A recorded call of the tool with what it returned."""

    args: Any
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call that nobody recorded. examples: recorded calls of the tool that succeeded, the nearest first. schema: of its result."""

    tool: str
    args: Any
    examples: Sequence[Example] = ()
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a simulator is reached, where it is reached. replies: the file that keeps what was replied."""

    url: str | None = None
    model: str | None = None
    key: str | None = None
    replies: Path | None = None


class Simulator(Protocol):
    """Answers calls; `name` and `version` stand beside every answer."""

    name: str
    version: int

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError where a setting is missing."""
        ...

    def answer(self, asked: Asked) -> Any:
        """What the tool might return. Raises CannotSimulate."""
        ...


def simulator(name: str, settings: Settings) -> Simulator:
    """The simulator of a name, ready to answer. Raises PluginError where it is unknown, does not load or does not say who it is."""
    found = Registry("simulator", built_in=_BUILT_IN, group=GROUP).load(name)
    lacking = [said for said in ("name", "version", "answer") if not hasattr(found, said)]
    if lacking:
        raise PluginError.shapeless("simulator", name, lacking)
    made: Simulator = found(settings)
    return made
