from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl
import pytest
from msgspec import UNSET

from builders import a_crossing, an_envelope
from examples.refund import T_1042
from examples.research import ONE_PAPER, TWO_PAPERS
from examples.scheduling import TO_THURSDAY
from frames import frames
from sample_workflows import WORKFLOWS, a_trace
from tables import some_rows
from tasks.attribute.step import Tables, attribute
from tasks.detect.schema import Findings
from tasks.detect.step import detect
from tasks.normalize.schema import Scores
from tasks.sign.ledger import Ledger
from tasks.sign.overrides import Overrides
from tasks.sign.schema import Memberships
from tasks.sign.step import sign
from twiceshy.envelope import Crossing, Effect, Envelope, ErrorRecord, Kind
from twiceshy.policy import ToolPolicy, ToolsPolicy

RESULT = {"type": "object", "required": ["limit"], "properties": {"limit": {"type": "number"}}}
POLICY = ToolsPolicy(
    workflow="refund",
    tools={
        "get_order": ToolPolicy(effect=Effect.READ, result_schema=RESULT, definite_errors=("LookupError",)),
        "pay": ToolPolicy(
            schema={"type": "object", "properties": {"amount": {"type": "number"}}}, volatile=("request_id",)
        ),
    },
)


def attributed(run: Envelope, *, scores: pl.DataFrame | None = None, **columns: Any) -> list[tuple[str, str]]:
    """(layer, rules) of a run whose last crossing violates."""
    last = run.crossings[-1]
    place = {"trace_id": run.trace_id, "workflow": "refund", "finding_id": "a" * 64, "onset_seq": last.seq}
    finding = {"level": "failure", "tool": last.name, "evidence": "{}", "boundary": f"tool:{last.name}"}
    own = {"stage": "tool", "stage_inferred": True, "evidence": "{}", "tool": last.name}
    reads = {name: columns.pop(name) for name in ("reads", "invariant_id", "source") if name in columns}
    tables = Tables(
        some_rows(Memberships, place | own | columns), some_rows(Findings, place | finding | reads), *frames([run]),
        Scores.no_rows() if scores is None else scores,
    )  # fmt: skip
    result = attribute(tables, policies={"refund": POLICY}, invariants={}, harness_state="h")
    assert result.set_aside.is_empty()
    return [(row["layer"], _rules(row)) for row in result.attributions.sort("rank").iter_rows(named=True)]


def _rules(row: Mapping[str, Any]) -> str:
    return row["reason"] or ",".join(signal["rule"] for signal in msgspec.json.decode(row["signals"]))


def a_call(seq: int = 2, name: str = "pay", **given: Any) -> Crossing:
    return a_crossing(**{"seq": seq, "name": name, "proposed": {}, "effect": None, **given})


def an_order(**given: Any) -> Crossing:
    return a_call(**{"seq": 1, "name": "get_order", "raw": {"limit": 5}, "shown": {"limit": 5}, **given})


def test_model_is_what_remains() -> None:
    assert attributed(an_envelope(an_order(), a_call())) == [("model", "remainder")]


def test_unknown_side_leaves_it_open() -> None:
    run = an_envelope(an_order(raw=UNSET), a_call())
    assert attributed(run, reads=["result(get_order).limit"]) == [("model", "sides_unknown")]
    assert attributed(run) == [("model", "remainder")]


def test_post_hook_is_the_tool_layer() -> None:
    assert attributed(an_envelope(a_call()), stage="post-tool-hook", stage_inferred=False) == [
        ("harness.tool", "post_hook_changed")
    ]


def test_pre_hook_may_be_the_workflow() -> None:
    found = attributed(an_envelope(a_call()), stage="pre-tool-hook", stage_inferred=False)
    assert found == [("harness.tool", "pre_hook_changed"), ("harness.workflow", "pre_hook_changed")]


def test_wrong_result_is_environment() -> None:
    assert attributed(an_envelope(an_order(raw={}, shown={}), a_call())) == [("environment", "result_breaks_schema")]


