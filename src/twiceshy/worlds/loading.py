"""A world as it is loaded: checked against the tools' policy, and started anew for each run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from twiceshy import documents
from twiceshy.envelope import Effect
from twiceshy.errors import CaseError, FormatError, nearest
from twiceshy.identity import digest
from twiceshy.worlds import coded
from twiceshy.worlds.bindings import Bound, Failed, WorldAnswer, bound
from twiceshy.worlds.tables import Tables, WorldMiss
from twiceshy.worlds.templates import Writing
from twiceshy.worlds.worldfile import FORMAT, WorldFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from twiceshy.policy import ToolsPolicy
    from twiceshy.worlds.tables import TableSeed


class Tool(Protocol):
    """A tool of a world, declared or coded."""

    @property
    def writes(self) -> bool:
        """Whether it may change rows."""
        ...

    @property
    def tables(self) -> frozenset[str] | None:
        """The tables that it looks at or changes; None where nobody knows."""
        ...

    def answer(self, tables: Tables, args: Any) -> WorldAnswer:
        """What it answers. Raises Failed or WorldMiss."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorld:
    """A world that can be started. bindings: the compiled tools of its file; a Python world's are made when it starts."""

    path: Path
    file: WorldFile
    digest: str
    bindings: Mapping[str, Bound]
    python: type[coded.World] | None = None

    @property
    def effects(self) -> dict[str, Effect]:
        """The tools that it answers, with what each does."""
        if self.python is not None:
            return coded.tools(self.python)
        return {name: Effect.WRITE if tool.writes else Effect.READ for name, tool in self.bindings.items()}

    def started(self) -> RunningWorld:
        """The world at its start, for one run."""
        return RunningWorld(self.file.tables, self)


class RunningWorld:
    """A world in one run."""

    def __init__(self, seeds: Mapping[str, TableSeed], loaded: LoadedWorld) -> None:
        self.tables = Tables(seeds)
        self._tools: dict[str, Tool] = {**loaded.bindings}
        if loaded.python is not None:
            world = loaded.python(self.tables)
            self._tools = {name: coded.CodedTool(world, name, effect) for name, effect in loaded.effects.items()}

    def knows(self, tool: str) -> bool:
        """Whether it answers this tool."""
        return tool in self._tools

    def answer(self, tool: str, args: Any) -> WorldAnswer:
        """What the tool answers now. A call that fails changes nothing. Raises WorldMiss where the world cannot say, and then changes nothing either."""
        self.tables.begin()
        try:
            answer = self._tools[tool].answer(self.tables, args)
        except Failed as failed:
            self.tables.undo()
            answer = failed.answer
        except WorldMiss:
            self.tables.undo()
            raise
        if self.tables.missed is not None:  # code of the world's has caught it, and gone on as if it knew
            self.tables.undo()
            raise self.tables.missed
        return answer

    def tables_of(self, concerned: Callable[[str], bool]) -> list[str]:
        """The tables that the concerned tools look at or change, sorted; all of them for a tool in Python, whose code nobody reads."""
        tools = [tool for name, tool in self._tools.items() if concerned(name)]
        return sorted(
            {table for tool in tools for table in (self.tables.names if tool.tables is None else tool.tables)}
        )


def load(path: Path, policy: ToolsPolicy | None = None, *, code: bool = True) -> LoadedWorld:
    """The world in a file. Raises CaseError (or FormatError, InputError) with file and line; with a policy also where the two disagree on what a tool does.

    code: whether a world in Python is imported. Only the candidate's process can: until then nothing is known of its tools.
    """
    document = documents.Document(path)
    file = _file(document)
    writing = Writing(document)
    _check_tables(document, file)
    python = None
    if file.python is not None:
        if file.tools:
            raise CaseError.at(
                path, "a world in Python binds no tools here; its methods do.", line=document.line("$.tools")
            )
        python = coded.imported(file.python, path) if code else None
    bindings = {name: bound(writing, file, name) for name in file.tools}
    loaded = LoadedWorld(path=path, file=file, bindings=bindings, python=python, digest=digest(document.value))
    if policy is not None:
        _check_effects(document, loaded, policy)
    return loaded


def _file(document: documents.Document) -> WorldFile:
    version = document.value.get("format") if isinstance(document.value, dict) else None
    if version != FORMAT:
        raise FormatError.unknown(
            document.path, version, known=FORMAT, upgrade="Install the twiceshy release that wrote it."
        )
    return document.into(WorldFile, error=CaseError)


def _check_tables(document: documents.Document, file: WorldFile) -> None:
    """Every row has its key, and no key stands twice."""
    for name, table in file.tables.items():
        here = f"$.tables.{name}"
        stray = [field for field in table.fold if field not in table.key]
        if stray:
            raise CaseError.at(
                document.path, f"fold: {stray[0]!r} is no field of the key.", line=document.line(f"{here}.fold")
            )
        seen: set[bytes] = set()
        empty = Tables({name: type(table)(key=table.key, fold=table.fold)})
        for part in ("rows", "invented", "absent"):
            for at, row in enumerate(getattr(table, part)):
                line = document.line(f"{here}.{part}[{at}]")
                lacking = [field for field in table.key if field not in row]
                if lacking:
                    raise CaseError.at(
                        document.path, f"a row of table {name!r} lacks {lacking[0]!r}, a field of its key.", line=line
                    )
                key = empty.key(name, row)
                if table.key and key in seen:
                    raise CaseError.at(
                        document.path, f"a row of table {name!r} has the key of an earlier one.", line=line
                    )
                seen.add(key)


def _check_effects(document: documents.Document, loaded: LoadedWorld, policy: ToolsPolicy) -> None:
    for name, effect in loaded.effects.items():
        line = document.line(f"$.tools.{name}") or document.line("$.python")
        stated = policy.effect(name)
        if name not in policy.tools:
            raise CaseError.at(
                document.path,
                f"tool {name!r} is not listed in tools.yaml.",
                line=line,
                hint=nearest(name, policy.tools),
            )
        if stated is Effect.NONE:
            raise CaseError.at(document.path, f"tool {name!r} is pure, so it runs and no world answers it.", line=line)
        if stated is not effect:
            hint = "Write `changes: []` if it changes no row." if stated is Effect.WRITE else "A read has no `changes`."
            problem = f"tool {name!r} is a {stated} in tools.yaml and a {effect} here."
            raise CaseError.at(document.path, problem, line=line, hint=hint)
