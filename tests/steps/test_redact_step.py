import base64
import json
from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redacting import (
    KEYS,
    MIA,
    SPOKEN,
    TRACE,
    TUESDAY_NS,
    a_call,
    a_redaction_policy,
    a_request,
    a_score,
    a_span,
    a_trace,
    everything,
    holds,
    keep,
    payload,
    redacted,
    rule,
    said,
    text,
)
from tasks.redact.leakscan import scan
from tasks.redact.step import redact
from twiceshy import identity
from twiceshy.errors import KeyMismatch, KeyMissing, PolicyError
from twiceshy.redaction import Keyring, Redactor

RAW = (
    "Mia",
    "Borg",
    "mia.borg",
    "7123",
    "1488",
    "0343",
    "1990-04-05",
    "April 5",
    "Sunset",
    "sunset",
    "88213",
    "A184",
    "4421486",
)


def test_nothing_raw_is_left() -> None:
    result = redacted(*a_trace())
    assert holds(result) == []
    left = [raw for raw in RAW if raw in everything(result)]
    assert left == []


def test_one_id_one_alias_everywhere() -> None:
    result = redacted(*a_trace())
    order = payload(result, 2, "raw")
    alias = order["order_id"]
    assert payload(result, 2, "seen")["order_id"] == f"order {alias}"
    assert f"paid order {alias} as {order['customer_id']};" in said(result)
    assert f"order {alias} is on its way" in payload(result, 3, "seen")["body"]
    full = f"{order['first_name']} {order['last_name']}"
    assert said(result).startswith(f"Hi, I am {full} ({order['email']}, +44 ")
    assert f"call me {order['first_name']}." in said(result)
    assert payload(result, 3, "seen")["body"].startswith(f"Dear {order['first_name']}, ")


def test_redacting_twice_is_once() -> None:
    once = redacted(*a_trace())
    again = redact(once.spans, a_redaction_policy(), KEYS, scores=once.scores)
    assert again.spans.equals(once.spans)
    assert again.scores.equals(once.scores)


def test_names_keep_the_order_in_which_they_were_told() -> None:
    told = {"status": "open", "limit": 5, "amount": 7, "lines": [{"n": 1, "id": 2}]}
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]
    done = redacted(a_span(1, "tool", "get_order", proposed={}, raw=told, messages_out=said))
    assert (done.spans["raw"].to_list(), done.spans["messages_out"].to_list()) == ([text(told)], [text(said)])


def test_other_stamps_are_refused() -> None:
    once = redacted(*a_trace()).spans
    with pytest.raises(KeyMismatch, match="'k2' met key id 'k1'"):
        redact(once, a_redaction_policy(key_id="k2"), KEYS)
    with pytest.raises(PolicyError, match="redact again from the raw copies"):
        redact(once, a_redaction_policy(version=2), KEYS)


def test_missing_key_stops_before_any_work() -> None:
    with pytest.raises(KeyMissing, match="TWICESHY_KEY_K1"):
        redacted(*a_trace(), keys=Keyring())


def test_input_order_changes_nothing() -> None:
    other = [row | {"trace_id": "ab" * 16, "row_id": row["row_id"][::-1]} for row in a_trace(customer_id="cus_99999")]
    rows = [*a_trace(), *other]
    forth, back = redacted(*rows), redacted(*reversed(rows))
    assert forth.spans.equals(back.spans)
    assert forth.table == back.table


def test_exact_duplicates_go_once() -> None:
    rows = a_trace()
    result = redacted(*rows, rows[1])
    assert (result.spans.height, result.duplicates, result.quarantine.height) == (3, 1, 0)


NAMES = st.text(st.characters(categories=["Lu", "Ll"], max_codepoint=0x17F), min_size=4, max_size=9).filter(
    lambda name: name.casefold() not in {"name", "card", "born"} and name.upper().lower() == name.lower()
)


