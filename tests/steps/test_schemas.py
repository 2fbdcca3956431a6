from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tables import DIGEST, a_row, some_rows
from tasks import contracts
from tasks.contracts import Quarantine, Table, WrongFrame, quarantined, validated

ROOT = Path(__file__).parents[2]
SHAPES = {"Table", "Keyed"}
"""Bases of tables, not tables."""

DESIGNED = """
    pulls quarantine traces spans scores crossings findings strata memberships signatures attributions admissions reviews
    replays violations intents dimensions coverage divergence champion_diff quality timings
"""


def every_model() -> dict[str, type[Table]]:
    modules = [
        contracts,
        *(import_module(f"tasks.{path.parent.name}.schema") for path in sorted(ROOT.glob("tasks/*/schema.py"))),
    ]
    classes = chain.from_iterable(vars(module).values() for module in modules)
    models = {cls for cls in classes if isinstance(cls, type) and issubclass(cls, Table) and cls.__name__ not in SHAPES}
    return {model.named(): model for model in sorted(models, key=lambda model: model.named())}


MODELS = every_model()

OUT_OF_DOMAIN: dict[str, Any] = {
    "isin": "no such member",
    "str_matches": "?",
    "str_length": "",
    "canonical_json": '{"b": 1, "a": 2}',
    "told_json": '{"b": 1}',
    "greater_than_or_equal_to": -1,
    "greater_than": 0,
    "less_than_or_equal_to": 2,
}

HELD = {"decision": "hold", "reasons": ["r4_missing"]}
SIGNED = {"signature": "sig_0a1b2c3d4e5f", "case_id": "c", "redacted": True, "reasons": []}
PROVEN = {"attributed": True, "versioned": True, "self_consistent": True, "envelope_digest": DIGEST, "severity": "high"}
PROMOTED = {"decision": "promote"} | SIGNED | PROVEN
MEMBER = {"decision": "member"} | SIGNED
ERROR = {"error_class": "KeyError", "error_code": "not_found", "error_definite": True}

KEPT: list[tuple[str, dict[str, Any]]] = [
    ("admissions", PROMOTED),
    ("admissions", PROMOTED | {"case_kind": "positive", "signature": None, "severity": None}),
    ("admissions", PROMOTED | {"r9": "derived", "completeness": "derived"}),
    ("admissions", MEMBER),
    ("admissions", HELD | {"r4": "missing", "completeness": "incomplete"}),
    ("attributions", {"verdict": "proven", "repair_sets": '[["harness.tool"]]', "replays_used": 6}),
    ("coverage", {"runs": 3, "state": "gap"}),
    ("coverage", {"cases": 1, "positives": 1, "breaks_applied": 2, "breaks_killed": 2, "state": "covered"}),
    ("crossings", {"seq": 4, "sub": 1, "kind": "hook", "effect": None}),
    ("crossings", {"seq": 0, "sub": 1, "kind": "clock", "effect": None}),
    ("crossings", {"kind": "tool", "seen": "null", "key": f"c1:{DIGEST}"} | ERROR),
    ("dimensions", {"value": 0.5, "n": 4, "threshold": 0.4, "passed": True}),
    ("divergence", {"replays": 30, "diverged": 0, "wilson_low": 0.0, "wilson_high": 0.114}),
    ("memberships", {"reason": "near", "score": 0.93}),
    ("quality", {"value": 3.0, "low": 1.0, "met": True}),
    ("replays", {"outcome": "diverged", "divergence": "args_mismatch"}),
    ("replays", {"outcome": "passed", "decided": True, "divergence": "args_mismatch"}),
    ("replays", {"outcome": "failed", "failure": "invariant"}),
    ("replays", {"outcome": "error", "reason": "isolation_not_held", "transcript_digest": None}),
    ("results", {"outcome": "failed", "change": "known", "champion_outcome": "failed", "waiver": "until 2026-12-01"}),
    ("runs", {"verdict": "failed", "exit_code": 1, "failed": 2}),
    ("steps", {"status": "only_recorded", "replayed_place": None}),
    ("steps", {"status": "only_replayed", "recorded_place": None, "diverged": True}),
    ("steps", {"status": "changed", "boundary": "intercepted", "answered_by": "guard", "violated": ["limit"]}),
    ("spans", {"kind": "tool", "raw": "null", "raw_encoding": "json"}),
    ("traces", {"flagged": True, "flags": [{"flag": "error", "source": "error_status"}]}),
    (
        "violations",
        {"truth": "violated", "seq": 4, "sub": 0, "boundary": "issue_refund", "boundary_state": "intercepted"},
    ),
]