def test_lost_call_is_environment_or_workflow() -> None:
    lost = an_order(error=ErrorRecord(cls="T", type="timeout"), raw=UNSET, shown=UNSET)
    assert attributed(an_envelope(lost, a_call())) == [
        ("environment", "error_not_retried"),
        ("harness.workflow", "error_not_retried"),
    ]
    listed = an_order(error=ErrorRecord(cls="L", type="LookupError"), raw=UNSET, shown=UNSET)
    assert attributed(an_envelope(listed, a_call())) == [("model", "remainder")]
    again = an_order(seq=2)
    assert attributed(an_envelope(lost, again, a_call(3))) == [("model", "remainder")]


def test_empty_retrieval_is_memory() -> None:
    empty = a_call(1, "docs", kind=Kind.RETRIEVAL, raw={"documents": []})
    assert attributed(an_envelope(empty, a_call())) == [("harness.memory", "retrieval_empty")]


def test_bad_arguments_are_the_models() -> None:
    assert attributed(an_envelope(a_call(proposed={"amount": "ten"}, seen={"amount": "ten"}))) == [
        ("model", "arguments_invalid")
    ]


def test_schema_is_the_one_shown() -> None:
    asks = a_crossing(
        1,
        "planner",
        kind=Kind.MODEL,
        effect=None,
        seen={"tools": [{"name": "pay", "parameters": {"required": ["to"]}}]},
    )
    run = an_envelope(asks, a_call(group=1, proposed={"amount": "ten"}, seen={"amount": "ten"}))
    assert attributed(run) == [("model", "arguments_invalid")]
    assert attributed(an_envelope(asks, a_call(group=1, proposed={"to": "x"}, seen={"amount": "ten"}))) == [
        ("model", "remainder")
    ]


def test_invented_id_is_the_models() -> None:
    shown = an_order(shown={"limit": 5, "payment": "card_17"})
    assert attributed(an_envelope(shown, a_call(proposed={"payment": "card_17"}))) == [("model", "remainder")]
    assert attributed(an_envelope(shown, a_call(proposed={"payment": "card_18"}))) == [("model", "id_from_nowhere")]
    assert attributed(an_envelope(shown, a_call(proposed={"request_id": "r-7f3a"}))) == [("model", "remainder")]


def test_graders_may_disagree() -> None:
    run = an_envelope(a_call())
    scores = some_rows(
        Scores,
        *(
            {"trace_id": run.trace_id, "score_id": digit * 64, "origin": "llm", "value": value}
            for digit, value in (("1", 0.0), ("2", 1.0))
        ),
    )
    assert attributed(run, scores=scores) == [("grader", "graders_disagree")]


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("repeat", [("harness.workflow", "repeated_without_change"), ("model", "repeated_without_change")]),
        ("overrun", [("harness.prompt", "ran_past_done")]),
        ("swallowed_error", [("harness.tool", "error_swallowed")]),
    ],
)
def test_detectors_point_at_layers(name: str, layers: list[tuple[str, str]]) -> None:
    assert attributed(an_envelope(a_call()), invariant_id=name, source="detector") == layers


@pytest.mark.parametrize(
    ("spec", "user", "layers"),
    [
        ("refund:buggy", T_1042, ["harness.tool", "harness.workflow"]),
        ("scheduling:buggy", TO_THURSDAY, ["model"]),
        # The renamed field stands in every search of this library, so the environment is a suspect, if not a direct one.
        ("research:looping", ONE_PAPER, ["environment", "harness.workflow", "model"]),
        ("research:misreads_total", TWO_PAPERS, ["environment", "harness.tool", "harness.workflow"]),
        ("research:no_done_condition", TWO_PAPERS, ["environment", "harness.prompt"]),
    ],
)
def test_sample_run_points_at_its_bug(spec: str, user: dict[str, str], layers: list[str]) -> None:
    traces, crossings = frames([a_trace(spec, user)])
    policies = {name: held.policy for name, held in WORKFLOWS.items()}
    invariants = {name: held.invariants for name, held in WORKFLOWS.items() if held.invariants}
    findings = detect(traces, crossings, Scores.no_rows(), workflows=WORKFLOWS, harness_state="h").findings
    signed = sign(
        findings,
        traces,
        crossings,
        policies=policies,
        ledger=Ledger(),
        overrides=Overrides(),
        catalog={},
        harness_state="h",
    )
    tables = Tables(signed.memberships, findings, traces, crossings, Scores.no_rows())
    found = attribute(tables, policies=policies, invariants=invariants, harness_state="h").attributions
    assert found.sort("rank")["layer"].to_list() == layers
    assert set(found["verdict"]) == {"suggested"}
