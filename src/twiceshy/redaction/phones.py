"""Telephone numbers: one E.164 form under the policy's region, and stand-ins from the ranges that regulators keep for fiction.

`phonenumbers` is an optional package: a policy with phone rules and no such package is an infrastructure error, never a skipped rule.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.errors import PackageMissing

if TYPE_CHECKING:
    from collections.abc import Callable

REGIONS = frozenset(
    str.split(
    "AC AD AE AF AG AI AL AM AO AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BW BY BZ CA CC CD CF CG CH CI CK CL CM "
    "CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GT GU GW GY "
    "HK HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF "
    "MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PR PS PT PW PY QA RE "
    "RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TA TC TD TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG US UY UZ "
    "VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"
    )
)  # fmt: skip

# Ranges for drama and documentation, as (leading digits, free digits) of the national number. Ofcom, NANPA (555-01xx), ARCEP, BNetzA, ACMA,
# ComReg, PTS; each is published on the regulator's site.
_AREAS = str.split("201 202 212 213 214 215 301 303 305 312 313 314 401 402 404 405 406 407 408 410 412 414 415 417 419 501 502 503 504 505 508 510 512 513 515 516 602 603 605 608 609 612 614 615 616 617 619 701 702 703 704 706 708 713 714 716 717 718 801 802 803 804 805 806 808 810 812 813 814 815 816 817 818 901 903 904 906 907 908 909 910 912 913 914 915 916 918 919")  # fmt: skip
_CITIES = str.split("113 114 115 116 117 118 121 131 141 151 161")
_FICTION: dict[int, tuple[tuple[str, int], ...]] = {
    1: tuple((f"{area}55501", 2) for area in _AREAS),
    33: tuple((prefix, 4) for prefix in ("19900", "26191", "35301", "46571", "53649", "63998")),
    44: tuple((prefix, 3) for prefix in ("2079460", "7700900", "1914980", "2920180", "1632960", *(f"{city}4960" for city in _CITIES))),
    46: (("8465004", 2), ("3139006", 2), ("4062804", 2)),
    49: (("3023125", 3), ("6990009", 3), ("4066969", 3), ("2214710", 3), ("8999998", 3)),
    61: tuple((f"{area}{range_}", 4) for area in "2378" for range_ in ("5550", "7010")),
    353: (("2091", 5),),
}  # fmt: skip
# Countries without such a range: a national number that opens like this is assigned nowhere.
_NOWHERE = "000"

_LENGTHS = range(7, 16)
_EXTENSION = re.compile(r"\s*(?:,|;|x|ext\.?|extension)\s*\d{1,6}\s*$", re.IGNORECASE)


class AmbiguousPhone(Exception):
    """A national number without a region: it would be another number in another country, and is never guessed."""


class Parsed(NamedTuple):
    """A number that could be read: its E.164 text, country code and national digits."""

    e164: str
    country: int
    national: str


def require_package() -> None:
    """Raises PackageMissing where phonenumbers is not installed."""
    try:
        import phonenumbers  # noqa: F401
    except ImportError:
        raise PackageMissing.named("phonenumbers", needed_for="phone rules in a redaction policy") from None


@lru_cache(maxsize=16_384)
def parsed(text: str, region: str | None) -> Parsed | None:
    """The number in `text`: valid in the region if it can be, else merely possible; None for what is no number.

    Raises AmbiguousPhone for a national number without a region, PackageMissing without phonenumbers.
    """
    require_package()
    found = _read(text, region)
    if found is None and region is None and _national(text):
        raise AmbiguousPhone
    return found


def e164(text: str, region: str | None) -> str | None:
    """The E.164 text of a number, or None. Raises like `parsed`."""
    number = parsed(text, region)
    return number.e164 if number else None


def stand_in(number: Parsed | None, below: Callable[[int], int]) -> str:
    """A number of the same country that belongs to nobody, as E.164. below(n): a draw from 0..n-1."""
    country, national = (number.country, number.national) if number else (1, "0" * 10)
    ranges = _FICTION.get(country)
    if ranges is None:
        return f"+{country}{_NOWHERE}{_digits(below, max(len(national) - len(_NOWHERE), 4))}"
    prefix, free = ranges[below(len(ranges))]
    return f"+{country}{prefix}{_digits(below, free)}"


def laid_out(raw: str, alias: str, region: str | None) -> str:
    """The stand-in written as the raw number was: its separators, its trunk zero or international prefix. An extension goes."""
    main = _EXTENSION.sub("", raw)
    number = _country_of(alias)
    if number is None:
        return alias
    country, national = number
    digits = re.sub(r"\D", "", main)
    spelled = _as_spelled(main, digits, country, national, region)
    if spelled is None or len(spelled) != len(digits):
        return alias
    drawn = iter(spelled)
    return "".join(next(drawn) if char.isdigit() else char for char in main)


def _as_spelled(main: str, digits: str, country: str, national: str, region: str | None) -> str | None:
    if main.lstrip().startswith("+"):
        return country + national
    if digits.startswith("00"):
        return f"00{country}{national}"
    if region is None:
        return None
    if len(digits) == len(national):
        return national
    if len(digits) == len(national) + 1 and digits[0] in "01":
        return digits[0] + national
    return None


def _country_of(alias: str) -> tuple[str, str] | None:
    for length in (1, 2, 3):
        country = alias[1 : 1 + length]
        if country.isdigit() and int(country) in _FICTION:
            return country, alias[1 + length :]
    return None


def _digits(below: Callable[[int], int], count: int) -> str:
    return "".join(str(below(10)) for _ in range(count))


def _national(text: str) -> bool:
    return len(re.sub(r"\D", "", text)) in _LENGTHS


def _read(text: str, region: str | None) -> Parsed | None:
    """An international spelling first (`0044` is one everywhere but where it is dialled otherwise), then the region's."""
    stripped = text.strip()
    spellings = [(stripped, region)] if region or stripped.startswith("+") else []
    if stripped.startswith("00"):
        spellings.insert(0, (f"+{stripped[2:]}", None))
    candidates = [found for spelling, where in spellings if (found := _number(spelling, where))]
    valid = [number for number, is_valid in candidates if is_valid]
    return next(iter(valid or [number for number, _ in candidates]), None)


def _number(text: str, region: str | None) -> tuple[Parsed, bool] | None:
    import phonenumbers

    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    is_valid = phonenumbers.is_valid_number(number)
    if not is_valid and not phonenumbers.is_possible_number(number):
        return None
    made = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return Parsed(made, number.country_code or 0, phonenumbers.national_significant_number(number)), is_valid
