"""A command whose tools run elsewhere, though it says that they go through the gateway: its run ends where its model is first told what nobody saw."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_divergence, a_model, a_played, a_policy, a_transcript
from commanding import a_weather_agent, played, verdict
from gatewaying import OFFER, an_output
from twiceshy.commands import closed_at_elsewhere
from twiceshy.outcome import Divergence, Outcome
from twiceshy.transcript import Played

POLICY = a_policy("weather", get_weather="read", add="none")


def asking(seq: int, *results: str | None, proposes: Any = None) -> Played:
    """A model that is told these results, and proposes."""
    told = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": one, "response": 7}]} for one in results]
    said = an_output(*([proposes] if proposes else ["done"]))
    return a_model(seq, seen={"messages": told, "tools": [OFFER]}, raw=said)


def a_call_of(tool: str, call_id: str | None = "call_9") -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": tool, "arguments": {}}


@given(calls=st.lists(st.booleans(), max_size=4), dropped=st.sets(st.integers(0, 3)))
def test_a_run_ends_at_the_first_result_without_a_call(calls: list[bool], dropped: set[int]) -> None:
    """Each turn proposes one tool of its own, and the next one tells its result, whether it was called or not."""
    steps: list[Played] = []
    for at, called in enumerate(calls):
        steps.append(
            asking(len(steps) + 1, *(f"c{before}" for before in range(at)), proposes=a_call_of(f"tool_{at}", f"c{at}"))
        )
        steps += [a_played(len(steps) + 1, f"tool_{at}")] if called else []
    steps.append(asking(len(steps) + 1, *(f"c{at}" for at in range(len(calls)))))
    told = closed_at_elsewhere(a_transcript(*steps), POLICY, dropped=[f"tool_{at}" for at in dropped])
    first = next((at for at, called in enumerate(calls) if not called and at not in dropped), None)
    if first is None:
        assert told == a_transcript(*steps)
        return
    assert told.divergence is not None
    assert (told.divergence.kind, told.disposition) == (Divergence.LIVE_UNCONTROLLED, None)
    assert f"results of tool_{first}, and no such call" in told.divergence.detail
    assert told.divergence.place == steps[len(told.played)].crossing.place
    assert told.played == steps[: len(told.played)]
    assert told.played[-1].crossing.raw["parts"][0]["name"] == f"tool_{first}"


@pytest.mark.parametrize(
    "steps",
    [
        [asking(1, "of_before")],  # an earlier turn of the conversation
        [asking(1, proposes=a_call_of("add")), asking(2, "call_9")],  # a pure tool
        [asking(1, proposes=a_call_of("get_weather", None)), asking(2, None)],  # nobody knows of what
        [asking(1, proposes=a_call_of("get_weather")), a_played(2, "get_weather", blocked_by="g"), asking(3, "call_9")],
        [
            a_model(1, seen="a text", raw="another"),
            a_model(2, seen={"messages": [{"parts": None}, 7]}, raw={"parts": [7]}),
        ],
    ],
)
def test_what_shows_nothing_ends_nothing(steps: list[Played]) -> None:
    assert closed_at_elsewhere(a_transcript(*steps), POLICY) == a_transcript(*steps)


def test_a_later_divergence_does_not_hide_it() -> None:
    steps = [asking(1, proposes=a_call_of("get_weather")), asking(2, "call_9")]
    told = closed_at_elsewhere(a_transcript(*steps, divergence=a_divergence(place="#3")), POLICY)
    assert told.divergence is not None
    assert told.divergence.place == "#2"


ASKING = """
def chat(messages):
    said = ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "planner", "messages": messages, "tools": [
        {"type": "function", "function": {name: value for name, value in OFFER.items() if name != "type"}}]})
    return said["choices"][0]["message"]

messages = [{"role": "user", "content": "?"}]
messages.append(chat(messages))
for call in messages[-1]["tool_calls"]:
    asked = json.loads(call["function"]["arguments"])
    answer = TOLD
    messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer)})
print(json.dumps(chat(messages)["content"]))
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "outcome"),
    [("tool('get_weather', **asked)", Outcome.PASSED), ("{'city': asked['city'], 'celsius': 7}", Outcome.DIVERGED)],
    ids=["through", "elsewhere"],
)
def test_no_run_passes_on_what_was_made_elsewhere(folder: Path, told: str, outcome: Outcome) -> None:
    code = ASKING.replace("OFFER", msgspec.json.encode(OFFER).decode()).replace("TOLD", told)
    found = played(folder, code)
    assert verdict(found).outcome is outcome
    kind = None if found.divergence is None else found.divergence.kind
    assert kind is (Divergence.LIVE_UNCONTROLLED if outcome is Outcome.DIVERGED else None)
