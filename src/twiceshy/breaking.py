"""Break operators: deliberate damage, applied at the boundary while the candidate declares it, so that no candidate's code is touched (semantics.md §8).

`guard.off:NAME`        the guard runs no more and lets everything pass
`hook.off:NAME`         the hook passes on what it got
`hook.strip:TOOL.path`  a hook after TOOL removes a path from its result
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from twiceshy import paths
from twiceshy.boundary import Boundary
from twiceshy.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twiceshy.boundary import Backend

Operator = Literal["guard.off", "hook.off", "hook.strip"]
_OPERATORS: tuple[Operator, ...] = ("guard.off", "hook.off", "hook.strip")


@dataclass(frozen=True, slots=True)
class Break:
    """One break operator with its target."""

    operator: Operator
    target: str

    @property
    def text(self) -> str:
        """As it is written in case.yaml."""
        return f"{self.operator}:{self.target}"


def parse(text: str) -> Break:
    """The break that a text names. Raises CaseError for an unknown operator or a target it cannot have."""
    operator, colon, target = text.partition(":")
    known = next((name for name in _OPERATORS if name == operator), None)
    if known is None or not colon or not target:
        raise CaseError(f"{text!r} is no break. Write operator:target; operators are {', '.join(_OPERATORS)}.")
    if known == "hook.strip":
        tool, _, path = target.partition(".")
        try:
            paths.parse(path)
        except ValueError:
            raise CaseError(f"{text!r}: write hook.strip:TOOL.path, as in hook.strip:{tool}.limit.") from None
    return Break(known, target)


class BreakingBoundary(Boundary):
    """A boundary under which declared guards and hooks are damaged. `on_applied` hears of each break, once, when it first changes something."""

    def __init__(self, backend: Backend, breaks: Sequence[Break], *, on_applied: Callable[[Break], object]) -> None:
        super().__init__(backend)
        self._breaks = tuple(breaks)
        self._unheard = set(self._breaks)
        self._on_applied = on_applied

    def guard(self, name: str, fn: Callable[[Any], Any], *, before: str) -> None:
        """Declare a guard, switched off where a break says so."""
        off = self._named("guard.off", name)
        super().guard(name, fn if off is None else self._passing(off, None), before=before)

    def hook(self, name: str, fn: Callable[[Any], Any], *, before: str | None = None, after: str | None = None) -> None:
        """Declare a hook, switched off where a break says so."""
        off = self._named("hook.off", name)
        super().hook(name, fn if off is None else self._passing(off, UNSET), before=before, after=after)

    def strip(self) -> None:
        """Add the stripping hooks, after every hook of the candidate. Call it when the candidate has declared everything."""
        for found in self._breaks:
            if found.operator == "hook.strip":
                tool, _, path = found.target.partition(".")
                if tool in self.tools:
                    super().hook(f"break {found.text}", self._stripping(found, path), after=tool)

    def _heard(self, found: Break) -> None:
        if found in self._unheard:
            self._unheard.discard(found)
            self._on_applied(found)

    def _named(self, operator: Operator, name: str) -> Break | None:
        return next((found for found in self._breaks if found.operator == operator and found.target == name), None)

    def _passing(self, off: Break, answer: object) -> Callable[[Any], Any]:
        def passing(value: Any) -> Any:
            self._heard(off)
            return value if answer is UNSET else answer

        return passing

    def _stripping(self, found: Break, path: str) -> Callable[[Any], Any]:
        parts = paths.parse(path)

        def stripping(result: Any) -> Any:
            if any(True for _ in paths.found(result, parts)):
                self._heard(found)
            return paths.edited(result, parts, lambda _: UNSET)

        return stripping
