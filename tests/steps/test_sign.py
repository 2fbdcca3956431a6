import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from builders import a_crossing
from frames import crossing_row, frame_of
from tables import a_row, some_rows
from tasks.detect.schema import Findings
from tasks.normalize.schema import Crossings, Traces
from tasks.sign.ledger import Ledger
from tasks.sign.overrides import Alias, Merge, Overrides, Pin, Rename, Split, load
from tasks.sign.schema import Memberships, Signatures
from tasks.sign.step import Signed, Standing, sign
from tasks.sources.templates import parameterise
from twiceshy.envelope import Crossing, Effect, ErrorRecord, Kind
from twiceshy.errors import PolicyError
from twiceshy.policy import ToolsPolicy
from twiceshy.redaction import Keyring, Policy, Redactor

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)
READS = ["args.amount_gbp", "result(get_order).policy_limit_gbp"]


def an_order(**given: Any) -> Crossing:
    full = {"order_id": "A184", "policy_limit_gbp": 500}
    return a_crossing(**{"name": "get_order", "proposed": {}, "raw": full, "shown": full, **given})


def a_refund(**given: Any) -> Crossing:
    asked = {"order_id": "A184", "amount_gbp": 750}
    return a_crossing(
        **{"seq": 2, "name": "issue_refund", "proposed": asked, "seen": asked, "effect": Effect.WRITE, **given}
    )


STRIPPED = (an_order(shown={"order_id": "A184"}), a_refund())


def a_finding(trace: str = ONE, **columns: Any) -> dict[str, Any]:
    own = {
        "trace_id": trace, "finding_id": f"{trace}{columns.get('invariant_id', 'i')}{columns.get('onset_seq', 2)}".encode().hex()[:64].ljust(64, "0"),
        "workflow": "refund", "source": "invariant", "invariant_id": "refund-over-limit-missing-approval", "level": "failure",
        "effect": "extra", "severity": "high", "tool": "issue_refund", "boundary": "tool:issue_refund", "onset_seq": 2, "reads": READS,
        "evidence": "{}",
    }  # fmt: skip
    return a_row(Findings, **own | columns)


def signed(
    findings: list[dict[str, Any]], runs: dict[str, tuple[Crossing, ...]], *, ledger: Ledger | None = None,
    overrides: Overrides | None = None, catalog: dict[str, Standing] | None = None, dice: random.Random | None = None,
) -> Signed:  # fmt: skip
    traces = [
        {"trace_id": trace, "workflow": "refund", "start_ns": int(trace[0]), "crossings": len(run)}
        for trace, run in runs.items()
    ]
    crossings = [crossing_row(trace, crossing) for trace, run in runs.items() for crossing in run]
    tables = some_rows(Findings, *findings), some_rows(Traces, *traces), frame_of(Crossings, crossings)
    if dice is not None:
        tables = tuple(table[dice.sample(range(table.height), table.height)] for table in tables)  # type: ignore[assignment]
    found = sign(
        *tables, policies={"refund": ToolsPolicy(workflow="refund")}, ledger=ledger or Ledger(), overrides=overrides or Overrides(),
        catalog=catalog or {}, harness_state="h",
    )  # fmt: skip
    assert all(aside.is_empty() for aside in found.set_aside.values())
    return found


def the_row(frame: pl.DataFrame) -> dict[str, Any]:
    (row,) = frame.iter_rows(named=True)
    return row


def test_strip_names_the_signature() -> None:
    found = signed([a_finding()], {ONE: STRIPPED})
    assert the_row(found.signatures)["slug"] == "refund-over-limit-missing-approval@post-tool-hook-strip"
    row = the_row(found.memberships)
    assert (row["stage"], row["policy_boundary"], row["stage_inferred"]) == ("post-tool-hook", "get_order", False)
    assert row["evidence"] == '{"boundary":"get_order","change":"strip","path":"policy_limit_gbp","place":"#1"}'


def test_unread_field_is_no_stage() -> None:
    run = (an_order(shown={"policy_limit_gbp": 500}), a_refund())
    row = the_row(signed([a_finding()], {ONE: run}).memberships)
    assert (row["stage"], row["policy_boundary"], row["stage_inferred"]) == ("tool", "-", True)


def test_unknown_side_shows_no_change() -> None:
    run = (an_order(shown=UNSET), a_refund(proposed=UNSET))
    assert the_row(signed([a_finding()], {ONE: run}).memberships)["stage_inferred"]


