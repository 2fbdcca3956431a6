"""The refund agent in the OpenAI Agents SDK: `examples.frameworks.with_openai_agents:unguarded` and `:guarded`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agents import Agent, Model, Runner, Tool, function_tool

import twiceshy
from examples.frameworks import refunding
from examples.refund.agent import PROMPT
from examples.refund.planner import MODEL, plan
from twiceshy.adapters.openai_agents import bound
from twiceshy.adapters.openai_agents_messages import asked, completed, response_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agents import ModelResponse


class _Scripted(Model):
    model_name = MODEL

    async def get_response(self, *given: Any, **_: Any) -> ModelResponse:
        return response_of(plan(asked(*given[:6])))

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        yield completed(await self.get_response(*given, **options))


def _agent(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    refunding.hooked(boundary)
    tools: list[Tool] = [function_tool(tool, failure_error_function=None) for tool in refunding.Tools().all()]
    made = Agent(name="planner", model=_Scripted(), instructions=PROMPT, tools=tools)
    agent = bound(made, boundary, effects=refunding.EFFECTS)

    async def answer(user: dict[str, Any]) -> Any:
        return json.loads((await Runner.run(agent, user["message"])).final_output)

    return answer


@twiceshy.candidate(workflow="refund")
def unguarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """As in production when T-1042 happened."""
    return _agent(boundary)


@twiceshy.candidate(workflow="refund")
def guarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """With a guard before the refund."""
    refunding.guarded(boundary)
    return _agent(boundary)
