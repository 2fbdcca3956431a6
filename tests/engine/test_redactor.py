import copy
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy import identity
from twiceshy.errors import KeyMismatch, KeyMissing, PackageMissing
from twiceshy.redaction import RESTRICTED, FieldRule, Keyring, Policy, Redactor
from twiceshy.redaction.canonicalforms import canonical_form, iban_check_digits, luhn
from twiceshy.redaction.phones import AmbiguousPhone
from twiceshy.redaction.policy import Band
from twiceshy.redaction.walking import BoundExceeded

ORDER = r"(?:order )?(?P<id>[A-Z]\d{3,6})"
KEYS = Keyring({"k1": b"1" * 32, "k2": b"2" * 32})


def rule(path: str, kind: str | None = None, action: str = "synthesize", **rest: Any) -> FieldRule:
    return FieldRule(path=path, type=kind, action=action, **rest)  # type: ignore[arg-type]


def a_policy(*fields: FieldRule, **rest: Any) -> Policy:
    listed = fields or (
        rule("tool.get_order.args.order_id", "order_id", pattern=ORDER),
        rule("tool.*.**.email", "email"),
        rule("tool.*.**.{first_name,last_name,name}", "person_name"),
        rule("tool.*.**.phone", "phone"),
        rule("tool.*.**.card", "card"),
        rule("tool.*.**.iban", "iban"),
        rule("tool.*.**.dob", "date_of_birth"),
        rule("tool.*.**.address", "address"),
        rule("tool.*.args.methods.<key>", "method_id", pattern=r"card_(?P<id>\d{7})"),
        rule("tool.*.args.note", action="drop"),
        rule("tool.*.args.kyc.**", action="restrict"),
        rule("tool.*.args.amount", action="generalize", band=Band(relative_to="limit")),
    )
    settings: dict[str, Any] = {
        "policy": "p",
        "version": 1,
        "namespace": "corpus",
        "key_id": "k1",
        "default_region": "GB",
    } | rest
    return Policy(fields=listed, **settings)


def a_redactor(
    *fields: FieldRule, keys: Keyring = KEYS, table: dict[str, str] | None = None, raw: bool = False, **rest: Any
) -> Redactor:
    return Redactor(a_policy(*fields, **rest), keys, table, raw=raw)


def redacted(kind: str, text: Any) -> Any:
    return a_redactor().pseudonymized(kind, text)


@pytest.mark.parametrize("spelling", ["+44 20 7946 0018", "020 7946 0018", "02079460018", "0044 20 7946 0018"])
def test_one_phone_many_spellings(spelling: str) -> None:
    assert canonical_form("phone", spelling, region="GB") == "+442079460018"


def test_national_phone_needs_region() -> None:
    with pytest.raises(AmbiguousPhone):
        canonical_form("phone", "020 7946 0018")
    assert canonical_form("phone", "+44 20 7946 0018") == "+442079460018"


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("email", "Mia@Shop.Example ", "mia@shop.example"),
        ("iban", "GB82 WEST 1234 5698 7654 32", "gb82west12345698765432"),
        ("card", "4111-1111-1111-1111", "4111 1111 1111 1111"),
        ("person_name", "  MIA \n Li", "mia li"),
        ("person_name", "Jose\u0301", "José"),
        ("date_of_birth", "5 April 1990", "1990-04-05"),
    ],
)
def test_spellings_of_one_value(kind: str, left: str, right: str) -> None:
    assert canonical_form(kind, left, region="GB") == canonical_form(kind, right, region="GB")


def test_order_with_label_is_one_value() -> None:
    made = redacted("order_id", "order A184"), redacted("order_id", "A184")
    assert made[0] == f"order {made[1]}"
    assert re.fullmatch(r"[A-Z]\d{3}", made[1])


