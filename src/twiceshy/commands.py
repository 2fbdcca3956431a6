"""Candidates that are a command in any language: what is said of them, and whether their clock can be sealed."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from twiceshy.envelope import EVERY_TOOL, Effect, Kind, LayerVersion, Record, Versions
from twiceshy.errors import CandidateError, nearest
from twiceshy.identity import digest
from twiceshy.outcome import Divergence
from twiceshy.transcript import Diverged, Transcript

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from twiceshy.policy import ToolsPolicy

_TOOLS = "tools"
_LAYERS = tuple(name for name in Versions.__struct_fields__ if name != _TOOLS)
Face = Literal["mcp", "http"]


class Command(Record, frozen=True, kw_only=True):
    """A candidate that is started anew for each trial: its arguments, where it stands, and what it says of itself.

    tools: where its tools go, the MCP server or POST /tools. versions: layer name -> version; `tools` is that of every tool without one of its own.
    sources: layer name -> patterns of the files that it consists of, below the folder. models: the name a request bears -> the boundary it means.
    """

    argv: list[str]
    folder: str
    workflow: str
    tools: list[Face]
    versions: dict[str, str] = {}
    sources: dict[str, list[str]] = {}
    models: dict[str, str] = {}

    @property
    def name(self) -> str:
        """As messages name it."""
        return " ".join(self.argv)


class UncontrolledTools(CandidateError):
    """A command that does not say that its tools go through the gateway."""

    @classmethod
    def of(cls, name: str) -> UncontrolledTools:
        """The candidate, and what to write."""
        return cls(
            f"candidate {name!r} does not say where its tools go, so nothing shows that they are frozen: a base URL alone is not hermetic. "
            'Send them through the MCP server (TWICESHY_MCP_URL) or POST /tools/NAME (TWICESHY_TOOLS_URL), and write tools = ["mcp"] or ["http"].'
        )


def versions_of(command: Command) -> Versions:
    """The versions of its layers: as it states them, else by the files that they consist of; of the rest nothing is known, which compares as changed.

    Raises CandidateError for a layer that is none, and for a pattern that fits no file.
    """
    read = {name: LayerVersion(name=name, digest=_files(command, name)) for name in command.sources}
    named = read | {
        name: LayerVersion(name=name, version=version, digest=digest(version))
        for name, version in command.versions.items()
    }
    tools = {name.removeprefix("tool:"): layer for name, layer in named.items() if name.startswith("tool:")}
    if _TOOLS in named:
        tools[EVERY_TOOL] = named[_TOOLS]
    for name in named:
        if name not in (*_LAYERS, _TOOLS) and not name.startswith("tool:"):
            raise CandidateError(
                f"candidate {command.name!r} has no layer {name!r}. {nearest(name, [*_LAYERS, _TOOLS])}"
            )
    return Versions(**{name: named.get(name, LayerVersion()) for name in _LAYERS}, tools=tools)


def _files(command: Command, layer: str) -> str:
    """The digest of the files of a layer, each by its path and content."""
    folder = Path(command.folder)
    held: dict[str, str] = {}
    for pattern in command.sources[layer]:
        found = [] if Path(pattern).is_absolute() else [path for path in folder.glob(pattern) if path.is_file()]
        if not found:
            raise CandidateError(
                f"candidate {command.name!r}: no file in {folder} fits {pattern!r}, of its layer {layer!r}."
            )
        held |= {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    return digest(held)


def moved(command: Command, places: Mapping[Path, Path]) -> Command:
    """The command where its folder stands now: a break of its code is made in a copy. places: each folder of the candidate -> its copy."""
    now = places.get(Path(command.folder).resolve())
    if now is None:
        raise CandidateError(
            f"candidate {command.name!r}: its code stands in {command.folder}, which is not in its path, so no break can be made in a copy."
        )
    return structs.replace(command, folder=str(now))


def executable(command: Command, path: str | None) -> str:
    """The program that it starts. Raises CandidateError where there is none."""
    first = command.argv[0]
    found = str(Path(command.folder) / first) if "/" in first else shutil.which(first, path=path)
    if found is None or not Path(found).is_file():
        raise CandidateError(
            f"candidate {command.name!r}: there is no program {first!r} on the PATH or in {command.folder}."
        )
    return found


_PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime", "/usr/lib64/faketime")


def faketime_library() -> Path | None:
    """The libfaketime of this machine, which takes the clock from programs that are linked with the C library; None where it is not installed."""
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place.lstrip("/"))):
            library = folder / "libfaketimeMT.so.1"
            if library.is_file():
                return library
    return None


_ELF, _SHEBANG = b"\x7fELF", b"#!"
_HEAD_BYTES = 8192
_GO_NOTE = b"Go\x00\x00"


def keeps_its_clock(program: Path) -> bool:
    """Whether a program asks the kernel for the time past any library: Go does, and what is linked statically."""
    with program.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_SHEBANG):
        words = head.split(b"\n", 1)[0][2:].split()
        named = [word for word in words if b"=" not in word and not word.startswith(b"-")]
        last = named[-1].decode(errors="replace") if named else ""
        first = named[0].decode(errors="replace") if named else ""
        found = shutil.which(last) if first.endswith("/env") else first
        return found is None or not Path(found).is_file() or keeps_its_clock(Path(found))
    return not head.startswith(_ELF) or _GO_NOTE in head or b"ld-linux" not in head


def unfaked(library: Path, pids: Iterable[int]) -> list[str]:
    """The programs among these processes that run without the library, and so by the machine's clock; one that hides what it runs is taken for one."""
    found = []
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_bytes()
            program = Path(f"/proc/{pid}/exe").resolve()
        except PermissionError:
            found.append("a program that hides")
            continue
        except OSError:
            continue  # it ended meanwhile
        if maps and (library.name.encode() not in maps or keeps_its_clock(program)):
            found.append(program.name)
    return found


