"""What agent code calls: tools, models, people, hooks, guards, routers, handoffs, the clock and chance, each a named boundary.

    def build(boundary: Boundary) -> Callable[[dict], dict]:
        get_order = boundary.tool("get_order", shop.get_order, effect="read")
        boundary.hook("strip", strip_internal_fields, after="get_order")
        boundary.guard("refund-approval", needs_approval, before="issue_refund")
        planner = boundary.model("planner", call_model, prompt=PROMPT)
        ...

Every passage goes through one method of one backend, `cross(call) -> answer`: live, recording and replaying are small classes behind it.
The path of a tool call: proposed -> pre-hooks -> defaults -> guards -> seen -> [the boundary] -> raw -> post-hooks -> shown.
Functions may be plain or `async`; the wrapper that comes back is of the same sort. A model's function that yields gives a stream of chunks.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from twiceshy import arguments
from twiceshy.envelope import Effect, Kind
from twiceshy.passages import Passages, run_declared
from twiceshy.seam import Answer, Backend, Blocked, Call, Closing, Code, Declared
from twiceshy.stepping import driven, running, wrapped
from twiceshy.streaming import AsyncStream, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Named = Literal["read", "write", "none"]
    Agent = Callable[[Any], Any]

__all__ = ["Answer", "Backend", "Blocked", "Boundary", "Call", "Closing", "Code", "Declared", "running"]

_LONGEST_S = 10**9
"""Some 30 years: past the virtual clock's last date a replay could only break."""


