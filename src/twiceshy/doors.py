"""Where a live model is asked, as both sides of the seal know it: an address on the candidate's own loopback, and a token. Data only."""

from __future__ import annotations

import secrets

from twiceshy.envelope import Record
from twiceshy.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
_PORT = 41_185
"""Of the candidate's own loopback, beside that of a command's gateway: a fixed one, so that a run which prints its addresses is the same twice."""
_CLIENT_KEY = "twiceshy-sealed"
"""It opens nothing: what it keeps out is a client that nobody configured."""


class UnreachedModel(ConfigurationError):
    """A command's model that is to run live, with nobody to ask."""

    @classmethod
    def of(cls, name: str) -> UnreachedModel:
        """The candidate, and what to write."""
        return cls(
            f"candidate {name!r}: its model is to run live, and nothing says where it is asked. "
            'Write [upstream.openai] or [upstream.anthropic] into twiceshy.toml: base_url = "https://...", key_env = "THE_NAME_OF_A_VARIABLE".'
        )


class DoorTerms(Record, frozen=True, kw_only=True):
    """Where the parent answers for live models. patience_s: how long a reply may be on its way."""

    port: int = _PORT
    token: str
    patience_s: float

    @property
    def origin(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def clients(self) -> dict[str, str]:
        """What sends the clients of a Python candidate there."""
        return {
            "OPENAI_BASE_URL": f"{self.origin}/v1", "OPENAI_API_BASE": f"{self.origin}/v1", "OPENAI_API_KEY": self.token,
            "ANTHROPIC_BASE_URL": self.origin, "ANTHROPIC_API_KEY": self.token,
        }  # fmt: skip


def door_terms(*, commanded: bool, patience_s: float) -> DoorTerms:
    """A Python candidate holds the key of its clients, and what it opens is watched in its own process; a command knows nothing of the door."""
    return DoorTerms(token=secrets.token_hex(16) if commanded else _CLIENT_KEY, patience_s=patience_s)