def test_changed_argument_is_pre_hook() -> None:
    run = (an_order(), a_refund(proposed={"order_id": "A184", "amount_gbp": 75}))
    found = signed([a_finding()], {ONE: run})
    assert the_row(found.signatures)["slug"] == "refund-over-limit-missing-approval@pre-tool-hook-rewrite"


def test_end_of_run_is_final() -> None:
    found = signed([a_finding(boundary=None, tool=None, reads=[])], {ONE: STRIPPED})
    assert the_row(found.memberships)["stage"] == "final"


def test_shared_check_names_its_tool() -> None:
    found = signed([a_finding(invariant_id="no_duplicate_write", reads=[])], {ONE: STRIPPED})
    assert the_row(found.signatures)["slug"] == "no_duplicate_write-issue_refund@tool"


def test_first_violation_is_primary() -> None:
    later = a_finding(invariant_id="zz", onset_seq=1, boundary="tool:get_order", tool="get_order")
    found = signed([a_finding(), later], {ONE: STRIPPED}).memberships
    assert dict(found.select("invariant_id", "primary").iter_rows()) == {
        "zz": True,
        "refund-over-limit-missing-approval": False,
    }


def test_repeats_count_as_retries() -> None:
    found = signed([a_finding(occurrences=2), a_finding(onset_seq=3)], {ONE: (*STRIPPED, a_refund(seq=3))})
    assert the_row(found.memberships)["retries"] == 2


def test_signals_make_no_key() -> None:
    found = signed([a_finding(), a_finding(TWO, level="signal")], {ONE: STRIPPED, TWO: STRIPPED})
    assert found.memberships["trace_id"].to_list() == [ONE]


def test_one_failure_one_signature() -> None:
    found = signed([a_finding(trace) for trace in (ONE, TWO, THREE)], dict.fromkeys((ONE, TWO, THREE), STRIPPED))
    assert found.memberships["reason"].to_list() == ["new", "known", "known"]
    row = the_row(found.signatures)
    assert (row["traces"], row["keys"], row["first_seen_ns"], row["last_seen_ns"]) == (3, 1, 1, 3)


def test_second_run_changes_nothing() -> None:
    findings, runs = [a_finding(ONE), a_finding(TWO, invariant_id="zz")], dict.fromkeys((ONE, TWO), STRIPPED)
    first = signed(findings, runs)
    again = signed(findings, runs, ledger=first.ledger)
    assert again.ledger == first.ledger
    assert again.memberships.equals(first.memberships)
    assert again.signatures.equals(first.signatures)


def test_effects_make_one_key() -> None:
    def effects(trace: str, *pairs: tuple[str, str]) -> list[dict[str, Any]]:
        return [
            a_finding(
                trace,
                source="detector",
                invariant_id="state_effect",
                effect=effect,
                tool=tool,
                boundary=None,
                onset_seq=at,
            )
            for at, (effect, tool) in enumerate(pairs, start=1)
        ]

    cancel, send = ("extra", "cancel"), ("missing", "send")
    findings = [*effects(ONE, cancel, send), *effects(TWO, send, cancel), *effects(THREE, send)]
    found = signed(findings, dict.fromkeys((ONE, TWO, THREE), STRIPPED))
    assert found.memberships.height == 3
    assert sorted(found.signatures["slug"]) == [
        "state_effect-extra-cancel-missing-send@final",
        "state_effect-missing-send@final",
    ]


def test_error_text_joins_near() -> None:
    def failed(text: str) -> tuple[Crossing, ...]:
        error = ErrorRecord(cls="E", type="unknown", message=text)
        return an_order(), a_refund(error=error)

    runs = {
        ONE: failed("payment method gift_card_123 of Tuesday is not on file"),
        TWO: failed("payment method gift_card_9 of Tuesday is not in file"),
    }
    found = signed([a_finding(ONE), a_finding(TWO)], runs)
    assert found.memberships["reason"].to_list() == ["new", "near"]
    row = the_row(found.signatures)
    assert (row["keys"], row["representative_template"]) == (2, "payment method <id> of Tuesday is not on file")


def test_kept_apart_is_no_suggestion() -> None:
    def failed(text: str) -> tuple[Crossing, ...]:
        return an_order(), a_refund(error=ErrorRecord(cls="E", type="unknown", message=text))

    runs = {
        ONE: failed("seat 12A9 on that flight is taken alpha"),
        TWO: failed("seat 12A9 on that flight is gone beta"),
    }
    findings = [a_finding(ONE), a_finding(TWO)]
    before = signed(findings, runs)
    one, other = (before.memberships.filter(trace_id=trace)["signature"][0] for trace in (ONE, TWO))
    assert before.memberships.filter(trace_id=TWO)["maybe"].to_list() == [one]
    apart = signed(findings, runs, ledger=before.ledger, overrides=Overrides(never_merge=[(one, other)]))
    assert apart.memberships["maybe"].to_list() == [None, None]


