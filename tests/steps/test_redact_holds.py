import json
from typing import Any

import polars as pl
import pytest

from redacting import (
    KEYS,
    SPOKEN,
    TRACE,
    a_call,
    a_redaction_policy,
    a_request,
    a_trace,
    everything,
    holds,
    payload,
    redacted,
    rule,
    said,
    some_spans,
)
from tasks.redact.step import redact
from twiceshy.redaction.policy import Band
from twiceshy.redaction.walking import Limits


@pytest.mark.parametrize(
    ("rows", "reason", "place"),
    [
        ([a_call(1, "get_order", {"order_id": "A184"}, {"shoe_size": 44})], "unknown_field", "tool.get_order.result.shoe_size"),
        ([a_call(1, "get_order", {"order_id": "A184"}, {"by": {"Mia Li": {"x": 1}}})], "unknown_field", "tool.get_order.result.by.*.x"),
        ([a_request(1, ("user", "It is Mia Borg, please help"))], "free_text_without_seeds", ""),
        ([*a_trace(), a_call(4, "read", {"n": 1}, {"body": "[REDACTED]"})], "hidden_upstream", "tool.read.result.body"),
        ([*a_trace(), a_request(5, ("user", "mail __REDACTED__ me"))], "hidden_upstream", "input.user"),
        ([a_call(1, "read", {"n": 1}, {"body": json.dumps([[[[[["deep"]]]]]])})], "depth_exceeded", ""),
    ],
)  # fmt: skip
def test_trace_is_held(rows: list[dict[str, Any]], reason: str, place: str) -> None:
    result = redacted(*rows, limits=Limits(depth=6))
    assert (TRACE, reason, place) in {row[:3] for row in result.holds.iter_rows()}
    assert set(result.spans["holds"].list.first()) == {reason}
    assert result.spans.select("raw", "seen", "messages_in").null_count().sum_horizontal()[0] == 3 * len(rows)
    assert result.quarantine.height == 0


def test_size_bound_holds() -> None:
    assert holds(redacted(*a_trace(), limits=Limits(characters=60))) == ["size_exceeded"]


def test_national_phone_without_region_holds() -> None:
    assert holds(redacted(*a_trace(), policy=a_redaction_policy(default_region=None))) == ["ambiguous_phone"]


BANDED = rule("tool.*.{args,result}.amount", action="generalize", band=Band(relative_to="limit"))


def test_band_keeps_comparison() -> None:
    result = redacted(*a_trace(f"{SPOKEN} I want my 750 back, not 7501."), policy=a_redaction_policy(BANDED))
    order = payload(result, 2, "raw")
    assert order["limit"] == 500
    assert order["amount"] > 500
    assert order["amount"] != 750
    assert f"I want my {order['amount']} back, not 7501." in said(result)


def test_band_in_read_key_holds() -> None:
    rows = [*a_trace(), a_call(4, "quote", {"amount": 750}, {"status": "ok"})]
    assert holds(redacted(*rows, policy=a_redaction_policy(BANDED), reads={"quote"})) == ["band_in_read_key"]
    assert holds(redacted(*rows, policy=a_redaction_policy(BANDED))) == ["band_in_read_key"]
    assert holds(redacted(*rows, policy=a_redaction_policy(BANDED), reads={"get_order"})) == []


def test_changed_verdict_holds() -> None:
    def verdicts(spans: pl.DataFrame) -> dict[str, str]:
        return {TRACE: str("mia" in str(spans["raw"][1]).lower())}

    result = redacted(*a_trace(), verdicts=verdicts)
    assert holds(result) == ["verdict_changed"]
    assert set(result.spans["raw"]) == {None}


def test_leak_holds() -> None:
    rows = a_trace()
    rows[2] |= {"service_name": "shop-of-mia.borg@shop.example"}
    result = redacted(*rows)
    assert holds(result) == ["leak_hit"]
    assert {place for _, _, place, _ in result.holds.iter_rows()} == {"email (raw)", "seed (raw)"}


def test_broken_scanner_admits_nothing() -> None:
    def broken(data: bytes, known: object) -> list[Any]:
        raise RuntimeError(data[:100])

    result = redacted(*a_trace(), scan=broken)
    assert holds(result) == ["scanner_error"]
    assert "Mia" not in everything(result)


def test_withheld_rows_keep_the_contract() -> None:
    result = redact(
        some_spans(*a_trace(), a_call(9, "x", {"y": 1}, {"z": "Mia"}, conversation_id="mia.borg@shop.example")),
        a_redaction_policy(),
        KEYS,
    )
    assert result.quarantine.height == 0
    assert result.spans.height == 4
    assert "mia" not in everything(result).lower()
