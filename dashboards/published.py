"""The published run that the site shows: what LATEST.json names, checked before anything is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

import msgspec
import polars as pl

from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.contracts import Table
from tasks.publish.schema import ChampionDiff, Conversations, Coverage, Divergence, Quality, Results, Runs
from tasks.replay.schema import Intents, Replays, Steps, Violations
from tasks.sign.schema import Signatures
from tasks.store import Limits, connect
from twiceshy.errors import FormatError, InputError

_Shape = TypeVar("_Shape")

NEEDED: tuple[type[Table], ...] = (Runs, Results, Replays, Violations, Steps, Coverage, Divergence, Signatures)
OPTIONAL: tuple[type[Table], ...] = (ChampionDiff, Conversations, Intents, Quality, Admissions, Attributions)
"""Their sections say that nothing was published."""

QUERIES = Path(__file__).parent / "queries"


class HalfPublished(InputError):
    """A directory that is not a whole published run."""

    @classmethod
    def empty(cls, root: Path) -> Self:
        """Nothing was published yet."""
        return cls(f"{root}: nothing is published here, LATEST.json is missing. Run `twiceshy nightly` first.")

    @classmethod
    def lacks(cls, directory: Path, what: str) -> Self:
        """What is missing of a run that LATEST.json names."""
        return cls(f"{directory}: the published run has no {what}. Publish it again with `twiceshy nightly`.")

    @classmethod
    def changed(cls, file: Path) -> Self:
        """A file that is not what was published."""
        return cls(
            f"{file}: changed since it was published: its digest is not the stated one. Publish again with `twiceshy nightly`."
        )

    @classmethod
    def older(cls, file: Path, columns: list[str]) -> Self:
        """Columns that this release reads and the run does not have."""
        return cls(
            f"{file}: no column {', '.join(columns)}: another release of twiceshy published it. Publish again with this one."
        )


class _Latest(msgspec.Struct, frozen=True):
    run_id: str
    directory: str
    generation: str
    digest: str


class _Manifest(msgspec.Struct, frozen=True):
    generation: str
    files: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One published run, whole. publication: the digest of its manifest; generation: the corpus id it was made from."""

    run_id: str
    generation: str
    publication: str
    directory: Path

    @contextmanager
    def queried(self) -> Iterator["Queries"]:
        """Its tables under their names, ready for the queries of this room."""
        with TemporaryDirectory(prefix="twiceshy-site-") as spill:
            views = {model.named(): self._view(model) for model in (*NEEDED, *OPTIONAL)}
            with connect(views, limits=Limits(spill=Path(spill))) as connection:
                yield Queries(connection)

    def _view(self, model: type[Table]) -> list[Path] | pl.DataFrame:
        file = self.directory / f"{model.named()}.parquet"
        return [file] if file.exists() else model.no_rows()


class Queries:
    """The queries of this room over one publication."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, name: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of `queries/<name>.sql`."""
        return self.asked((QUERIES / f"{name}.sql").read_text(encoding="utf-8"), **parameters)

    def asked(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of a query that is short enough to stand where it is used."""
        found: pl.DataFrame = self._connection.sql(query, params=parameters or None).pl()
        return found.rows(named=True)


def latest(root: Path) -> Publication:
    """The run that LATEST.json names, with every file's digest checked.

    Raises HalfPublished where a part is missing, changed or of another release, FormatError where it cannot be read.
    """
    named = _read(root / "LATEST.json", _Latest, HalfPublished.empty(root))
    directory = root / named.directory
    if Path(named.directory).name != named.directory or not directory.is_dir():
        raise HalfPublished.lacks(root, f"directory {named.directory!r}, which LATEST.json names")
    listed = _read(directory / "manifest.json", _Manifest, HalfPublished.lacks(directory, "manifest.json"))
    _same(directory / "manifest.json", named.digest)
    for name, digest in sorted(listed.files.items()):
        if not (directory / name).is_file():
            raise HalfPublished.lacks(directory, name)
        _same(directory / name, digest)
    for model in (*NEEDED, *OPTIONAL):
        _has_columns(directory, model)
    return Publication(run_id=named.run_id, generation=named.generation, publication=named.digest, directory=directory)


def _read(path: Path, shape: type[_Shape], missing: HalfPublished) -> _Shape:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except FileNotFoundError:
        raise missing from None
    except (msgspec.DecodeError, UnicodeDecodeError) as broken:
        raise FormatError.at(path, f"{broken}.", hint="Publish the run again with `twiceshy nightly`.") from None


def _same(path: Path, stated: str) -> None:
    if sha256(path.read_bytes()).hexdigest() != stated:
        raise HalfPublished.changed(path)


def _has_columns(directory: Path, model: type[Table]) -> None:
    file = directory / f"{model.named()}.parquet"
    if not file.exists():
        if model in NEEDED:
            raise HalfPublished.lacks(directory, file.name)
        return
    lacking = [name for name in model.dtypes() if name not in pl.read_parquet_schema(file)]
    if lacking:
        raise HalfPublished.older(file, lacking)
