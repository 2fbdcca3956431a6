"""A small but complete published run for the site: fourteen nights of three agents. Tables keep their contracts; the steps are those of real replays."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from published_stories import GAPS, LAST, NIGHTS, OUTCOMES, STORIES, Story, digest
from tables import a_row
from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.contracts import Table, validated
from tasks.publish.schema import VERDICTS, ChampionDiff, Conversations, Coverage, Divergence, Quality, Results, Runs
from tasks.replay.aligned import step_rows
from tasks.replay.schema import Intents, Replays, Steps, Violations
from tasks.sign.schema import Signatures
from tasks.store import Publication as Stored
from tasks.store import Published
from twiceshy.identity import canonical
from twiceshy.outcome import BoundaryState

STATE = "harness-1"
GENERATION = hashlib.sha256(b"corpus").hexdigest()
CANDIDATES = {"refund": "approval_removed", "scheduling": "fixed", "research": "fixed"}

Rows = list[dict[str, Any]]


def run_id(workflow: str, night: str) -> str:
    return f"{workflow}-{night}"


def replay_id(story: Story, night: str, trial: int = 1, broken_by: str | None = None) -> str:
    return digest(f"{story.name} {night} {trial} {broken_by}")


def published(
    root: Path, *, without: Collection[str] = (), dropped: Mapping[str, str] | None = None, **replaced: Rows
) -> Stored:
    """The run on disk. replaced: the rows of a table, whole, in place of those made here; dropped: a column of a table that is left out."""
    named = {model.named(): (model, make) for model, make in RUN_TABLES.items() if model.named() not in without}
    frames = {
        name: frame_of(model, replaced[name] if name in replaced else make()) for name, (model, make) in named.items()
    }
    for name, column in (dropped or {}).items():
        frames[name] = frames[name].drop(column)
    return Published(root).publish(run_id("refund", LAST), generation=GENERATION, tables=frames)


def frame_of(model: type[Table], found: Rows) -> pl.DataFrame:
    filled = [{**a_row(model, harness_state=STATE), **row} for row in found]
    kept = validated(pl.DataFrame(filled, schema=model.dtypes()), model)
    assert kept.set_aside.is_empty(), (model.named(), kept.set_aside["set_aside_for"].to_list())
    return kept.good


def _versions(workflow: str, day: int) -> str:
    candidate = sum(
        day >= changed for changed in {"refund": (6, 9, 13), "scheduling": (4, 8), "research": (2, 4)}[workflow]
    )
    return canonical({"candidate": f"2.{candidate}.0", "catalog": f"v{11 + (day >= 9)}", "harness": STATE}).decode()  # fmt: skip


def _runs() -> Rows:
    found = []
    for workflow, candidate in CANDIDATES.items():
        for day, night in enumerate(NIGHTS):
            counts = {name: _count(workflow, day, letter) for letter, name in OUTCOMES.items()}
            verdict = next((v for v, o in ((name, name) for name in ("failed", "error", "diverged")) if counts[o]), "passed")  # fmt: skip
            found.append({
                "run_id": run_id(workflow, night), "night": night, "workflow": workflow, "candidate": f"{workflow}:{candidate}",
                "candidate_digest": digest(candidate)[:16], "champion_digest": "91ab003f0c21", "mode": "auto", "trials": 2, "verdict": verdict,
                "exit_code": VERDICTS[verdict], **counts, "not_run": int(workflow == "research"), "versions": _versions(workflow, day),
            })  # fmt: skip
    return found


def _count(workflow: str, day: int, letter: str) -> int:
    return sum(story.nights[day] == letter for story in STORIES if story.workflow == workflow)


def _judged() -> list[tuple[Story, str, str]]:
    return [
        (story, night, OUTCOMES[letter])
        for story in STORIES
        for night, letter in zip(NIGHTS, story.nights, strict=True)
        if letter != "."
    ]


def _case(story: Story, night: str) -> dict[str, Any]:
    failure = story.kind == "failure"
    return {
        "run_id": run_id(story.workflow, night), "case_id": story.name.replace("@", "-at-"), "case_digest": digest(story.name), "night": night,
        "workflow": story.workflow, "case_kind": story.kind, "signature": story.id if failure else None, "slug": story.name if failure else None,
        "trace_id": story.trace_id,
    }  # fmt: skip


def _results() -> Rows:
    return [
        {
            **_case(story, night), "tool": story.tool, "modes": [story.cut.label], "outcome": outcome, "replay_id": replay_id(story, night),
            "change": story.change if night == LAST else "new" if outcome == "failed" else None,
            "champion_outcome": story.champion if night == LAST else None, "waiver": None,
        }
        for story, night, outcome in _judged()
    ]  # fmt: skip


def _trial(story: Story, night: str, outcome: str) -> dict[str, Any]:
    steps = story.aligned()
    diverged = next((step for step in steps if step.diverged), None)
    kind = "state_mismatch" if story.name.startswith("confirmed-without") else "args_mismatch"
    told = {
        "failed": {"failure": "invariant"},
        "diverged": {"divergence": kind if diverged else "opportunity_not_reached"},
        "error": {"reason": "isolation_not_held", "transcript_digest": None},
    }
    if outcome == "diverged" and diverged and diverged.replayed:
        told["diverged"] |= {"divergence_seq": diverged.replayed.seq, "divergence_boundary": f"{diverged.kind}:{diverged.name}"}  # fmt: skip
    return {
        **_case(story, night), "trial": 1, "mode": story.cut.mode, "live": ",".join(sorted(story.cut.live)), "candidate": story.candidate,
        "candidate_digest": digest(story.candidate)[:16], "outcome": outcome, "transcript_digest": digest(story.candidate), "isolation": "namespaces",
        "crossings": len(steps), "seed": "0", **told.get(outcome, {}),
    }  # fmt: skip


def _replays() -> Rows:
    plain = [
        {**_trial(story, night, outcome), "trial": trial, "replay_id": replay_id(story, night, trial)}
        for story, night, outcome in _judged()
        for trial in ((1, 2) if night == LAST else (1,))
    ]
    broken = [
        {
            **_trial(story, LAST, "failed"),
            "broken_by": broken_by,
            "break_state": "killed",
            "replay_id": replay_id(story, LAST, 1, broken_by),
        }
        for story in STORIES[:1]
        for broken_by in ("guard.off:refund-approval", "hook.strip:get_order.policy_limit_gbp")
    ]
    return plain + broken


def _violations() -> Rows:
    found = []
    for replay in _replays():
        story = next(story for story in STORIES if story.trace_id == replay["trace_id"])
        if replay["outcome"] == "failed":
            place = {"seq": int(story.at[1:]), "sub": 0, "boundary": f"tool:{story.tool}", "boundary_state": "intercepted"} if story.at else {}  # fmt: skip
            found.append({
                **{name: replay[name] for name in ("replay_id", "run_id", "case_id")}, "invariant_id": story.invariant, "invariant_version": "1",
                "tier": "hard", "kind": "must_not", "truth": "violated", "message": story.message or "the invariant does not hold", **place,
            })  # fmt: skip
    return found


def _steps() -> Rows:
    found: Rows = []
    for story in STORIES:
        trial = {"replay_id": replay_id(story, LAST), "run_id": run_id(story.workflow, LAST), "case_id": _case(story, LAST)["case_id"]}  # fmt: skip
        violated = {story.at: [story.invariant]} if story.at and story.outcome == "failed" else {}
        if story.outcome != "error":
            found += step_rows(story.aligned(), trial={**trial, "harness_state": STATE}, violated=violated)
    return found


def _intents() -> Rows:
    return [
        {
            "replay_id": replay_id(story, LAST), "run_id": run_id(story.workflow, LAST), "case_id": _case(story, LAST)["case_id"],
            "seq": step.replayed.seq, "tool": step.name, "key": step.replayed.key, "answered_by": step.played.answered_by,
            "blocked_by": step.replayed.blocked_by, "explained_by": "recorded" if step.recorded else None, "seen": canonical(step.replayed.seen).decode(),
        }
        for story in STORIES
        if story.outcome != "error"
        for step in story.aligned()
        if step.played and step.replayed and step.played.boundary is BoundaryState.INTERCEPTED
    ]  # fmt: skip


def _signatures() -> Rows:
    cases = [
        {
            "signature": story.id, "slug": story.name, "workflow": story.workflow, "invariant_id": story.invariant, "tool": story.tool,
            "stage": story.stage, "policy_boundary": "-", "effect": "extra", "error_class": "-", "severity": story.severity, "state": "covered" if story.outcome == "passed" else "open",
            "case_id": _case(story, LAST)["case_id"], "case_trace_id": story.trace_id, "traces": story.traces, "first_seen_ns": 1_793_500_000_000_000_000,
            "last_seen_ns": 1_794_600_000_000_000_000, "zone": "Europe/London", "aliases": [],
        }
        for story in STORIES
        if story.kind == "failure"
    ]  # fmt: skip
    gaps = [
        {
            "signature": f"sig_{digest(gap.name)[:12]}", "slug": gap.name, "workflow": gap.workflow, "invariant_id": "no-tool-error-swallowed",
            "tool": gap.tool, "stage": "tool", "effect": "missing", "error_class": "timeout", "severity": "medium", "state": "open", "traces": gap.traces,
            "zone": "UTC",
        }
        for gap in GAPS
    ]  # fmt: skip
    return cases + gaps


def _attributions() -> Rows:
    return [
        {"trace_id": story.trace_id, "layer": story.layer, "workflow": story.workflow, "rank": 1, "verdict": "suggested",
         "signals": canonical([{"rule": "hook_strips_field", "evidence": "#2.1"}]).decode()}
        for story in STORIES if story.kind == "failure"
    ]  # fmt: skip


CODES = {
    "refund": {"get_order": "ok not_found timeout", "get_customer": "ok not_found", "create_approval": "ok", "issue_refund": "ok validation timeout", "send_message": "ok"},
    "scheduling": {"get_appointment": "ok not_found", "list_open_slots": "ok timeout", "reschedule": "ok conflict", "send_confirmation": "ok"},
    "research": {"search": "ok timeout rate_limited", "fetch": "ok not_found", "write_brief": "ok", "notify": "ok"},
}  # fmt: skip
CASED = {
    ("issue_refund", "ok"): "covered",
    ("search", "ok"): "unproven",
    ("send_confirmation", "ok"): "unproven",
    ("reschedule", "ok"): "covered",
}
UNSEEN = {
    ("create_approval", "ok"),
    ("reschedule", "conflict"),
    ("search", "rate_limited"),
    ("issue_refund", "validation"),
}


def _coverage() -> Rows:
    return [
        {
            "workflow": workflow, "tool": tool, "error_code": code, "bucket": bucket,
            **_cell(tool, code, int(digest(f"{tool}{code}{bucket}")[:2], 16) + 1),
        }
        for workflow, listed in CODES.items()
        for tool, codes in listed.items()
        for code in codes.split()
        for bucket in ("args:low", "args:high")
    ]  # fmt: skip


def _cell(tool: str, code: str, runs: int) -> dict[str, Any]:
    state = CASED.get((tool, code), "gap")
    if (tool, code) in UNSEEN:
        return {"runs": 0, "cases": 0, "positives": 0, "breaks_applied": 0, "breaks_killed": 0, "state": "not_seen"}
    if state == "gap":
        return {"runs": runs, "cases": 0, "positives": 0, "breaks_applied": 0, "breaks_killed": 0, "state": "gap"}
    proven = state == "covered"
    return {"runs": runs, "cases": 1, "positives": int(proven), "breaks_applied": 2, "breaks_killed": 2 * proven, "state": state}  # fmt: skip


def _divergence() -> Rows:
    return [
        {
            "night": night, "mode": mode, "workflow": workflow, "replays": replays, "diverged": diverged,
            "wilson_low": max(0.0, rate - 0.8 * spread) if replays else None, "wilson_high": min(1.0, rate + spread) if replays else None,
            "versions": _versions(workflow, day),
        }
        for workflow in CANDIDATES
        for mode in ("full", "cut-point")
        for day, night in enumerate(NIGHTS)
        for replays in [0 if (workflow, day) == ("research", 6) else 2 * sum(s.workflow == workflow and s.nights[day] != "." for s in STORIES) + 10]
        for diverged in [min(replays, 2 * _count(workflow, day, "D") * (mode == "cut-point" or workflow == "refund"))]
        for rate in [diverged / replays if replays else 0.0]
        for spread in [0.18 if diverged else 0.16]
    ]  # fmt: skip


def _champion_diff() -> Rows:
    return [
        {
            **{name: value for name, value in _case(story, LAST).items() if name in ChampionDiff.dtypes()}, "mode": story.cut.mode,
            "live": ",".join(sorted(story.cut.live)), "candidate_digest": digest(story.candidate)[:16], "champion_digest": "91ab003f0c21",
            "champion_outcome": story.champion, "candidate_outcome": story.outcome, "change": story.change,
        }
        for story in STORIES if story.change
    ]  # fmt: skip


def _quality() -> Rows:
    return [
        {"scope": "all", "metric": "traces_unflagged", "unit": "count", "value": 271.0},
        {"scope": "all", "metric": "leaks", "unit": "count", "value": 0.0, "high": 0.0, "met": True},
        {"scope": "all", "metric": "orphan_span_share", "unit": "ratio", "value": 0.013, "high": 0.02, "met": True},
        {"scope": "workflow:research", "metric": "envelope_complete_share", "unit": "ratio", "value": 0.74, "low": 0.8, "met": False},
        {"scope": "all", "metric": "newest_trace_age", "unit": "ns", "value": 5.4e12, "high": 8.64e13, "met": True},
    ]  # fmt: skip


def _admissions() -> Rows:
    held = {"r4_missing": 5, "flag:truncated": 3, "hold:unknown_field": 2}
    found = [
        {"decision": "hold", "reasons": [reason], "r4": "missing" if reason == "r4_missing" else "recorded",
         "completeness": "incomplete" if reason == "r4_missing" else "complete"}
        for reason, traces in held.items() for _ in range(traces)
    ]  # fmt: skip
    found += [{"decision": "discard", "reasons": ["duplicate"], "completeness": "complete"} for _ in range(4)]
    found += [
        {"decision": "member", "reasons": [], "signature": f"sig_{digest(STORIES[0].name)[:12]}", "case_id": "c", "redacted": True, "completeness": "complete"}
        for _ in range(31)
    ]  # fmt: skip
    return [{**row, "source": "otlp", "trace_id": digest(f"t{n}")[:32]} for n, row in enumerate(found)]


def _conversations() -> Rows:
    """The two refund cases are turns of one talk, in which a second refund was issued."""
    cases = [story.name.replace("@", "-at-") for story in STORIES if story.tool == "issue_refund"][:2]
    return [
        {
            "run_id": run_id("refund", night), "conversation_id": "T-1042", "night": night, "workflow": "refund", "outcome": "failed", "cases": cases,
            "outcomes": ["passed", "passed"], "violated": ["one-refund"], "reason": "one-refund: more than 1; at the second turn #4",
        }
        for night in NIGHTS[-2:]
    ]  # fmt: skip


RUN_TABLES = {
    Runs: _runs, Results: _results, Conversations: _conversations, Replays: _replays, Violations: _violations, Steps: _steps, Intents: _intents, Signatures: _signatures,
    Attributions: _attributions, Coverage: _coverage, Divergence: _divergence, ChampionDiff: _champion_diff, Quality: _quality,
    Admissions: _admissions,
}  # fmt: skip


def _told(rows: Rows, text: str, *columns: str) -> Rows:
    return [{**row, **{column: text for column in columns if row.get(column) is not None}} for row in rows]


def hostile_tables(text: str) -> dict[str, Rows]:
    """The text in place of every one that a stranger can have a say in, in the tables that pages are made from."""
    texts = {
        Runs: ("candidate", "candidate_digest", "champion_digest", "mode"),
        Results: ("tool",),
        Conversations: ("conversation_id", "reason"),
        Steps: ("name", "scope", "replayed_blocked_by"),
        Signatures: ("invariant_id", "tool", "error_class"),
    }
    tables = {model.named(): _told(make(), text, *texts.get(model, ())) for model, make in RUN_TABLES.items()}
    payload = json.dumps({text: text}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    for step in tables["steps"]:
        known = [name for name in step if re.fullmatch(r"(recorded|replayed)_(proposed|seen|raw|shown|error)", name)]
        step.update({name: payload for name in known if step[name] is not None})
    for row in tables["violations"]:
        row.update(invariant_id=text, message=text)
    for row in tables["admissions"]:
        row["reasons"] = [text] if row["reasons"] else []
    for row in tables["coverage"]:
        row["bucket"] += text
    return tables
