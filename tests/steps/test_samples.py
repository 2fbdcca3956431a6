"""The committed sample traces are what the generator writes, and hold what the documentation says of them."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from examples.refund import BELOW_LIMIT, T_1042
from examples.refund.shop import Shop
from examples.research import ONE_PAPER
from examples.samples import generating, production
from examples.samples.blemishes import BLEMISHES
from examples.samples.export import exported
from examples.samples.people import FIRST, invented
from examples.scheduling import TO_JULY_32
from sample_runs import a_run
from twiceshy.envelope import Crossing, ErrorRecord, Kind
from twiceshy.identity import untagged

SAMPLES = Path("data/samples")
POLICIES = Path("data/policies")


@cache
def runs() -> list[generating.Answered]:
    return generating.answers(POLICIES)


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def committed() -> list[dict[str, Any]]:
    lines = [line for path in sorted(SAMPLES.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [span for line in lines for resource in json.loads(line)["resourceSpans"] for span in _spans(resource)]


def _spans(resource: dict[str, Any]) -> list[dict[str, Any]]:
    return [span for scope in resource["scopeSpans"] for span in scope["spans"]]


def rebuilt(span: dict[str, Any]) -> Crossing:
    """The crossing that a span tells of, by the table in `examples.samples` alone."""
    said = attributes(span)
    sides = {side: _value(said.get(f"twiceshy.{side}")) for side in ("proposed", "seen", "raw", "shown")}
    if said["twiceshy.kind"] == "tool":
        sides |= {
            "seen": _value(said["gen_ai.tool.call.arguments"]),
            "raw": _value(said.get("gen_ai.tool.call.result")),
        }
    if said["twiceshy.kind"] == "model":
        messages, tools = (_value(said[name]) for name in ("gen_ai.input.messages", "gen_ai.tool.definitions"))
        (output,) = _value(said["gen_ai.output.messages"])
        sides["seen"] = {"messages": messages, "tools": tools, **_value(said["twiceshy.request"])}
        sides["raw"] = sides["shown"] = {name: part for name, part in output.items() if name != "role"}
    error = {
        name.removeprefix("twiceshy.error."): value
        for name, value in said.items()
        if name.startswith("twiceshy.error.")
    }
    return Crossing(
        seq=int(said["twiceshy.seq"]), sub=int(said.get("twiceshy.sub", 0)), kind=Kind(said["twiceshy.kind"]),
        name=said.get("twiceshy.name") or said["gen_ai.tool.name"], at=said.get("twiceshy.at"),
        group=int(said["twiceshy.group"]) if "twiceshy.group" in said else None, attempt=int(said.get("twiceshy.attempt", 1)),
        blocked_by=said.get("twiceshy.blocked_by"), error=msgspec.convert(error, ErrorRecord) if error else None,
        start_ns=int(span["startTimeUnixNano"]), end_ns=int(span["endTimeUnixNano"]), **sides,
    )  # fmt: skip


def _value(text: str | None) -> Any:
    return UNSET if text is None else untagged(json.loads(text))


def as_exported(crossing: Crossing) -> Crossing:
    """A recorded crossing without what a reader works out anew (from the tools' policy, and a hook's group from its step), and without the passage that a draw
    lay in, for which the attributes of a span have no word.
    """
    group = None if crossing.sub else crossing.group
    parent = None if crossing.kind is Kind.RANDOM else crossing.parent
    return msgspec.structs.replace(crossing, key="", state="", effect=None, group=group, parent=parent)


@pytest.mark.parametrize(
    ("spec", "user", "world"),
    [
        ("refund:buggy", T_1042, None),
        ("refund:guarded", T_1042, None),
        ("refund:hook_fixed_and_guarded", BELOW_LIMIT, Shop(outages={"get_order": 1})),
        ("scheduling:july32_swallowed", TO_JULY_32, None),
        ("research:looping", ONE_PAPER, None),
    ],
)
def test_export_loses_nothing(spec: str, user: dict[str, str], world: object) -> None:
    envelope = a_run(spec, user, world)
    spans = exported(envelope, []).spans
    assert [rebuilt(span) for span in spans[1:]] == [as_exported(crossing) for crossing in envelope.crossings]
    assert json.loads(attributes(spans[0])["twiceshy.seen"]) == user
    assert json.loads(attributes(spans[0])["twiceshy.raw"]) == envelope.disposition.output


@pytest.mark.slow
def test_generator_writes_the_committed_bytes(tmp_path: Path) -> None:
    written = generating.write(tmp_path, policies=POLICIES)
    assert {path.name for path in written} == {path.name for path in SAMPLES.iterdir()}
    for path in written:
        assert path.read_bytes() == (SAMPLES / path.name).read_bytes(), path.name


def test_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 5_000_000


def test_a_file_a_day() -> None:
    names = [f"traces-{day}.jsonl" for day in production.DAYS]
    assert len(names) == 14
    assert sorted(path.name for path in SAMPLES.glob("*.jsonl")) == names


@pytest.mark.slow
def test_traffic_is_large_and_some_flagged() -> None:
    flagged = [run for run in runs() if run.flagged]
    assert len(runs()) >= 300
    assert 0.12 < len(flagged) / len(runs()) < 0.18
    assert {run.trace.workflow for run in flagged} == set(production.WORKFLOWS)


@pytest.mark.slow
def test_flags_come_from_four_sources() -> None:
    flagged = [run for run in runs() if run.flagged]
    origins = {score.origin for run in flagged for score in run.scores}
    assert origins == {"api", "llm", "human"}
    assert any(run.trace.root["status"]["code"] == 2 for run in flagged)


@pytest.mark.slow
def test_told_refund_is_t_1042() -> None:
    (told,) = [run for run in runs() if attributes(run.trace.root)["gen_ai.conversation.id"] == "T-1042"]
    order = next(attributes(span) for span in told.trace.spans if span["name"] == "execute_tool get_order")
    assert (told.day, told.trace.workflow, told.flagged) == (production.DAYS[1], "refund", True)
    assert json.loads(order["gen_ai.tool.call.result"])["policy_limit_gbp"] == 500
    assert "policy_limit_gbp" not in json.loads(order["twiceshy.shown"])


def test_each_blemish_is_there() -> None:
    spans = committed()
    spellings = [text for span in spans for text in attributes(span).values()]
    roots = {span["traceId"] for span in spans if "parentSpanId" not in span}
    clocked = {span["traceId"] for span in spans if "twiceshy.clock.text" in attributes(span)}
    repeats = Counter((span["traceId"], span["spanId"]) for span in spans)
    assert sum(_is_cut(text) for text in spellings) >= BLEMISHES["truncated"][0]
    assert [span["droppedAttributesCount"] for span in spans if "droppedAttributesCount" in span] == [2]
    assert len({span["traceId"] for span in spans} - roots) == BLEMISHES["rootless"][0]
    assert len(roots - clocked) == BLEMISHES["clockless"][0]
    assert len({trace for (trace, _), count in repeats.items() if count > 1}) == BLEMISHES["repeated"][0]
    assert [span["kind"] for span in spans if isinstance(span["kind"], str)] == ["SPAN_KIND_BANANA"]


def _is_cut(text: object) -> bool:
    return isinstance(text, str) and len(text) == 128 and text.startswith("{") and not text.endswith("}")


def test_people_are_invented_and_reserved() -> None:
    import random

    people = [invented(random.Random(seed)) for seed in range(200)]
    assert all(person.first in FIRST for person in people)
    assert all(person.email.rpartition("@")[2] in {"example.com", "example.org", "example.net"} for person in people)
    assert all(_luhn(person.card) for person in people)


def _luhn(card: str) -> bool:
    digits = [int(char) for char in reversed(card) if char.isdigit()]
    return sum(sum(divmod(digit * (1 + at % 2), 10)) for at, digit in enumerate(digits)) % 10 == 0


@pytest.mark.slow
def test_deployments_name_importable_candidates() -> None:
    import yaml

    from twiceshy import candidates

    days = yaml.safe_load((SAMPLES / "deployments.yaml").read_text())
    assert list(days) == [day.isoformat() for day in production.DAYS]
    assert days["2026-11-16"]["deployed"] == ["refund", "scheduling"]
    for spec in {day[workflow] for day in days.values() for workflow in production.WORKFLOWS}:
        assert candidates.load(spec)
