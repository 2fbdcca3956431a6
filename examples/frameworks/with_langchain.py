"""The refund agent in LangChain: `examples.frameworks.with_langchain:unguarded`, `:guarded` and `:capped`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

import twiceshy
from examples.frameworks import refunding
from examples.refund.agent import PROMPT
from examples.refund.planner import MODEL, plan
from twiceshy.adapters.langchain import create_agent
from twiceshy.adapters.langchain_messages import asked, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Scripted(BaseChatModel):
    model_name: str = MODEL

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=message_of(plan(asked(messages, options))))])


class CappedRefunds(AgentMiddleware[Any, Any]):
    """Middleware of the framework's own: no refund above 500 GBP, whatever the model asks."""

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Hand the call on, its amount capped."""
        call = request.tool_call
        if call["name"] == "issue_refund":
            capped = {**call["args"], "amount_gbp": min(500, call["args"]["amount_gbp"])}
            request = request.override(tool_call={**call, "args": capped})
        return handler(request)


def _agent(boundary: twiceshy.Boundary, *middleware: AgentMiddleware[Any, Any]) -> Callable[[dict[str, Any]], Any]:
    refunding.hooked(boundary)
    graph = create_agent(
        boundary, _Scripted(), refunding.Tools().all(), system_prompt=PROMPT, middleware=middleware,
        model_name="planner", effects=refunding.EFFECTS,
    )  # fmt: skip
    return lambda user: json.loads(graph.invoke({"messages": [("user", user["message"])]})["messages"][-1].text)


@twiceshy.candidate(workflow="refund")
def unguarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """As in production when T-1042 happened."""
    return _agent(boundary)


@twiceshy.candidate(workflow="refund")
def guarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """With a guard before the refund."""
    refunding.guarded(boundary)
    return _agent(boundary)


@twiceshy.candidate(workflow="refund")
def capped(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """With middleware that caps the amount: what reaches the boundary is not what the model proposed."""
    return _agent(boundary, CappedRefunds())
