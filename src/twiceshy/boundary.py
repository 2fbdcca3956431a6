"""What agent code calls: tools, models, hooks, guards, routers, the clock and chance, each a named boundary.

    def build(boundary: Boundary) -> Callable[[dict], dict]:
        get_order = boundary.tool("get_order", shop.get_order, effect="read")
        boundary.hook("strip", strip_internal_fields, after="get_order")
        boundary.guard("refund-approval", needs_approval, before="issue_refund")
        planner = boundary.model("planner", call_model, prompt=PROMPT)
        ...

Every passage goes through one method of one backend, `cross(call) -> answer`: live, recording and replaying are small classes behind it.
The path of a tool call: proposed -> pre-hooks -> defaults -> guards -> seen -> [the boundary] -> raw -> post-hooks -> shown.
Functions may be plain or `async`; the wrapper that comes back is of the same sort.
"""

from __future__ import annotations

import copy
import random
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from twiceshy import arguments
from twiceshy.envelope import Effect, Kind
from twiceshy.seam import Answer, Backend, Blocked, Call, Closing, Code, Declared
from twiceshy.stepping import Numbering, already, running, settled, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    Steps = Generator[Callable[[], Any], Any, Any]

__all__ = ["Answer", "Backend", "Blocked", "Boundary", "Call", "Closing", "Code", "Declared", "running"]

_LONGEST_S = 10**9
"""Some 30 years: past the virtual clock's last date a replay could only break."""


