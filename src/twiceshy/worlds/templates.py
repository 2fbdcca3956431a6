"""Templates of a world's answers and rows: `${name.path}` inserts a value, `{$cel: ...}` what an expression gives, `{$each: rows, as: ...}` one for each row."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy import paths
from twiceshy.conditions import Condition, Unanswered
from twiceshy.errors import CaseError, nearest
from twiceshy.matching import fresh
from twiceshy.worlds.tables import WorldMiss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twiceshy.documents import Document

    Names = Mapping[str, Any]
    Fill = Callable[[Names], Any]

_INSERT = re.compile(r"\$\{([^}]+)\}")
_EACH = frozenset({"$each", "as"})


class Writing:
    """Compiles what is written in one world file. known: the names a template may use."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def error(self, path: str, problem: str, *, hint: str = "") -> CaseError:
        """The problem with file and line."""
        return CaseError.at(self._document.path, problem, line=self._line(path), hint=hint)

    def condition(self, path: str, source: str, known: frozenset[str]) -> Condition:
        """A CEL condition over these names."""
        return Condition(source, where=self._document.path, line=self._line(path), names=known)

    def template(self, path: str, written: Any, known: frozenset[str]) -> Fill:
        """What fills a template. Raises CaseError for a name that is not known there."""
        if isinstance(written, dict):
            return self._mapping(path, written, known)
        if isinstance(written, list):
            items = [self.template(f"{path}[{at}]", item, known) for at, item in enumerate(written)]
            return lambda names: [made for fill in items if (made := fill(names)) is not UNSET]
        if isinstance(written, str):
            return self._text(path, written, known)
        return lambda _: written

    def _mapping(self, path: str, written: dict[str, Any], known: frozenset[str]) -> Fill:
        if set(written) == {"$cel"}:
            condition = self.condition(f"{path}.$cel", str(written["$cel"]), known)
            return lambda names: condition.value(Facts(names))
        if "$each" in written:
            return self._each(path, written, known)
        fields = {name: self.template(f"{path}.{name}", item, known) for name, item in written.items()}
        return lambda names: {name: made for name, fill in fields.items() if (made := fill(names)) is not UNSET}

    def _each(self, path: str, written: dict[str, Any], known: frozenset[str]) -> Fill:
        """The row goes by the name `row` inside."""
        if set(written) != _EACH:
            raise self.error(path, "a template for each row is {$each: NAME, as: TEMPLATE}.")
        rows = self._text(f"{path}.$each", f"${{{written['$each']}}}", known)
        each = self.template(f"{path}.as", written["as"], known | {"row"})
        return lambda names: [each({**names, "row": row}) for row in rows(names)]

    def _text(self, path: str, written: str, known: frozenset[str]) -> Fill:
        inserts = {text: self._insert(path, text, known) for text in _INSERT.findall(written)}
        whole = _INSERT.fullmatch(written)
        if whole:
            return inserts[whole[1]]
        if not inserts:
            return lambda _: written
        return lambda names: _INSERT.sub(lambda insert: str(inserts[insert[1]](names)), written)

    def _insert(self, path: str, text: str, known: frozenset[str]) -> Fill:
        optional, name = text.endswith("?"), text.removesuffix("?")
        check = partial(paths.parse, name)
        try:
            first, *rest = check()
        except ValueError as broken:
            raise self.error(path, f"{broken}.") from None
        if first not in known:
            raise self.error(path, f"unknown name {first!r} in ${{{text}}}.", hint=nearest(first, known))
        return partial(_inserted, first, tuple(rest), name, optional)

    def _line(self, path: str) -> int | None:
        """The line of a place, else of what it stands in."""
        while path not in self._document.lines and "." in path:
            path = path.rpartition(".")[0]
        return self._document.line(path)


class Facts:
    """The names of one call, as a condition looks at them."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def value(self, name: str) -> Any:
        """The value of a name; UNSET where there is none."""
        return self._names.get(name, UNSET)

    def result(self, tool: str, _: Mapping[str, Any] | None) -> Any:
        """There are no results in a world. Raises Unanswered."""
        raise Unanswered(f"a world looks at its rows, not at what {tool} returned", missing=False)


def _inserted(first: str, rest: tuple[str, ...], name: str, optional: bool, names: Names) -> Any:  # noqa: FBT001 - bound by partial, never called with a bare flag
    held = list(paths.found(names.get(first, UNSET), rest))
    if "[]" in rest:
        return [fresh(value) for value in held]
    if not held or held[0] is UNSET:
        if optional:
            return UNSET
        raise WorldMiss(f"the call has no {name}")
    return fresh(held[0])
