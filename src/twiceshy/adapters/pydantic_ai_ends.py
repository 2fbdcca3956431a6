"""Both ends of a pydantic-ai run as capabilities of the run: the outermost, around all hooks, wrappers and validators, and the innermost, around models and tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import Passage, apassing, current

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.toolsets.wrapper import WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from twiceshy.adapters.pydantic_ai_messages import object_of
from twiceshy.adapters.pydantic_ai_reach import leaves, served, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models import Model
    from pydantic_ai.tools import DeferredToolRequests, RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    from twiceshy.adapters.pydantic_ai_model import Models
    from twiceshy.boundary import Boundary

APPROVAL = "approval"
"""The human boundary of an agent whose calls a person approves."""

_REACHED = "twiceshy"
"""A key in the metadata of every tool below which the innermost end stands: `plain`, or `wrapped` where its toolset is."""
_OWN = frozenset({"pydantic_ai.toolsets._tool_search", "pydantic_ai.toolsets._deferred_capability_loader"})
"""Where the framework's own tools are: they look among the tools that there are, and touch nothing else."""
_MARK = "pydantic_ai_tool_return"
_HOOKS = (
    "before_tool_validate", "after_tool_validate", "wrap_tool_validate", "on_tool_validate_error", "before_tool_execute", "after_tool_execute",
    "wrap_tool_execute", "on_tool_execute_error", "get_wrapper_toolset",
)  # fmt: skip
"""Where a capability may change a call on its way, or its result on the way back."""

_WAITING = (ApprovalRequired, CallDeferred)
"""What a tool raises that is to be answered by somebody else."""

_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn)

controlling.require_hooks(
    AbstractCapability, *_HOOKS, "get_wrapper_model", "handle_deferred_tool_calls", extra="adapters-pydantic-ai"
)


class Outer(AbstractCapability[Any]):
    """The outermost end: sees what the model asked, and what goes back to it."""

    def __init__(self, boundary: Boundary, agent: str, capabilities: AbstractCapability[Any]) -> None:
        self._boundary = boundary
        self._agent = agent
        found: list[AbstractCapability[Any]] = []
        capabilities.apply(found.append)
        self._hooked = any(map(_hooks_calls, found))

    def get_ordering(self) -> CapabilityOrdering:
        """Around everything else, what calls itself outermost included."""
        return CapabilityOrdering(position="outermost", wraps=[AbstractCapability])

    async def wrap_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Callable[[Any], Any]
    ) -> Any:  # fmt: skip
        """Tell of a call that was refused before its tool was reached."""
        try:
            return await handler(args)
        except (ValidationError, ModelRetry, ToolFailed):
            if (tool_def.metadata or {}).get(_REACHED):
                self._opened(call, tool_def).failed()
            raise

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Callable[[Any], Any]
    ) -> Any:  # fmt: skip
        """Open the passage, let all that stands between run, close it."""
        if not (tool_def.metadata or {}).get(_REACHED):
            if _of_the_framework(ctx, call.tool_name):
                return await handler(args)
            why = "a wrapper of its toolset runs it, past the inner end"
            self._boundary.refuse(
                call.tool_name, controlling.UncontrolledTool.named(call.tool_name, self._agent, why=why)
            )
        passage = self._opened(call, tool_def)

        async def through() -> Any:
            shown = await handler(args)
            plain = _plain(call.tool_name, shown)
            returned = passage.returned(plain)
            return shown if returned is plain else _result(returned)

        return await apassing(passage, through)

    def _opened(self, call: ToolCallPart, tool_def: ToolDefinition) -> Passage:
        if call.tool_name not in self._boundary.tools:  # one that a dynamic or renaming toolset offers
            controlling.declare(self._boundary, call.tool_name, tool_def.parameters_json_schema, {})
        asked = object_of(call.args or {})
        return Passage(
            self._boundary, call.tool_name, asked if isinstance(asked, dict) else {"arguments": asked},
            middleware=self._hooked or tool_def.metadata != {_REACHED: "plain"}, waits=_WAITING,
        )  # fmt: skip


class People(AbstractCapability[Any]):
    """The person who approves calls, as a human boundary: only what they were asked and said in a record, or what its case declares, is a grant."""

    def __init__(self, boundary: Boundary, approve: Callable[[dict[str, Any]], Any]) -> None:
        self._ask = boundary.human(APPROVAL, approve)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        """Ask about each call that needs approval, in order; what else is deferred stays so."""
        results = DeferredToolResults()
        for call in requests.approvals:
            said = self._ask({"tool": call.tool_name, "arguments": object_of(call.args or {})})
            results.approvals[call.tool_call_id] = _granted(await said if isawaitable(said) else said)
        return results


