"""The airline of tau-bench as a world in Python: its 14 tools over three tables, written from what its transcripts show."""

from __future__ import annotations

import re
from datetime import date, timedelta
from operator import add, mul, sub, truediv
from typing import TYPE_CHECKING, Any

from twiceshy.worlds import Refused, World, read, write

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = dict[str, Any]

NOW = "2024-05-15T15:00:00"
"""The instant at which every booking of the transcripts is made."""

AIRPORTS = {
    "SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas", "DEN": "Denver", "SEA": "Seattle",
    "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston", "LAS": "Las Vegas", "MCO": "Orlando",
    "EWR": "Newark", "CLT": "Charlotte", "MSP": "Minneapolis", "DTW": "Detroit", "PHL": "Philadelphia", "LGA": "LaGuardia",
}  # fmt: skip
BOOKED = ("HATHAT", "HATHAU", "HATHAV")
ISSUED = (3221322, 3221323, 3221324)
BAG, INSURANCE = 50, 30
"""Of a bag that is not free, and of the insurance of a passenger; dollars."""


class Airline(World):
    """Users, reservations and flights; every table is closed."""

    @read
    def get_user_details(self, user_id: str) -> Record:
        """The user, without the id by which the table knows them."""
        user = self._user(user_id)
        del user["user_id"]
        return user

    @read
    def get_reservation_details(self, reservation_id: str) -> Record:
        """The reservation."""
        return self._reservation(reservation_id)

    @read
    def list_all_airports(self) -> Record:
        """The cities by their airports."""
        return AIRPORTS

    @read
    def search_direct_flight(self, origin: str, destination: str, date: str) -> list[Record]:
        """The flights with seats on a date."""
        return [
            _offered(flight, date)
            for flight in self.tables.rows("flights")
            if (flight["origin"], flight["destination"]) == (origin, destination) and _available(flight, date)
        ]

    @read
    def search_onestop_flight(self, origin: str, destination: str, date: str) -> list[list[Record]]:
        """Pairs of flights, the second after the first has landed. Its seats and prices are those of the day asked for, as in the transcripts."""
        flights = self.tables.rows("flights")
        return [
            [_offered(first, date) | {"date": date}, _offered(second, date) | {"date": _day_of_landing(first, date)}]
            for first in flights
            if first["origin"] == origin and _available(first, date)
            for second in flights
            if (second["origin"], second["destination"]) == (first["destination"], destination)
            if _lands_before(first, second) and _available(second, date)
        ]

    @read
    def calculate(self, expression: str) -> float:
        """The value of an expression of numbers, rounded to cents."""
        return round(_value(expression), 2)

    @read
    def think(self, thought: str) -> str:  # noqa: ARG002 - the tool's own argument
        """Nothing."""
        return ""

    @write
    def book_reservation(  # noqa: PLR0913, PLR0917 - the tool's own arguments
        self,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: str,
        cabin: str,
        flights: list[Record],
        passengers: list[Record],
        payment_methods: list[Record],
        total_baggages: int,
        nonfree_baggages: int,
        insurance: str,
    ) -> Record:
        """The new reservation, paid."""
        user = self._user(user_id)
        legs = [self._leg(leg, cabin, len(passengers)) for leg in flights]
        total = sum(leg["price"] for leg in legs) * len(passengers) + BAG * nonfree_baggages
        total += INSURANCE * len(passengers) if insurance == "yes" else 0
        for payment in payment_methods:
            _check_payment(user, payment["payment_id"], payment["amount"])
        paid = sum(payment["amount"] for payment in payment_methods)
        if paid != total:
            raise Refused(f"Error: payment amount does not add up, total price is {total}, but paid {paid}")
        for payment in payment_methods:
            _pay(user, payment["payment_id"], payment["amount"])
        number = self._unused(BOOKED)
        booked = {
            "reservation_id": number, "user_id": user_id, "origin": origin, "destination": destination, "flight_type": flight_type, "cabin": cabin,
            "flights": legs, "passengers": passengers, "payment_history": payment_methods, "created_at": NOW, "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages, "insurance": insurance,
        }  # fmt: skip
        self.tables.insert("reservations", booked)
        self._keep(user | {"reservations": [*user["reservations"], number]})
        return booked

    @write
    def cancel_reservation(self, reservation_id: str) -> Record:
        """The reservation, every payment paid back."""
        held = self._reservation(reservation_id)
        refunds = [{"payment_id": paid["payment_id"], "amount": -paid["amount"]} for paid in held["payment_history"]]
        held = held | {"payment_history": [*held["payment_history"], *refunds], "status": "cancelled"}
        self.tables.update("reservations", held)
        return held

    @write
    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> Record:
        """The reservation with its bags, further ones paid."""
        held = self._reservation(reservation_id)
        price = BAG * max(0, nonfree_baggages - held["nonfree_baggages"])
        held = self._charged(held, payment_id, price)
        held = held | {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
        self.tables.update("reservations", held)
        return held

    @write
    def update_reservation_flights(
        self, reservation_id: str, cabin: str, flights: list[Record], payment_id: str
    ) -> Record:
        """The reservation with other flights, the difference paid. The cabin it shows stays the old one, as in the transcripts."""
        held = self._reservation(reservation_id)
        people = len(held["passengers"])
        kept = {(leg["flight_number"], leg["date"]): leg for leg in held["flights"]} if cabin == held["cabin"] else {}
        legs = [_kept(kept, leg) or self._leg(leg, cabin, people) for leg in flights]
        price = people * (sum(leg["price"] for leg in legs) - sum(leg["price"] for leg in held["flights"]))
        held = self._charged(held, payment_id, price, certificates=False)
        held = held | {"flights": legs}
        self.tables.update("reservations", held)
        return held

    @write
    def update_reservation_passengers(self, reservation_id: str, passengers: list[Record]) -> Record:
        """The reservation with as many other passengers."""
        held = self._reservation(reservation_id)
        if len(passengers) != len(held["passengers"]):
            raise Refused("Error: number of passengers does not match")
        held = held | {"passengers": passengers}
        self.tables.update("reservations", held)
        return held

    @write
    def send_certificate(self, user_id: str, amount: int) -> str:
        """That the user has a further certificate."""
        user = self._user(user_id)
        methods = user["payment_methods"]
        number = next(f"certificate_{one}" for one in ISSUED if f"certificate_{one}" not in methods)
        issued = {"source": "certificate", "amount": amount, "id": number}
        self._keep(user | {"payment_methods": {**methods, number: issued}})
        return f"Certificate {number} added to user {user_id} with amount {amount}."

    @write
    def transfer_to_human_agents(self, summary: str) -> str:  # noqa: ARG002 - the tool's own argument
        """That it was handed over."""
        return "Transfer successful"

    def _user(self, user_id: str) -> Record:
        return self._found("users", "user not found", user_id=user_id)

    def _reservation(self, reservation_id: str) -> Record:
        return self._found("reservations", "reservation not found", reservation_id=reservation_id)

    def _found(self, table: str, otherwise: str, **key: str) -> Record:
        row = self.tables.find(table, **key)
        if row is None:
            raise Refused(f"Error: {otherwise}")
        return row

    def _keep(self, user: Record) -> None:
        self.tables.update("users", user)

    def _leg(self, asked: Record, cabin: str, people: int) -> Record:
        """A flight as a reservation holds it, with seats for all."""
        number, on = asked["flight_number"], asked["date"]
        flight = self._found("flights", f"flight {number} not found", flight_number=number)
        if not _available(flight, on):
            raise Refused(f"Error: flight {number} not available on date {on}")
        if flight["dates"][on]["available_seats"][cabin] < people:
            raise Refused(f"Error: not enough seats on flight {number}")
        place = {"origin": flight["origin"], "destination": flight["destination"]}
        return {**asked, "price": flight["dates"][on]["prices"][cabin], **place}

    def _charged(self, held: Record, payment_id: str, price: int, *, certificates: bool = True) -> Record:
        """The reservation with a further payment; nothing is paid where nothing is due."""
        user = self._user(held["user_id"])
        if payment_id not in user["payment_methods"]:
            raise Refused("Error: payment method not found")
        method = user["payment_methods"][payment_id]
        if not certificates and method["source"] == "certificate":
            raise Refused("Error: certificate cannot be used to update reservation")
        if method["source"] == "gift_card" and method["amount"] < price:
            raise Refused("Error: gift card balance is not enough")
        if price == 0:
            return held
        if method["source"] == "gift_card":
            _pay(user, payment_id, price)
            self._keep(user)
        return held | {"payment_history": [*held["payment_history"], {"payment_id": payment_id, "amount": price}]}

    def _unused(self, numbers: Sequence[str]) -> str:
        return next(number for number in numbers if self.tables.find("reservations", reservation_id=number) is None)


def _available(flight: Record, on: str) -> bool:
    return bool(flight["dates"].get(on, {}).get("status") == "available")


def _offered(flight: Record, on: str) -> Record:
    own = {name: value for name, value in flight.items() if name != "dates"}
    return {**own, **flight["dates"][on]}


def _day_of_landing(flight: Record, on: str) -> str:
    later = 1 if flight["scheduled_arrival_time_est"].endswith("+1") else 0
    return (date.fromisoformat(on) + timedelta(days=later)).isoformat()


def _lands_before(first: Record, second: Record) -> bool:
    return bool(first["scheduled_arrival_time_est"].removesuffix("+1") <= second["scheduled_departure_time_est"])


def _kept(kept: dict[tuple[str, str], Record], asked: Record) -> Record | None:
    leg = kept.get((asked["flight_number"], asked["date"]))
    place = None if leg is None else {"price": leg["price"], "origin": leg["origin"], "destination": leg["destination"]}
    return None if place is None else {**asked, **place}


def _check_payment(user: Record, payment_id: str, amount: int) -> None:
    method = user["payment_methods"].get(payment_id)
    if method is None:
        raise Refused(f"Error: payment method {payment_id} not found")
    if method["source"] in ("gift_card", "certificate") and method["amount"] < amount:
        raise Refused(f"Error: not enough balance in payment method {payment_id}")


def _pay(user: Record, payment_id: str, amount: int) -> None:
    """A gift card keeps the rest, a certificate is used up."""
    method = user["payment_methods"][payment_id]
    if method["source"] == "gift_card":
        method["amount"] -= amount
    elif method["source"] == "certificate":
        del user["payment_methods"][payment_id]


_TOKEN = re.compile(r"\s*(\d+\.?\d*|[-+*/()])")
_SUMS, _PRODUCTS = {"+": add, "-": sub}, {"*": mul, "/": truediv}


def _value(expression: str) -> float:
    """The value of sums and products of numbers, by descent: sum, product, factor."""
    tokens = _TOKEN.findall(expression)
    value = _sum(tokens)
    if tokens:
        raise Refused("Error: invalid characters in expression")
    return value


def _sum(tokens: list[str]) -> float:
    value = _product(tokens)
    while tokens and tokens[0] in _SUMS:
        value = _SUMS[tokens.pop(0)](value, _product(tokens))
    return value


def _product(tokens: list[str]) -> float:
    value = _factor(tokens)
    while tokens and tokens[0] in _PRODUCTS:
        value = _PRODUCTS[tokens.pop(0)](value, _factor(tokens))
    return value


def _factor(tokens: list[str]) -> float:
    part = tokens.pop(0) if tokens else ""
    if part == "-":
        return -_factor(tokens)
    if part == "(":
        value = _sum(tokens)
        if tokens and tokens.pop(0) == ")":
            return value
    elif part and part not in "+*/)":
        return float(part)
    raise Refused("Error: invalid characters in expression")
