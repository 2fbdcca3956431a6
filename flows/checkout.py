"""What a flow works with, made once at its start: settings, stores and keys. Nothing below a flow reads the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from tasks.store import Corpus, Limits, Published, Shelf
from twiceshy import configuration
from twiceshy.configuration import Configuration
from twiceshy.redaction import Keyring


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """The folder that a flow works in, opened."""

    config: Configuration
    keyring: Keyring

    @classmethod
    def at(cls, root: str | Path, environment: Mapping[str, str] | None = None) -> Self:
        """The checkout at or above a folder. Raises ConfigurationError."""
        env = os.environ if environment is None else environment
        return cls(config=configuration.load(Path(root), env), keyring=Keyring.of(env))

    @cached_property
    def corpus(self) -> Corpus:
        """Generations of the corpus."""
        return Corpus(self.config.path("corpus"))

    @cached_property
    def published(self) -> Published:
        """Published runs."""
        return Published(self.config.path("published"))

    @cached_property
    def raw(self) -> Shelf:
        """Raw copies."""
        return Shelf(self.config.path("raw"))

    @cached_property
    def quarantine(self) -> Shelf:
        """Rows set aside."""
        return Shelf(self.config.path("quarantine"))

    @property
    def limits(self) -> Limits:
        """What one query may take."""
        return Limits(spill=self.config.path("corpus") / "spill")
