"""One canonical value, one pseudonym: HMAC-SHA256(key, canonical([namespace, type, canonical value])), kept in a table that knows clashes.

A pseudonym that the table knows is passed as it is, so what a candidate was shown comes back to the record unchanged, without any key.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from twiceshy import identity
from twiceshy.errors import InfrastructureError
from twiceshy.redaction import synthesis
from twiceshy.redaction.policy import TYPES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from twiceshy.redaction.keys import Keyring
    from twiceshy.redaction.policy import Policy

# Beyond this many draws a pool of stand-ins is as good as used up; ids then grow by a digit, the other types give up.
_TRIES = 4_000
_LONGER_AFTER = 64


class PoolSpent(InfrastructureError):
    """A type has no free stand-in left in this namespace."""

    @classmethod
    def of(cls, kind: str) -> PoolSpent:
        """The type, never a value."""
        return cls(
            f"no free pseudonym of type {kind!r} is left in this namespace. Start a new namespace in redaction.yaml."
        )


class Pseudonyms:
    """The pseudonyms of one namespace under one key.

    table: pseudonym -> digest of the value behind it, from earlier shards or from a case; it is what makes an id recognisable.
    passing: whether what the table knows counts as a pseudonym; not so in raw data, where an id may by chance equal another's pseudonym.
    `used` grows by every pseudonym that is given out or met.
    """

    def __init__(
        self, policy: Policy, keyring: Keyring, table: Mapping[str, str] | None = None, *, passing: bool = True
    ) -> None:
        self._passing = passing
        self._policy = policy
        self._keyring = keyring
        self.table: dict[str, str] = dict(table or {})
        self.used: dict[str, str] = {}
        self._by_digest = {digest: alias for alias, digest in self.table.items()}
        self._folded = {alias.casefold(): alias for alias in self.table}

    def recognised(self, text: str) -> bool:
        """Whether a text is a pseudonym: by the shape of our addresses, or by the table. Case does not matter."""
        if synthesis.EMAIL.fullmatch(text):
            return True
        alias = self._folded.get(text.casefold()) if self._passing else None
        if alias is None:
            return False
        self.used[alias] = self.table[alias]
        return True

    def digest(self, kind: str, canonical: str) -> str:
        """The keyed digest of a value: what a table and a case may hold of it. Raises KeyMissing."""
        return self._material(kind, canonical, 0).hex()

    def alias(self, kind: str, canonical: str, *, avoid: Container[str] = ()) -> str:
        """The pseudonym of a canonical value, in canonical form. avoid: raw values, casefolded, that no pseudonym may equal. Raises KeyMissing, PoolSpent."""
        digest = self.digest(kind, canonical)
        alias = self._by_digest.get(digest)
        if alias is None:
            alias = self._drawn(kind, canonical, avoid)
            self.table[alias] = digest
            self._by_digest[digest] = alias
            self._folded[alias.casefold()] = alias
        self.used[alias] = digest
        return alias

    def known_alias(self, canonical: str, kinds: Iterable[str]) -> str | None:
        """The pseudonym that the table holds for a value under any of the types: an id passed in the wrong field is still that id."""
        for kind in kinds:
            digest = self.digest(kind, canonical)
            if digest in self._by_digest:
                alias = self._by_digest[digest]
                self.used[alias] = digest
                return alias
        return None

    def draw(self, *parts: str) -> synthesis.Draw:
        """Keyed numbers for something that is no pseudonym, as the date shift of a subject. Raises KeyMissing."""
        return synthesis.Draw(self._hmac([self._policy.namespace, *parts]))

    def _drawn(self, kind: str, canonical: str, avoid: Container[str]) -> str:
        for counter in range(_TRIES):
            draw = synthesis.Draw(self._material(kind, canonical, counter))
            alias = synthesis.synthesized(kind, canonical, draw, region=self._policy.default_region)
            if kind not in TYPES and counter >= _LONGER_AFTER:
                alias += draw.digits(1 + counter // _LONGER_AFTER)
            folded = alias.casefold()
            if folded not in self._folded and folded != canonical.casefold() and folded not in avoid:
                return alias
        raise PoolSpent.of(kind)

    def _material(self, kind: str, canonical: str, counter: int) -> bytes:
        return self._hmac([self._policy.namespace, kind, canonical, *([counter] if counter else [])])

    def _hmac(self, parts: list[object]) -> bytes:
        return hmac.digest(self._keyring.key(self._policy.key_id), identity.canonical(parts), "sha256")
