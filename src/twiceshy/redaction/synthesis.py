"""Stand-ins for personal values: of the same type and shape, from ranges that belong to nobody, drawn from keyed bytes alone."""

from __future__ import annotations

import hashlib
import re
import string
from datetime import date, timedelta
from typing import TYPE_CHECKING

from twiceshy.redaction import canonicalforms, phones

if TYPE_CHECKING:
    from collections.abc import Callable

EMAIL = re.compile(r"u[0-9a-f]{16}@example\.invalid", re.IGNORECASE)
"""The shape of a stand-in address: `.invalid` is reserved by RFC 2606, so nobody's raw address has it."""

STEMS = str.split(
    "Abren Adlo Aldren Alvik Amril Andro Anvik Arlen Arvo Ashil Avren Balor Bardel Bastik Belano Benrik Bervan "
    "Bralo Brenik Brisan Caldor Calvik Camrel Candro Carvel Caslon Celvan Corvin Dalmar Dandri Darvek Delvan "
    "Dorel Dravik Edlin Elvane Emrik Endal Ervan Fabrel Faldo Fendrik Ferrano Galven Garlo Gelrik Girano Halvek "
    "Hamrel Harvo Helvin Ilven Imrel Irvan Jalvo Jendrik Jorvel Kalven Kandro Karvel Kelno Korlan Lalven Larvo "
    "Lendrik Lorvan Madrel Malvek Marvon Melrik Morlan Nadrel Nalvo Nerik Norvan Odrel Olvek Orvan Palven Parlo "
    "Pendrik Porvel Ralven Ravlo Rendrik Rorvan Sadrel Salvek Sarvo Selrik Sorvan Tadrel Talvek Tarvo Telrik "
    "Torvan Udrel Ulvek Urvan Vadrel Valvek Varvo Velrik Vorvan Wadrel Walvek Warvo Welrik Worvan Yadrel Yalvek "
    "Yarvo Yelrik Zadrel Zalvek Zarvo"
)
"""The fixed list that fictional names are made of; with a suffix of three letters each."""

_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_ACCENTS = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ")
_WORD = re.compile(r"[^\W\d_]+")
_HEX = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f-]{8,}|(?=.*\d)(?=.*[A-F])[0-9A-F-]{8,}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_UUID_FIXED = (14, 19)
# Issuer ranges that the card schemes publish for tests, by the digits a real number of the scheme opens with.
_TEST_ISSUERS = (
    ("34", "378282"),
    ("37", "378282"),
    ("3", "353011"),
    ("4", "400000"),
    ("5", "555555"),
    ("2", "222300"),
    ("6", "601111"),
)
_STREET = frozenset(str.split(
    "street st road rd avenue ave lane ln drive dr court ct way place pl square sq terrace close crescent gardens "
    "boulevard blvd highway hwy suite ste apartment apt unit floor fl flat room box po p.o. building bldg north "
    "south east west n s e w rue de la du des del via calle strasse"
))  # fmt: skip


class Draw:
    """Numbers drawn from keyed bytes: the same bytes, the same numbers, in every process."""

    __slots__ = ("_material", "_spent")

    def __init__(self, material: bytes) -> None:
        self._material = material
        self._spent = 0

    def __call__(self, below: int) -> int:
        """The next number of 0..below-1. 64 bits a draw, so the bias is under 1e-15 for anything drawn here."""
        block = hashlib.sha256(self._material + self._spent.to_bytes(8, "big")).digest()
        self._spent += 1
        return int.from_bytes(block[:8], "big") % below

    def digits(self, count: int) -> str:
        """That many digits."""
        return "".join(str(self(10)) for _ in range(count))


def synthesized(kind: str, canonical: str, draw: Draw, *, region: str | None = None) -> str:
    """The stand-in for a canonical value, itself in canonical form. A person's name comes one word at a time."""
    if kind == "phone":
        return phones.stand_in(_parsed(canonical, region), draw)
    return _MAKERS.get(kind, like)(canonical, draw)


