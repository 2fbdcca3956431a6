"""Invented people, as a seed draws them: names, addresses, numbers and cards that belong to nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

FIRST = str.split(
    "Aled Amara Anouk Beatriz Bjarne Cosima Darragh Delphine Efua Emrys Farida Fergus Giulia Haruki Ilse Imogen Jarek "
    "Jelena Kofi Leonie Lucjan Maeve Mireille Nadia Nkechi Oisin Oluwaseun Priyanka Rashid Roisin Saoirse Sanjay Silvija "
    "Tamsin Teodor Ulrike Vikram Wanjiru Yusuf Zofia"
)
LAST = str.split(
    "Abernathy Achterberg Adeyemi Almqvist Bartosik Benkirane Brannigan Carvalho Chaudhuri Czerny Dalgaard Delacroix "
    "Eberhardt Fitzmaurice Gunnarsson Hargreaves Iwasaki Jankowski Kavanagh Kirchner Lindqvist Mbatha Nakagawa Novotny "
    "Obuya Okafor Pettersen Quintanilla Ranganathan Sandoval Sorensen Takahashi Tierney Uchenna Vandermeer Villanueva "
    "Whitcombe Xanthopoulos Yilmaz Zielinska"
)
_STREETS = str.split("Larch Foundry Wren Harbour Mill Quay Bracken Tannery Lantern Orchard Viaduct Heron")
_KINDS = ("Road", "Lane", "Close", "Street", "Gardens")
_TOWNS = str.split("Harrogate Leith Truro Stirling Whitby Ludlow Hexham Conwy Kendal Oban Frome Ripon")
# Domains that RFC 2606 keeps for examples.
_DOMAINS = ("example.com", "example.org", "example.net")
# A local number never starts with 0, so nobody can be called on these; the blocks kept for drama are where stand-ins come from.
_PHONE_BLOCKS = ("117 010 0", "118 010 0", "131 010 0", "161 010 0")
# Issuer numbers that the card schemes keep for tests.
_CARD_ISSUERS = ("400000", "555555")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who does not exist."""

    name: str
    email: str
    phone: str
    address: str
    card: str

    @property
    def first(self) -> str:
        """The first name."""
        return self.name.split(maxsplit=1)[0]

    @property
    def phone_at_home(self) -> str:
        """The number as it is dialled within the country."""
        return self.phone.replace("+44 ", "0")


def invented(dice: random.Random) -> Person:
    """The next person of a seed."""
    first, last = dice.choice(FIRST), dice.choice(LAST)
    user = dice.choice((f"{first}.{last}", f"{first[0]}.{last}", f"{last}{dice.randint(2, 89)}")).lower()
    return Person(
        name=f"{first} {last}",
        email=f"{user}@{dice.choice(_DOMAINS)}",
        phone=f"+44 {dice.choice(_PHONE_BLOCKS)}{dice.randint(0, 999):03}",
        address=f"{dice.randint(2, 140)} {dice.choice(_STREETS)} {dice.choice(_KINDS)}, {dice.choice(_TOWNS)}",
        card=_card(dice),
    )


def _card(dice: random.Random) -> str:
    """A number with a right check digit (Luhn), in groups of four."""
    body = dice.choice(_CARD_ISSUERS) + "".join(str(dice.randint(0, 9)) for _ in range(9))
    total = sum(sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(body)))
    number = f"{body}{-total % 10}"
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))
