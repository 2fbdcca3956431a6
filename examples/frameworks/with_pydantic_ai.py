"""The refund agent in pydantic-ai: `examples.frameworks.with_pydantic_ai:unguarded` and `:guarded`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

import twiceshy
from examples.frameworks import refunding
from examples.refund.agent import PROMPT
from examples.refund.planner import MODEL, plan
from twiceshy.adapters.pydantic_ai import bound
from twiceshy.adapters.pydantic_ai_messages import asked, response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import AgentInfo


async def _scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return response_of(plan(asked(messages, info.model_settings, info.model_request_parameters)))


def _agent(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    refunding.hooked(boundary)
    made = Agent(FunctionModel(_scripted, model_name=MODEL), instructions=PROMPT, tools=refunding.Tools().all())
    agent = bound(made, boundary, model="planner", prompt=PROMPT, effects=refunding.EFFECTS)

    async def answer(user: dict[str, Any]) -> Any:
        return json.loads((await agent.run(user["message"])).output)

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
