"""The canonical form of a personal value, per type: two spellings are one value if and only if their forms are equal. `VERSION` names the rules."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from twiceshy.redaction import dates, phones

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = "f1"

_SEPARATORS = re.compile(r"[\s.\-]")
_NOT_DIGITS = re.compile(r"\D")
_SPACES = re.compile(r"\s+")

# What people and programs write where a value should be: it names nobody, so it is nobody's value.
_PLACEHOLDER = re.compile(
    r"(?:<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}|n/?a|none|null|nil|unknown|undefined|missing|empty|string|anonymous|default|tbd|todo|xxx+|\?+|-+|\.+|_+|\*+"
    r"|(?:your|the|my|some|example|sample|dummy|placeholder|insert|enter)[ _-](?:[\w-]+[ _-]){0,3}"
    r"(?:id|number|name|email|address|token|key|code|date|value|here)|(?:user|customer|order|account)?[ _-]?id|placeholder)",
    re.IGNORECASE,
)
_LONGEST_PLACEHOLDER = 64


def is_placeholder(text: str) -> bool:
    """Whether a value stands for a missing one (`<user_id>`, `N/A`, `your order id`): it identifies nobody and stays."""
    return len(text) <= _LONGEST_PLACEHOLDER and _PLACEHOLDER.fullmatch(text.strip()) is not None


def canonical_form(kind: str, text: str, *, region: str | None = None, patterns: Iterable[re.Pattern[str]] = ()) -> str:
    """The canonical form of `text` as a value of type `kind`.

    region: of the policy, for phones and for slashed dates. patterns: how an id of this type is written; the group `id` is the id.
    Raises phones.AmbiguousPhone for a national number without a region.
    """
    match kind:
        case "email":
            return _nfkc(text).strip().casefold()
        case "phone":
            return phones.e164(text, region) or _phone_digits(text)
        case "iban":
            return _SEPARATORS.sub("", _nfkc(text)).upper()
        case "card" | "ssn" | "last_four":
            return _NOT_DIGITS.sub("", _nfkc(text)) or _nfkc(text).strip()
        case "person_name" | "address":
            return _SPACES.sub(" ", _nfkc(text)).strip().casefold()
        case "date_of_birth":
            return _date(text, region)
        case _:
            return _nfkc(identifier(text, patterns)[0])


def identifier(text: str, patterns: Iterable[re.Pattern[str]]) -> tuple[str, int, int]:
    """The id in a value and where it stands: the group `id` of the first pattern that fits all of it, else the trimmed value."""
    trimmed = text.strip()
    lead = len(text) - len(text.lstrip())
    for pattern in patterns:
        if match := pattern.fullmatch(trimmed):
            start, end = id_span(match)
            return trimmed[start:end], lead + start, lead + end
    return trimmed, lead, lead + len(trimmed)


def id_span(match: re.Match[str]) -> tuple[int, int]:
    """Where the id stands in a match of its pattern."""
    return match.span("id") if "id" in match.re.groupindex and match["id"] is not None else match.span()


def luhn(digits: str) -> bool:
    """Whether a card number's check digit is right."""
    return bool(digits) and check_digit(digits[:-1]) == digits[-1]


def check_digit(digits: str) -> str:
    """The Luhn check digit that belongs behind `digits`."""
    total = sum(sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(digits)))
    return str(-total % 10)


def iban_check_digits(country: str, rest: str) -> str:
    """The two check digits of an IBAN (ISO 7064, mod 97-10)."""
    as_number = "".join(str(int(char, 36)) for char in f"{rest}{country}00")
    return f"{98 - int(as_number) % 97:02d}"


def _nfkc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _phone_digits(text: str) -> str:
    sign = "+" if text.strip().startswith("+") else ""
    return sign + _NOT_DIGITS.sub("", text)


def _date(text: str, region: str | None) -> str:
    found = dates.find(text, month_first=month_first(region))
    day = found[0].on(0) if len(found) == 1 and found[0].year else None
    return day.isoformat() if day else _nfkc(text).strip()


def month_first(region: str | None) -> bool:
    """Whether 05/06/2024 is the sixth of May: in the United States and what follows them, and where no region is named."""
    return region in {None, "US", "PH", "PW", "FM", "MH", "AS", "GU", "MP", "PR", "VI", "UM"}