def test_same_way_same_branch() -> None:
    longer = (*STRIPPED[:1], an_order(seq=2, kind=Kind.TOOL), a_refund(seq=3))
    other = (a_crossing(1, "get_customer"), an_order(seq=2, shown={}), a_refund(seq=3))
    findings = [a_finding(ONE), a_finding(TWO, onset_seq=3), a_finding(THREE, onset_seq=3)]
    found = signed(findings, {ONE: STRIPPED, TWO: longer, THREE: other}).memberships
    assert found["key_id"].n_unique() == 1
    assert found["branch_id"][0] == found["branch_id"][1] != found["branch_id"][2]


def test_renamed_tool_keeps_key() -> None:
    before = signed([a_finding()], {ONE: STRIPPED})
    renamed = (an_order(shown={}), a_refund(name="issue_refund_v1"))
    alias = Overrides(tool_aliases=[Alias(old="issue_refund_v1", new="issue_refund")])
    found = signed([a_finding(TWO, tool="issue_refund_v1")], {TWO: renamed}, ledger=before.ledger, overrides=alias)
    assert the_row(found.memberships)["reason"] == "known"


def two_signatures() -> tuple[list[dict[str, Any]], dict[str, tuple[Crossing, ...]], Signed, str, str]:
    findings, runs = [a_finding(ONE), a_finding(TWO, invariant_id="zz")], dict.fromkeys((ONE, TWO), STRIPPED)
    before = signed(findings, runs)
    one, other = (before.memberships.filter(trace_id=trace)["signature"][0] for trace in (ONE, TWO))
    return findings, runs, before, one, other


def test_merge_moves_and_undoes() -> None:
    findings, runs, before, one, other = two_signatures()
    drawn = Overrides(merge=[Merge(source=other, into=one, by="@a", date="2026-11-02", why="same")])
    after = signed(findings, runs, ledger=before.ledger, overrides=drawn)
    assert set(after.memberships["signature"]) == {one}
    assert after.memberships.filter(trace_id=TWO)["reason"].to_list() == ["override"]
    assert the_row(after.signatures)["aliases"] == sorted([other, "zz@post-tool-hook-strip"])
    assert signed(findings, runs, ledger=after.ledger).signatures.equals(before.signatures)


def test_split_by_facet() -> None:
    findings, runs, before, one, _ = two_signatures()
    line = Split(
        sig=one, when={"effect": "extra"}, new_slug="refund-twice@tool", by="@a", date="2026-11-09", why="other"
    )
    after = signed(findings, runs, ledger=before.ledger, overrides=Overrides(split=[line]))
    assert after.memberships.filter(trace_id=ONE)["signature"].to_list() == [line.signature]
    assert "refund-twice@tool" in after.signatures["slug"].to_list()


def test_rename_keeps_old_slug() -> None:
    findings, runs, before, one, _ = two_signatures()
    after = signed(
        findings, runs, ledger=before.ledger, overrides=Overrides(rename=[Rename(sig=one, slug="mine@tool")])
    )
    row = the_row(after.signatures.filter(signature=one))
    assert (row["slug"], row["aliases"]) == ("mine@tool", ["refund-over-limit-missing-approval@post-tool-hook-strip"])


def test_taken_slug_is_numbered() -> None:
    findings, runs, before, one, _ = two_signatures()
    after = signed(
        findings,
        runs,
        ledger=before.ledger,
        overrides=Overrides(rename=[Rename(sig=one, slug="zz@post-tool-hook-strip")]),
    )
    assert sorted(after.signatures["slug"]) == ["zz@post-tool-hook-strip", "zz@post-tool-hook-strip-2"]


def test_pinned_text_represents() -> None:
    findings, runs, before, one, _ = two_signatures()
    key = before.memberships.filter(trace_id=TWO)["key_id"][0]
    after = signed(
        findings, runs, ledger=before.ledger, overrides=Overrides(pin_representative=[Pin(sig=one, key=key)])
    )
    assert after.signatures.filter(signature=one)["representative_key"].to_list() == [key]


