"""Personal values that can be told by their shape: addresses, numbers with check digits, telephone numbers, secrets, and the ids a policy declares.

They are the smaller half of redaction; field rules and propagation are the larger. A machine id that looks like a person's number is as bad as a miss, so bare
digits need a context word, and a national telephone number needs separators or context (redaction.md §6).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.redaction import canonicalforms, phones, synthesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twiceshy.redaction import Policy

_QUICK = re.compile(r"\d[\s().-]{0,3}\d|@|::|-----BEGIN|://|[A-Za-z]_\w{10}|sk-|pk-|xox|eyJ|assword|pwd|ecret|earer")

_EMAIL = re.compile(r"\w[\w.%+'-]{0,63}@(?:[\w-]{1,63}\.)+[^\W\d_]{2,24}(?![\w-])")
_ESCAPE_LETTERS = re.compile(r"[nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}")
_SSN = re.compile(r"(?<![\w-])(?!000)\d{3}([- ])\d{2}\1\d{4}(?![\w-])")
_SSN_BARE = re.compile(r"(?<![\w-])(?!000)\d{9}(?![\w-])")
_CARD = re.compile(
    r"(?<![\w.-])\d{4}(?:([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{3})?|([ -])\d{6}\2\d{4,5}|\d{8,15})(?![\w-]|\.\d)"
)
_ISSUER = re.compile(r"4|5[0-8]|6[0-9]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[0-9]|2131|1800")
_CARD_LENGTHS = frozenset({12, 13, 14, 15, 16, 19})
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\w)")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)[-_](?:live|test|lf|ant|proj|or)[-_][\w-]{10,}|\bsk-[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{15,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bxox[abeoprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*|\b[Bb]earer\s+[\w.~+/-]{16,}=*"
    r"|(?<=://)[^\s/@:]{1,64}:[^\s/@]{3,128}(?=@)"
    r"|(?i:(?<=password is )|(?<=password: )|(?<=password=)|(?<=passwd=)|(?<=pwd=)|(?<=api_key=)|(?<=apikey=)|(?<=client_secret=)|(?<=secret_key=))[^\s\"',;&]{6,128}"
)

_CARD_WORDS = re.compile(
    r"\b(?:card|credit|debit|visa|master\s?card|amex|american express|discover|diners|pan|cc|payment)\b", re.IGNORECASE
)
_SSN_WORDS = re.compile(r"\b(?:ssn|social security|social)\b", re.IGNORECASE)
_TAIL = re.compile(
    r"\b(?:card|visa|master\s?card|amex)\b[^.\n]{0,30}?\b(?:ending|ends|end|number)\s*(?:in|with|on|:|is)?\s*(?P<a>\d{4})(?!\d)|(?<![\d.-])(?P<b>\d{4}) (?:credit |debit )?card\b",
    re.IGNORECASE,
)
_PHONE_WORDS = re.compile(
    r"\b(?:phone|tele?phone|tel|mobile|cell|call|calling|fax|whatsapp|sms|text|dial|ring|reach|contact|answering|messages? to|hotline|landline)\b",
    re.IGNORECASE,
)
_PHONE_AFTER = re.compile(r"\s?-?\s?\(?(?:office|fax|mobile|cell|home|work|tel)\b", re.IGNORECASE)
_PHONE = re.compile(
    r"(?<![\w.+/#$€£-])(?:\+(?=\(?\d)|00(?=\d))?\(?\d(?:[ \u00a0]?[().\-/]?[ \u00a0]?[()]?\d){5,17}\)?(?:\s?(?:x|ext\.?|extension)\s?\d{1,6})?(?![\w@%]|[.,:-]\d)",
    re.IGNORECASE,
)
_AMERICAN = re.compile(
    r"(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\)[ ]?|[2-9]\d{2}[.-])\d{3}[.-]\d{4}(?:\s?(?:x|ext\.?|extension)\s?\d{1,6})?",
    re.IGNORECASE,
)
_TRUNK = re.compile(r"\(?0[1-9]\d{0,4}\)?(?:[ .-]\(?\d{1,8}\)?){1,5}")
# Dates, and our own stand-ins for social security numbers.
_NO_PHONE = re.compile(
    r"000[- ]?\d{2}[- ]?\d{4}|(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})(?:[ T].*)?"
)

# Length of an IBAN by country (ISO 13616 registry).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST",
        26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU",
        31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


class Detection(NamedTuple):
    """One value found in a text, with its type."""

    start: int
    end: int
    kind: str


class Found(NamedTuple):
    """What a text holds. `ambiguous`: a national telephone number stands in it and the policy names no region."""

    detections: tuple[Detection, ...] = ()
    ambiguous: bool = False


_NOTHING = Found()


class Detectors:
    """The detectors that a policy switches on. `find` is remembered per text: a shard repeats its texts."""

    def __init__(self, policy: Policy) -> None:
        active = [name for name, action in policy.detectors.items() if action != "keep"]
        if "phone" in active:
            phones.require_package()
        self._region = policy.default_region
        self._shapes = [_SHAPES[name] for name in _SHAPES if name in active]
        self._phones = "phone" in active
        self._ids = {name: _bounded(patterns) for name, patterns in policy.patterns.items() if name in active}
        self._known: dict[str, Found] = {}

    def find(self, text: str) -> Found:
        """Every value in the text; detections may overlap."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._looked_up(text)
        return found

    def _looked_up(self, text: str) -> Found:
        ids = tuple(self._declared(text))
        if not _QUICK.search(text):
            return Found(ids) if ids else _NOTHING
        shaped = [detection for shape in self._shapes for detection in shape(text)]
        ambiguous = False
        if self._phones:
            try:
                shaped += _phone_numbers(text, self._region, shaped)
            except phones.AmbiguousPhone:
                ambiguous = True
        return Found((*shaped, *ids), ambiguous)

    def _declared(self, text: str) -> Iterator[Detection]:
        for name, patterns in self._ids.items():
            for pattern in patterns:
                for match in pattern.finditer(text):
                    yield Detection(*canonicalforms.id_span(match), name)


