"""The redaction policies of the sample agents name every field of the sample traces: an unknown one would hold its trace."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twiceshy import redaction
from twiceshy.redaction import fieldpaths

SAMPLES = Path("data/samples")
WORKFLOWS = ("refund", "scheduling", "research")


def spans(workflow: str) -> Iterator[dict[str, Any]]:
    for path in sorted(SAMPLES.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                if _attributes(resource["resource"])["twiceshy.workflow"] == workflow:
                    yield from (span for scope in resource["scopeSpans"] for span in scope["spans"])


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in holder["attributes"]}


def places(span: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(place, value) of each payload that is a record, as tasks/redact places them."""
    said = _attributes(span)
    match span["name"].split()[0], said.get("twiceshy.at"):
        case "execute_tool", _:
            named = {
                "args": ("gen_ai.tool.call.arguments", "twiceshy.proposed"),
                "result": ("gen_ai.tool.call.result", "twiceshy.shown"),
            }
            yield from (
                (f"tool.{said['gen_ai.tool.name']}.{side}", value)
                for side, names in named.items() for name in names if (value := _json(said.get(name))) is not None
            )  # fmt: skip
        case "invoke_agent", _:
            yield "input.user", _json(said["twiceshy.seen"])
            yield "output", _json(said.get("twiceshy.raw"))
        case "chat", _ if "gen_ai.input.messages" in said:
            yield from _in_messages(_json(said["gen_ai.input.messages"]))
        case "hook", str(at):
            side, _, tool = at.partition(":")
            for name in ("twiceshy.seen", "twiceshy.raw"):
                yield f"tool.{tool}.{'args' if side == 'before' else 'result'}", _json(said.get(name))
        case "router", _:
            yield f"router.{said['twiceshy.name']}.args", _json(said["twiceshy.seen"])


def _in_messages(messages: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    called = {}
    for part in (part for message in messages for part in message["parts"]):
        if part["type"] == "tool_call":
            called[part["id"]] = part["name"]
            yield f"tool.{part['name']}.args", part["arguments"]
        elif part["type"] == "tool_call_response":
            yield f"tool.{called[part['id']]}.result", part["response"]


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None  # a truncated one


def leaves(place: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(fieldpaths.child(place, key), member)
    elif isinstance(value, list):
        for member in value:
            yield from leaves(fieldpaths.item(place), member)
    elif value is not None:
        yield place


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_redaction_names_every_field(workflow: str) -> None:
    policy = redaction.load(Path(f"data/policies/{workflow}/redaction.yaml"))
    found = {leaf for span in spans(workflow) for place, value in places(span) for leaf in leaves(place, value)}
    assert len(found) > 20
    assert sorted(place for place in found if policy.rule(place) is None) == []


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_samples_use_the_published_key(workflow: str) -> None:
    policy = redaction.load(Path(f"data/policies/{workflow}/redaction.yaml"))
    assert policy.key_id == redaction.SAMPLE_KEY_ID