SPAN_RULES: list[tuple[str, dict[str, Any]]] = [
    ("side_has_encoding", {"raw": "null"}),
    ("side_has_encoding", {"raw_encoding": "json"}),
    ("ends_after_start", {"start_ns": 2, "end_ns": 1}),
    ("context_has_no_error_code", {"kind": "infra", "error_code": "unknown"}),
    ("boundary_error_is_coded", {"kind": "tool", "is_error": True}),
]

OVER_ROWS = {"ranks_differ"}
"""Rules that one row alone cannot break."""

BROKEN: list[tuple[str, str, dict[str, Any]]] = [
    ("admissions", "completeness_from_grades", HELD | {"r4": "missing"}),
    ("admissions", "refusal_says_why", {"decision": "hold", "reasons": []}),
    ("admissions", "promoted_is_proven", PROMOTED | {"self_consistent": None}),
    ("admissions", "promoted_is_proven", PROMOTED | {"r8": "missing"}),
    ("admissions", "promoted_is_proven", PROMOTED | {"redacted": False}),
    ("admissions", "failure_has_signature", PROMOTED | {"signature": None}),
    ("admissions", "member_has_signature", MEMBER | {"case_id": None}),
    ("attributions", "proven_by_replay", {"verdict": "proven"}),
    ("attributions", "undecided_says_why", {"verdict": "unresolved"}),
    ("attributions", "ranks_differ", {"layer": "model"}),
    ("champion_diff", "something_differs", {"champion_outcome": "passed", "candidate_outcome": "passed"}),
    ("coverage", "state_from_counts", {"runs": 3, "state": "not_seen"}),
    ("coverage", "state_from_counts", {"runs": 3, "state": "covered"}),
    (
        "coverage",
        "covered_is_proven",
        {"cases": 1, "positives": 0, "breaks_applied": 2, "breaks_killed": 2, "state": "covered"},
    ),
    ("coverage", "killed_were_applied", {"breaks_killed": 1}),
    ("conversations", "violated_is_failed", {"outcome": "passed", "violated": ["one-refund"], "reason": "x"}),
    ("conversations", "violated_is_failed", {"outcome": "failed", "violated": ["one-refund"]}),
    ("conversations", "every_turn_has_an_outcome", {"cases": ["a"]}),
    ("crossings", "numbered_by_kind", {"kind": "hook", "sub": 0, "effect": None}),
    ("crossings", "numbered_by_kind", {"kind": "tool", "seq": 0}),
    ("crossings", "key_needs_arguments", {"key": f"c1:{DIGEST}"}),
    ("crossings", "error_is_whole", ERROR | {"error_definite": None}),
    ("crossings", "tool_has_effect", {"kind": "tool", "effect": None}),
    ("dimensions", "judged_by_threshold", {"value": 0.3, "n": 1, "threshold": 0.4, "passed": True}),
    ("dimensions", "value_counts_something", {"value": 0.3, "n": 0}),
    ("divergence", "rate_within_bounds", {"replays": 10, "diverged": 9, "wilson_low": 0.0, "wilson_high": 0.5}),
    ("divergence", "rate_within_bounds", {"wilson_low": 0.0}),
    ("findings", "detector_known", {"source": "detector", "invariant_id": "no_such"}),
    ("findings", "ends_after_onset", {"onset_seq": 3, "end_seq": 2}),
    ("intents", "blocked_by_guard", {"answered_by": "guard"}),
    ("memberships", "one_primary", {"primary": False}),
    ("memberships", "near_has_score", {"reason": "near"}),
    ("memberships", "maybe_is_new", {"reason": "known", "maybe": "sig_0a1b2c3d4e5f"}),
    ("pulls", "spans_accounted_for", {"spans_in": 3, "quarantined": 1}),
    ("pulls", "duplicates_counted_apart", {"spans_in": 3, "spans_out": 3, "distinct": 2}),
    ("quality", "met_within_bounds", {"value": 3.0, "high": 1.0, "met": True}),
    ("quality", "met_within_bounds", {"value": 3.0, "met": True}),
    ("replays", "diverged_names_kind", {"outcome": "diverged"}),
    ("replays", "diverged_names_kind", {"outcome": "passed", "divergence": "args_mismatch"}),
    ("replays", "failed_names_failure", {"outcome": "failed"}),
    ("replays", "decided_only_if_passed", {"outcome": "failed", "failure": "invariant", "decided": True}),
    ("replays", "break_has_state", {"broken_by": "guard.off:g"}),
    ("replays", "break_has_state", {"break_state": "killed"}),
    ("replays", "error_says_what", {"outcome": "error"}),
    ("replays", "error_says_what", {"outcome": "passed", "transcript_digest": None}),
    ("results", "failure_says_change", {"outcome": "failed"}),
    ("results", "failure_says_change", {"change": "new"}),
    ("results", "waived_is_known", {"outcome": "failed", "change": "new", "waiver": "until 2026-12-01"}),
    ("runs", "verdict_is_exit_code", {"exit_code": 3}),
    ("signatures", "covered_needs_case", {"state": "covered"}),
    ("standings", "covered_somewhere", {"state": "covered"}),
    ("standings", "covered_somewhere", {"state": "escaped", "covered_in": ["full"]}),
    ("steps", "places_by_status", {"replayed_place": None}),
    ("steps", "places_by_status", {"status": "only_recorded"}),
    ("steps", "places_by_status", {"status": "only_recorded", "recorded_place": None}),
    ("steps", "places_by_status", {"status": "only_replayed", "replayed_place": None}),
    ("steps", "replay_left_marks", {"status": "only_recorded", "replayed_place": None, "boundary": "live"}),
    ("steps", "replay_left_marks", {"status": "only_recorded", "replayed_place": None, "violated": ["limit"]}),
    ("steps", "sides_are_capped", {"replayed_raw": "é" * 8193}),
    ("steps", "divergence_is_no_match", {"diverged": True}),
    ("strata", "sampled_within_quota", {"rank": 2, "stratum_size": 2}),
    ("strata", "weighted_when_sampled", {"weight": None}),
    ("strata", "rank_within_stratum", {"rank": 2, "quota": 2}),
    ("traces", "flagged_names_flags", {"flagged": True}),
    ("traces", "flag_sources_known", {"flagged": True, "flags": [{"flag": "f", "source": "nobody"}]}),
    ("traces", "stamp_is_whole", {"key_id": "k2026-11"}),
    ("violations", "place_is_whole", {"seq": 4}),
    *((table, "says_something", {"value": None}) for table in ("scores", "score_records")),
    *((table, *rule) for table in ("spans", "redacted_spans", "span_records") for rule in SPAN_RULES),
]


