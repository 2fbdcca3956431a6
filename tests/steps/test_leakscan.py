import base64
import json
from urllib.parse import quote

import grimp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.redact.leakscan import Hit, Known, scan

NAME = "Mia Borg-Ünal"
SPELLINGS = {
    "raw": f"hello {NAME}!",
    "casefolded": f"hello {NAME.upper()}!",
    "json": json.dumps({"x": NAME}),
    "json in json": json.dumps({"x": json.dumps({"y": json.dumps(NAME)})}),
    "percent": f"https://x.example/?n={quote(NAME)}",
    "form": f"n={quote(NAME).replace('%20', '+')}",
    "base64": base64.b64encode(NAME.encode()).decode(),
    "base64 in json": json.dumps({"t": base64.b64encode(json.dumps({"n": NAME}).encode()).decode()}),
    "decomposed": "hello Mia Borg-U\u0308nal!",
}


def what(data: str | bytes, *known: str) -> set[str]:
    raw = data if isinstance(data, bytes) else data.encode()
    return {hit.what for hit in scan(raw, [Known(text) for text in known])}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_known_value_is_found_in_every_spelling(spelling: str) -> None:
    assert what(SPELLINGS[spelling], NAME) == {"seed"}
    assert what(SPELLINGS[spelling], "Ada Quill") == set()


@pytest.mark.parametrize("offset", range(6))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_cdkd_2759_qm_80_basic_memory_1416_base64_at_any_alignment(offset: int, encode: object) -> None:
    binary = b"\xff\xfe" * offset + b"\x80" * (offset % 3) + b"mia.borg@shop.example/" + b"\xff" * 7
    data = encode(binary)  # type: ignore[operator]
    assert "seed" in what(data, "mia.borg@shop.example")


@pytest.mark.parametrize(
    "text", ["4539148803436467", "4539 1488 0343 6467", "45-39148803436467", "4539.1488.0343.6467"]
)
def test_digits_are_found_however_grouped(text: str) -> None:
    assert "seed" in what(f"paid with {text}", "4539 1488 0343 6467")


@pytest.mark.parametrize("text", ["academia", "Miami", "Mias", "xmia", "mia2"])
def test_part_of_a_word_is_no_value(text: str) -> None:
    assert what(text, "Mia") == set()


def test_short_name_in_capitals_is_a_code() -> None:
    data = b"from MIA to LHR"
    assert scan(data, [Known("Mia", code_like=True)]) == []
    assert scan(data, [Known("Mia")]) == [Hit("seed", "raw", 1)]


def test_four_digits_need_a_card() -> None:
    assert what("flight 6467 is late", "6467") == set()
    assert what("your card ending in 6467", "6467") == {"seed"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("write to mia@shop.example", "email"),
        ("ssn 078-05-1120", "ssn"),
        ("card 4539 1488 0343 6467", "card"),
        ("GB82 WEST 1234 5698 7654 32", "iban"),
        ("from 203.0.113.77", "ip"),
        ("call (415) 867-5309", "phone"),
        ("call +44 20 7123 4567", "phone"),
        ("AKIAIOSFODNN7EXAMPLE", "secret"),
        ("bWlhQHNob3AuZXhhbXBsZSB3cm90ZSB0aGlz", "email"),
    ],
)
def test_unknown_values_are_detected_by_shape(text: str, found: str) -> None:
    assert what(text) == {found}


@pytest.mark.parametrize(
    "text",
    [
        "u0123456789abcdef@example.invalid",
        r'{"x": "hello\nu0123456789abcdef@example.invalid \u003cu0123456789abcdef@example.invalid\u003e"}',
        "020 7946 0123 or +44 20 7946 0123",
        "+1 212-555-0142",
        "(212) 555-0142",
        "4000 0012 3456 7899",
        "GB94 XXXX 0000 5698 7654 32",
        "203.0.113.0",
        "000-12-3456",
        "550e8400-e29b-41d4-a716-446655440000",
        "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "1780394400 1780394400000 1780394400000000000",
        "hosted-eu-20260812-09",
        "call_oIHazX6yQrB8hUwl4cRilFKj",
        "2026-06-02T10:00:00Z 750.00 6086499569",
    ],
)
def test_stand_ins_and_machine_ids_are_no_leak(text: str) -> None:
    assert scan(text.encode()) == []


def test_hits_show_no_text() -> None:
    known = Known("mia@shop.example")
    hits = scan(b"mia@shop.example", [known])
    assert "mia" not in repr(hits) + repr(known)
    assert {hit.times for hit in hits} == {1}


@given(st.binary(max_size=200))
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    assert isinstance(scan(data, [Known("Mia Borg")]), list)


def test_scanner_shares_nothing_with_the_redactor() -> None:
    graph = grimp.build_graph("tasks", "twiceshy")
    ours = {
        module
        for module in graph.find_upstream_modules("tasks.redact.leakscan")
        if module.startswith(("tasks", "twiceshy"))
    }
    assert ours == set()
