"""SWE-agent's trajectories, with function calls and with command lines."""

import json
from typing import Any

import polars as pl
import pytest

from tasks.sources import swe_agent
from tasks.sources.source import Mapped, Window
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError

Row = dict[str, Any]
SYSTEM = {"role": "system", "content": "You fix."}
ISSUE = {"role": "user", "content": "Fix it."}


def a_step(action: str = "ls", observation: Any = "A", **more: Any) -> Row:
    return {"action": action, "observation": observation, "response": f"Let me {action}.", "thought": "Hm."} | more


def an_answer(action: str = "ls", *calls: Row, **more: Any) -> Row:
    held = {"role": "assistant", "content": f"Let me {action}.", "action": action} | more
    return held | ({"tool_calls": list(calls)} if calls else {})


def a_call(call_id: str = "c1", **arguments: Any) -> Row:
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": json.dumps(arguments)}}


def seen(content: Any = "OBSERVATION: A", role: str = "user") -> Row:
    return {"role": role, "content": content}


def a_run(*steps: Any, history: Any = (), **more: Any) -> Row:
    held = {"environment": "main", "trajectory": list(steps), "history": [SYSTEM, ISSUE, *history]}
    return held | {"info": {"exit_status": "submitted", "submission": "diff"}} | more


def read(*runs: Any) -> Mapped:
    content = b"\n".join(run if isinstance(run, bytes) else json.dumps(run).encode() for run in runs)
    return swe_agent.spans(a_raw(content, "a/b.traj"), harness_state=HARNESS)


def of_kind(mapped: Mapped, kind: str) -> list[Row]:
    return mapped.spans.filter(pl.col("kind") == kind).sort("seq").to_dicts()


def test_action_is_a_command_line() -> None:
    mapped = read(a_run(a_step(), history=[an_answer(), seen()]))
    (tool,), (model,) = of_kind(mapped, "tool"), of_kind(mapped, "model")
    assert (tool["tool_name"], tool["proposed"], tool["seen"]) == ("shell", '{"command":"ls"}', '{"command":"ls"}')
    assert (tool["raw"], tool["shown"], tool["parent_span_id"]) == ('"A"', '"OBSERVATION: A"', model["span_id"])
    assert json.loads(model["messages_out"])[0]["parts"] == [{"type": "text", "text": "Let me ls."}]
    assert [row["kind"] for row in mapped.spans.sort("seq").to_dicts()] == ["step", "user", "model", "tool", "agent"]
    assert set(mapped.spans["time_precision"]) == {"none"}


def test_function_call_stands_in_the_history() -> None:
    mapped = read(a_run(a_step(), history=[an_answer("ls", a_call(command="ls")), seen(role="tool")]))
    (tool,), (model,) = of_kind(mapped, "tool"), of_kind(mapped, "model")
    assert (tool["tool_name"], tool["call_id"], tool["proposed"], tool["seen"]) == (
        "bash",
        "c1",
        '{"command":"ls"}',
        None,
    )
    assert json.loads(model["messages_out"])[0]["parts"][1]["name"] == "bash"


def test_step_that_the_history_lacks_is_a_command_line() -> None:
    mapped = read(a_run(a_step(), a_step("submit"), history=[an_answer("ls", a_call()), seen(role="tool")]))
    assert [row["tool_name"] for row in of_kind(mapped, "tool")] == ["bash", "shell"]


def test_answers_are_found_by_their_action() -> None:
    history = [an_answer("oops"), seen("Say it again."), an_answer("ls", a_call()), seen(role="tool")]
    (tool,) = of_kind(read(a_run(a_step(), history=history)), "tool")
    assert (tool["tool_name"], tool["shown"]) == ("bash", '"OBSERVATION: A"')


@pytest.mark.parametrize(("observation", "raw"), [("", '""'), (None, None)])
def test_empty_observation_is_a_result(observation: str | None, raw: str | None) -> None:
    (tool,) = of_kind(read(a_run(a_step(observation=observation))), "tool")
    assert tool["raw"] == raw


def test_answer_without_action_is_no_call() -> None:
    mapped = read(a_run(a_step("")))
    assert (len(of_kind(mapped, "model")), of_kind(mapped, "tool")) == (1, [])


def test_demonstration_is_no_turn() -> None:
    demo = [{"role": "user", "content": "Watch.", "is_demo": True}, an_answer("demo", is_demo=True)]
    run = a_run(a_step(), history=[an_answer(), seen()])
    run["history"][1:1] = demo
    mapped = read(run)
    assert [row["raw"] for row in of_kind(mapped, "user")] == ['"Fix it."']
    assert [row["raw"] for row in of_kind(mapped, "step") if row["raw"]] == ['"Watch."', '"Let me demo."']


def test_end_of_the_run_is_told() -> None:
    good, bad = (
        read(a_run(a_step(), info={"exit_status": status})) for status in ("submitted (exit_cost)", "exit_error")
    )
    assert [(row["is_error"], row["error_class"]) for row in of_kind(good, "agent") + of_kind(bad, "agent")] == [
        (False, None),
        (True, "exit_error"),
    ]
    assert bad.scores.select("name", "label", "origin").rows() == [("exit_status", "exit_error", "code")]


def test_model_is_the_configured_one() -> None:
    config = {"agent": {"model": {"name": "gpt-x"}}}
    (row,) = of_kind(read(a_run(a_step(), replay_config=json.dumps(config))), "model")
    assert (row["model_requested"], json.loads(row["provenance"])["model_requested"]["grade"]) == ("gpt-x", "derived")
    config["agent"]["model"]["name"] = "replay"
    assert of_kind(read(a_run(a_step(), replay_config=config)), "model")[0]["model_requested"] is None


def test_query_is_what_the_model_was_asked() -> None:
    (row,) = of_kind(read(a_run(a_step(query=[SYSTEM, ISSUE]))), "model")
    assert [message["role"] for message in json.loads(row["messages_in"])] == ["system", "user"]


def test_bad_steps_and_records_are_set_aside_alone() -> None:
    mapped = read(a_run(a_step(), 7, {"response": 7}), {"trajectory": []}, b"{")
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_type", "line 1, step 1"), ("bad_type", "line 1, step 2"), ("unknown_container", "line 2"), ("bad_json", "line 3"),
    ]  # fmt: skip
    assert mapped.spans_in == mapped.spans.height + 4


def test_folders_reach_no_column() -> None:
    assert read(a_run(a_step())).spans["source_trace_id"].unique().to_list() == ["b.traj"]


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="It looks like --source openai_chat"):
        read({"traj": []})


def test_real_runs() -> None:
    found = [
        swe_agent.spans(raw, harness_state="")
        for raw in swe_agent.source.fetch(Window(paths=(real("swe-agent"),)))
    ]  # fmt: skip
    whole = pl.concat([mapped.spans for mapped in found])
    assert (len(found), whole["trace_id"].n_unique()) == (14, 14)
    calls = whole.filter(kind="tool")
    assert (whole.filter(kind="model").height, calls.height) == (158, 158)
    assert calls.filter(pl.col("tool_name") != "shell")["trace_id"].n_unique() == 4
    assert calls.filter(raw='""').height == 11
    assert max(len(json.loads(raw)) for raw in calls["raw"] if raw.startswith('"')) == 8989
    assert {label for mapped in found for label in mapped.scores["label"]} == {"submitted"}
    made = normalized(found[0]._replace(spans=whole))
    assert set(made.traces["r4"]) == {"missing"}
    assert made.quarantine.height == 0
