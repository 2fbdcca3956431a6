"""Guardrails of the OpenAI Agents SDK as guards: what they were asked and what they decided is a crossing, and a break can switch them off."""

from __future__ import annotations

import dataclasses
import json
from functools import wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import Passage

controlling.require("agents", extra="adapters-openai-agents")

from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)

from twiceshy.adapters.openai_agents_messages import arguments_of, plain_of
from twiceshy.adapters.openai_agents_runs import RUN

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import FunctionTool

    from twiceshy.boundary import Boundary
    from twiceshy.seam import Step


class _Check:
    """A guardrail's function as a check of the boundary. reason: why its output stops what it looked at; None where it lets that pass."""

    def __init__(
        self, boundary: Boundary, name: str, function: Callable[..., Any], reason: Callable[[Any], str | None], *, at: str | None = None
    ) -> None:  # fmt: skip
        self._boundary = boundary
        self._given: dict[int, tuple[Any, ...]] = {}
        self._outputs: dict[int, Any] = {}

        @wraps(function)
        async def check(value: Any) -> str | None:
            output = function(*self._given[id(value)])
            self._outputs[id(value)] = output = await output if isawaitable(output) else output
            return reason(output)

        self._checked = boundary.checkpoint(name, check, at=at)

    async def __call__(self, value: dict[str, Any], *given: Any, step: Step | None = None) -> tuple[Any, str | None]:
        """The guardrail's own output, None where it did not run, and why it stops this; None where it lets it pass."""
        self._given[id(value)] = given
        try:
            verdict = await self._checked(value, step)
        finally:
            del self._given[id(value)]
        output = self._outputs.pop(id(value), None)
        return output, (verdict["reason"] or "refused") if verdict["blocked"] else None


def checked_input(boundary: Boundary, guardrail: InputGuardrail[Any]) -> InputGuardrail[Any]:
    """An input guardrail as a guard of the agent's own loop."""
    check = _Check(boundary, guardrail.get_name(), guardrail.guardrail_function, _tripped)

    async def run(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        with boundary.at_home():
            return _decided(*await check({"input": plain_of(given)}, context, agent, given))

    return dataclasses.replace(guardrail, guardrail_function=run, name=guardrail.get_name())


def checked_output(boundary: Boundary, guardrail: OutputGuardrail[Any]) -> OutputGuardrail[Any]:
    """An output guardrail as a guard of the agent's own loop."""
    check = _Check(boundary, guardrail.get_name(), guardrail.guardrail_function, _tripped)

    async def run(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        with boundary.at_home():
            return _decided(*await check({"output": plain_of(output)}, context, agent, output))

    return dataclasses.replace(guardrail, guardrail_function=run, name=guardrail.get_name())


class ToolChecks:
    """The guardrails of one tool, and the passages of its calls while these look at them."""

    def __init__(self, boundary: Boundary, tool: FunctionTool) -> None:
        self._boundary = boundary
        self._tool = tool
        self._opened: dict[str, Passage] = {}
        self._closing: dict[str, Passage] = {}
        given, going = tool.tool_input_guardrails, tool.tool_output_guardrails
        self.inputs = given and [self._input(each) for each in given]
        self.outputs = going and [self._output(each, last=each is going[-1]) for each in going]

    def opened(self, context: Any, asked: dict[str, Any]) -> Passage:
        """The passage of a call: the one that its guardrails opened, or a new one."""
        return self._opened.pop(context.tool_call_id, None) or self._passage(asked)

    def returned(self, context: Any, passage: Passage, shown: Any) -> Any:
        """What goes back: told at once, or once the guardrails have looked at it."""
        if not self.outputs:
            return passage.returned(shown)
        self._closing[context.tool_call_id] = passage
        RUN.get().unfinished.append(passage)
        return shown

    def _passage(self, asked: dict[str, Any]) -> Passage:
        return Passage(self._boundary, self._tool.name, asked, middleware=False)

    def _input(self, guardrail: ToolInputGuardrail[Any]) -> ToolInputGuardrail[Any]:
        name = guardrail.get_name()
        check = _Check(self._boundary, name, guardrail.guardrail_function, _rejected, at=f"before:{self._tool.name}")

        async def run(data: Any) -> ToolGuardrailFunctionOutput:
            asked = arguments_of(data.context.tool_arguments)
            with self._boundary.at_home():
                passage = self.opened(data.context, asked)
                output, reason = await check({"arguments": asked}, data, step=passage.step)
                decided: ToolGuardrailFunctionOutput = _behaving(output, reason)
                if reason is None:
                    self._opened[data.context.tool_call_id] = passage
                else:
                    passage.blocked(Blocked(name, reason), _message(decided))
            return decided

        return dataclasses.replace(guardrail, guardrail_function=run, name=name)

    def _output(self, guardrail: ToolOutputGuardrail[Any], *, last: bool) -> ToolOutputGuardrail[Any]:
        name = guardrail.get_name()
        check = _Check(self._boundary, name, guardrail.guardrail_function, _rejected, at=f"after:{self._tool.name}")

        async def run(data: Any) -> ToolGuardrailFunctionOutput:
            call = data.context.tool_call_id
            passage = self._closing[call]
            value = plain_of(data.output)
            with self._boundary.at_home():
                output, reason = await check({"output": value}, data, step=passage.step)
            decided: ToolGuardrailFunctionOutput = _behaving(output, reason)
            if reason is not None or last:
                del self._closing[call]
                RUN.get().unfinished.remove(passage)
                passage.returned(value if reason is None else _message(decided))
            return decided

        return dataclasses.replace(guardrail, guardrail_function=run, name=name)


def _tripped(output: GuardrailFunctionOutput) -> str | None:
    return json.dumps(plain_of(output.output_info)) if output.tripwire_triggered else None


def _rejected(output: ToolGuardrailFunctionOutput) -> str | None:
    behavior: Any = output.behavior
    if behavior["type"] == "allow":
        return None
    return str(behavior.get("message") or json.dumps(plain_of(output.output_info)))


def _message(output: Any) -> Any:
    """What the model is told in place of a call or its result; nothing where the run ends there."""
    return output.behavior.get("message", UNSET)


def _decided(output: GuardrailFunctionOutput | None, reason: str | None) -> GuardrailFunctionOutput:
    """The guardrail's own output where it ran and what it decided holds; else what was decided."""
    if output is not None and output.tripwire_triggered is (reason is not None):
        return output
    return GuardrailFunctionOutput(output_info=reason, tripwire_triggered=reason is not None)


def _behaving(output: ToolGuardrailFunctionOutput | None, reason: str | None) -> Any:
    """The same for a tool's guardrail: one that is answered from the record rejects with its reason."""
    if output is not None and (output.behavior["type"] == "allow") is (reason is None):
        return output
    return ToolGuardrailFunctionOutput.allow() if reason is None else ToolGuardrailFunctionOutput.reject_content(reason)