def closed_at_elsewhere(told: Transcript, policy: ToolsPolicy, *, dropped: Collection[str] = ()) -> Transcript:
    """The run, ended where a model of it is first told a result of a call that never came through the gateway: whatever made it, no record and no matcher saw it.

    A pure tool may run where it likes. dropped: tools whose calls a break keeps from being made.
    """
    called, proposed = set(dropped), dict[Any, str]()
    for at, one in enumerate(told.played):
        crossing = one.crossing
        if crossing.kind is Kind.TOOL:
            called.add(crossing.name)
        if crossing.kind is not Kind.MODEL:
            continue
        answers = [part.get("id") for part in _parts(crossing.seen) if part.get("type") == "tool_call_response"]
        answered = {proposed[answer] for answer in answers if answer in proposed}
        elsewhere = sorted(name for name in answered - called if policy.effect(name) is not Effect.NONE)
        if elsewhere:
            return _closed(told, at, elsewhere)
        for part in _parts({"messages": [crossing.raw]}):
            if part.get("type") == "tool_call" and isinstance(part.get("id"), str):
                proposed[part["id"]] = str(part.get("name"))
    return told


def _closed(told: Transcript, at: int, elsewhere: Sequence[str]) -> Transcript:
    crossing = told.played[at].crossing
    detail = f"the model was told results of {', '.join(elsewhere)}, and no such call came through MCP or /tools"
    found = Diverged(
        kind=Divergence.LIVE_UNCONTROLLED,
        place=crossing.place,
        boundary=f"{crossing.kind}:{crossing.name}",
        detail=detail,
    )
    return structs.replace(told, played=told.played[:at], divergence=found, disposition=None, crash=None, signal=None)


def _parts(request: Any) -> Iterator[dict[str, Any]]:
    """The parts of every message of a model request, as the gateway puts them."""
    messages = request.get("messages") if isinstance(request, dict) else None
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        yield from (part for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