def test_every_designed_table_stands() -> None:
    assert set(MODELS) == {
        *DESIGNED.split(),
        "runs",
        "results",
        "conversations",
        "standings",
        "steps",
        "span_records",
        "score_records",
        "redacted_spans",
    }


@pytest.mark.parametrize("name", MODELS)
def test_grain_opens_docstring(name: str) -> None:
    assert (MODELS[name].__doc__ or "").startswith("One ")
    assert "harness_state" in MODELS[name].dtypes()


@pytest.mark.parametrize("name", MODELS)
def test_valid_row_is_kept(name: str) -> None:
    kept = validated(some_rows(MODELS[name]), MODELS[name])
    assert kept.set_aside["set_aside_for"].to_list() == []
    assert kept.good.schema == MODELS[name].dtypes()


@pytest.mark.parametrize(("name", "columns"), KEPT)
def test_each_honest_shape_is_kept(name: str, columns: dict[str, Any]) -> None:
    assert validated(some_rows(MODELS[name], columns), MODELS[name]).set_aside["set_aside_for"].to_list() == []


def faults(model: type[Table]) -> list[tuple[str, str, object]]:
    columns = model.to_schema().columns
    domains = [
        (name, check.name, OUT_OF_DOMAIN[check.name]) for name, column in columns.items() for check in column.checks
    ]
    return domains + [(name, "not_nullable", None) for name, column in columns.items() if not column.nullable]


