"""Agents of the OpenAI Agents SDK as copies behind a boundary: their models, tools and guardrails, and every agent they hand to, each in a scope of its own."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.passing import Passage, apassing

controlling.require("agents", extra="adapters-openai-agents")

from agents import Agent, FunctionTool, Handoff, Model, handoff

from twiceshy.adapters.openai_agents_checks import ToolChecks, checked_input, checked_output
from twiceshy.adapters.openai_agents_messages import arguments_of, plain_of
from twiceshy.adapters.openai_agents_model import BoundModel, NamedModel, Saying, behind
from twiceshy.adapters.openai_agents_reach import calls_back, refuse_whole, target_of
from twiceshy.adapters.openai_agents_runs import ENTERED, RUN, WITHIN, NoServers, held
from twiceshy.adapters.openai_agents_tools import invoked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twiceshy.boundary import Boundary
    from twiceshy.passages import Handing


@dataclass
class Binding:
    """One boundary and the copies that stand behind it."""

    boundary: Boundary
    effects: Mapping[str, Any]
    made: dict[int, tuple[Agent[Any], Agent[Any]]] = field(default_factory=dict)
    """Original and copy by the id of the original: agents may hand to each other in a ring."""
    checks: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Guardrails in the same way."""
    below: list[Binding] = field(default_factory=list)
    """Of the agents that are declared to be handed to."""

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """The copy of an agent; one that is behind a boundary already stays what it is."""
        if isinstance(agent.model, BoundModel):
            return agent
        if id(agent) not in self.made:
            refuse_whole(agent)
            tools = [self._tool(tool) for tool in agent.tools]
            copy = agent.clone(
                model=self._model(agent), tools=tools, handoffs=[], mcp_servers=NoServers(self, agent.name)
            )
            self.made[id(agent)] = agent, copy
            copy.handoffs = [self._handoff(given, agent.name) for given in agent.handoffs]
            copy.input_guardrails = [self.input_check(each) for each in agent.input_guardrails]
            copy.output_guardrails = [self.output_check(each) for each in agent.output_guardrails]
        return self.made[id(agent)][1]

    def known(self) -> set[str]:
        """The names of all tools that effects may be of, in all agents that can be reached."""
        own = {tool.name for _, copy in self.made.values() for tool in copy.tools}
        called = {
            given.tool_name for _, copy in self.made.values() for given in copy.handoffs if isinstance(given, Handoff)
        }
        return own.union(called, *(inner.known() for inner in self.below))

    def input_check(self, guardrail: Any) -> Any:
        """An input guardrail behind the boundary; the same one each time it is asked for."""
        return self._check(guardrail, checked_input)

    def output_check(self, guardrail: Any) -> Any:
        """The same of an output guardrail."""
        return self._check(guardrail, checked_output)

    def _check(self, guardrail: Any, checked: Callable[[Boundary, Any], Any]) -> Any:
        if id(guardrail) not in self.checks:
            self.checks[id(guardrail)] = guardrail, checked(self.boundary, guardrail)
        return self.checks[id(guardrail)][1]

    def entered(self, agent: Agent[Any], handing: Handing) -> Agent[Any]:
        """The copy of an agent that is handed to, in the scope of that handoff; one that says what was recorded where the handoff is frozen."""
        if not handing.answer.live:
            return _standing_in(agent, handing)
        within = Binding(handing.passages, self.effects)
        try:
            copy = within.agent(agent)
        except controlling.UncontrolledTool as refused:  # whoever runs the agent may swallow this
            self.boundary.refuse(agent.name, refused)
        handing.passages.complete()
        return copy

    def declares(self, name: str, agent: Agent[Any]) -> None:
        """Declare an agent that may be handed to, with all that it declares."""

        def build(boundary: Boundary) -> Any:
            within = Binding(boundary, self.effects)
            self.below.append(within)
            within.agent(agent)
            return lambda value: value

        self.boundary.handoff(name, build)

    def _model(self, agent: Agent[Any]) -> Model:
        model = agent.model if isinstance(agent.model, Model) else NamedModel(agent.model)
        prompt = agent.instructions if isinstance(agent.instructions, str) else None
        return BoundModel(model, self.boundary, agent.name, prompt, self)

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        inner = tool._agent_instance  # noqa: SLF001 - the SDK says nowhere else whose tool it is
        if inner is not None:
            self.declares(tool.name, inner)
            if tool.name not in self.effects:
                return dataclasses.replace(tool, on_invoke_tool=self._asking(tool, inner))
        controlling.declare(self.boundary, tool.name, tool.params_json_schema, self.effects)
        return self._called(tool)

    def _called(self, tool: FunctionTool) -> FunctionTool:
        checks = ToolChecks(self.boundary, tool)
        return dataclasses.replace(
            tool, on_invoke_tool=invoked(self, tool, checks), tool_input_guardrails=checks.inputs, tool_output_guardrails=checks.outputs
        )  # fmt: skip

    def _asking(self, tool: FunctionTool, inner: Agent[Any]) -> Any:
        """An agent as a tool: a handoff that comes back, unless something stands around it as around a tool."""

        async def invoke(context: Any, arguments: str) -> Any:
            if self.boundary.surrounded(tool.name):
                controlling.declare(self.boundary, tool.name, tool.params_json_schema, self.effects)
                return await self._called(tool).on_invoke_tool(context, arguments)
            with self.boundary.at_home():
                handing = self.boundary.handing(tool.name, arguments_of(arguments))
            if not handing.answer.live:
                return _recorded(handing)
            with held(WITHIN, self), held(ENTERED, (inner, handing)):
                try:
                    result = await tool.on_invoke_tool(context, arguments)
                except BaseException as raised:
                    handing.close(error=raised)
                    raise
            handing.close(plain_of(result))
            return result

        return behind(invoke)

    def _handoff(self, given: Any, agent: str) -> Handoff[Any, Any]:
        made = given if isinstance(given, Handoff) else handoff(given)
        target = given if isinstance(given, Agent) else target_of(made)
        if target is None:
            raise controlling.UncontrolledTool.named(
                made.tool_name,
                agent,
                why="which agent it gives is known only when it runs; make it with handoff(agent)",
            )
        self.declares(target.name, target)
        called = calls_back(made)
        if called:
            controlling.declare(self.boundary, made.tool_name, made.input_json_schema, self.effects)
        return dataclasses.replace(made, on_invoke_handoff=self._handing(made, target, calls_back=called))

    def _handing(self, made: Handoff[Any, Any], target: Agent[Any], *, calls_back: bool) -> Any:
        """What the SDK awaits for the next agent: the function that the handoff calls is a tool, and the agent runs in the scope of the handoff until the run ends."""

        async def invoke(context: Any, arguments: str) -> Agent[Any]:
            asked = arguments_of(arguments)
            with self.boundary.at_home():
                if calls_back:
                    await self._callback(made, context, asked, arguments)
                handing = self.boundary.handing(target.name, asked)
            RUN.get().handed.append(handing)
            return self.entered(target, handing)

        return behind(invoke)

    async def _callback(self, made: Handoff[Any, Any], context: Any, asked: dict[str, Any], arguments: str) -> None:
        async def run(seen: dict[str, Any]) -> Any:
            given = arguments if seen == asked else json.dumps(seen)
            with held(WITHIN, self):
                await made.on_invoke_handoff(context, given)

        passage = Passage(self.boundary, made.tool_name, asked, middleware=False)

        async def through() -> Any:
            return passage.returned(await passage.areach(asked, run))

        await apassing(passage, through)


def _recorded(handing: Handing) -> Any:
    """What a frozen handoff came to. Raises the recorded error."""
    answer = handing.answer
    if answer.error is not None:
        handing.close(error=answer.error)
        raise answer.error
    handing.close(answer.value)
    return answer.value


def _standing_in(agent: Agent[Any], handing: Handing) -> Agent[Any]:
    value = handing.answer.value
    if handing.answer.error is not None:
        raise handing.answer.error
    said = Saying(value if isinstance(value, str) else json.dumps(value))
    return agent.clone(model=said, tools=[], handoffs=[], mcp_servers=[], input_guardrails=[], output_guardrails=[])
