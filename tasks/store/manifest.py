"""The manifest of a generation: which parts it is made of. Its bytes are canonical, and their sha256 is the corpus id.

Nothing in it tells when, where or by whom it was written, so equal content after an equal history has an equal id.
"""

from collections.abc import Iterable

import msgspec

from tasks.store.durable import sha256
from twiceshy import identity
from twiceshy.errors import FormatError

FORMAT = "twiceshy/corpus/1"


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, order=True):
    """One immutable Parquet file: a shard of a table, under one version of the table's schema."""

    table: str
    shard: str
    schema: int
    rows: int
    bytes: int
    sha256: str

    @property
    def file(self) -> str:
        """Its name under `parts/`: its own digest, so that two writers can only write the same."""
        return f"{self.table}-{self.sha256}.parquet"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parts of a generation, sorted by (table, shard), and the corpus id it was made from."""

    format: str = FORMAT
    parent: str | None
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Iterable[Part], *, parent: str | None) -> "Manifest":
        """Sorted, so that the order in which parts were given does not matter."""
        return cls(parent=parent, parts=tuple(sorted(parts)))

    @classmethod
    def load(cls, data: bytes, *, where: object) -> "Manifest":
        """Raises FormatError for an unknown format or broken content."""
        try:
            found = msgspec.json.decode(data)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                named = found.get("format") if isinstance(found, dict) else None
                raise FormatError.unknown(
                    where, named, known=FORMAT, upgrade="It was written by another release of twiceshy."
                )
            return msgspec.convert(found, cls)
        except msgspec.MsgspecError:
            raise FormatError.at(where, "not a manifest of a corpus.", hint="Restore it from a copy.") from None

    def dump(self) -> bytes:
        """The canonical bytes."""
        return identity.canonical(msgspec.to_builtins(self))

    @property
    def id(self) -> str:
        """The corpus id."""
        return sha256(self.dump())

    def named(self) -> dict[tuple[str, str], Part]:
        """(table, shard) -> part."""
        return {(part.table, part.shard): part for part in self.parts}
