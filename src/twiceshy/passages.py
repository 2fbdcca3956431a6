"""How an agent passes a boundary, step by step: hooks, defaults and guards before it, the backend's answer, hooks after it."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.seam import Answer, Backend, Blocked, Call, Closing, Code, Declared, Step
from twiceshy.stepping import Numbering, drive, running, settled, within

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from twiceshy.errors import TwiceshyError

    Steps = Generator[Callable[[], Any], Any, Any]
    Agent = Callable[[Any], Any]


_BOTH = frozenset({"before", "after"})


class _Around(NamedTuple):
    """The code that sits around one tool."""

    before: Sequence[Code]
    guards: Sequence[Code]
    after: Sequence[Code]

    @property
    def hooked(self) -> frozenset[str]:
        """On which sides hooks sit."""
        return frozenset(side for side, hooks in (("before", self.before), ("after", self.after)) if hooks)


class Handing(NamedTuple):
    """A handoff that is open: what the backend says to it, and the boundaries of the agent that is handed to."""

    answer: Answer
    passages: Any

    def close(self, result: object = UNSET, *, error: BaseException | None = None) -> None:
        """Tell what came of it."""
        self.answer.close(Closing(error=error) if error is not None else Closing(raw=result, shown=result))


class Passages:
    """The passages of one agent. home: the handoff in which it runs; None for the first agent."""

    def __init__(self, backend: Backend, *, scope: str, numbers: Numbering | None, home: Call | None) -> None:
        self._backend = backend
        self._scope = scope
        self.numbers = numbers or Numbering()
        self._home = home
        self._last = 0 if home is None else home.seq
        self._group: int | None = None
        self._placed: dict[tuple[Kind, str], list[Code]] = {}
        self._around: dict[str, tuple[_Around, frozenset[str]]] = {}

    def child(self, scope: str, home: Call | None) -> Passages:
        """The passages of an agent that is handed to."""
        raise NotImplementedError

    def _enclosing(self) -> Call | None:
        """The passage in whose code this happens; None in the agent's own loop."""
        passage = running()
        return None if passage is self._home else passage

    def _step(self) -> int:
        seq = self.numbers.step()
        if self._enclosing() is None:
            self._last = seq
        return seq

    def _asked_in(self) -> int | None:
        """The group of what is called now. Inside a passage it is that of the passage, so that what a tool's body does stays part of the turn that asked for it."""
        inside = self._enclosing()
        return self._group if inside is None else inside.group

    def _parent(self) -> str | None:
        passage = running()
        return None if passage is None else passage.place

    def _placed_call(self, kind: Kind, name: str, seq: int, **rest: Any) -> Call:
        """A passage within a step, numbered there."""
        sub = self.numbers.sub(seq)
        return Call(
            kind=kind, name=name, seq=seq, sub=sub, scope=self._scope, group=self._asked_in(), numbers=self.numbers, **rest
        )  # fmt: skip

    def _ambient(self, kind: Kind, name: str, fn: Callable[[], Any], *, seen: object = UNSET) -> Any:
        answer = self._backend.cross(self._drawing(kind, name, seen))
        drawn = fn() if answer.live else answer.value
        answer.close(Closing(raw=drawn))
        return drawn

    def _drawing(self, kind: Kind, name: str, seen: object) -> Call:
        """A draw of clock, chance or a flag: within the passage in whose code it happens, else after the agent's last step."""
        inside = self._enclosing()
        if inside is None:
            return self._placed_call(kind, name, self._last, seen=seen)
        return self._placed_call(kind, name, inside.seq, seen=seen, parent=inside.place)

    def _model_steps(self, declared: Declared, request: object) -> Steps:
        call = self._requesting(declared, request)
        answer = self._backend.cross(call)
        output = yield from settled(answer, partial(run_declared, declared, request), call)
        self._answered(call)
        answer.close(Closing(raw=output, shown=output))
        return output

    def _requesting(self, declared: Declared, request: object, *, stream: bool = False) -> Call:
        return Call(
            kind=Kind.MODEL, name=declared.name, seq=self._step(), parent=self._parent(), scope=self._scope, seen=request,
            declared=declared, stream=stream, numbers=self.numbers,
        )  # fmt: skip

    def _answered(self, call: Call) -> None:
        """What is called from now on was asked for by this output; a model inside a tool's body asks for nothing in the loop around it."""
        if self._enclosing() is None:
            self._group = call.seq

    def step(self) -> Step:
        """The next step of the run. For adapters: a framework's middleware runs between asking for a call and reaching its boundary."""
        passage = running()
        seq = self.numbers.step()
        if passage is self._home:
            self._last = seq
            return Step(seq, self._group, None if passage is None else passage.place)
        return Step(seq, None if passage is None else passage.group, self._parent())

    def calling(self, declared: Declared, given: dict[str, Any]) -> Steps:
        """The steps of a call that comes `via` a framework."""
        return self._tool_steps(declared, given)

    def withheld(
        self, declared: Declared, step: Step, proposed: dict[str, Any], shown: object = UNSET, *, by: Blocked | None = None
    ) -> None:  # fmt: skip
        """Tell of a call that a framework's middleware answered itself, or raised at: it never reached its boundary. by: the guard of the framework's that refused it."""
        ended = "raised" if shown is UNSET else "answered"
        refused = by or Blocked("middleware", f"{ended} there")
        call = self._calling(
            declared, step, proposed=proposed, seen=proposed, blocked_by=refused.guard,
            reason=by.reason if by else f"{ended} by the framework's middleware",
        )  # fmt: skip
        self._backend.cross(call).close(Closing(error=refused, shown=shown))

    def beyond(self, kind: Kind, name: str, refused: TwiceshyError) -> None:
        """For adapters: what the agent is about to do leads past its boundary. A replay ends there, as ERROR; a recorder raises; a live run goes on."""
        self._backend.cross(Call(kind=kind, name=name, seq=self._last, scope=self._scope, refused=refused))

    def in_a_body(self) -> bool:
        """For adapters: whether what happens now happens within the body of a passage, and not in the agent's own loop."""
        return self._enclosing() is not None

    def refuse(self, name: str, refused: TwiceshyError) -> NoReturn:
        """`beyond` of a tool that not even a live run could have. Raises the error in the agent."""
        self.beyond(Kind.TOOL, name, refused)
        raise refused

    def handing(self, name: str, value: object) -> Handing:
        """For adapters: hand over to an agent that a framework runs. Close it with what came of that."""
        call = self._handing_over(name, value)
        answer = self._backend.cross(call)
        return Handing(answer, self.child(self._below(name, answer), call))

    def surrounded(self, tool: str) -> bool:
        """For adapters: whether hooks or guards sit around a tool of that name."""
        around, hooked = self._sitting_around(tool)
        return bool(hooked or around.guards)

    @contextmanager
    def at_home(self) -> Iterator[None]:
        """For adapters: what a framework runs of this agent happens in the handoff it runs in, unless it happens within a passage of its own."""
        inside = running()
        if self._home is None or (inside is not None and inside.scope == self._scope):
            yield
            return
        with within(self._home):
            yield

    def _at_once(self, declared: Declared, given: dict[str, Any]) -> Any:
        """A plain call of a tool. Where nothing stands around it and the record answers, that is all there is to it."""
        around, hooked = self._around.get(declared.name) or self._sitting_around(declared.name)
        if hooked or around.guards:
            return drive(self._tool_steps(declared, given))
        seen = {**declared.defaults, **given} if declared.defaults else given
        call = self._calling(declared, self.step(), proposed=given, seen=seen, settles=True)
        answer = self._backend.cross(call)
        return answer.value if answer.settled else drive(self._ending(declared, seen, call, answer))

    def _ending(self, declared: Declared, seen: dict[str, Any], call: Call, answer: Answer) -> Steps:
        raw = yield from settled(answer, partial(run_declared, declared, **seen), call)
        shown = raw if answer.shown is UNSET else answer.shown
        answer.close(Closing(raw=raw, shown=shown))
        return shown

    def _tool_steps(self, declared: Declared, proposed: dict[str, Any]) -> Steps:
        """From the arguments to the value that goes back, past hooks and guards. A framework closes the passage when its middleware is through."""
        via = declared.via
        step = self.step() if via is None else via.stepping()
        around, hooked = self._sitting_around(declared.name)
        seen = proposed
        for code in around.before:
            seen = yield from self._code_steps(code, copy.deepcopy(seen), step.seq)
        seen = {**declared.defaults, **seen} if declared.defaults else seen
        guard, reason = (yield from self._refusal(around.guards, seen, step.seq)) if around.guards else (None, None)
        call = self._calling(
            declared, step, proposed=proposed if via is None else via.proposed, seen=seen, blocked_by=guard, reason=reason,
            hooked=_BOTH if via is not None and via.middleware else hooked,
            settles=via is None and guard is None and not around.after,
        )  # fmt: skip
        answer = self._backend.cross(call)
        close = answer.close if via is None else partial(via.held, answer)
        if guard is not None:
            refused = Blocked(guard, reason or "refused")
            close(Closing(error=refused))
            raise refused
        if answer.settled:
            return answer.value
        live = partial(run_declared, declared, **seen) if via is None else partial(via.run, seen)
        raw = yield from settled(answer, live, call, close)
        shown = yield from self._hooked(around.after, raw, step.seq, answer, close)
        close(Closing(raw=raw, shown=shown))
        return shown

    def _hooked(
        self, after: Sequence[Code], raw: Any, seq: int, answer: Answer, close: Callable[[Closing], None]
    ) -> Steps:
        """What the hooks behind a boundary make of its answer. Where one of them raises, the boundary has answered all the same."""
        shown = raw
        try:
            for code in after:
                shown = yield from self._code_steps(code, copy.deepcopy(shown), seq, unused=answer.shown is not UNSET)
        except BaseException:
            close(Closing(raw=raw))
            raise
        return shown if answer.shown is UNSET else answer.shown

    def _calling(self, declared: Declared, step: Step, **rest: Any) -> Call:
        return Call(
            kind=declared.kind, name=declared.name, seq=step.seq, parent=step.parent, scope=self._scope, group=step.group,
            effect=declared.effect, declared=declared, numbers=self.numbers, **rest,
        )  # fmt: skip

    def _refusal(
        self, guards: Sequence[Code], seen: dict[str, Any], seq: int
    ) -> Generator[Callable[[], Any], Any, tuple[str | None, str | None]]:
        for code in guards:
            verdict = yield from self._code_steps(code, copy.deepcopy(seen), seq)
            if verdict["blocked"]:
                return code.name, verdict["reason"]
        return None, None

    def _person_steps(self, declared: Declared, seen: object) -> Steps:
        """A turn of a user belongs to no model turn; what is asked of a person on behalf of a call belongs to that call's."""
        group = self._asked_in() if declared.kind is Kind.HUMAN else None
        call = Call(
            kind=declared.kind, name=declared.name, seq=self._step(), parent=self._parent(), scope=self._scope, group=group,
            seen=seen, declared=declared, numbers=self.numbers,
        )  # fmt: skip
        answer = self._backend.cross(call)
        said = yield from settled(answer, partial(run_declared, declared, seen), call)
        answer.close(Closing(raw=said, shown=said))
        return said

    def _handoff_steps(self, code: Code, value: object) -> Steps:
        call = self._handing_over(code.name, value)
        answer = self._backend.cross(call)
        scope = self._below(code.name, answer)
        result = yield from settled(answer, lambda: code.fn(self.child(scope, call))(value), call)
        answer.close(Closing(raw=result, shown=result))
        return result

    def _handing_over(self, name: str, value: object) -> Call:
        return Call(
            kind=Kind.HANDOFF, name=name, seq=self._step(), parent=self._parent(), scope=self._scope, group=self._asked_in(),
            seen=value, numbers=self.numbers,
        )  # fmt: skip

    def _below(self, name: str, answer: Answer) -> str:
        return f"{self._scope}/{name}" if answer.scope is None else answer.scope

    def _code_steps(
        self, code: Code, value: object, seq: int, *, unused: bool = False, parent: str | None = None
    ) -> Steps:
        call = self._placed_call(code.kind, code.name, seq, seen=value, at=code.at, unused=unused, parent=parent)
        answer = self._backend.cross(call)
        result = yield from settled(answer, partial(code.fn, value), call)
        if code.kind is Kind.GUARD and answer.live:
            result = _verdict(result)
        answer.close(Closing(raw=result))
        return result

    def _called_code(self, code: Code, value: object) -> Steps:
        """Code that is called by name: within the passage in whose code that happens, else after the agent's last step."""
        return self._code_steps(code, value, self._inside(), parent=self._parent())

    def _inside(self) -> int:
        inside = self._enclosing()
        return self._last if inside is None else inside.seq

    def _sitting_around(self, tool: str) -> tuple[_Around, frozenset[str]]:
        found = self._around.get(tool)
        if found is None:
            around = _Around(
                *(
                    self._placed.get(place, ())
                    for place in (
                        (Kind.HOOK, f"before:{tool}"),
                        (Kind.GUARD, f"before:{tool}"),
                        (Kind.HOOK, f"after:{tool}"),
                    )
                )
            )
            found = self._around[tool] = around, around.hooked
        return found

    def _place(self, code: Code) -> None:
        if code.at is not None:
            self._placed.setdefault((code.kind, code.at), []).append(code)
            self._around.clear()


def _verdict(returned: object) -> dict[str, Any]:
    """A guard's answer as it is recorded: {"blocked": bool, "reason": text or None}."""
    if returned is None or returned is True:
        return {"blocked": False, "reason": None}
    return {"blocked": True, "reason": returned if isinstance(returned, str) else "refused"}


def run_declared(declared: Declared, /, *args: Any, **kwargs: Any) -> Any:
    """What the declared function returns. Raises TypeError where there is none."""
    if declared.fn is None:
        raise TypeError(f"{declared.name!r} was declared without a function, so it cannot run live")
    return declared.fn(*args, **kwargs)