@pytest.mark.parametrize(
    ("kind", "raw", "shape"),
    [
        ("email", "mia@shop.example", r"u[0-9a-f]{16}@example\.invalid"),
        ("phone", "(020) 7946 0018", r"\(0\d{2}\) \d{4} \d{4}"),
        ("phone", "+44 20 7946 0018", r"\+44 \d{2} \d{4} \d{4}"),
        ("phone", "+1 415-555-2671", r"\+1 \d{3}-555-01\d\d"),
        ("card", "4111 1111 1111 1111", r"4000 00\d\d( \d{4}){2}"),
        ("card", "3714-496353-98431", r"3782-82\d{4}-\d{5}"),
        ("iban", "GB82 WEST 1234 5698 7654 32", r"GB\d\d XXXX \d{4} \d{4} \d{4} \d\d"),
        ("person_name", "Mia Li", r"[A-Z][a-z]+ [A-Z][a-z]+"),
        ("person_name", "MIA", r"[A-Z]+"),
        ("person_name", "Dr. José Li-Wang", r"Dr\. [A-Z]\w+ [A-Z]\w+-[A-Z]\w+"),
        ("address", "975 Sunset Drive", r"\d{3} [A-Z][a-z]+ Drive"),
        ("date_of_birth", "1992-04-05", r"199[0-4]-\d\d-\d\d"),
        ("date_of_birth", "April 5, 1992", r"[A-Z][a-z]+ \d{1,2}, 199[0-4]"),
        ("customer_id", "mia_li_3668", r"[a-z]{3}_[a-z]{2}_[1-9]?\d+"),
        ("customer_id", 48211, r"[1-9]\d{4}"),
        (
            "customer_id",
            "550e8400-e29b-41d4-a716-446655440000",
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}",
        ),
    ],
)
def test_stand_in_keeps_shape(kind: str, raw: Any, shape: str) -> None:
    made = redacted(kind, raw)
    assert made != raw
    assert type(made) is type(raw)
    assert re.fullmatch(shape, str(made))


def test_stand_ins_check_out() -> None:
    assert luhn(redacted("card", "4111 1111 1111 1111").replace(" ", ""))
    iban = redacted("iban", "DE89370400440532013000")
    assert iban[2:4] == iban_check_digits(iban[:2], iban[4:])
    assert iban.startswith("DE")
    assert iban[4:8] == "0000"


def test_full_name_is_its_words() -> None:
    first, last, full = (redacted("person_name", name) for name in ("Mia", "Li", "mia li"))
    assert full == f"{first} {last}".lower()


@pytest.mark.parametrize("kind", ["person_name", "order_id", "email", "phone", "card", "date_of_birth"])
@pytest.mark.parametrize("text", ["", "  ", "N/A", "<user_id>", "your user id", "unknown", "null"])
def test_placeholders_identify_nobody(kind: str, text: str) -> None:
    assert redacted(kind, text) == text


@pytest.mark.parametrize("text", ["1990-02-30", "July 32, 1990"])
def test_impossible_birthday_is_kept(text: str) -> None:
    assert redacted("date_of_birth", text) == text


@pytest.mark.parametrize("value", [None, True, False])
def test_no_identity_passes(value: object) -> None:
    assert redacted("order_id", value) is value


def test_presidio_1845_1102_equal_values_equal_keyed_pseudonyms() -> None:
    assert redacted("email", "mia@shop.example") == redacted("email", "MIA@shop.example")
    other_key = a_redactor(key_id="k2").pseudonymized("email", "mia@shop.example")
    other_namespace = a_redactor(namespace="other").pseudonymized("email", "mia@shop.example")
    assert len({redacted("email", "mia@shop.example"), other_key, other_namespace}) == 3


@given(st.lists(st.from_regex(r"[A-Z]\d{3}", fullmatch=True), min_size=30, max_size=120, unique=True))
def test_clashing_ids_never_merge(ids: list[str]) -> None:
    redactor = a_redactor(raw=True)
    redactor.avoid = frozenset(value.casefold() for value in ids)
    made = [redactor.pseudonymized("order_id", value) for value in ids]
    assert len(set(made)) == len(ids)
    assert not set(made) & set(ids)


def test_used_up_ids_grow_longer() -> None:
    redactor = a_redactor(raw=True)
    made = [redactor.pseudonymized("one_id", str(value)) for value in range(10)]
    assert len(set(made)) == 10


def test_table_makes_order_irrelevant() -> None:
    ids = [f"A{number:03d}" for number in range(400)]
    first = a_redactor(raw=True)
    made = {value: first.pseudonymized("order_id", value) for value in ids}
    second = a_redactor(table=first.pseudonyms.table, raw=True)
    assert {value: second.pseudonymized("order_id", value) for value in reversed(ids)} == made


