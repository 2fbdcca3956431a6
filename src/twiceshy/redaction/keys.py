"""The secrets behind pseudonyms: named in a policy, held in a keyring, written in no file."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.errors import ConfigurationError, KeyMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLE_KEY_ID = "sample"
"""The id of the one key that everybody knows: it redacts the committed samples, and nothing else may be redacted with it."""

PREFIX = "TWICESHY_KEY_"

_BYTES = 32
_SAMPLE_KEY = hashlib.sha256(b"twiceshy: the published key of the samples").digest()
_KEY_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class NewKey(NamedTuple):
    """A key id and 32 random bytes in hex, to be set as `variable`."""

    key_id: str
    hex: str

    @property
    def variable(self) -> str:
        """The environment variable that hands the key over."""
        return PREFIX + _normal(self.key_id)

    def __repr__(self) -> str:
        return f"NewKey({self.key_id!r}, ...)"


class Keyring:
    """Redaction keys by id. It prints no key: not in repr, not in an error."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        self._keys = {_normal(key_id): bytes(key) for key_id, key in (keys or {}).items()}
        self._keys[_normal(SAMPLE_KEY_ID)] = _SAMPLE_KEY

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Keyring:
        """The keys of every TWICESHY_KEY_<ID>; the edge passes the environment in. Raises ConfigurationError on a value that is no key."""
        names = [name for name in environment if name.startswith(PREFIX)]
        return cls({name.removeprefix(PREFIX): _decoded(name, environment[name]) for name in names})

    def key(self, key_id: str) -> bytes:
        """The key of an id. Raises KeyMissing."""
        try:
            return self._keys[_normal(key_id)]
        except KeyError:
            raise KeyMissing.named(key_id) from None

    def __contains__(self, key_id: str) -> bool:
        return _normal(key_id) in self._keys

    def __repr__(self) -> str:
        return f"Keyring({len(self._keys)} keys)"


def new_key(key_id: str | None = None) -> NewKey:
    """A fresh key from the system's randomness. Raises ConfigurationError for an id that no environment variable could name."""
    named = key_id or f"k{secrets.token_hex(4)}"
    if not _KEY_ID.fullmatch(named) or named == SAMPLE_KEY_ID:
        raise ConfigurationError(
            f"{named!r} cannot name a key. Use lower-case letters, digits, - and _, and not {SAMPLE_KEY_ID!r}."
        )
    return NewKey(named, secrets.token_hex(_BYTES))


def is_sample_key(key_id: str) -> bool:
    """Whether an id names the published key, in any spelling."""
    return _normal(key_id) == _normal(SAMPLE_KEY_ID)


def refuse_sample_key(key_id: str, *, source_is_sample: bool) -> None:
    """Raises ConfigurationError where the published key would redact anything but the samples: anybody could undo it."""
    if is_sample_key(key_id) and not source_is_sample:
        raise ConfigurationError(
            f"key id {key_id!r} is the published key of the samples, so anybody could undo its pseudonyms. "
            "Make one with `twiceshy keys new`, set the variable it prints, and name its id as key_id in redaction.yaml."
        )


def _normal(key_id: str) -> str:
    """As an environment variable spells it."""
    return key_id.upper().replace("-", "_")


def _decoded(name: str, text: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < _BYTES:
        raise ConfigurationError(f"{name} holds no key of {_BYTES} bytes in hex. Make one with `twiceshy keys new`.")
    return key
