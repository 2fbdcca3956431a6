"""Conditions of invariants in CEL: compiled when the file is loaded, evaluated on one crossing, exact where CEL is not (semantics.md §7).

Values reach CEL in canonical form, so `==` is equality by identity rules: 750 == 750.0, texts compare in NFC, and what CEL would fold
(integers beyond 64 bits, NaN, Decimal, bytes) is a tagged map that equals only itself. Ordering such a value is an error, never a verdict.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec
from msgspec import UNSET

from twiceshy.errors import InvariantError, nearest
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CROSSING_NAMES = frozenset({"args", "proposed", "state", "world"})
"""What a condition on a crossing may name; `result(...)` besides."""

OUTPUT_NAMES = frozenset({"output", "state", "world"})
"""What a condition on the final output may name."""

_FUNCTIONS = frozenset(
    [
        "result",
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "timestamp",
        "duration",
        "type",
        "dyn",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    ]
)
_WORLD = re.compile(r"(?<![\w.])world\b(?:\s*\.\s*(?P<table>[A-Za-z_]\w*))?")
_MACRO = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*([A-Za-z_]\w*)\s*,")
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL)
_FLOAT = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_SYNTAX = re.compile(r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): (?P<problem>[^\n]*)")
_FUNCTION = re.compile(r"Function '(?P<name>\w+)' error")
_EXACT = 2**53
_INT64 = range(-(2**63), 2**63)


class ConditionError(InvariantError):
    """A condition that has no value here: its verdict is ERROR, never true or false."""


class MissingField(ConditionError):
    """A condition that names something which is not there, or whose side was not recorded."""


class Unanswered(Exception):
    """Raised by `Facts.result`: there is no such result. `missing` tells nothing-there from a question that was not clear."""

    def __init__(self, reason: str, *, missing: bool) -> None:
        super().__init__(reason)
        self.missing = missing


class Facts(Protocol):
    """What a condition may look at."""

    def value(self, name: str) -> Any:
        """The value of `args`, `proposed`, `state`, `world` or `output`; UNSET where that side is unknown. Of a world: the rows of the tables that are known whole."""
        ...

    def result(self, tool: str, selector: Mapping[str, Any] | None) -> Any:
        """What an earlier call of a tool returned. Raises Unanswered."""
        ...


class Condition:
    """A compiled condition. `names`: the variables it may use.

    Raises InvariantError with file and line for a syntax error, an unknown name or function, a division (CEL drops remainders without a word)
    and a number with a fraction or exponent beyond 2^53 (it would equal its neighbours).
    """

    def __init__(
        self, source: str, *, where: object, line: int | None = None, names: Collection[str] = CROSSING_NAMES
    ) -> None:
        self.source = unicodedata.normalize("NFC", source)
        self._where, self._line = where, line
        self._program = self._compiled(names)

    def holds(self, facts: Facts) -> bool:
        """Whether the condition is true here. Raises MissingField or ConditionError."""
        found = self.value(facts)
        if not isinstance(found, bool):
            raise self._error(f"the condition is a {type(found).__name__}, neither true nor false.")
        return found

    def value(self, facts: Facts) -> Any:
        """What the expression gives here. Raises MissingField or ConditionError."""
        import cel

        context = cel.Context()
        for name in self._needs:
            value = facts.value(name)
            if value is UNSET:
                continue  # an unknown side is a missing variable: the condition has a value only if it holds without it
            if name == "world":
                self._check_known(value)
            context.add_variable(name, plain(value))
        asked = _Asked(facts)
        context.add_function("result", asked.result)
        try:
            return self._program.execute(context)
        except Exception as raised:  # noqa: BLE001 - whatever CEL raises becomes one error with file and line
            self._raise(raised, asked)

    def _compiled(self, names: Collection[str]) -> Any:
        import cel  # 457 ms: only a file that has conditions pays for it

        # It logs the text of what a function raised, which may hold recorded values.
        logging.getLogger("cel").disabled = True
        try:
            program = cel.compile(self.source)
        except ValueError as broken:
            self._refuse_syntax(str(broken))
        bound = set(_MACRO.findall(_TEXT.sub('""', self.source)))
        self._needs = sorted(set(program.variables()) - bound)
        for name in self._needs:
            if name not in names:
                raise self._error(f"unknown name {name!r} in the condition.", hint=nearest(name, names))
        self._tables = self._named_tables() if "world" in self._needs else frozenset()
        self._check_functions(program.functions())
        self._check_numbers()
        return program

    def _named_tables(self) -> frozenset[str]:
        """The tables that the condition looks at: it has to name them, so that one whose rows nobody knows is an error and never an empty one."""
        found = [match["table"] for match in _WORLD.finditer(_TEXT.sub('""', self.source))]
        if not all(found):
            raise self._error("the condition takes the world without naming a table.", hint="Write world.TABLE.")
        return frozenset(found)

    def _check_known(self, world: Mapping[str, Any]) -> None:
        for table in sorted(self._tables - world.keys()):
            raise self._error(
                f"nobody knows all rows of table {table} here: the case's world has no such table, it is not closed, or a write changed it that the world does not answer."
            )

    def _check_functions(self, used: Collection[str]) -> None:
        if "_/_" in used:
            raise self._error(
                "the condition divides, and CEL drops the remainder of integers.", hint="Write a > 2 * b for a / 2 > b."
            )
        for name in sorted(used):
            if name.isidentifier() and name.strip("_") and not name.startswith("_") and name not in _FUNCTIONS:
                raise self._error(
                    f"unknown function {name!r} in the condition.", hint=nearest(name, _FUNCTIONS | {"has"})
                )

    def _check_numbers(self) -> None:
        for text in _FLOAT.findall(_TEXT.sub('""', self.source)):
            if not text.isdigit() and abs(float(text)) >= _EXACT:
                raise self._error(
                    f"the number {text} is beyond 2^53, where fractions are lost.", hint="Write it as an integer."
                )

    def _refuse_syntax(self, message: str) -> NoReturn:
        found = _SYNTAX.search(message)
        if found is None:
            raise self._error("the condition is no CEL expression.")
        line = None if self._line is None else self._line + int(found["line"]) - 1
        problem = found["problem"].split(" expecting {")[0]
        raise InvariantError.at(
            self._where, f"CEL error at column {found['column']} of the condition: {problem}.", line=line
        )

    def _raise(self, raised: Exception, asked: _Asked) -> NoReturn:
        """Nothing of a recorded value enters the text: CEL puts operands and looked-up keys into its messages."""
        text = str(raised)
        if isinstance(raised, KeyError | IndexError):
            field = text.strip("\"'")
            named = f" {field!r}" if field.isidentifier() and re.search(rf"\b{field}\b", self.source) else ""
            raise self._missing(f"the condition needs a field{named} that is not there.")
        if asked.refused is not None and text.startswith("Function 'result'"):
            if asked.refused.missing:
                raise self._missing(f"{asked.refused}.")
            raise self._error(f"{asked.refused}.")
        if text.startswith("Undefined variable"):
            raise self._missing("the condition needs a side of the crossing that was not recorded.")
        if isinstance(raised, TypeError):
            raise self._error(
                "the condition compares or combines values of types that do not go together.",
                hint="Give the tool a schema: a value of the wrong type is then a violation, judged before conditions.",
            )
        failed = _FUNCTION.match(text)
        what = f"{failed['name']}() refused its argument" if failed else type(raised).__name__
        raise self._error(f"the condition cannot be evaluated: {what}.")

    def _missing(self, problem: str) -> MissingField:
        return MissingField.at(
            self._where, problem, line=self._line, hint="Say what that means: on_missing: violated | satisfied | error."
        )

    def _error(self, problem: str, *, hint: str = "") -> ConditionError:
        return ConditionError.at(self._where, problem, line=self._line, hint=hint)


class _Asked:
    """`result` as CEL calls it; it keeps why there was none, since CEL hands an exception on as text."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.refused: Unanswered | None = None

    def result(self, tool: Any, selector: Any = None) -> Any:
        try:
            return plain(self._facts.result(*_selected(tool, selector)))
        except Unanswered as refused:
            self.refused = refused
            raise


def _selected(tool: Any, selector: Any) -> tuple[str, dict[str, Any] | None]:
    if not isinstance(tool, str) or not (selector is None or isinstance(selector, dict)):
        raise Unanswered(
            'result takes a tool and a map of argument paths, as in result("get_order", {"id": args.id})', missing=False
        )
    return tool, selector


def plain(value: Any) -> Any:
    """A recorded value as CEL gets it: canonical JSON, with integers beyond 64 bits tagged so that no two of them are equal."""
    return _within_64_bits(msgspec.json.decode(canonical(value)))


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _within_64_bits(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
        return {"$int": str(value)}
    return value