def _bounded(patterns: tuple[re.Pattern[str], ...]) -> tuple[re.Pattern[str], ...]:
    """Patterns of ids as they are looked for in text: nothing alphanumeric touches them."""
    return tuple(
        re.compile(rf"(?<![A-Za-z0-9])(?:{pattern.pattern})(?![A-Za-z0-9])", pattern.flags) for pattern in patterns
    )


def _emails(text: str) -> Iterator[Detection]:
    for match in _EMAIL.finditer(text) if "@" in text else ():
        start = match.start() + _escape_letters(text, match.start())
        if not synthesis.EMAIL.fullmatch(text, start, match.end()):
            yield Detection(start, match.end(), "email")


def _escape_letters(text: str, start: int) -> int:
    """How many letters at `start` belong to an escape that was never decoded: an n after a backslash before `mia@shop.example`."""
    found = _ESCAPE_LETTERS.match(text, start) if text[start - 1 : start] == "\\" else None
    return len(found[0]) if found else 0


def _ssns(text: str) -> Iterator[Detection]:
    for match in _SSN.finditer(text):
        yield Detection(*match.span(), "ssn")
    for match in _SSN_BARE.finditer(text):
        if _beside(_SSN_WORDS, text, match, before=30):
            yield Detection(*match.span(), "ssn")


def _cards(text: str) -> Iterator[Detection]:
    """Grouped digits of an issuer; ungrouped ones only beside a card word: an order number has a valid check digit once in ten."""
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) not in _CARD_LENGTHS or not _ISSUER.match(digits) or not canonicalforms.luhn(digits):
            continue
        if digits != match[0] or _beside(_CARD_WORDS, text, match, before=60, after=30):
            yield Detection(*match.span(), "card")


