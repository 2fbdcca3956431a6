"""Function tools of the OpenAI Agents SDK behind a boundary."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import apassing

controlling.require("agents", extra="adapters-openai-agents")

from agents.tool import maybe_invoke_function_tool_failure_error_function, set_function_tool_failure_error_function

from twiceshy.adapters.openai_agents_messages import arguments_of, result_of, value_of
from twiceshy.adapters.openai_agents_model import behind
from twiceshy.adapters.openai_agents_runs import WITHIN, held

if TYPE_CHECKING:
    from agents import FunctionTool

    from twiceshy.adapters.openai_agents_binding import Binding
    from twiceshy.adapters.openai_agents_checks import ToolChecks


def invoked(binding: Binding, tool: FunctionTool, checks: ToolChecks) -> Any:
    """The tool as the SDK invokes it: with its arguments as JSON text. Its errors cross the boundary as errors; the words that are made of them for the model are what was shown."""
    raising = set_function_tool_failure_error_function(dataclasses.replace(tool), None)

    async def invoke(context: Any, arguments: str) -> Any:
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            given = arguments if seen == asked else json.dumps(seen)
            with held(WITHIN, binding):
                result = await raising.on_invoke_tool(context, given)
            ran[:] = [result, value_of(result, tool)]
            return ran[1]

        async def through() -> Any:
            try:
                shown = await passage.areach(asked, run)
            except Blocked as refused:
                return checks.returned(context, passage, controlling.refusal(refused.reason))
            except Exception as raised:
                told = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=raised
                )
                if told is None:
                    raise
                return checks.returned(context, passage, told)
            shown = checks.returned(context, passage, shown)
            return ran[0] if ran and shown is ran[1] else result_of(shown)

        asked = arguments_of(arguments)
        with binding.boundary.at_home():
            passage = checks.opened(context, asked)
            return await apassing(passage, through)

    return behind(invoke)