def like(text: str, draw: Draw) -> str:
    """Text of the same length and, place by place, the same character class; a leading digit other than zero stays other than zero."""
    hexadecimal = _HEX.fullmatch(text)
    fixed = _UUID_FIXED if _UUID.fullmatch(text) else ()
    return "".join(
        char if at in fixed else _swapped(char, draw, first=at == 0, hexadecimal=bool(hexadecimal))
        for at, char in enumerate(text)
    )


def _swapped(char: str, draw: Draw, *, first: bool, hexadecimal: bool) -> str:
    if char.isdigit():
        return str(1 + draw(9)) if first and char != "0" else str(draw(10))
    if not char.isalpha():
        return char
    letter = "abcdef"[draw(6)] if hexadecimal else string.ascii_lowercase[draw(26)]
    letter = letter.upper() if char.isupper() else letter
    return letter if char.isascii() else _accented(letter)


def _accented(text: str) -> str:
    """With an accent where a vowel stands, else with one more letter that has one: what was not ASCII stays not ASCII."""
    accented = text[:1] + text[1:].translate(_ACCENTS)
    return accented if accented != text else "é" if text.islower() else "É"


def _name(word: str, draw: Draw) -> str:
    if len(word) == 1:
        return "x"
    stem = STEMS[draw(len(STEMS))].lower()
    made = stem + "".join(_CONSONANTS[draw(len(_CONSONANTS))] for _ in range(3))
    return made if word.isascii() else _accented(made)


def _address(canonical: str, draw: Draw) -> str:
    def one(match: re.Match[str]) -> str:
        word = match[0]
        return word if word in _STREET else _name(word, draw)

    return re.sub(r"\d", lambda match: "0" if match[0] == "0" else str(1 + draw(9)), _WORD.sub(one, canonical))


def _card(canonical: str, draw: Draw) -> str:
    issuer = next((test for opening, test in _TEST_ISSUERS if canonical.startswith(opening)), "400000")
    body = issuer + draw.digits(max(len(canonical) - len(issuer) - 1, 6))
    return body + canonicalforms.check_digit(body)


def _iban(canonical: str, draw: Draw) -> str:
    """The bank code is all X or 0: no registry assigns it."""
    country, body = canonical[:2], canonical[4:]
    bank = "".join("X" if char.isalpha() else "0" for char in body[:4])
    rest = bank + like(body[4:], draw)
    return country + canonicalforms.iban_check_digits(country, rest) + rest


def _birth(canonical: str, draw: Draw) -> str:
    """Another day of the same five years."""
    try:
        year = date.fromisoformat(canonical).year
    except ValueError:
        return like(canonical, draw)
    first = date(max(year - year % 5, 1), 1, 1)
    return (first + timedelta(days=draw(5 * 365))).isoformat()


def _email(_: str, draw: Draw) -> str:
    return f"u{draw(1 << 64):016x}@example.invalid"


def _ssn(canonical: str, draw: Draw) -> str:
    """Area 000 was never issued."""
    return f"000{draw.digits(max(len(canonical) - 3, 6))}"


_MAKERS: dict[str, Callable[[str, Draw], str]] = {
    "email": _email,
    "card": _card,
    "iban": _iban,
    "ssn": _ssn,
    "person_name": _name,
    "address": _address,
    "date_of_birth": _birth,
}


def _parsed(canonical: str, region: str | None) -> phones.Parsed | None:
    try:
        return phones.parsed(canonical, region)
    except phones.AmbiguousPhone:
        return None


def in_case_of(raw: str, made: str) -> str:
    """`made` in the case of `raw`: all capitals, no capitals, or a capital a word."""
    if raw.isupper() and len(raw) > 1:
        return made.upper()
    if raw.islower():
        return made.lower()
    return made.title() if any(map(str.isupper, raw)) else made


def laid_over(raw: str, made: str, is_part: Callable[[str], bool]) -> str:
    """`made` with the separators of `raw`; as it is where the two have not the same number of parts."""
    if sum(map(is_part, raw)) != len(made):
        return made
    drawn = iter(made)
    return "".join(next(drawn) if is_part(char) else char for char in raw)
