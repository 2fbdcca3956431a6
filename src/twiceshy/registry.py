"""Things found by name: built-ins as "module:attribute", imported when asked for; third parties by one entry-point group.

A name that two parties claim, or that does not import, raises: a grader that silently fails to load is a gate that passes for the wrong reason.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self

from twiceshy.errors import ConfigurationError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class PluginError(ConfigurationError):
    """A plug-in that cannot be used: broken, doubled or unknown."""

    @classmethod
    def twice(cls, kind: str, name: str, first: str, second: str) -> Self:
        """Both places that claim a name."""
        return cls(f"{kind} {name!r} is provided twice: by {first} and by {second}. Uninstall one of them.")

    @classmethod
    def broken(cls, kind: str, name: str, origin: str, reason: BaseException) -> Self:
        """Which plug-in did not import, where it comes from, and why."""
        line = (str(reason).splitlines() or [""])[0]
        return cls(f"{kind} {name!r} of {origin} does not import: {type(reason).__name__}: {line}")

    @classmethod
    def absent(cls, kind: str, name: str, known: Collection[str]) -> Self:
        """The name that nothing installed provides, with the nearest known one."""
        return cls(f"{kind} {name!r} is not installed. {nearest(name, known)}")

    @classmethod
    def shapeless(cls, kind: str, name: str, lacking: Collection[str]) -> Self:
        """A plug-in that does not say what every one of its kind must say."""
        return cls(f"{kind} {name!r} has no {', '.join(lacking)}, so its judgements could not be told apart.")


class Registry:
    """One kind of thing (graders, sources): `built_in` maps names to "module:attribute", `group` is the entry-point group of third parties."""

    def __init__(self, kind: str, *, built_in: Mapping[str, str], group: str) -> None:
        self._kind = kind
        self._built_in = built_in
        self._group = group

    def names(self) -> dict[str, str]:
        """Every name with "module:attribute", built-ins first; nothing is imported. Raises PluginError for a name claimed twice."""
        return {name: target for name, (target, _) in self._listed().items()}

    def load(self, name: str) -> Any:
        """The object of that name. Raises PluginError where it is unknown or does not import."""
        listed = self._listed()
        if name not in listed:
            raise PluginError.absent(self._kind, name, self.names())
        target, origin = listed[name]
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as broken:  # whatever a third party raises at import
            raise PluginError.broken(self._kind, name, origin, broken) from broken

    def _listed(self) -> dict[str, tuple[str, str]]:
        listed = {name: (target, "twiceshy") for name, target in self._built_in.items()}
        for point in metadata.entry_points(group=self._group):
            origin = f"{point.dist.name if point.dist else 'an unnamed distribution'} (group {self._group})"
            if point.name in listed:
                raise PluginError.twice(self._kind, point.name, listed[point.name][1], origin)
            listed[point.name] = (point.value, origin)
        return listed
