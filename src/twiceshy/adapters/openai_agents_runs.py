"""Runs of bound agents: each is looked at when it starts, and what an agent runs within its own run stands behind its boundary too."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from twiceshy.adapters import controlling
from twiceshy.envelope import Kind

controlling.require("agents", extra="adapters-openai-agents")

from agents import MultiProvider, SQLiteSession
from agents.run import get_default_agent_runner, set_default_agent_runner

from twiceshy.adapters.openai_agents_memory import BoundSession
from twiceshy.adapters.openai_agents_messages import plain_of
from twiceshy.adapters.openai_agents_model import PROVIDER, BoundModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents import Agent

    from twiceshy.adapters.openai_agents_binding import Binding
    from twiceshy.passages import Handing
    from twiceshy.passing import Passage

_MEMORY = ":memory:"


@dataclass
class Run:
    """What is open in one run: the agents that were handed to, and calls that guardrails still look at."""

    handed: list[Handing] = field(default_factory=list)
    unfinished: list[Passage] = field(default_factory=list)

    def over(self, result: Any, error: BaseException | None) -> None:
        """Tell of all that is open how the run ended."""
        for passage in self.unfinished:
            passage.failed()
        for handing in reversed(self.handed):
            handing.close(result, error=error)
        self.handed, self.unfinished = [], []


RUN: ContextVar[Run] = ContextVar("twiceshy_openai_agents_run")

# The binding of the agent whose code runs here; None outside of bound runs.
WITHIN: ContextVar[Binding | None] = ContextVar("twiceshy_openai_agents_within", default=None)

# The agent that is about to run as a tool, and the handoff that was told for that.
ENTERED: ContextVar[tuple[Agent[Any], Handing] | None] = ContextVar("twiceshy_openai_agents_entered", default=None)


class NoServers(list[Any]):
    """The MCP servers of a bound agent: none. Whatever copies are made of it keep this, so it tells whose the agent is."""

    def __init__(self, binding: Binding, agent: str) -> None:
        super().__init__()
        self.binding = binding
        self._agent = agent

    def __iter__(self) -> Iterator[Any]:
        """End the run where a server came to the agent: the SDK asks this before it asks the server."""
        if len(self):
            _refuse_served(self[0], self._agent, self.binding)
        return super().__iter__()


def _refuse_served(server: Any, agent: str, binding: Binding) -> None:
    binding.boundary.refuse(server.name, controlling.UncontrolledTool.served(server.name, agent))


@contextmanager
def held(var: ContextVar[Any], value: Any) -> Iterator[None]:
    """Set a variable of this context for the `with` block."""
    token = var.set(value)
    try:
        yield
    finally:
        var.reset(token)


def watch_runs() -> None:
    """Look at every run of the SDK that starts from now on."""
    now: Any = get_default_agent_runner()
    if not isinstance(now, _Watching):
        set_default_agent_runner(cast("Any", _Watching(now)))


class _Watching:
    """A runner that hands every run on: one of a bound agent after a look at how it is configured, one within such a run as a handoff of its agent."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """A run to its end."""
        with _entering(starting_agent, given, options) as (agent, run):
            result = await self._runner.run(agent, *given, **options)
            if run is not None:
                run.over(plain_of(result.final_output), None)
            return result

    def run_sync(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """The same without a loop."""
        with _entering(starting_agent, given, options) as (agent, run):
            result = self._runner.run_sync(agent, *given, **options)
            if run is not None:
                run.over(plain_of(result.final_output), None)
            return result

    def run_streamed(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """A run as a stream of events: it is over when its task is."""
        with _entering(starting_agent, given, options) as (agent, run):
            result = self._runner.run_streamed(agent, *given, **options)
            if run is not None and result.run_loop_task is not None:
                result.run_loop_task.add_done_callback(lambda task: _ended(run, result, task))
            return result


def _ended(run: Run, result: Any, task: Any) -> None:
    raised = None if task.cancelled() else task.exception()
    run.over(plain_of(result.final_output), raised)


@contextmanager
def _entering(
    agent: Agent[Any], given: tuple[Any, ...], options: dict[str, Any]
) -> Iterator[tuple[Agent[Any], Run | None]]:
    """The agent that really runs, and what is open in its run; None where it is none of ours."""
    within, entered = WITHIN.get(), ENTERED.get()
    handing = None
    own = getattr(agent.mcp_servers, "binding", None)
    if own is not None and not isinstance(agent.model, BoundModel):
        refused = controlling.UncontrolledModel.given("the model that was set after bound()", agent.name)
        own.boundary.beyond(Kind.MODEL, agent.name, refused)
    elif not isinstance(agent.model, BoundModel):
        if within is None:
            yield agent, None
            return
        if entered is not None and entered[0] is agent:
            handing = entered[1]
        else:
            with within.boundary.at_home():
                handing = within.boundary.handing(
                    agent.name, {"input": plain_of(given[0] if given else options.get("input"))}
                )
        agent = within.entered(agent, handing)
    run = Run() if handing is None or (entered and entered[1] is handing) else Run(handed=[handing])
    binding = agent.model.binding if isinstance(agent.model, BoundModel) else within
    _look(agent, options, binding)
    with held(WITHIN, binding), held(ENTERED, None), held(RUN, run), held(PROVIDER, _provider(options)):
        try:
            yield agent, run
        except BaseException as raised:
            run.over(None, raised)
            raise


def _look(agent: Agent[Any], options: dict[str, Any], binding: Any) -> None:
    """End the run of a bound agent that would go past its boundary, and put the guardrails of its configuration behind that."""
    if not isinstance(agent.model, BoundModel):
        return
    for server in list.__iter__(agent.mcp_servers):
        _refuse_served(server, agent.name, binding)
    config = options.get("run_config")
    for name in ("model", "sandbox"):
        found = _of(config, name)
        if found is not None and not isinstance(found, BoundModel):
            agent.model.passed_by(controlling.UncontrolledModel.given(f"RunConfig({name}=...)", agent.name))
    session = options.get("session")
    if session is not None and not _kept_here(session):
        refused = controlling.UncontrolledState.named(type(session).__name__, agent.name, part="session")
        binding.boundary.refuse(type(session).__name__, refused)
    if config is not None:
        options["run_config"] = _checked(config, binding)


def _checked(config: Any, binding: Any) -> Any:
    """The configuration with its guardrails behind the boundary."""
    checked = {}
    for name, behind in (("input_guardrails", binding.input_check), ("output_guardrails", binding.output_check)):
        given = _of(config, name)
        if given:
            checked[name] = [behind(each) for each in given]
    if not checked:
        return config
    return {**config, **checked} if isinstance(config, dict) else dataclasses.replace(config, **checked)


def _kept_here(session: Any) -> bool:
    """Whether a session is behind the boundary, or lives and dies with the process."""
    in_memory = type(session) is SQLiteSession and str(session.db_path) == _MEMORY
    return isinstance(session, BoundSession) or in_memory


def _provider(options: dict[str, Any]) -> Any:
    found = _of(options.get("run_config"), "model_provider")
    return None if found is None or type(found) is MultiProvider else found


def _of(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)