def _ibans(text: str) -> Iterator[Detection]:
    for match in _IBAN.finditer(text):
        end = _iban_end(text, match)
        if end is not None:
            yield Detection(match.start(), end, "iban")


def _iban_end(text: str, match: re.Match[str]) -> int | None:
    """Where the IBAN ends, by the length of its country and its check digits; None where it is none."""
    length = _IBAN_LENGTHS.get(match[0][:2].upper())
    places = [at for at in range(match.start(), match.end()) if text[at].isalnum()]
    if length is None or len(places) < length:
        return None
    end = places[length - 1] + 1
    if end < len(text) and text[end].isalnum():
        return None
    compact = "".join(text[at] for at in places[:length]).upper()
    right = canonicalforms.iban_check_digits(compact[:2], compact[4:]) == compact[2:4]
    return end if right and compact[4:8] not in {"XXXX", "0000"} else None


def _addresses_of_machines(text: str) -> Iterator[Detection]:
    for pattern in (_IPV4, _IPV6):
        for match in pattern.finditer(text):
            if generalized_ip(match[0]) not in {None, match[0]}:
                yield Detection(*match.span(), "ip")


def generalized_ip(text: str) -> str | None:
    """The network an address lies in (/24, or /48 of IPv6), written as its first address; None for what is no address or names no machine."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.is_loopback or address.is_unspecified:
        return None
    network = ipaddress.ip_network(f"{text}/{24 if address.version == 4 else 48}", strict=False)  # noqa: PLR2004 - IP versions
    return str(network.network_address)


def _secrets(text: str) -> Iterator[Detection]:
    for match in _SECRETS.finditer(text):
        yield Detection(*match.span(), "secret")


def _tails(text: str) -> Iterator[Detection]:
    for match in _TAIL.finditer(text):
        yield Detection(*match.span(match.lastgroup or 0), "last_four")


_SHAPES: dict[str, Callable[[str], Iterator[Detection]]] = {
    "email": _emails,
    "ssn": _ssns,
    "card": _cards,
    "iban": _ibans,
    "last_four": _tails,
    "ip": _addresses_of_machines,
    "secret": _secrets,
}


def _phone_numbers(text: str, region: str | None, others: list[Detection]) -> list[Detection]:
    """Raises AmbiguousPhone for a national number without a region."""
    found = []
    for match in _PHONE.finditer(text):
        taken = any(other.start < match.end() and match.start() < other.end for other in others)
        if not taken and _is_phone(text, match, region):
            found.append(Detection(match.start() + len(match[0]) - len(match[0].lstrip()), match.end(), "phone"))
    return found


def _is_phone(text: str, match: re.Match[str], region: str | None) -> bool:
    """Cheap facts first: parsing is a third of the CPU of a whole redaction."""
    raw = match[0].strip()
    digits = sum(char.isdigit() for char in raw)
    worded = _beside(_PHONE_WORDS, text, match, before=32) or _PHONE_AFTER.match(text, match.end()) is not None
    separated = not raw.lstrip("+").isdigit()
    if not (6 if worded and separated else 7) <= digits <= 20 or _NO_PHONE.fullmatch(raw):  # noqa: PLR2004 - an extension included
        return False
    if raw.startswith("+") or (raw.startswith("00") and (separated or worded)):
        long_enough = raw.startswith("+") and separated and digits > 8  # noqa: PLR2004 - country code and all
        return long_enough or phones.parsed(raw, region) is not None
    if _AMERICAN.fullmatch(raw) or worded:
        return phones.parsed(raw, region) is not None or separated
    return _TRUNK.fullmatch(raw) is not None and phones.parsed(raw, region) is not None


def _beside(words: re.Pattern[str], text: str, match: re.Match[str], *, before: int, after: int = 0) -> bool:
    """Whether a word of the kind stands near a match."""
    start = max(match.start() - before, 0)
    return words.search(text, start, match.start()) is not None or (
        after > 0 and words.search(text, match.end(), match.end() + after) is not None
    )