@pytest.mark.parametrize("name", MODELS)
def test_each_column_holds_its_domain(name: str) -> None:
    model = MODELS[name]
    rows = [a_row(model) | {column: value} for column, _, value in faults(model)]
    reasons = validated(pl.DataFrame(rows, schema=model.dtypes(), strict=False), model).set_aside["set_aside_for"]
    for (column, check, _), reason in zip(faults(model), reasons, strict=True):
        assert f"{column}: {check}" in reason.split("; ")


@pytest.mark.parametrize(("name", "rule", "columns"), BROKEN)
def test_each_row_rule_is_held(name: str, rule: str, columns: dict[str, Any]) -> None:
    beside: list[dict[str, Any]] = [{}] if rule in OVER_ROWS else []
    reasons = validated(some_rows(MODELS[name], columns, *beside), MODELS[name]).set_aside["set_aside_for"]
    assert rule in reasons[0].split("; ")


def test_no_row_rule_goes_unbroken() -> None:
    declared = {(name, check.name) for name, model in MODELS.items() for check in model.to_schema().checks}
    assert declared == {(name, rule) for name, rule, _ in BROKEN}


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"timings"}))
def test_repeated_key_is_set_aside(name: str) -> None:
    twice = validated(some_rows(MODELS[name], {}, {"harness_state": "another"}), MODELS[name])
    assert twice.good.is_empty()
    assert all("multiple_fields_uniqueness" in reason for reason in twice.set_aside["set_aside_for"])


@pytest.mark.parametrize("name", MODELS)
def test_wrong_type_stops_step(name: str) -> None:
    frame = some_rows(MODELS[name])
    column = frame.columns[-1]
    with pytest.raises(WrongFrame, match=f"{column} is Date"):
        validated(frame.with_columns(pl.lit(None, pl.Date).alias(column)), MODELS[name])


def test_unknown_column_stops_step() -> None:
    with pytest.raises(WrongFrame, match=r"price \(not declared\); tool \(missing\)"):
        validated(some_rows(MODELS["coverage"]).drop("tool").with_columns(price=1), MODELS["coverage"])


def test_wrong_frame_quotes_no_value() -> None:
    frame = some_rows(MODELS["crossings"], {"raw": '{"name":"Ada"}'}).with_columns(pl.lit("Ada").alias("seq"))
    with pytest.raises(WrongFrame) as raised:
        validated(frame, MODELS["crossings"])
    assert "Ada" not in str(raised.value)


def test_good_rows_come_sorted() -> None:
    frame = some_rows(MODELS["dimensions"], *({"replay_id": DIGEST[:-1] + last} for last in "c?ab"))
    kept = validated(frame, MODELS["dimensions"])
    assert [key[-1] for key in kept.good["replay_id"]] == ["a", "b", "c"]
    assert kept.set_aside["replay_id"].to_list() == [DIGEST[:-1] + "?"]


def test_unknown_is_not_null() -> None:
    kept = validated(some_rows(MODELS["crossings"], {"seq": 1}, {"seq": 2, "raw": "null"}), MODELS["crossings"])
    assert kept.good["raw"].to_list() == [None, "null"]


def test_set_aside_rows_reach_quarantine() -> None:
    bad = {"proposed": "no json: Ada", "span_id": "Ada"}
    aside = validated(some_rows(MODELS["crossings"], {}, bad, bad), MODELS["crossings"]).set_aside
    kept = validated(quarantined(aside, MODELS["crossings"], step="normalize", harness_state="h"), Quarantine)
    assert kept.set_aside.is_empty()
    assert kept.good["trace_id"].n_unique() == 1
    assert kept.good["quarantine_id"].n_unique() == 3
    assert "Ada" not in str(kept.good.rows())
