import json
from collections import Counter

import polars as pl
import pytest

from tasks.detect.goldactions import StateEffect, state_effects
from tasks.envelopes import envelopes
from tasks.sources import openai_chat
from tasks.sources.source import Window
from traces import HARNESS, airline, normalized, real
from twiceshy.envelope import Crossing, ErrorRecord, Kind
from twiceshy.policy import ToolsPolicy


def a_call(seq: int, tool: str, definite: bool | None = None, **arguments: object) -> Crossing:  # noqa: FBT001 - None is no error
    error = None if definite is None else ErrorRecord(cls="E", type="denied", definite=definite)
    return Crossing(seq=seq, kind=Kind.TOOL, name=tool, proposed=arguments, error=error)


def wanted(tool: str, **arguments: object) -> dict[str, object]:
    return {"name": tool, "arguments": arguments}


def effects(
    *calls: Crossing, expected: list[dict[str, object]], policy: ToolsPolicy | None = None
) -> list[tuple[object, ...]]:
    return [tuple(difference) for difference in state_effects(calls, expected, policy or airline())]


CANCEL = "cancel_reservation"


def test_expected_writes_in_any_order_differ_in_nothing() -> None:
    calls = (a_call(1, CANCEL, reservation_id="A"), a_call(2, CANCEL, reservation_id="B"))
    assert effects(*calls, expected=[wanted(CANCEL, reservation_id="B"), wanted(CANCEL, reservation_id="A")]) == []


def test_writes_are_missing_extra_or_wrong() -> None:
    calls = (
        a_call(1, CANCEL, reservation_id="A"),
        a_call(2, CANCEL, reservation_id="A"),
        a_call(3, "send_certificate", user_id="u", amount=50),
    )
    expected = [
        wanted(CANCEL, reservation_id="A"),
        wanted("send_certificate", user_id="u", amount=100),
        wanted("update_reservation_baggages"),
    ]
    assert effects(*calls, expected=expected) == [
        ("extra", CANCEL, 1, 2, frozenset()),
        ("missing", "update_reservation_baggages", 1, None, frozenset()),
        ("wrong_args", "send_certificate", 1, 3, frozenset({"amount"})),
    ]


def test_paths_lose_their_indices() -> None:
    call = a_call(1, "update_reservation_flights", flights=[{"date": "x"}, {"date": "y"}])
    (found,) = state_effects(
        [call], [wanted("update_reservation_flights", flights=[{"date": "x"}, {"date": "z"}])], airline()
    )
    assert found == StateEffect("wrong_args", "update_reservation_flights", 1, 1, frozenset({"flights.date"}))


@pytest.mark.parametrize(("definite", "found"), [(True, []), (False, [("extra", CANCEL)])])
def test_only_a_definite_error_undoes_a_write(definite: bool, found: list[object]) -> None:  # noqa: FBT001 - a row of the table
    assert [row[:2] for row in effects(a_call(1, CANCEL, definite, reservation_id="A"), expected=[])] == found


def test_reads_and_writes_that_touch_nothing_do_not_count() -> None:
    calls = (
        a_call(1, "get_user_details", user_id="u"),
        a_call(2, "think", thought="t"),
        a_call(3, "transfer_to_human_agents", summary="s"),
    )
    assert (
        effects(*calls, expected=[wanted("calculate", expression="1"), wanted("get_user_details", user_id="w")]) == []
    )


def test_real_airline_failures_form_the_known_clusters() -> None:
    (raw,) = openai_chat.source.fetch(Window(paths=(real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz"),)))
    mapped = openai_chat.spans(raw, harness_state=HARNESS)
    made = normalized(mapped, airline())
    gold = dict(
        mapped.scores.filter(pl.col("name") == openai_chat.EXPECTED_ACTIONS).select("trace_id", "text").iter_rows()
    )
    failed: Counter[frozenset[tuple[str, str]]] = Counter()
    for envelope in envelopes(made.traces, made.crossings):
        found = state_effects(envelope.crossings, json.loads(gold[envelope.trace_id]), airline())
        signature = frozenset((difference.effect, difference.tool) for difference in found)
        if envelope.disposition.outcome_label == "success":
            assert not signature
        else:
            failed[signature] += 1
    assert (failed.total(), failed[frozenset()], len(failed) - 1) == (51, 4, 20)
    assert [count for _, count in failed.most_common(6)] == [7, 4, 4, 4, 4, 4]
    assert {frozenset({("extra", CANCEL)}), frozenset({("missing", "send_certificate")})} < {
        held for held, count in failed.items() if count == 4
    }