@settings(max_examples=25)
@given(
    first=NAMES.map(lambda name: f"Q{name}x"),
    last=NAMES.map(lambda name: f"Z{name}q"),
    number=st.integers(100, 999_999),
    customer=st.from_regex(r"cus_[a-z0-9]{6,12}", fullmatch=True),
)
def test_no_identifier_survives_anywhere(first: str, last: str, number: int, customer: str) -> None:
    order, mail = f"A{number}", f"q{number}x@people.example"
    inside = json.dumps({"email": mail, "order_id": order, "name": f"{first} {last}"})
    link = f"https://shop.example/?m={quote(mail)}&o={order}&n={quote(first + ' ' + last)}"
    token = base64.urlsafe_b64encode(f"user={customer};order={order};".encode()).decode()
    record = {"customer_id": customer, "first_name": first, "last_name": last, "email": mail, "order_id": order}
    rows = [
        a_request(1, ("user", f"{first} {last} here, {order}, {customer}, {mail}. {link} {token}")),
        a_call(2, "get_order", {"order_id": order}, record | {"body": inside, "limit": 5, "status": last.upper()}),
        a_call(3, "send", {"body": f"{last}, {first}: {order}"}, inside, is_error=True, error_message=f"no {customer}",
               error_code="unknown", error_source="typed", attributes_json=json.dumps({"third.party": mail, "x": {"y": customer}})),
    ]  # fmt: skip
    result = redacted(*rows)
    assert holds(result) == []
    out = everything(result)
    folded = out.casefold()
    assert [raw for raw in (first, last, mail, customer) if raw.casefold() in folded] == []
    assert order not in out
    assert scan(out.encode(), result.known[TRACE]) == []
    assert json.loads(payload(result, 3, "raw"))["order_id"] == payload(result, 2, "raw")["order_id"]


def test_presidio_71_traceai_195_langwatch_8092_machine_ids_survive() -> None:
    ids = {
        "conversation_id": "hosted-eu-20260812-09",
        "source_trace_id": "550e8400-e29b-41d4-a716-446655440000",
        "call_id": "call_oIHazX6yQrB8hUwl4cRilFKj",
    }
    kept = [
        "550e8400-e29b-41d4-a716-446655440000",
        "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "1780394400",
        "1780394400000",
        "6086499569",
    ]
    rows = a_trace()
    rows[1] = a_call(2, "get_order", {"order_id": "A184"}, {**MIA, "id": kept, "order_id": "A184"}, **ids)
    rows[0] = a_request(1, ("user", f"{SPOKEN} My case is {kept[0]}, product {kept[4]}."))
    result = redacted(*rows, policy=a_redaction_policy(keep("tool.get_order.result.id[]")))
    row = result.spans.filter(pl.col("seq") == 2).to_dicts()[0]
    assert {name: row[name] for name in ids} == ids
    assert payload(result, 2, "raw")["id"] == kept
    assert f"My case is {kept[0]}, product {kept[4]}." in said(result)


def test_json_text_stays_json_with_its_spelling() -> None:
    body = r'{ "email" : "mia.borg@shop.example", "n":1.50, "body":"say \"A184\" \\ \u003cb\u003e" }'
    rows = [*a_trace(), a_call(4, "read", {"n": 1}, {"body": body})]
    made = payload(redacted(*rows), 4, "raw")["body"]
    assert made.startswith('{ "email" : "u')
    assert '"n":1.50, "body":"say \\"' in made
    assert made.endswith(r' \\ \u003cb\u003e" }')
    assert json.loads(made)["email"].endswith("@example.invalid")


def test_impossible_date_is_kept() -> None:
    result = redacted(*a_trace(f"{SPOKEN} Move it to July 32, or 2026-02-30."))
    assert said(result).endswith("Move it to July 32, or 2026-02-30.")


def test_all_dates_of_a_trace_move_together() -> None:
    spoken = f"{SPOKEN} I was there on June 1st, and on 2026-05-31T23:00:00Z."
    rows = a_trace(spoken)
    rows[1] |= {"start_ns": TUESDAY_NS, "end_ns": TUESDAY_NS + 5, "time_precision": "ns", "clock_ns": TUESDAY_NS}
    result = redacted(*rows)
    row = result.spans.filter(pl.col("seq") == 2).to_dicts()[0]
    days, rest = divmod(row["start_ns"] - TUESDAY_NS, 86_400 * 10**9)
    assert (rest, days % 7, row["clock_ns"], row["end_ns"]) == (0, 0, row["start_ns"], row["start_ns"] + 5)
    assert days != 0
    clock = result.spans.filter(pl.col("seq") == 1)["clock_text"][0]
    day = date(2026, 6, 2) + timedelta(days=days)
    assert clock == f"{day.isoformat()} 10:00"
    assert said(result, at=0) == f"The time is {day.isoformat()} 10:00."
    before = day - timedelta(days=1)
    assert f"{before.strftime('%B')} {before.day}" in said(result)
    assert f"{(day - timedelta(days=2)).isoformat()}T23:00:00Z" in said(result)
    assert json.loads(row["redaction_map"])["date_shift"]


def test_one_person_one_shift() -> None:
    def shift(**person: Any) -> str:
        return str(redacted(*a_trace(**person)).spans.filter(pl.col("seq") == 1)["clock_text"][0])

    assert shift() == shift(first_name="Ada")
    assert len({shift(customer_id=f"cus_{number}00") for number in range(100, 112)}) > 1