class Boundary(Passages):
    """The boundaries of one agent. A factory `build(boundary)` declares them and returns the agent: a callable of the input."""

    def __init__(
        self, backend: Backend, *, scope: str = "", home: Call | None = None, kin: Boundary | None = None
    ) -> None:
        super().__init__(backend, scope=scope, home=home, numbers=None if kin is None else kin.numbers)
        self.looked_at: dict[str, Agent | None] = {} if kin is None else kin.looked_at
        self._dice: dict[str | None, random.Random] = {}
        self.tools: dict[str, Declared] = {}
        """What is called by arguments: tools, retrievals, memories."""
        self.models: dict[str, Declared] = {}
        self.people: dict[str, Declared] = {}
        self.code: list[Code] = []
        self.inner: dict[str, Boundary] = {}
        """What the agents declare that this one hands to, by the name of the handoff."""

    def tool(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        effect: Effect | Named | None = None,
        schema: Mapping[str, Any] | None = None,
        result_schema: Mapping[str, Any] | None = None,
        tightened: bool = False,
    ) -> Callable[..., Any]:
        """The tool as the agent calls it, with keyword arguments. An undeclared effect is a write; where tools.yaml disagrees, tools.yaml wins.

        schema, result_schema: JSON Schema of the arguments and of the result. tightened: a write, whatever tools.yaml says.
        Raises Blocked in the agent where a guard refuses the call.
        """
        return self._called(Kind.TOOL, name, fn, effect, schema, result_schema, tightened=tightened)

    def retrieval(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        schema: Mapping[str, Any] | None = None,
        result_schema: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """A look-up of documents as the agent calls it, with keyword arguments: a read."""
        return self._called(Kind.RETRIEVAL, name, fn, Effect.READ, schema, result_schema)

    def memory(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        effect: Effect | Named | None = None,
        schema: Mapping[str, Any] | None = None,
        result_schema: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """One operation of the agent's memory, called with keyword arguments. Putting something into it is a write, and so is what declares no effect."""
        return self._called(Kind.MEMORY, name, fn, effect, schema, result_schema)

    def model(
        self, name: str, fn: Callable[..., Any], *, prompt: str | None = None, version: str | None = None
    ) -> Callable[..., Any]:
        """The model as the agent calls it: one request (messages, tools, output_format, sampling) in, one output (parts, finish_reason) out.

        Where `fn` yields chunks, the agent gets a stream of them. A chunk is a part, or says how the output ended ({"finish_reason": ...}).
        version: what stands for its source in the digest of its layer, where `fn` is not the model itself.
        """
        from inspect import isasyncgenfunction, isgeneratorfunction

        declared = Declared(kind=Kind.MODEL, name=name, fn=fn, prompt=prompt, version=version)
        self.models[name] = declared
        if isgeneratorfunction(fn) or isasyncgenfunction(fn):
            kind: Any = AsyncStream if isasyncgenfunction(fn) else Stream
            return lambda request: self._streamed(kind, declared, request)
        return wrapped(fn, lambda request: self._model_steps(declared, request))

    def user(self, name: str, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The user as the agent turns to them: the agent's message in, the user's next turn out."""
        return self._person(Declared(kind=Kind.USER, name=name, fn=fn))

    def human(self, name: str, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A person who decides: a request in, their answer out. A request is not a grant; only a recorded or declared answer is."""
        return self._person(Declared(kind=Kind.HUMAN, name=name, fn=fn))

    def hook(self, name: str, fn: Callable[[Any], Any], *, before: str | None = None, after: str | None = None) -> None:
        """Middleware of one tool: `before` takes and returns its arguments, `after` its result."""
        self._coded(Code(kind=Kind.HOOK, name=name, fn=fn, at=_position(name, before=before, after=after)))

    def guard(self, name: str, fn: Callable[[Any], Any], *, before: str) -> None:
        """A check before one tool: `fn(arguments)` returns None or True to let it pass; a reason (str) or False refuses it."""
        self._coded(Code(kind=Kind.GUARD, name=name, fn=fn, at=f"before:{before}"))

    def checkpoint(self, name: str, fn: Callable[..., Any], *, at: str | None = None) -> Callable[..., Any]:
        """For adapters: a check that a framework runs by itself. `fn(value)` returns None or True to let it pass; a reason (str) or False stops it.

        What comes back says what was decided: {"blocked": bool, "reason": text or None}. at: the tool that it stands before or after; None for the agent's own loop.
        """
        code = Code(kind=Kind.GUARD, name=name, fn=fn, at=at)
        self.code.append(code)
        return wrapped(
            fn,
            lambda value, step=None: (
                self._code_steps(code, value, step.seq) if step else self._called_code(code, value)
            ),
        )

    def complete(self) -> None:
        """Say that everything was declared."""

    def router(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Candidate code that chooses a way, as a named boundary: `fn(value) -> route`."""
        code = self._coded(Code(kind=Kind.ROUTER, name=name, fn=fn))
        return wrapped(fn, lambda value: self._called_code(code, value))

    def handoff(self, name: str, build: Callable[[Boundary], Agent]) -> Agent:
        """Another agent, as a callable of its input. Each call builds it anew, with boundaries of its own scope.

        `build` declares and returns an agent, as a candidate's factory does; it is called once here, to see what it declares.
        """
        code = self._coded(Code(kind=Kind.HANDOFF, name=name, fn=build))
        if name not in self.looked_at:  # agents may hand to each other
            self.looked_at[name] = None
            self.inner[name] = self.child(f"{self._scope}/{name}", None)
            self.looked_at[name] = build(self.inner[name])
        return lambda value: driven(self.looked_at[name], self._handoff_steps(code, value))

    def flag(self, name: str, fn: Callable[[], Any]) -> Any:
        """The value of a flag: `fn()` live; in a replay the recorded one, else the case's overlay."""
        return self._ambient(Kind.FLAG, name, fn)

    def now(self) -> datetime:
        """The time, with its zone: the real one live, the pinned and advancing one in a replay. Write this one into the prompt."""
        moment = self._ambient(Kind.CLOCK, "now", lambda: datetime.now(UTC))  # noqa: TID251 - what a live run reads is recorded
        return moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))

    def sleep(self, seconds: float) -> None:
        """Wait: really when live, at once on the virtual clock in a replay. Raises ValueError for what is no length of time."""
        self._ambient(Kind.CLOCK, "sleep", partial(time.sleep, seconds), seen=_length(seconds))

    async def asleep(self, seconds: float) -> None:
        """`sleep` for async agents."""
        answer = self._backend.cross(self._drawing(Kind.CLOCK, "sleep", _length(seconds)))
        if answer.live:
            import asyncio  # 100 ms, and only async agents sleep so

            await asyncio.sleep(seconds)
        answer.close(Closing(raw=None))

    @property
    def rng(self) -> random.Random:
        """The run's random generator: its seed is a crossing, recorded once and served again in a replay.

        What a tool's body draws comes from a generator of its own: where the body does not run, the agent's draws stay what they were.
        """
        inside = self._enclosing()
        place = None if inside is None else inside.place
        if place not in self._dice:
            seed = self._ambient(Kind.RANDOM, "seed", lambda: random.SystemRandom().getrandbits(63))
            self._dice[place] = random.Random(int(seed))  # noqa: S311 - an agent's dice, not a secret
        return self._dice[place]

    def child(self, scope: str, home: Call | None) -> Boundary:
        """The boundaries of an agent that is handed to. home: the handoff; None to look at what it declares."""
        return Boundary(self._backend, scope=scope, home=home, kin=self)

    def _called(
        self,
        kind: Kind,
        name: str,
        fn: Callable[..., Any] | None,
        effect: Effect | Named | None,
        schema: Mapping[str, Any] | None,
        result_schema: Mapping[str, Any] | None,
        *,
        tightened: bool = False,
    ) -> Callable[..., Any]:
        declared = Declared(
            kind=kind, name=name, fn=fn, effect=Effect(effect) if effect else None, schema=schema, result_schema=result_schema,
            tightened=tightened, defaults=arguments.defaults(fn),
        )  # fmt: skip
        self.tools[name] = declared
        return wrapped(
            fn,
            lambda *args, **kwargs: self._tool_steps(declared, arguments.bound(fn, args, kwargs)),
            lambda *args, **kwargs: self._at_once(declared, arguments.bound(fn, args, kwargs) if args else kwargs),
        )

    def _person(self, declared: Declared) -> Callable[[Any], Any]:
        self.people[declared.name] = declared
        return wrapped(declared.fn, lambda seen: self._person_steps(declared, seen))

    def _coded(self, code: Code) -> Code:
        self.code.append(code)
        self._place(code)
        return code

    def _streamed(self, kind: type[Stream | AsyncStream], declared: Declared, request: object) -> Any:
        call = self._requesting(declared, request, stream=True)
        answer = self._backend.cross(call)
        self._answered(call)  # tools may be called while the output still comes
        return kind.of(partial(run_declared, declared, request), call, answer)


def _length(seconds: float) -> float:
    if not 0 <= seconds <= _LONGEST_S:
        raise ValueError(f"a sleep lasts 0 to {_LONGEST_S} seconds")
    return seconds


def _position(name: str, *, before: str | None, after: str | None) -> str:
    if (before is None) == (after is None):
        raise TypeError(f"hook {name!r} needs exactly one of before= and after=")
    return f"before:{before}" if before else f"after:{after}"
