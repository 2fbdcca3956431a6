import random
import string
import uuid
from typing import Any

import pytest

from tasks.redact.detectors import Detectors, generalized_ip
from twiceshy.redaction import FieldRule, Policy

ALL: dict[str, Any] = dict.fromkeys(["email", "phone", "iban", "card", "last_four", "ssn", "ip", "secret"], "drop")


def found(text: str, region: str | None = "GB", **detectors: Any) -> list[tuple[str, str]]:
    fields = (FieldRule(path="a.b", action="synthesize", type="order_id", pattern=r"(?:order )?(?P<id>[A-Z]\d{3,6})"),)
    policy = Policy(
        policy="p",
        version=1,
        namespace="n",
        key_id="k",
        default_region=region,
        detectors=ALL | detectors,
        fields=fields,
    )
    return [(kind, text[start:end]) for start, end, kind in Detectors(policy).find(text).detections]


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("write to Mia.Borg+x@shop.example.", ("email", "Mia.Borg+x@shop.example")),
        (r"line\nmia@shop.example", ("email", "mia@shop.example")),
        (r"\u003cmia@shop.example\u003e", ("email", "mia@shop.example")),
        ("call 020 7123 4567 now", ("phone", "020 7123 4567")),
        ("+44 (0)20 7123 4567", ("phone", "+44 (0)20 7123 4567")),
        ("phone: 02071234567", ("phone", "02071234567")),
        ("pay with 4539 1488 0343 6467 please", ("card", "4539 1488 0343 6467")),
        ("my card is 4539148803436467", ("card", "4539148803436467")),
        ("the card ending in 6467", ("last_four", "6467")),
        ("use my 6467 card", ("last_four", "6467")),
        ("iban GB82WEST12345698765432, ok", ("iban", "GB82WEST12345698765432")),
        ("GB82 WEST 1234 5698 7654 32 OK", ("iban", "GB82 WEST 1234 5698 7654 32")),
        ("ssn=078-05-1120&x", ("ssn", "078-05-1120")),
        ("my SSN: 078051120", ("ssn", "078051120")),
        ("from 203.0.113.77:", ("ip", "203.0.113.77")),
        ("at 2001:db8:aa::17", ("ip", "2001:db8:aa::17")),
        ("key sk-proj-abcdefghij1234567890", ("secret", "sk-proj-abcdefghij1234567890")),
        ("https://mia:hunter2@db.example/x", ("secret", "mia:hunter2")),
    ],
)
def test_value_is_found(text: str, hit: tuple[str, str]) -> None:
    assert hit in found(text)


def machine_ids() -> dict[str, Any]:
    dice = random.Random(7)
    return {
        "uuid4": lambda: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
        "hex32": lambda: f"{dice.getrandbits(128):032x}",
        "epoch_s": lambda: str(dice.randrange(1_600_000_000, 1_800_000_000)),
        "epoch_ms": lambda: str(dice.randrange(16 * 10**11, 18 * 10**11)),
        "epoch_ns": lambda: str(dice.randrange(16 * 10**17, 18 * 10**17)),
        "order": lambda: f"order A{dice.randrange(100, 10_000)}",
        "hosted": lambda: (
            f"hosted-eu-2026{dice.randrange(1, 13):02d}{dice.randrange(1, 29):02d}-{dice.randrange(100):02d}"
        ),
        "product": lambda: str(dice.randrange(10**9, 10**10)),
        "call": lambda: "call_" + "".join(dice.choices(string.ascii_letters + string.digits, k=24)),
        "amount": lambda: f"{dice.random() * 5000:.2f}",
        "sixteen": lambda: str(dice.randrange(10**15, 10**16)),
        "version": lambda: f"v{dice.randrange(20)}.{dice.randrange(20)}.{dice.randrange(20)}",
        "sum": lambda: (
            f"({dice.randrange(100, 2000)} - {dice.randrange(100, 200)}) + ({dice.randrange(100, 2000)} - 101)"
        ),
    }


@pytest.mark.parametrize("kind", machine_ids())
@pytest.mark.parametrize("region", ["GB", "US", "DE"])
def test_langwatch_7017_machine_ids_are_nobody(kind: str, region: str) -> None:
    make = machine_ids()[kind]
    for value in (make() for _ in range(300)):
        assert found(value, region) + found(f'{{"id": "{value}"}}', region) == [], value


@pytest.mark.parametrize(
    "text",
    [
        "2026-06-02 10:00",
        "1,234.56",
        "12:30:45",
        "127.0.0.1",
        "10.0.0.0",
        "u0123456789abcdef@example.invalid",
        "000-12-3456",
    ],
)
def test_harmless_text_is_left(text: str) -> None:
    assert found(text) == []


def test_declared_id_is_detected_when_asked() -> None:
    assert found("about order A184, XA184 and A184b") == []
    assert found("about order A184, XA184 and A184b", order_id="synthesize") == [("order_id", "A184")]


def test_detector_can_be_off() -> None:
    assert found("mia@shop.example", email="keep") == []


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.77", "203.0.113.0"),
        ("2001:db8:aa:1::17", "2001:db8:aa::"),
        ("127.0.0.1", None),
        ("::1", None),
        ("300.1.1.1", None),
    ],
)
def test_address_becomes_its_network(address: str, network: str | None) -> None:
    assert generalized_ip(address) == network