def test_buckets_come_from_raw_values() -> None:
    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "day": {"type": "string"}, "n": {"maximum": 5}},
    }
    args = {"order_id": "A184", "day": "2026-06-09", "n": 7, "amount": -1, "body": "tomorrow"}
    rows = [*a_trace(), a_call(4, "move", args, {"status": "ok"})]
    result = redacted(*rows, schemas={"move": schema})
    labels = {one["path"]: one["labels"] for one in result.spans.filter(pl.col("seq") == 4)["bucket_labels"][0]}
    assert labels == {
        "amount": ["unknown_field", "negative"],
        "body": ["unknown_field", "date_relative"],
        "day": ["future_of_clock"],
        "n": ["above_max"],
        "order_id": ["typical"],
    }


def test_changed_bucket_holds() -> None:
    schema = {"type": "object", "properties": {"email": {"type": "string", "maxLength": 21}}}
    rows = [*a_trace(), a_call(4, "find", {"email": "mia.borg@shop.example"}, {"status": "ok"})]
    assert holds(redacted(*rows, schemas={"find": schema})) == ["bucket_changed"]


def test_redacted_key_equals_live_key() -> None:
    result = redacted(*a_trace())
    live = Redactor(a_redaction_policy(), KEYS, json.loads(result.spans["pseudonyms"].drop_nulls()[0]))
    recorded = payload(result, 2, "seen")
    assert identity.key("get_order", live.redact_arguments("get_order", {"order_id": "order A184"})) == identity.key(
        "get_order", recorded
    )
    assert live.redact_arguments("get_order", recorded) == recorded


def test_logfire_1909_report_holds_no_match() -> None:
    result = redacted(*a_trace())
    report = result.report.drop("times")
    values = {value for row in report.iter_rows() for value in row}
    known = {one.text for one in result.known[TRACE]}
    assert not known & values
    assert ("field", "order_id", "synthesize", "tool.*.{args,result}.**.order_id") in set(report.iter_rows())
    assert result.report["times"].min() == 1


def test_langfuse_15372_langfuse_js_835_third_party_attributes_are_covered() -> None:
    attributes = {
        "other.sdk.user": "mia.borg@shop.example",
        "metadata.apiKey": "sk-proj-1234567890abcdefghij",
        "events": [{"name": "x", "attributes": {"note": "Mia"}}],
        "metadata": {"region": "eu"},
    }
    rows = a_trace()
    rows[2] |= {"attributes_json": json.dumps(attributes)}
    policy = a_redaction_policy(keep("meta.metadata.region"), rule("meta.metadata.apiKey", action="drop"))
    made = redacted(*rows, policy=policy)
    assert holds(made) == []
    assert json.loads(made.spans.filter(pl.col("seq") == 3)["attributes_json"][0]) == {"metadata.region": "eu"}


def test_scores_are_redacted_too() -> None:
    expected = [{"name": "get_order", "arguments": {"order_id": "A184", "customer_id": "cus_88213"}}]
    score = a_score(
        name="expected_actions",
        text=text(expected),
        comment="Mia was angry about A184",
        author_ref="mia.borg@shop.example",
        value=0.0,
    )
    result = redacted(*a_trace(), scores=score)
    row = result.scores.to_dicts()[0]
    order = payload(result, 2, "raw")
    assert json.loads(row["text"]) == [
        {"name": "get_order", "arguments": {"order_id": order["order_id"], "customer_id": order["customer_id"]}}
    ]
    assert row["comment"] == f"{order['first_name']} was angry about {order['order_id']}"
    assert "mia" not in row["author_ref"].lower()


@pytest.mark.parametrize(
    ("label", "value", "left"),
    [("thumbs_down", None, "thumbs_down"), ("Mia", None, "[restricted]"), ("Mia", 0.0, None), (None, 0.0, None)],
)
def test_scores_of_a_held_trace_say_only_that_it_failed(
    label: str | None, value: float | None, left: str | None
) -> None:
    score = a_score(name="feedback", comment="Mia was angry", label=label, value=value, author_ref="mia")
    result = redacted(a_call(1, "get_order", {"order_id": "A184"}, {"shoe": 1}), scores=score)
    row = result.scores.to_dicts()[0]
    assert (row["label"], row["value"], row["comment"], row["author_ref"]) == (left, value, None, None)


def test_last_four_needs_a_card_word() -> None:
    result = redacted(*a_trace(f"{SPOKEN} Flight 6467 was late. Gate code: 6467."))
    assert said(result).endswith("Flight 6467 was late. Gate code: 6467.")


