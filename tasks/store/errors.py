"""What the store refuses.

InputError
|- UnknownGeneration      a corpus id that no manifest has
`- Unkept                 a raw copy that is not here, or no longer
InfrastructureError
|- NoHardLinks            the file system cannot hold the optimistic lock
|- ChangedMeanwhile       another writer changed the same table since the parent was read
`- ForeignFrame           a frame that is not of its table
"""

from typing import Self

from twiceshy.errors import InfrastructureError, InputError


class UnknownGeneration(InputError):
    """A corpus id that no manifest of this corpus has."""

    @classmethod
    def among(cls, corpus_id: str, known: int) -> Self:
        """The id asked for and how many there are."""
        return cls(
            f"no generation has corpus id {corpus_id!r} ({known} are kept). It may have been retained away, or belong to another corpus."
        )


class Unkept(InputError):
    """A raw copy or set-aside row that is not on its shelf."""

    @classmethod
    def at(cls, ref: str) -> Self:  # type: ignore[override]
        """The reference asked for."""
        return cls(
            f"nothing is kept at {ref!r}: it expired and was swept, or was never put there. Pull the window again."
        )


class NoHardLinks(InfrastructureError):
    """A file system without hard links: two writers could not be told apart."""

    @classmethod
    def under(cls, directory: object, reason: str) -> Self:
        """Where, and what to do."""
        return cls(
            f"{directory}: the file system makes no hard links ({reason}), which commits rest on. Put the corpus on a local file system."
        )


class ChangedMeanwhile(InfrastructureError):
    """A commit would overwrite what another writer committed since this one read its parent."""

    @classmethod
    def on(cls, table: str, parent: str | None) -> Self:
        """The table, the parent, and the way out."""
        return cls(
            f"table {table!r} was changed by another writer since generation {(parent or 'none')[:16]}. Read the head and run the step again."
        )


class ForeignFrame(InfrastructureError):
    """A frame whose columns or types are not those of its table."""

    @classmethod
    def of(cls, table: str, differing: list[str]) -> Self:
        """The columns that differ."""
        return cls(
            f"table {table!r}: the frame differs from the contract in {', '.join(differing)}. Commit what `validated` gives."
        )


class Unsealable(InfrastructureError):
    """A sealed copy that this key does not open, or that is damaged."""

    @classmethod
    def at(cls, ref: str) -> Self:
        """The reference."""
        return cls(
            f"{ref}: does not open under this key. It was sealed under another key of that id, or is damaged; pull the window again."
        )
