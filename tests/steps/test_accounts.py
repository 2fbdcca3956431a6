from typing import Any

import polars as pl

from tables import some_rows
from tasks.admit.accounts import Account, accounts, quarantined, refusals, tool_errors
from tasks.admit.schema import Admissions
from tasks.contracts import Quarantine
from tasks.normalize.schema import Crossings, Traces

IDS = [f"{number:032x}" for number in range(10)]


def some_traces(*sources: str) -> pl.DataFrame:
    return some_rows(Traces, *({"trace_id": IDS[at], "source": source} for at, source in enumerate(sources)))


def an_admission(number: int, decision: str, *reasons: str, source: str = "otlp") -> dict[str, Any]:
    return {"trace_id": IDS[number], "source": source, "decision": decision, "reasons": list(reasons)}


def set_aside(number: int, trace_id: str | None, unit: str, source: str = "otlp") -> dict[str, Any]:
    return {"quarantine_id": f"{number:064x}", "trace_id": trace_id, "unit": unit, "source": source}


def test_everything_that_came_in_is_somewhere() -> None:
    admissions = some_rows(
        Admissions,
        an_admission(0, "promote"),
        an_admission(1, "member"),
        an_admission(2, "hold", "r4_missing"),
        an_admission(4, "discard", "duplicate", source="openai_chat"),
    )
    lost = some_rows(
        Quarantine,
        set_aside(1, IDS[9], "span"),
        set_aside(2, IDS[9], "span"),
        set_aside(3, None, "row"),
        set_aside(4, None, "span"),
        set_aside(5, IDS[0], "span"),
    )
    traces = some_traces("otlp", "otlp", "otlp", "otlp", "openai_chat")
    chat = Account("openai_chat", 1, promoted=0, members=0, held=0, discarded=1, unflagged=0, quarantined=0)
    otlp = Account("otlp", 6, promoted=1, members=1, held=1, discarded=0, unflagged=1, quarantined=2)
    assert accounts(admissions, traces, lost) == [chat, otlp]
    assert quarantined(traces, lost) == 2


def test_reasons_by_how_often() -> None:
    admissions = some_rows(
        Admissions,
        an_admission(0, "promote"),
        an_admission(1, "hold", "r4_missing"),
        an_admission(2, "hold", "r3_missing", "r4_missing"),
    )
    assert [(row["reason"], row["traces"]) for row in refusals(admissions)] == [("r4_missing", 2), ("r3_missing", 1)]


def test_errors_of_tools_by_code() -> None:
    error = {"error_class": "E", "error_code": "timeout", "error_definite": False}
    crossings = some_rows(
        Crossings,
        {"trace_id": IDS[0], "seq": 1, "kind": "tool", "name": "look", **error},
        {"trace_id": IDS[1], "seq": 1, "kind": "tool", "name": "look", **error},
        {"trace_id": IDS[0], "seq": 2, "kind": "model", "name": "look", **error},
        {"trace_id": IDS[0], "seq": 3, "kind": "tool", "name": "look"},
    )
    found = tool_errors(some_traces("otlp", "otlp"), crossings)
    assert found == [{"source": "otlp", "tool": "look", "code": "timeout", "errors": 2}]