def test_short_name_in_capitals_is_a_code() -> None:
    assert said(redacted(*a_trace(f"{SPOKEN} I fly from MIA to LHR."))).endswith("I fly from MIA to LHR.")


def test_restricted_and_dropped_values_leave() -> None:
    rows = a_trace()
    order = {"order_id": "A184", "notes": "grumpy customer", "kyc": {"passport": "P12345678", "ok": True}, **MIA}
    rows[1] = a_call(2, "get_order", {"order_id": "A184"}, order)
    rows[0] = a_request(1, ("user", f"{SPOKEN} My passport is P12345678."))
    result = redacted(*rows)
    made = payload(result, 2, "raw")
    assert "notes" not in made
    assert made["kyc"] == {"passport": "[restricted]", "ok": "[restricted]"}
    assert said(result).endswith("My passport is [restricted].")
    done = json.loads(result.spans.filter(pl.col("seq") == 2)["redaction_map"][0])
    assert done["tool.get_order.result.notes"] == "drop"


def test_tool_results_in_messages_follow_tool_rules() -> None:
    call = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"order_id": "A184"}}
    answer = {"type": "tool_call_response", "id": "c1", "response": {"order_id": "A184", "notes": "grumpy", **MIA}}
    rows = [
        *a_trace(),
        a_request(4, ("user", "hi"), {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [answer]}),
    ]
    result = redacted(*rows)
    parts = [message["parts"][0] for message in payload(result, 4, "messages_in")]
    order = payload(result, 2, "raw")
    assert parts[1]["arguments"] == {"order_id": order["order_id"]}
    assert parts[2]["response"]["email"] == order["email"]
    assert "notes" not in parts[2]["response"]


def test_agent_input_and_output_are_fields() -> None:
    rows = [*a_trace(), a_span(5, "agent", "shop", seen={"message": SPOKEN}, raw={"status": "done"})]
    assert holds(redacted(*rows)) == ["unknown_field"]
    policy = a_redaction_policy(keep("input.user.message"), keep("output.status"))
    assert payload(redacted(*rows, policy=policy), 5, "seen")["message"] == said(redacted(*rows, policy=policy))


def test_hooks_stand_under_their_tools_rules() -> None:
    hook = a_span(
        4, "hook", "strip", at="after:get_order", seen={"order_id": "A184"}, raw={"order_id": "A184", "shoe": 1}
    )
    assert holds(redacted(*a_trace(), hook)) == ["unknown_field"]


def test_pseudonyms_never_meet_a_raw_value() -> None:
    rows = [a_call(seq, "get_order", {"order_id": f"A{seq:03d}"}, {"n": 1}) for seq in range(300)]
    made = redacted(*rows)
    aliases = [json.loads(seen)["order_id"] for seen in made.spans.sort("seq")["seen"]]
    assert len(set(aliases)) == 300
    assert not set(aliases) & {f"A{seq:03d}" for seq in range(300)}


def test_table_joins_shards() -> None:
    first = redacted(*a_trace())
    other = [row | {"trace_id": "ab" * 16, "row_id": row["row_id"][::-1]} for row in a_trace()]
    second = redacted(*other, table=first.table)
    assert payload(second, 2, "raw") == payload(first, 2, "raw")
    assert second.table == first.table


SPELLINGS: dict[str, Any] = {
    "escapes": lambda raw: "".join(f"\\u{ord(char):04x}" for char in raw),
    "angle brackets": lambda raw: f"\\u003c{raw}\\u003e",
    "percent": lambda raw: quote(raw, safe="").replace(".", "%2e"),
    "percent twice": lambda raw: quote(quote(raw, safe=""), safe=""),
    "base64": lambda raw: base64.b64encode(f"to: {raw};".encode()).decode(),
    "base64url": lambda raw: base64.urlsafe_b64encode(f"to: {raw}?~".encode()).decode().rstrip("="),
    "json in json": lambda raw: json.dumps({"a": [json.dumps({"b": raw})]}),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_cdkd_2759_qm_80_basic_memory_1416_other_spellings_are_replaced(spelling: str) -> None:
    spell = SPELLINGS[spelling]
    mail = "mia.borg@shop.example"
    result = redacted(*a_trace(f"{SPOKEN} See {spell(mail)} there."))
    assert holds(result) == []
    alias = payload(result, 2, "raw")["email"]
    made = said(result).rsplit("See ", 1)[1].removesuffix(" there.")
    assert spell(alias).casefold() == made.casefold()
