"""Sessions whose models run live: a service behind the door, agents that ask it, and what was kept."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from builders import an_envelope
from commanding import POLICY, a_command
from gatewaying import WEATHER
from twiceshy import casefile
from twiceshy.casefile import Case, Judge, Layer, Opportunity
from twiceshy.configuration import UpstreamSettings
from twiceshy.gateway.asking import upstreams
from twiceshy.gateway.door import LiveModels
from twiceshy.outcome import Mode
from twiceshy.running import CandidateSpec, Played, Session, Task
from twiceshy.sealing import scrubbed_environment
from twiceshy.shards import ShardRequest
from upstreaming import KEY, Service

LIVE = Judge(mode=Mode.CUT_POINT, live=["model:*"])
CALL = {"name": "get_weather", "args": {"city": "Leith"}}
OFFERED = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": WEATHER}}
]  # fmt: skip

PLAIN = f"""
messages = [{{"role": "user", "content": "warmer?"}}]
def said(**more):
    return ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {{"model": "gpt-x", "messages": messages, "tools": {json.dumps(OFFERED)}, **more}})
"""
"""A command that asks the model without a client of its own: it starts in no time."""

OPENAI = f"""
import openai
client = openai.OpenAI()
messages = [{{"role": "user", "content": "warmer?"}}]
while True:
    got = client.chat.completions.create(model="gpt-x", messages=messages, tools={json.dumps(OFFERED)})
    said = got.choices[0].message
    if not said.tool_calls:
        break
    messages.append(said.model_dump(exclude_none=True))
    for call in said.tool_calls:
        shown = tool(call.function.name, **json.loads(call.function.arguments))
        messages.append({{"role": "tool", "tool_call_id": call.id, "content": json.dumps(shown)}})
print(json.dumps([said.content, got.model]))
"""


READS = (
    PLAIN
    + """
got = said()
shown = [tool("get_weather", city=city) for city in ("Leith", "Truro")]
print(json.dumps(MADE))
"""
)
SAYS = READS.replace("MADE", "got['choices'][0]['message']['content']")


def live_models(service: Service, replies: Path, **given: Any) -> LiveModels:
    stated = {
        "openai": UpstreamSettings(**{"base_url": service.origin, "key_env": "REAL_KEY", **given}),
        "anthropic": UpstreamSettings(**{"base_url": service.origin, "key_env": "REAL_KEY", **given}),
    }
    return LiveModels(upstreams=upstreams(stated, {"REAL_KEY": KEY}), replies=replies)


def a_live_session(folder: Path, live: LiveModels | None, code: str) -> Session:
    """A session of a command that runs this code."""
    spec = a_command(folder, sys.executable, "agent.py", code)
    return Session(spec, env=os.environ, folder=folder, cases=[folder / "case"], live=live)


def a_python_session(folder: Path, live: LiveModels | None, name: str) -> Session:
    """A session of a factory in agents.py."""
    spec = CandidateSpec(factory=f"agents:{name}", path=[folder])
    return Session(spec, env=os.environ, folder=folder, cases=[folder / "case"], live=live)


def a_task(folder: Path, **given: Any) -> Task:
    return Task(**{"loaded": casefile.load(folder / "case"), "judge": LIVE, "policy": POLICY, **given})


def trials(session: Session, folder: Path, *numbers: int, **given: Any) -> list[Played]:
    """These trials of the session, one after the other."""
    return [session.play(a_task(folder, number=number, **given)) for number in numbers]


def kept(replies: Path) -> list[dict[str, Any]]:
    """Every reply that is kept."""
    return [json.loads(path.read_text()) for path in sorted(replies.rglob("*.json"))]


def saved(folder: Path, name: str, *turns: Any, **given: Any) -> Path:
    """A case beside that of the agent."""
    envelope = an_envelope(*turns, workflow="weather") if turns else casefile.load(folder / "case").envelope
    fields = {
        "id": name,
        "kind": "positive",
        "workflow": "weather",
        "trace_id": envelope.trace_id,
        "judge": [LIVE],
        **given,
    }
    casefile.save(folder / name, Case(**{"opportunity": Opportunity(seq=2), **fields}), envelope)
    return folder / name


def request_of(folder: Path, service: Service, replies: Path, **given: Any) -> ShardRequest:
    """What a nightly asks of a shard, for a prompt case, which is judged with its model live by default."""
    (folder / "policies/weather").mkdir(parents=True, exist_ok=True)
    (folder / "policies/weather/tools.yaml").write_text("workflow: weather\ntools: {get_weather: {effect: read}}\n")
    (folder / "policies/weather/invariants.yaml").write_text("workflow: weather\ninvariants: []\n")
    path = saved(folder, "prompt", kind="failure", judge=[], layer=Layer(name="harness.prompt"))
    spec = a_command(folder, sys.executable, "agent.py", SAYS)
    upstream: Any = {"openai": UpstreamSettings(base_url=service.origin, key_env="REAL_KEY")}
    return ShardRequest(**{
        "factory": spec.factory, "command": spec.command, "python": sys.executable, "path": [str(folder)], "env": scrubbed_environment({}),
        "folder": str(folder), "policies": str(folder / "policies"), "cases": [str(path)], "upstream": upstream, "live": str(replies), **given,
    })  # fmt: skip
