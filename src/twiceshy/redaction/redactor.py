"""The keyed, deterministic redactor of values: what `tasks/redact` builds on, and what a live argument passes before it is matched.

At replay only identity pseudonyms apply (and what a policy drops or restricts leaves the key): the candidate already sees shifted dates and banded amounts.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.envelope import RedactionStamp
from twiceshy.errors import KeyMismatch
from twiceshy.redaction import canonicalforms, dates, phones, synthesis, walking
from twiceshy.redaction.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from twiceshy.redaction.keys import Keyring
    from twiceshy.redaction.policy import FieldRule, Policy

RESTRICTED = "[restricted]"
"""What stands in the corpus for a value that only the raw copy holds."""

_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_WORD = re.compile(r"[^\W\d_]+")
_TITLES = frozenset(
    str.split("mr mrs ms miss mx dr prof sir jr sr ii iii iv de da di del la le van von der den bin al el")
)


class Redactor:
    """One policy with its keys. Values that are pseudonyms already pass unchanged, with or without the key.

    table: pseudonym -> digest, from earlier shards or from the case that is replayed. raw: the values come from a source and not from a
    candidate, so none of them is a pseudonym. Raises PackageMissing for a phone rule without phonenumbers: at once for raw values, else when the rule
    meets one, since a candidate's environment needs the package only for numbers in arguments.
    """

    def __init__(
        self, policy: Policy, keyring: Keyring, table: Mapping[str, str] | None = None, *, raw: bool = False
    ) -> None:
        if raw and any(rule.type == "phone" for rule in policy.fields):
            phones.require_package()
        self.policy = policy
        self.pseudonyms = Pseudonyms(policy, keyring, table, passing=not raw)
        self.avoid: Container[str] = frozenset()
        """Raw values, casefolded, that no new pseudonym may equal."""

    @property
    def stamp(self) -> RedactionStamp:
        """What an envelope says of the redaction it went through."""
        return RedactionStamp(policy_digest=self.policy.digest, key_id=self.policy.key_id)

    def check(self, stamp: RedactionStamp) -> None:
        """Raises KeyMismatch for an envelope made under another key: its pseudonyms are other people's."""
        if stamp.key_id != self.policy.key_id:
            raise KeyMismatch.between(self.policy.key_id, stamp.key_id)

    def redact_arguments(self, tool: str, args: Any) -> Any:
        """The live arguments of a call as the recording would hold them; the input is not touched.

        Raises KeyMissing where a rule would change a value and the key is not at hand, BoundExceeded beyond the bounds of a walk.
        """
        redacted = walking.walked(args, f"tool.{tool}.args", _Identities(self))
        return {} if redacted is UNSET else redacted

    def pseudonymized(self, kind: str, value: Any) -> Any:
        """A value of a type with its pseudonym in the place of what identifies somebody, in its own layout. Null, true and false stay."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.pseudonym_in(kind, value)
        if isinstance(value, int):
            return self._number(kind, str(value))
        if isinstance(value, float) and value.is_integer():
            return float(self._number(kind, str(int(value))))
        return RESTRICTED

    def pseudonym_in(self, kind: str, text: str) -> str:
        """`pseudonymized` for text: an empty value, a placeholder and a pseudonym pass."""
        if not text.strip() or canonicalforms.is_placeholder(text):
            return text
        match kind:
            case "person_name":
                return _WORD.sub(self._name, text)
            case "email" | "address":
                return self._value(kind, text)
            case "phone" | "card" | "ssn" | "iban" | "last_four":
                return self._digits(kind, text)
            case "date_of_birth":
                return self._birth(text)
            case _:
                # An id that is an address is that address, or its stand-in would read like somebody's.
                return self._value("email", text) if _ADDRESS.fullmatch(text.strip()) else self._identifier(kind, text)

    def alias(self, kind: str, canonical: str) -> str:
        """The pseudonym of a canonical value; of the type under which it is known already, if it is."""
        kinds = (
            (kind, *(name for name in self.policy.patterns if name != kind))
            if kind in self.policy.patterns
            else (kind,)
        )
        known = self.pseudonyms.known_alias(canonical, kinds)
        return self.pseudonyms.alias(kind, canonical, avoid=self.avoid) if known is None else known

    def _number(self, kind: str, text: str) -> int:
        made = self.pseudonym_in(kind, text)
        return int(made) if made.lstrip("-").isdigit() else int(synthesis.like(text, self.pseudonyms.draw(kind, text)))

    def _name(self, match: re.Match[str]) -> str:
        word = match[0]
        canonical = canonicalforms.canonical_form("person_name", word)
        if len(canonical) == 1:
            return synthesis.in_case_of(word, "x")
        if canonical in _TITLES or self.pseudonyms.recognised(canonical):
            return word
        return synthesis.in_case_of(word, self.alias("person_name", canonical))

    def _value(self, kind: str, text: str) -> str:
        trimmed = text.strip()
        canonical = canonicalforms.canonical_form(kind, text)
        if self.pseudonyms.recognised(canonical):
            return text
        made = self.alias(kind, canonical)
        return text.replace(trimmed, synthesis.in_case_of(trimmed, made) if kind == "address" else made)

    def _digits(self, kind: str, text: str) -> str:
        region = self.policy.default_region
        try:
            canonical = canonicalforms.canonical_form(kind, text, region=region)
        except phones.AmbiguousPhone:  # in a recording it holds the trace, so a live one has nothing to match
            canonical = "".join(filter(str.isdigit, text))
        if self.pseudonyms.recognised(canonical):
            return text
        made = self.alias(kind, canonical)
        if kind == "phone":
            return phones.laid_out(text, made, region)
        return synthesis.laid_over(text, made, str.isalnum if kind == "iban" else str.isdigit)

    def _birth(self, text: str) -> str:
        found = dates.find(text, month_first=canonicalforms.month_first(self.policy.default_region))
        if len(found) != 1 or found[0].year is None:
            return self._identifier("date_of_birth", text)
        day = found[0].on(0)
        if day is None or self.pseudonyms.recognised(day.isoformat()):
            return text  # a day that does not exist may be the failure itself
        made = date.fromisoformat(self.alias("date_of_birth", day.isoformat()))
        return text[: found[0].start] + dates.written(found[0], made) + text[found[0].end :]

    def _identifier(self, kind: str, text: str) -> str:
        found, start, end = canonicalforms.identifier(text, self.policy.patterns.get(kind, ()))
        if canonicalforms.is_placeholder(found) or self.pseudonyms.recognised(found):
            return text
        return text[:start] + self.alias(kind, canonicalforms.canonical_form(kind, found)) + text[end:]


class _Identities:
    """The visitor of live arguments: pseudonyms, and what no corpus holds anyway."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def dropped(self, place: str) -> bool:
        rule = self._redactor.policy.rule(place)
        return rule is not None and rule.action == "drop"

    def whole(self, place: str) -> bool:
        return takes_whole(self._redactor.policy.rule(place))

    def leaf(self, place: str, value: Any, depth: int) -> Any:  # noqa: ARG002 - the walk's protocol
        return self._identity(self._redactor.policy.rule(place), value)

    def name(self, place: str, key: str) -> str:
        return str(self._identity(self._redactor.policy.rule(place), key))

    def _identity(self, rule: FieldRule | None, value: Any) -> Any:
        if rule is None or value is None:
            return value
        if rule.action == "restrict":
            return RESTRICTED
        if rule.action == "synthesize" and rule.type:
            return self._redactor.pseudonymized(rule.type, value)
        return value


def takes_whole(rule: FieldRule | None) -> bool:
    """Whether a rule speaks of a string as one value, so that JSON in it is not looked into."""
    return rule is not None and rule.action in {"synthesize", "generalize", "restrict"}