class Inner(AbstractCapability[Any]):
    """The innermost end: stands where the models and the tools would run, whichever hook, wrapper or function brought them. plain: toolsets that nothing wraps."""

    def __init__(self, boundary: Boundary, agent: str, models: Models, plain: Collection[AbstractToolset[Any]]) -> None:
        self._boundary = boundary
        self._agent = agent
        self._models = models
        self._plain = [id(toolset) for toolset in plain]

    def get_ordering(self) -> CapabilityOrdering:
        """Within everything else, what calls itself innermost included."""
        return CapabilityOrdering(position="innermost", wrapped_by=[AbstractCapability])

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Every toolset of the run with the end in front of its tools."""
        _refuse_served(toolset, self._boundary, self._agent)
        return toolset.visit_and_replace(self._reaching)

    def get_wrapper_model(self, model: Model) -> Model:
        """The model that serves this attempt, behind its boundary."""
        return self._models.behind(model)

    def _reaching(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        sort = "plain" if id(toolset) in self._plain else "wrapped"
        return _Reaching(toolset, boundary=self._boundary, agent=self._agent, sort=sort)


@dataclass
class _Reaching(WrapperToolset[Any]):
    boundary: Boundary
    agent: str
    sort: str

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """The toolset of this run, which a function may have made."""
        found = await super().for_run(ctx)
        _refuse_served(found, self.boundary, self.agent)
        return found

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """The toolset of this step, which a function may have made."""
        found = await super().for_run_step(ctx)
        _refuse_served(found, self.boundary, self.agent)
        return found

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools, each marked as one that is reached through here."""
        tools = await self.wrapped.get_tools(ctx)
        return {name: replace(tool, tool_def=self._marked(tool.tool_def)) for name, tool in tools.items()}

    def _marked(self, tool: ToolDefinition) -> ToolDefinition:
        return replace(tool, metadata={**(tool.metadata or {}), _REACHED: self.sort})

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Where the tool would run."""
        passage = current()
        if passage is None:
            why = "it was called past the outer end of its run"
            self.boundary.refuse(name, controlling.UncontrolledTool.named(name, self.agent, why=why))
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            given = {at: tool_args[at] if at in plain and plain[at] == value else value for at, value in seen.items()}
            try:
                result = await self.wrapped.call_tool(name, given, ctx, tool)
            except _WAITING as deferred:
                vars(deferred)["definite"] = True  # it asks before it does anything
                raise
            ran[:] = [result, _plain(name, result)]
            return ran[1]

        plain = to_jsonable_python(tool_args, by_alias=True, bytes_mode="base64")
        try:
            shown = await passage.areach(plain, run)
        except Blocked as refused:
            return controlling.refusal(refused.reason)
        return ran[0] if ran and shown is ran[1] else _result(shown)


def _granted(said: Any) -> ToolApproved | ToolDenied:
    """A person's answer: a grant where they say so, and nothing else is one."""
    told = said if isinstance(said, dict) else {"approved": said}
    if told.get("approved") is True:
        return ToolApproved()
    reason = said if isinstance(said, str) else told.get("message")
    return ToolDenied(str(reason)) if reason else ToolDenied()


def _plain(tool: str, value: Any) -> Any:
    """A tool's result as a value."""
    try:
        if isinstance(value, ToolReturn):
            return {_MARK: _RETURN.dump_python(value, mode="json", by_alias=True)}
        return to_jsonable_python(value, by_alias=True, bytes_mode="base64")
    except PydanticSerializationError:
        raise controlling.UnrecordableResult.of(tool, value) from None


def _result(value: Any) -> Any:
    """The result that a value says."""
    return _RETURN.validate_python(value[_MARK]) if isinstance(value, dict) and value.keys() == {_MARK} else value


def _hooks_calls(capability: AbstractCapability[Any]) -> bool:
    return any(getattr(type(capability), hook) is not getattr(AbstractCapability, hook) for hook in _HOOKS)


def _of_the_framework(ctx: RunContext[Any], name: str) -> bool:
    held = (ctx.tool_manager.tools or {}).get(name) if ctx.tool_manager is not None else None
    return held is not None and type(held.toolset).__module__ in _OWN


def _refuse_served(toolset: AbstractToolset[Any], boundary: Boundary, agent: str) -> None:
    """End the run where a toolset came with it whose tools live on a server."""
    for leaf in leaves(toolset):
        if unreachable(leaf):
            boundary.refuse(leaf.label, served(leaf, agent))
