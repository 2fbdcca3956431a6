"""Whether anything personal is left in the final bytes of an artifact: a second set of detectors, and every known value of the trace in every encoding.

Written apart from the redactor: it shares no pattern, validator or walk with it (a test on the import graph), so that one mistake is not made twice. It answers
with counts, never with what it found. Any hit means not admitted; so does a scanner that raises.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import ahocorasick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Known(NamedTuple):
    """A raw value of the trace. code_like: short and a name, so that it is not looked for in capitals, where it is a code."""

    text: str
    code_like: bool = False

    def __repr__(self) -> str:
        return "Known(...)"


class Hit(NamedTuple):
    """How often something was found: `what` is a detector or `seed`, `view` the encoding it stood in."""

    what: str
    view: str
    times: int


# Our own stand-ins are no leaks: they lie in ranges that belong to nobody.
# What an escape before it leaves (`\nu01..`, `\u003cu01..`) reads as part of the address.
_STAND_IN_MAIL = re.compile(rb"u[0-9a-f]{16}@example\.invalid\Z", re.IGNORECASE)
_FICTION_PHONE = re.compile(
    r"1\d{3}55501\d\d|44(?:2079460|7700900|1914980|2920180|1632960|1(?:1[3-8]|[2-6]1)4960)\d{3}|33(?:19900|26191|35301|46571|53649|63998)\d{4}"
    r"|46(?:8465004|3139006|4062804)\d\d|49(?:3023125|6990009|4066969|2214710|8999998)\d{3}|61[2378](?:5550|7010)\d{4}|3532091\d{5}|\d{1,3}000\d{4,12}"
)
_TEST_CARD = ("378282", "353011", "400000", "555555", "222300", "601111")

# Every repetition is bounded: a megabyte without a space must not cost a square of it.
_MAIL = re.compile(rb"[A-Za-z0-9._%+\-]{1,64}@(?:[A-Za-z0-9\-]{1,63}\.){1,6}[A-Za-z]{2,24}")
_SOCIAL = re.compile(rb"(?<![\w\-])(?!000)\d{3}-\d{2}-\d{4}(?![\w\-])")
_PAN = re.compile(rb"(?<![\w.\-])\d{4}[ \-]\d{4,6}[ \-]\d{4,5}(?:[ \-]\d{1,4})?(?![\w\-])")
_ACCOUNT = re.compile(rb"(?<![A-Z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Z0-9])")
_QUAD = re.compile(rb"(?<![\w.\-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.\-])")
_DIAL = re.compile(
    rb"(?<![\w.+\-])(?:\+\d{1,3}[ .\-]?(?:\(?\d{1,5}\)?[ .\-]?){2,6}|\(\d{3}\) ?\d{3}-\d{4}|[2-9]\d\d[.\-][2-9]\d\d[.\-]\d{4})(?![\w\-])"
)
_TOKEN = re.compile(
    rb"(?<![\w\-])(?:AKIA[0-9A-Z]{16}|ghp_\w{36}|sk-(?:proj-|ant-|lf-)?[\w\-]{20,}|pk-lf-[\w\-]{10,}|xox[bp]-[\w\-]{10,}|AIza[\w\-]{35}"
    rb"|eyJ[\w\-]{8,}\.eyJ[\w\-]{8,}\.)|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
)

_UNICODE_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(r"\\+([\"/\\nrtbf])")
_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_RUN = re.compile(rb"(?<![A-Za-z0-9+/_\-=])[A-Za-z0-9+/_\-]{16,}={0,2}")
_DIGIT_RUN = re.compile(r"\d(?:[ \-./()\u00a0]{0,2}\d){5,}")
_NESTED = 4
_FRAGMENT = 10
"""Characters of base64 that do not meet by chance: 60 bits."""
_LONG_NUMBER, _EXACT_NUMBER, _TAIL = 9, 7, 4


def scan(data: bytes, seeds: Iterable[Known] = ()) -> list[Hit]:
    """What is left in the bytes: nothing is an empty list. Raises whatever a broken scan raises: the caller does not admit then."""
    known = [seed for seed in seeds if seed.text.strip()]
    counts: Counter[tuple[str, str]] = Counter()
    for view, text in _views(data):
        for name, count in _detected(text.encode(errors="replace")):
            counts[name, view] += count
        counts["seed", view] += _seeds_in(text, known)
    counts["seed", "base64"] += _aligned(data, known)
    return [Hit(what, view, count) for (what, view), count in sorted(counts.items()) if count]


def _views(data: bytes) -> Iterator[tuple[str, str]]:
    """The bytes as text, and as each text that they spell. A view that says nothing new is left out."""
    raw = data.decode(errors="replace")
    yield "raw", raw
    plain = _unescaped(raw)
    if plain != raw:
        yield "escaped", plain
    if _PERCENT.search(data):
        yield "percent", unquote_to_bytes(plain.replace("+", " ")).decode(errors="replace")
    decoded = "\n".join(_decoded_runs(plain.encode(errors="replace"), 0))
    if decoded:
        yield "base64", decoded


def _unescaped(text: str) -> str:
    spelled = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    control = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
    plain = _ESCAPE.sub(lambda match: control.get(match[1], match[1]), spelled)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decoded_runs(data: bytes, depth: int) -> Iterator[str]:
    for match in _RUN.finditer(data):
        run = match[0].rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        try:
            plain = base64.b64decode(run[: len(run) - (len(run) % 4 == 1)] + b"=" * (-len(run) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if plain.isprintable() or any(map(str.isspace, plain)):
            yield _unescaped(plain)
            if depth < _NESTED:
                yield from _decoded_runs(plain.encode(), depth + 1)


def _detected(data: bytes) -> Iterator[tuple[str, int]]:
    yield "email", sum(not _STAND_IN_MAIL.search(found) for found in _MAIL.findall(data))
    yield "ssn", len(_SOCIAL.findall(data))
    yield "card", sum(_is_pan(re.sub(rb"\D", b"", found).decode()) for found in _PAN.findall(data))
    yield "iban", sum(_is_account(found.replace(b" ", b"").decode()) for found in _ACCOUNT.findall(data))
    yield "ip", sum(_is_host(found.decode()) for found in _QUAD.findall(data))
    yield "phone", sum(_is_dialled(found.decode()) for found in _DIAL.findall(data))
    yield "secret", len(_TOKEN.findall(data))


def _is_pan(digits: str) -> bool:
    if not 13 <= len(digits) <= 19 or digits.startswith(_TEST_CARD) or digits[0] not in "23456":  # noqa: PLR2004 - ISO 7812
        return False
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0  # noqa: PLR2004 - a digit


def _is_account(text: str) -> bool:
    if not 15 <= len(text) <= 34 or text[4:8] in {"XXXX", "0000"}:  # noqa: PLR2004 - ISO 13616
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def _is_host(text: str) -> bool:
    """Four octets that name one machine; a generalized address ends in 0."""
    octets = [int(part) for part in text.split(".")]
    return all(octet <= 255 for octet in octets) and octets[0] not in {0, 127} and octets[3] != 0  # noqa: PLR2004 - IPv4


def _is_dialled(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if not 8 <= len(digits) <= 15:  # noqa: PLR2004 - E.164
        return False
    international = digits if text.startswith("+") else f"1{digits}"
    return _FICTION_PHONE.fullmatch(international) is None


def _seeds_in(text: str, known: list[Known]) -> int:
    """How many known values stand in a text, whatever their case and however their digits are grouped."""
    if not known:
        return 0
    lowered = text.lower()
    automaton = ahocorasick.Automaton()
    for seed in known:
        for form in ("NFC", "NFD", "NFKC"):
            spelling = unicodedata.normalize(form, seed.text.strip()).lower()
            automaton.add_word(spelling, (len(spelling), seed))
    automaton.make_automaton()
    straight = len(lowered) == len(text)
    found = 0
    for last, (length, seed) in automaton.iter(lowered):
        start = last + 1 - length
        spelled = text[start : last + 1] if straight else ""
        found += (
            _stands_alone(lowered, start, last + 1)
            and not (seed.code_like and spelled.isupper())
            and _is_tail(seed, lowered, start)
        )
    return found + _numbers_in(text, known)


def _stands_alone(text: str, start: int, end: int) -> bool:
    def touches(at: int, edge: str) -> bool:
        return 0 <= at < len(text) and text[at].isalnum() and edge.isalnum() and ord(edge) < 0x2E80  # noqa: PLR2004 - scripts without spaces

    return not touches(start - 1, text[max(start, 0)]) and not touches(end, text[end - 1])


def _is_tail(seed: Known, text: str, start: int) -> bool:
    """Four digits are a known value only where a card is spoken of."""
    if len(seed.text) > _TAIL or not seed.text.isdigit():
        return True
    around = text[max(start - 24, 0) : start + 28]
    return any(word in around for word in ("card", "visa", "ending", "amex", "last four", "last_four", "last 4"))


def _numbers_in(text: str, known: list[Known]) -> int:
    written = [seed.text for seed in known if not any(map(str.isalpha, seed.text))]
    numbers = {digits for number in written if len(digits := re.sub(r"\D", "", number)) >= _EXACT_NUMBER}
    if not numbers:
        return 0
    runs = [re.sub(r"\D", "", run) for run in _DIGIT_RUN.findall(text)]
    return sum(number == run or (len(number) >= _LONG_NUMBER and number in run) for run in runs for number in numbers)


def _aligned(data: bytes, known: list[Known]) -> int:
    """Known values inside longer base64, at each of the three places where a value can begin in a group of four characters."""
    automaton = ahocorasick.Automaton()
    for seed in known:
        for fragment in _fragments(seed.text.strip()):
            automaton.add_word(fragment.decode(), seed)
    if not len(automaton):
        return 0
    automaton.make_automaton()
    return sum(1 for _ in automaton.iter(data.decode("latin-1")))


def _fragments(text: str) -> Iterator[bytes]:
    for spelling in {text, text.lower(), text.upper(), text.title()}:
        raw = spelling.encode(errors="replace")
        for offset in range(3):
            whole = base64.b64encode(b"\0" * offset + raw)
            # The first and the last group also hold bits of the neighbours.
            inner = whole[4 if offset else 0 : (offset + len(raw)) // 3 * 4]
            if len(inner) >= _FRAGMENT:
                yield inner
                yield inner.translate(bytes.maketrans(b"+/", b"-_"))