ARGS: dict[str, Any] = {
    "order_id": "order A184",
    "email": "Mia@shop.example",
    "name": "Mia Li",
    "phone": "020 7946 0018",
    "card": "4111-1111-1111-1111",
    "iban": "GB82WEST12345698765432",
    "dob": "5 April 1990",
    "address": "975 Sunset Drive",
    "methods": {"card_4421486": {"amount": 5}},
    "note": "call Mia",
    "kyc": {"result": ["passed", 3]},
    "amount": 750,
    "date": "2024-05-20",
    "trace": "550e8400-e29b-41d4-a716-446655440000",
}


def test_arguments_get_identities_only() -> None:
    before = copy.deepcopy(ARGS)
    made = a_redactor().redact_arguments("get_order", ARGS)
    assert before == ARGS
    assert "note" not in made
    assert made["kyc"] == {"result": [RESTRICTED, RESTRICTED]}
    assert [made[name] for name in ("amount", "date", "trace")] == [ARGS[name] for name in ("amount", "date", "trace")]
    for raw in ("A184", "Mia", "7946", "4111", "WEST", "1990-04", "5 April", "Sunset", "4421486"):
        assert raw not in str(made)


def test_php_vcr_503_symfony_ai_2409_redacted_call_matches_recording() -> None:
    recorder = a_redactor()
    recorded = recorder.redact_arguments("get_order", ARGS)
    live = a_redactor(table=recorder.pseudonyms.used)
    respelled = ARGS | {"email": "mia@SHOP.example", "phone": "020 7946 0018"}
    assert identity.key("get_order", live.redact_arguments("get_order", respelled)) == identity.key(
        "get_order", recorded
    )


def test_redacting_twice_is_once() -> None:
    recorder = a_redactor()
    once = recorder.redact_arguments("get_order", ARGS)
    assert recorder.redact_arguments("get_order", once) == once
    without_key = a_redactor(keys=Keyring(), table=recorder.pseudonyms.used)
    assert without_key.redact_arguments("get_order", once) == once


def test_missing_key_matters_only_when_used() -> None:
    without_key = a_redactor(keys=Keyring())
    assert without_key.redact_arguments("get_order", {"amount": 3, "note": "x"}) == {"amount": 3}
    with pytest.raises(KeyMissing, match="redaction_key_missing") as raised:
        without_key.redact_arguments("get_order", {"order_id": "A184"})
    assert "A184" not in str(raised.value)


def test_id_in_wrong_field_keeps_alias() -> None:
    fields = (rule("tool.a.args.order_id", "order_id"), rule("tool.a.args.user_id", "user_id"))
    redactor = a_redactor(*fields)
    order = redactor.redact_arguments("a", {"order_id": "A184"})["order_id"]
    assert redactor.redact_arguments("a", {"user_id": "A184"}) == {"user_id": order}


def test_other_key_is_refused() -> None:
    redactor = a_redactor()
    redactor.check(redactor.stamp)
    with pytest.raises(KeyMismatch, match="'k1' met key id 'k2'"):
        redactor.check(a_redactor(key_id="k2").stamp)


def test_json_in_string_argument_is_redacted() -> None:
    made = a_redactor().redact_arguments("get_order", {"body": '{ "email": "mia@shop.example", "n": 1.0 }'})
    assert re.fullmatch(r'\{ "email": "u[0-9a-f]{16}@example\.invalid", "n": 1\.0 \}', made["body"])


def test_phone_rule_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(PackageMissing, match="pip install phonenumbers"):
        a_redactor(raw=True)
    at_replay = a_redactor()
    assert at_replay.redact_arguments("get_order", {"amount": 1}) == {"amount": 1}
    with pytest.raises(PackageMissing):
        at_replay.redact_arguments("get_order", {"phone": "020 7123 9999"})


def test_bottomless_json_is_refused() -> None:
    with pytest.raises(BoundExceeded, match="depth_exceeded"):
        a_redactor().redact_arguments("get_order", {"body": "[" * 5_000 + "]" * 5_000})


def test_live_national_phone_without_region_gets_an_alias() -> None:
    made = a_redactor(default_region=None).redact_arguments("get_order", {"phone": "020 7123 9999"})
    assert "7123" not in made["phone"]
