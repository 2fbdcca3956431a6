"""Breaks of real code: a private copy of what stands on a candidate's path, patched or of another revision; or other variables. The user's tree is only read."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.breaking.operators import Break, Operator
from twiceshy.errors import InfrastructureError
from twiceshy.sealing.environment import scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SECONDS = 120
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".tox")


class NotApplicable(InfrastructureError):
    """A break that changes nothing of this candidate, so it proves nothing."""

    @classmethod
    def because(cls, found: Break, reason: str) -> NotApplicable:
        """The break, and why it applied nowhere."""
        return cls(f"{found.text} applied nowhere: {reason}")


class _Git:
    """Runs git on a folder. A copy is taken as the plain folder it is: no repository around the folder of temporary files is looked for."""

    def __init__(self, env: Mapping[str, str]) -> None:
        own = {name: value for name, value in env.items() if not name.startswith("GIT_")}
        self._env = {**own, "LC_ALL": "C", "GIT_CEILING_DIRECTORIES": str(Path(tempfile.gettempdir()).resolve())}

    def __call__(self, folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-C", str(folder), *words]
        try:
            return subprocess.run(command, check=False, capture_output=True, timeout=_SECONDS, env=self._env)
        except FileNotFoundError:
            raise InfrastructureError("a break of real code needs git, which is not installed.") from None


class Changed(NamedTuple):
    """What a candidate is started with instead: its path, and variables that are set besides."""

    path: list[Path]
    env: dict[str, str]


@contextmanager
def changed(found: Break, *, path: Sequence[Path], env: Mapping[str, str], case: Path) -> Iterator[Changed]:
    """The changed candidate for the `with` block. case: the folder of the case, where its patch stands. Raises NotApplicable."""
    if found.operator is Operator.ENV:
        yield Changed(list(path), _variables(found, env))
        return
    git = _Git(env)
    with tempfile.TemporaryDirectory(prefix="twiceshy-break-") as folder:
        parts, to = [Path(part).resolve() for part in path], Path(folder).resolve()
        if found.operator is Operator.PATCH:
            made = _patched(git, found, parts, to, case)
        else:
            made = _revision(git, found, parts, to)
        yield Changed(made, {})


def _variables(found: Break, env: Mapping[str, str]) -> dict[str, str]:
    settings = dict(found.settings)
    now = scrubbed_environment(env)
    if all(now.get(name) == value for name, value in settings.items()):
        raise NotApplicable.because(found, "the candidate's environment says so already")
    return settings


def _patched(git: _Git, found: Break, path: Sequence[Path], folder: Path, case: Path) -> list[Path]:
    """Copies of all that stands on the path; the patch goes to the first of them that takes it."""
    copies = [_copied(git, part, folder / str(at)) for at, part in enumerate(path)]
    diff = (case / found.target).resolve()
    complaint = "the path is empty"
    for copy in copies:
        done = git(copy, "apply", "--whitespace=nowarn", str(diff))
        if done.returncode == 0:
            return copies
        complaint = (done.stderr.decode(errors="replace").splitlines() or ["git apply failed"])[0]
    raise NotApplicable.because(found, complaint)


def _copied(git: _Git, part: Path, to: Path) -> Path:
    """What git knows or would take of a folder, so that no build, corpus or environment is copied; without git all of it."""
    listed = git(part, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
    if listed.returncode != 0:
        shutil.copytree(part, to, symlinks=True, ignore=_LEFT_OUT)
        return to
    to.mkdir(parents=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (part / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(part / name, to / name, follow_symlinks=False)
    return to


def _revision(git: _Git, found: Break, path: Sequence[Path], folder: Path) -> list[Path]:
    """Every part of the path that stands in a repository, as it was at the revision; exported, so that no worktree is registered."""
    exported: dict[Path, Path] = {}
    made, differs = [], False
    for part in path:
        top = _top(git, part)
        if top is None:
            made.append(part)
            continue
        if top not in exported:
            exported[top] = _export(git, found, top, folder / str(len(exported)))
        differs |= git(top, "diff", "--quiet", found.target, "--", str(part)).returncode != 0
        made.append(exported[top] / part.relative_to(top))
    if not differs:
        raise NotApplicable.because(found, "that revision is what stands there, or nothing of it is in a repository")
    return made


def _top(git: _Git, part: Path) -> Path | None:
    done = git(part, "rev-parse", "--show-toplevel")
    return Path(done.stdout.decode().strip()).resolve() if done.returncode == 0 else None


def _export(git: _Git, found: Break, top: Path, to: Path) -> Path:
    known = git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{found.target}^{{commit}}")
    if known.returncode != 0:
        raise NotApplicable.because(found, "the repository knows no such revision")
    done = git(top, "archive", "--format=tar", known.stdout.decode().strip())
    if done.returncode != 0:
        raise NotApplicable.because(found, "the revision cannot be exported")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
        packed.extractall(to, filter="data")
    return to