def test_covered_failure_escapes() -> None:
    findings, runs, before, one, other = two_signatures()
    catalog = {one: Standing("case-1", ONE, covered_since_ns=1), other: Standing("case-2", ONE, covered_since_ns=1)}
    states = dict(
        signed(findings, runs, ledger=before.ledger, catalog=catalog)
        .signatures.select("signature", "state")
        .iter_rows()
    )
    assert states == {one: "covered", other: "escaped"}


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_row_order_changes_nothing(dice: random.Random) -> None:
    findings = [a_finding(trace, invariant_id=name) for trace in (ONE, TWO, THREE) for name in ("a", "b")]
    runs = dict.fromkeys((ONE, TWO, THREE), STRIPPED)
    plain, shuffled = signed(findings, runs), signed(findings, runs, dice=dice)
    assert shuffled.ledger == plain.ledger
    assert shuffled.memberships.equals(plain.memberships)
    assert shuffled.signatures.equals(plain.signatures)


KEYED = Redactor(Policy(policy="refund", version=1, namespace="test", key_id="k-test"), Keyring({"k-test": b"0" * 32}))


def a_failed_refund(order: str, email: str) -> tuple[Crossing, ...]:
    asked = {"order_id": order, "to": email}
    error = ErrorRecord(cls="E", type="unknown", message=f"order {order} of {email} was not found in 3 s")
    return an_order(shown={"order_id": order, "policy_limit_gbp": 500}), a_refund(
        seen=asked, proposed=asked, error=error
    )


@settings(max_examples=20)
@given(st.from_regex(r"[A-Z][0-9]{3,6}", fullmatch=True), st.from_regex(r"[a-z]{1,8}@[a-z]{2,8}\.com", fullmatch=True))
def test_redacted_key_is_raw_key(order: str, email: str) -> None:
    alias, address = KEYED.pseudonymized("order_id", order), KEYED.pseudonymized("email", email)
    raw, redacted = (
        signed([a_finding()], {ONE: a_failed_refund(*pair)}).memberships for pair in ((order, email), (alias, address))
    )
    assert (alias, address) != (order, email)
    assert raw.select("key_id", "template").equals(redacted.select("key_id", "template"))


def test_no_failures_no_rows() -> None:
    found = signed([a_finding(level="signal")], {ONE: STRIPPED})
    assert found.memberships.schema == Memberships.dtypes()
    assert found.signatures.schema == Signatures.dtypes()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 3\nmerges: []\n", r":2: unknown key 'merges'"),
        ("merge:\n- {from: sig_0a1b2c3d4e5f, into: sig_0a1b2c3d4e5f, by: a, date: 2026-11-02, why: b}\n", r":2: merge leads .* in a ring"),
        ("rename:\n- {sig: sig_0a1b2c3d4e5f, slug: a@b}\n- {sig: sig_0a1b2c3d4e5f, slug: c@d}\n", r":3: rename says .* twice"),
        ("rename:\n- {sig: sig_0a1b2c3d4e5f, slug: No Slug}\n", r":2: .*slug"),
        (
            ("merge:\n- {from: sig_0a1b2c3d4e5f, into: sig_9f8e7d6c5b4a, by: a, date: 2026-11-02, why: b}\n"
            "never_merge:\n- [sig_9f8e7d6c5b4a, sig_0a1b2c3d4e5f]\n"),
            r":4: .* never_merge forbids it",
        ),
    ],
)  # fmt: skip
def test_bad_overrides_name_the_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "overrides.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError, match=problem):
        load(path)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("KeyError: 'policy_limit_gbp'", "KeyError: 'policy_limit_gbp'"),
        ("field: 'x' of user_id='ann'", "field: <text> of user_id=<text>"),
        ("order A184 not found", "order <id> not found"),
        ("get_order timed out after 10 s", "get_order timed out after <duration>"),
        ("mail u00@example.invalid or see https://a.example/x?y=1", "mail <email> or see <url>"),
        ("at 2024-05-15T12:00:00Z from 10.0.0.1, 10.0.0.0/24", "at <date> from <ip>, <ip>"),
        ("limit 750.50 exceeds -3 by 0x7f33", "limit <float> exceeds <int> by <hex>"),
        ("refund_v2 refused", "refund_v2 refused"),
    ],
)
def test_values_are_masked(text: str, masked: str) -> None:
    assert parameterise(text, keep={"refund_v2"}) == masked


def test_masking_twice_is_once() -> None:
    text = "order A184 of ann@example.com at 10.0.0.1 not found after 10 s, id='x'"
    assert parameterise(parameterise(text)) == parameterise(text)
