"""What people asked the sample agents, and the world in which each request was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from examples import refund, research, scheduling
from examples.refund.shop import Shop
from examples.research.library import Library
from examples.samples.people import Person, invented
from examples.samples.production import SEARCH_RENAMED
from examples.scheduling.diary import SLOTS, Diary

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from datetime import date

    Telling = Callable[[random.Random, Person, date], "Situation"]


class Situation(NamedTuple):
    """One request: what it is an example of, the words, and the world its tools work on."""

    kind: str
    message: str
    world: Any


def drawn(workflow: str, dice: random.Random, day: date) -> Situation:
    """The next request of a workflow on a day."""
    kinds = _KINDS[workflow]
    (kind,) = dice.choices(list(kinds), weights=[weight for weight, _ in kinds.values()])
    return kinds[kind][1](dice, invented(dice), day)


# The failed runs that the documentation tells of, by day of November, in the worlds that the versions start with.
_ORIGINALS = {
    (10, "refund"): refund.T_1042, (10, "scheduling"): scheduling.TO_THURSDAY, (10, "research"): research.ONE_PAPER,
    (12, "research"): research.TWO_PAPERS, (18, "research"): research.TWO_PAPERS, (19, "scheduling"): scheduling.TO_JULY_32,
}  # fmt: skip


def original(day: date, workflow: str) -> Situation | None:
    """The request of a day that the documentation tells of, if there is one."""
    message = _ORIGINALS.get((day.day, workflow))
    return Situation("original", message["message"], None) if message else None


# Refunds. (item, lowest and highest price in GBP)
_ITEMS = (
    ("espresso machine", 520, 990), ("standing desk", 560, 940), ("road bike", 610, 990), ("desk lamp", 25, 180),
    ("rucksack", 40, 160), ("kettle", 20, 90), ("headphones", 60, 340), ("office chair", 120, 430),
)  # fmt: skip
_LIMIT = 500


def _shop(dice: random.Random, who: Person, *, above: bool, **more: Any) -> tuple[Shop, dict[str, Any]]:
    item, low, high = dice.choice([entry for entry in _ITEMS if (entry[1] > _LIMIT) is above])
    order: dict[str, Any] = {
        "order_id": f"{dice.choice('ABDEF')}{dice.randint(1000, 9999)}", "status": "delivered",
        "placed_on": f"2026-10-{dice.randint(10, 31)}", "item": item, "total_gbp": dice.randint(low, high),
        "customer_id": f"C{dice.randint(100, 999)}", "policy_limit_gbp": _LIMIT, "margin_pct": dice.randint(18, 55),
        "fraud_score": dice.randint(0, 30) / 100, "internal_notes": dice.choice(("", "loyal customer", "second complaint")),
    }  # fmt: skip
    customer = {
        "customer_id": order["customer_id"], "name": who.name, "email": who.email, "phone": who.phone,
        "address": who.address, "orders": [order["order_id"]],
    }  # fmt: skip
    grants = {order["order_id"]: f"TK-{dice.randint(10000, 99999)}"} if more.pop("granted", False) else {}
    shop = Shop(orders={order["order_id"]: order}, customers={order["customer_id"]: customer}, grants=grants, **more)
    return shop, order


def _refund_below(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=False)
    text = dice.choice(
        (
            "The {item} of order {order_id} does not work. I would like a refund. Regards, {name}",
            "Hello, please refund order {order_id}: the {item} came broken. My number is {phone}.",
            "I want my money back for the {item}, order {order_id}. I paid {total_gbp} GBP with card {card}.",
            "Can you refund {total_gbp} pounds for {order_id}? It never fitted. {name}",
        )
    )
    return Situation("refund below the limit", _told(text, order, who), shop)


def _refund_above(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=True)
    text = dice.choice(
        (
            "Hello, the {item} of order {order_id} arrived broken. Please refund the {total_gbp} GBP I paid. {name}",
            "Order {order_id}: the {item} is faulty, I ask for a full refund. Call me on {phone} if needed.",
            "I returned the {item} last week, order {order_id}. Where is my refund of £{total_gbp}? {name}",
        )
    )
    return Situation("refund above the limit", _told(text, order, who), shop)


def _refund_granted(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=True, granted=True)
    text = "My refund for order {order_id} was approved on the phone, please send it. {name}"
    return Situation("refund with a grant", _told(text, order, who), shop)


def _refund_by_email(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=False)
    return Situation(
        "refund by address", _told("I would like a refund for my {item}. I ordered as {email}.", order, who), shop
    )


def _refund_slow(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=False, outages={"get_order": dice.randint(1, 2)})
    return Situation("a read that times out", _told("Please refund order {order_id}, the {item}.", order, who), shop)


def _order_status(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=dice.random() < 0.5)  # noqa: PLR2004 - a coin
    text = dice.choice(("Where is my order {order_id}? {name}", "Did you send order {order_id}, the {item}?"))
    return Situation("order status", _told(text, order, who), shop)


def _unknown_order(dice: random.Random, who: Person, _: date) -> Situation:
    shop, order = _shop(dice, who, above=False)
    text = f"Please refund order {order['order_id'][0]}{dice.randint(100, 999)}."
    return Situation("unknown order", text, shop)


def _no_order(_: random.Random, __: Person, ___: date) -> Situation:
    return Situation(
        "no order number", "I want a refund for what you sent me.", Shop(orders={}, customers={}, grants={})
    )


def _told(text: str, order: dict[str, Any], who: Person) -> str:
    return text.format(**order, name=who.name, email=who.email, phone=who.phone_at_home, card=who.card)


# Appointments.
_JOBS = ("solar panel installation", "heat pump installation", "boiler service", "battery installation")
# Dates that do not exist.
_IMPOSSIBLE = ("July 32", "November 31", "February 30")


def _diary(dice: random.Random, who: Person, day: date) -> tuple[Diary, str]:
    number = f"K{dice.randint(1000, 9999)}"
    appointment = {
        "appointment_id": number, "job": dice.choice(_JOBS), "date": f"2026-12-{dice.randint(1, 23):02}",
        "window": dice.choice(("09:00-12:00", "13:00-16:00")), "address": who.address,
        "customer": {"name": who.name, "email": who.email, "phone": who.phone},
    }  # fmt: skip
    return Diary(today=day, appointments={number: appointment}, slots=SLOTS), number


def _move(kind: str, days: tuple[str, ...]) -> Telling:
    def told(dice: random.Random, who: Person, day: date) -> Situation:
        diary, number = _diary(dice, who, day)
        text = dice.choice(
            (
                "Hi, can you move my install {number} to {day}? {name}",
                "Please move appointment {number} to {day}. You can reach me on {phone}.",
                "I am not at home, could you come on {day} instead? Appointment {number}. Best wishes, {name}",
            )
        )
        wanted = dice.choice(days)
        message = text.format(number=number, day=wanted, name=who.name, phone=who.phone_at_home)
        return Situation(kind, message, diary)

    return told


def _when(dice: random.Random, who: Person, day: date) -> Situation:
    diary, number = _diary(dice, who, day)
    return Situation("a question", f"When do you come for {number}? {who.name}", diary)


def _unknown_appointment(dice: random.Random, who: Person, day: date) -> Situation:
    diary, number = _diary(dice, who, day)
    other = f"K{(int(number[1:]) + dice.randint(1, 900)) % 9000 + 1000}"
    return Situation("unknown appointment", f"Please move {other} to Friday.", diary)


# Briefs. (topic, findings of its papers: newest first)
_TOPICS = (
    (
        "perovskite stability",
        ("a butyl edge seal doubles the time to first failure", "heat takes a tenth of the output"),
    ),
    ("kelp farming yields", ("shaded ropes give a third more", "storms cost every fifth harvest")),
    ("hospital noise at night", ("soft door seals halve it", "alarms are the loudest part")),
    ("urban beaver dams", ("they hold back a day of rain", "two in three survive a flood")),
    ("bakery waste heat", ("it can warm forty flats",)),
    ("tidal lagoon silting", ("dredging is needed every fourth year",)),
    ("dyslexia and typefaces", ("spacing matters, the typeface does not",)),
)


def _library(dice: random.Random, findings: tuple[str, ...], topic: str, day: date) -> Library:
    papers: dict[str, dict[str, Any]] = {}
    for at, finding in enumerate(findings):
        authors = [invented(dice).name for _ in range(dice.randint(1, 2))]
        number = f"P{dice.randint(100, 999)}"
        papers[number] = {
            "paper_id": number, "title": f"On {topic}, part {len(findings) - at}", "year": 2025 - at, "topic": topic,
            "authors": authors, "finding": finding,
        }  # fmt: skip
    return Library(papers=papers, renamed=day >= SEARCH_RENAMED)


def _brief(kind: str, papers: int) -> Telling:
    def told(dice: random.Random, who: Person, day: date) -> Situation:
        topic, findings = dice.choice([entry for entry in _TOPICS if len(entry[1]) == papers])
        text = dice.choice(
            (
                "Please write a brief on {topic}. Tell {email} when it is there.",
                "A brief about {topic}, please. I am at {email}.",
            )
        )
        return Situation(kind, text.format(topic=topic, email=who.email), _library(dice, findings, topic, day))

    return told


def _nothing_there(dice: random.Random, who: Person, day: date) -> Situation:
    topic = dice.choice(("glacier fleas", "left-handed chess", "the smell of rain"))
    return Situation("nothing to find", f"A brief on {topic}, please. {who.email}", _library(dice, (), topic, day))


_KINDS: Mapping[str, Mapping[str, tuple[int, Telling]]] = {
    "refund": {
        "below": (30, _refund_below), "above": (24, _refund_above), "granted": (7, _refund_granted),
        "by_email": (7, _refund_by_email), "slow": (5, _refund_slow), "status": (74, _order_status),
        "unknown": (13, _unknown_order), "no_number": (9, _no_order),
    },
    "scheduling": {
        "open": (40, _move("an open day", ("Monday", "Tuesday", "Wednesday", "Friday"))),
        "full": (16, _move("a full day", ("Thursday",))),
        "date": (12, _move("a date", ("December 2", "December 9", "2026-12-01", "2026-12-08"))),
        "impossible": (9, _move("an impossible date", _IMPOSSIBLE)),
        "when": (44, _when), "unknown": (14, _unknown_appointment),
    },
    "research": {
        "two": (48, _brief("a brief", 2)), "one": (40, _brief("a brief from one paper", 1)), "none": (12, _nothing_there),
    },
}  # fmt: skip