class Boundary:
    """The boundaries of one run. A factory `build(boundary)` declares them and returns the agent: a callable of the input."""

    def __init__(self, backend: Backend, *, scope: str = "") -> None:
        self._backend = backend
        self._scope = scope
        self._numbers = Numbering()
        self._group: int | None = None
        self._rng: random.Random | None = None
        self.tools: dict[str, Declared] = {}
        self.models: dict[str, Declared] = {}
        self.code: list[Code] = []
        self._placed: dict[tuple[Kind, str], list[Code]] = {}

    def tool(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        effect: Effect | Literal["read", "write", "none"] | None = None,
        schema: Mapping[str, Any] | None = None,
        result_schema: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """The tool as the agent calls it, with keyword arguments. An undeclared effect is a write; where tools.yaml disagrees, tools.yaml wins.

        schema, result_schema: JSON Schema of the arguments and of the result. Raises Blocked in the agent where a guard refuses the call.
        """
        declared = Declared(
            name=name, fn=fn, effect=Effect(effect) if effect else None, schema=schema, result_schema=result_schema,
            defaults=arguments.defaults(fn),
        )  # fmt: skip
        self.tools[name] = declared
        return wrapped(fn, lambda *args, **kwargs: self._tool_steps(declared, arguments.bound(fn, args, kwargs)))

    def model(self, name: str, fn: Callable[..., Any], *, prompt: str | None = None) -> Callable[..., Any]:
        """The model as the agent calls it: one request (messages, tools, output_format, sampling) in, one output (parts, finish_reason) out."""
        declared = Declared(name=name, fn=fn, prompt=prompt)
        self.models[name] = declared
        return wrapped(fn, lambda request: self._model_steps(declared, request))

    def hook(self, name: str, fn: Callable[[Any], Any], *, before: str | None = None, after: str | None = None) -> None:
        """Middleware of one tool: `before` takes and returns its arguments, `after` its result."""
        self._place(Code(kind=Kind.HOOK, name=name, fn=fn, at=_position(name, before=before, after=after)))

    def guard(self, name: str, fn: Callable[[Any], Any], *, before: str) -> None:
        """A check before one tool: `fn(arguments)` returns None or True to let it pass; a reason (str) or False refuses it."""
        self._place(Code(kind=Kind.GUARD, name=name, fn=fn, at=f"before:{before}"))

    def router(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Candidate code that chooses a way, as a named boundary: `fn(value) -> route`."""
        code = Code(kind=Kind.ROUTER, name=name, fn=fn)
        self.code.append(code)
        return wrapped(fn, lambda value: self._code_steps(code, value, self._inside()))

    def now(self) -> datetime:
        """The time, with its zone: the real one live, the pinned and advancing one in a replay. Write this one into the prompt."""
        moment = self._ambient(Kind.CLOCK, "now", lambda: datetime.now(UTC))  # noqa: TID251 - what a live run reads is recorded
        return moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))

    def sleep(self, seconds: float) -> None:
        """Wait: really when live, at once on the virtual clock in a replay. Raises ValueError for what is no length of time."""
        self._ambient(Kind.CLOCK, "sleep", partial(time.sleep, seconds), seen=_length(seconds))

    async def asleep(self, seconds: float) -> None:
        """`sleep` for async agents."""
        answer = self._backend.cross(self._call(Kind.CLOCK, "sleep", self._inside(), seen=_length(seconds)))
        if answer.live:
            import asyncio  # 100 ms, and only async agents sleep so

            await asyncio.sleep(seconds)
        answer.close(Closing(raw=None))

    @property
    def rng(self) -> random.Random:
        """The run's random generator: its seed is a crossing, recorded once and served again in a replay."""
        if self._rng is None:
            seed = self._ambient(Kind.RANDOM, "seed", lambda: random.SystemRandom().getrandbits(63))
            self._rng = random.Random(int(seed))  # noqa: S311 - an agent's dice, not a secret
        return self._rng

    def _inside(self) -> int:
        passage = running()
        return self._numbers.last if passage is None else passage.seq

    def _call(self, kind: Kind, name: str, seq: int, **rest: Any) -> Call:
        return Call(
            kind=kind, name=name, seq=seq, sub=self._numbers.sub(seq), scope=self._scope, group=self._group, **rest
        )

    def _ambient(self, kind: Kind, name: str, fn: Callable[[], Any], *, seen: object = UNSET) -> Any:
        answer = self._backend.cross(self._call(kind, name, self._inside(), seen=seen))
        drawn = fn() if answer.live else answer.value
        answer.close(Closing(raw=drawn))
        return drawn

    def _model_steps(self, declared: Declared, request: object) -> Steps:
        seq = self._numbers.step()
        call = Call(kind=Kind.MODEL, name=declared.name, seq=seq, scope=self._scope, seen=request, declared=declared)
        answer = self._backend.cross(call)
        output = yield from settled(answer, partial(_run, declared, request), call)
        self._group = seq
        answer.close(Closing(raw=output, shown=output))
        return output

    def _tool_steps(self, declared: Declared, proposed: dict[str, Any]) -> Steps:
        seq = self._numbers.step()
        group = self._group
        seen = proposed
        for code in self._sitting(Kind.HOOK, f"before:{declared.name}"):
            seen = yield from self._code_steps(code, copy.deepcopy(seen), seq)
        seen = {**declared.defaults, **seen}
        guard, reason = yield from self._refusal(declared.name, seen, seq)
        call = Call(
                kind=Kind.TOOL, name=declared.name, seq=seq, scope=self._scope, group=group, effect=declared.effect,
                proposed=proposed, seen=seen, blocked_by=guard, reason=reason, declared=declared, hooked=self._hooked(declared.name),
        )  # fmt: skip
        answer = self._backend.cross(call)
        if guard is not None:
            refused = Blocked(guard, reason or "refused")
            answer.close(Closing(error=refused))
            raise refused
        raw = yield from settled(answer, partial(_run, declared, **seen), call)
        shown = yield from self._shown(declared.name, raw, seq) if answer.shown is UNSET else already(answer.shown)
        answer.close(Closing(raw=raw, shown=shown))
        return shown

    def _shown(self, tool: str, raw: object, seq: int) -> Steps:
        shown = raw
        for code in self._sitting(Kind.HOOK, f"after:{tool}"):
            shown = yield from self._code_steps(code, copy.deepcopy(shown), seq)
        return shown

    def _refusal(
        self, tool: str, seen: dict[str, Any], seq: int
    ) -> Generator[Callable[[], Any], Any, tuple[str | None, str | None]]:
        for code in self._sitting(Kind.GUARD, f"before:{tool}"):
            verdict = yield from self._code_steps(code, copy.deepcopy(seen), seq)
            if verdict["blocked"]:
                return code.name, verdict["reason"]
        return None, None

    def _hooked(self, tool: str) -> frozenset[str]:
        return frozenset(side for side in ("before", "after") if self._sitting(Kind.HOOK, f"{side}:{tool}"))

    def _sitting(self, kind: Kind, at: str) -> Sequence[Code]:
        return self._placed.get((kind, at), ())

    def _place(self, code: Code) -> None:
        self.code.append(code)
        if code.at is not None:
            self._placed.setdefault((code.kind, code.at), []).append(code)

    def _code_steps(self, code: Code, value: object, seq: int) -> Steps:
        call = self._call(code.kind, code.name, seq, seen=value, at=code.at)
        answer = self._backend.cross(call)
        result = yield from settled(answer, partial(code.fn, value), call)
        if code.kind is Kind.GUARD and answer.live:
            result = _verdict(result)
        answer.close(Closing(raw=result))
        return result


def _length(seconds: float) -> float:
    if not 0 <= seconds <= _LONGEST_S:
        raise ValueError(f"a sleep lasts 0 to {_LONGEST_S} seconds")
    return seconds


def _verdict(returned: object) -> dict[str, Any]:
    """A guard's answer as it is recorded: {"blocked": bool, "reason": text or None}."""
    if returned is None or returned is True:
        return {"blocked": False, "reason": None}
    return {"blocked": True, "reason": returned if isinstance(returned, str) else "refused"}


def _run(declared: Declared, /, *args: Any, **kwargs: Any) -> Any:
    if declared.fn is None:
        raise TypeError(f"{declared.name!r} was declared without a function, so it cannot run live")
    return declared.fn(*args, **kwargs)


def _position(name: str, *, before: str | None, after: str | None) -> str:
    if (before is None) == (after is None):
        raise TypeError(f"hook {name!r} needs exactly one of before= and after=")
    return f"before:{before}" if before else f"after:{after}"
