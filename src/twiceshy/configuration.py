"""The settings in force: flags over TWICESHY_* over twiceshy.toml over [tool.twiceshy] in pyproject.toml over defaults, as one frozen object.

Built at the edge (command line, flows) and passed down; nobody else reads the environment.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from twiceshy.envelope import Record
from twiceshy.errors import ConfigurationError, InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PREFIX = "TWICESHY_"
_NOT_SETTINGS = ("TWICESHY_KEY_", "TWICESHY_CHROMIUM")
"""Variables of ours that are no settings: redaction keys, and the browser of the tests."""


class Paths(Record, frozen=True, kw_only=True):
    """Where things stand, relative to the file that says so."""

    cases: str = "data/cases"
    policies: str = "data/policies"
    champion: str = "data/champion"
    signatures: str = "data/signatures"
    corpus: str = "data/corpus"
    raw: str = "data/raw"
    quarantine: str = "data/quarantine"
    published: str = "data/published"
    samples: str = "data/samples"
    replies: str = "data/replies"
    site: str = "site"


class CandidateSettings(Record, frozen=True, kw_only=True):
    """A candidate by name: how its process is started and what it may see. Either a factory, or a command with its workflow and where its tools go."""

    factory: str | None = None
    command: list[str] = []
    workflow: str | None = None
    tools: list[Literal["mcp", "http"]] = []
    versions: dict[str, str] = {}
    sources: dict[str, list[str]] = {}
    """Of a command: layer -> patterns of its files. What it stated no version of is known by them."""
    models: dict[str, str] = {}
    """Of a command: the name that its requests bear -> the recorded model it means."""
    python: str | None = None
    path: tuple[str, ...] = (".",)
    allow_env: list[str] = []

    def __post_init__(self) -> None:
        if self.factory is None and not self.command:
            raise ValueError("missing required field `factory`, or a `command`")


class GateSettings(Record, frozen=True, kw_only=True):
    """Defaults of `twiceshy gate`. trials: of one, no gate knows whether the next comes to the same. max_diverged: a count, or a percentage as "5%"."""

    trials: Annotated[int, msgspec.Meta(ge=2)] = 2
    max_diverged: str = "0"
    min_cases: int = 1
    workers: int = 1
    timeout_case: float = 60.0


class JudgeSettings(Record, frozen=True, kw_only=True):
    """Where the judge of the semantic tier is asked. key_env: the name of the variable that holds its key. timeout: seconds a request may take."""

    base_url: str | None = None
    key_env: str | None = None
    timeout: float = 60.0


class UpstreamSettings(Record, frozen=True, kw_only=True):
    """Where a model that runs live is asked, by the parent. key_env: the name of the variable that holds the key, never the key itself.

    timeout: seconds that it may be silent; retries: how often a request is sent again where it cannot answer.
    """

    base_url: str
    key_env: str | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 120.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2


class Settings(Record, frozen=True, kw_only=True):
    """Everything that can be set. commands: `module:app` of verbs that a checkout mounts."""

    paths: Paths = Paths()
    candidate: dict[str, CandidateSettings] = {}
    gate: GateSettings = GateSettings()
    judge: JudgeSettings = JudgeSettings()
    upstream: dict[Literal["openai", "anthropic"], UpstreamSettings] = {}
    commands: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings with the folder they are relative to, and where each one that is not a default came from."""

    settings: Settings
    root: Path
    sources: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The path of a setting under [paths], made absolute."""
        return self.root / str(getattr(self.settings.paths, name))


def load(start: Path, env: Mapping[str, str]) -> Configuration:
    """The configuration for a folder: the nearest twiceshy.toml or [tool.twiceshy] at or above it, then the environment.

    Raises ConfigurationError for an unknown key (with a did-you-mean) or a value of the wrong type, FormatError-like for broken TOML.
    """
    found, root, where = _file(start)
    sources = {".".join(path): where for path in _leaves(found)}
    merged = found
    for path, text in _variables(env):
        merged = _with(merged, path, _parsed(text))
        sources[".".join(path)] = f"${_PREFIX}{'__'.join(path).upper()}"
    return Configuration(settings=_settings(merged, where), root=root, sources=sources)


def _file(start: Path) -> tuple[dict[str, Any], Path, str]:
    for folder in (start.resolve(), *start.resolve().parents):
        own = folder / "twiceshy.toml"
        if own.is_file():
            return _toml(own), folder, str(own)
        project = folder / "pyproject.toml"
        table = _toml(project).get("tool", {}).get("twiceshy") if project.is_file() else None
        if table is not None:
            return table, folder, f"{project} [tool.twiceshy]"
    return {}, start.resolve(), "defaults"


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise ConfigurationError.at(path, f"not TOML: {broken}.") from None


def _settings(merged: dict[str, Any], where: str) -> Settings:
    _refuse_unknown(merged, where)
    try:
        return msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as broken:
        raise ConfigurationError.at(where, f"{broken}.") from None


def _refuse_unknown(merged: Mapping[str, Any], where: str) -> None:
    shapes: list[tuple[str, Any, type[Record]]] = [("", merged, Settings)]
    shapes += [("paths.", merged.get("paths"), Paths), ("gate.", merged.get("gate"), GateSettings)]
    shapes += [("judge.", merged.get("judge"), JudgeSettings)]
    named: list[tuple[str, type[Record]]] = [("candidate", CandidateSettings), ("upstream", UpstreamSettings)]
    for group, made in named:
        tables = merged.get(group)
        listed = tables.items() if isinstance(tables, dict) else ()
        shapes += [(f"{group}.{name}.", table, made) for name, table in listed]
    for prefix, table, shape in shapes:
        known = [field.name for field in msgspec.structs.fields(shape)]
        for name in table if isinstance(table, dict) else ():
            if name not in known:
                raise ConfigurationError(f"{where}: unknown setting {prefix + name!r}. {nearest(name, known)}")


def _variables(env: Mapping[str, str]) -> list[tuple[list[str], str]]:
    listed = sorted(
        (name, text) for name, text in env.items() if name.startswith(_PREFIX) and not name.startswith(_NOT_SETTINGS)
    )
    return [(name.removeprefix(_PREFIX).lower().split("__"), text) for name, text in listed]


def _parsed(text: str) -> Any:
    """The text as a TOML value where it is one (a number, a list), else as it stands."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _with(table: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise InputError(f"${_PREFIX}{'__'.join(path).upper()}: there is no such table of settings.")
    head, rest = path[0], path[1:]
    return {**table, head: _with(table.get(head, {}), rest, value) if rest else value}


def _leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, value in table.items():
        found += _leaves(value, (*path, name)) if isinstance(value, dict) else [(*path, name)]
    return found
