"""One sample of a log as a trace: its own span, its events or messages, its scores.

`target` is the label side: it becomes a score and stands in no span. What a person cancelled is no failure of the agent. An `attachment://` that its sample does not
hold leaves the span `ref_unresolved`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources import ids, shapes, transcripts
from tasks.sources.entries import inner, listed
from tasks.sources.inspect_logs import events
from tasks.sources.inspect_logs.messages import plain_calls
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, spelled
from tasks.sources.records import UNFINISHED, Score, Side, Span, graded
from tasks.sources.times import span_times
from tasks.sources.transcripts import Transcript
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.source import Intake

NAME = "inspect"
MAPPER = "inspect@1"
TARGET = "target"
_ATTACHED = re.compile(r"attachment://([0-9a-f]{32})")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_CANCELLED = "cancelled"


class Sample:
    """One sample on its way to spans. Raises BadSpan where it is none."""

    def __init__(self, held: Any, head: dict[str, Any], place: str, flags: frozenset[str]) -> None:
        if not isinstance(held, dict) or "id" not in held:
            raise BadSpan("bad_type")
        self._held, self._head, self._place = held, head, place
        self._eval = inner(head, "eval")
        found = (self._eval.get("run_id"), self._eval.get("task"), held["id"], held.get("epoch"))
        self.key = str(held.get("uuid") or "/".join(map(str, found)))
        self.flags = set(flags) | ({UNFINISHED} if head.get("status") == "started" else set())
        self.trace_id = ids.trace_id(self.key, NAME, self.flags)
        self.attached = inner(held, "attachments")
        packages = inner(self._eval, "packages")
        self.common: dict[str, Any] = {
            "scope_name": "inspect_ai", "scope_version": packages.get("inspect_ai"), "service_name": self._eval.get("task"),
        }  # fmt: skip
        self.model: str | None = self._eval.get("model") if isinstance(self._eval.get("model"), str) else None

    def enter(self, intake: Intake) -> None:
        """Hand all of it to the intake."""
        intake.take(self._own(), self._place)
        told = listed(self._held, "events")
        if told:
            events.enter(self, told, self._place, intake)
        else:
            self._talk(intake)
        for number, held in enumerate(listed(self._held, "error_retries")):
            intake.take(self._retried(number, held), f"{self._place}, retry {number}")
        intake.scores += self._scores()

    def whole(self, held: Any, flags: set[str]) -> Any:
        """The value with what its sample holds attached in its place."""
        if isinstance(held, str):
            return _ATTACHED.sub(lambda hit: self._attachment(hit, flags), held) if "attachment://" in held else held
        if isinstance(held, list):
            return [self.whole(item, flags) for item in held]
        return {name: self.whole(item, flags) for name, item in held.items()} if isinstance(held, dict) else held

    def span(self, index: str, kind: str, name: str, found: Any, **fields: Any) -> Span:
        """One span of the sample; index: its place in it."""
        flags = self.flags | fields.pop("flags", set())
        return Span(
            trace_id=self.trace_id, span_id=ids.span_id(f"{self.key}#{index}", NAME, set()), source_trace_id=self.key, source_span_id=f"{self.key}#{index}",
            container="eval_log", dialect=NAME, mapper=MAPPER, kind=kind, name=name or "-", flags=flags, attributes_json=msgspec.json.encode(found).decode(),
            **self.common | fields,
        )  # fmt: skip

    def _attachment(self, hit: re.Match[str], flags: set[str]) -> str:
        held = self.attached.get(hit[1])
        if not isinstance(held, str):
            flags.add("ref_unresolved")
            return hit[0]
        return held

    def _own(self) -> Span:
        """The span of the sample itself: what it was asked, how it ended."""
        flags: set[str] = set()
        held, error = self._held, inner(self._held, "error")
        cancelled = self._head.get("status") == _CANCELLED and bool(error)
        asked = self.whole(held.get("input"), flags)
        said = self.whole(inner(held, "output").get("completion"), flags)
        times = span_times(held.get("started_at"), held.get("completed_at"))
        if cancelled:
            flags.add(UNFINISHED)
        failed = bool(error) and not cancelled
        found = {
            name: held[name] for name in ("id", "epoch", "metadata", "limit", "total_time", "error") if name in held
        }
        return self.span(
            "sample", "agent", str(self._eval.get("task") or "sample"), found, flags=flags, agent_name=self._eval.get("task"), is_error=failed,
            error_class="Exception" if failed else None, error_message=str(error.get("message")) if failed else None,
            sides={side: Side(value, "json") for side, value in (("seen", asked), ("raw", said)) if value is not None}, **times,
        )  # fmt: skip

    def _retried(self, number: int, held: Any) -> Span:
        """An attempt at the whole sample that failed before this one."""
        message = held.get("message") if isinstance(held, dict) else None
        return self.span(
            f"retry {number}", "step", "error_retry", held, is_error=True, error_class="Exception", error_message=str(message), time_precision="none"
        )  # fmt: skip

    def _talk(self, intake: Intake) -> None:
        talk = Transcript(
            source=NAME, mapper=MAPPER, key=self.key, trace_id=self.trace_id, flags=self.flags, common=self.common
        )
        for number, held in enumerate(listed(self._held, "messages")):
            place = f"{self._place}, message {number}"
            try:
                self._turn(talk, held, place)
            except UNREADABLE as bad:
                intake.reject(reason_of(bad), "span", place, spelled(held))
        talk.enter(intake)

    def _turn(self, talk: Transcript, held: Any, place: str) -> None:
        flags: set[str] = set()
        message = plain_calls(self.whole(held, flags))
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "user", "assistant", "tool"):
            raise BadSpan("bad_type")
        content = message.get("content", "")
        if role == "system":
            talk.system(transcripts.plain(content) or "", place, held, flags=flags)
        elif role == "user":
            talk.user(content, place, held, flags=flags)
        elif role == "assistant":
            said = shapes.message(message)["parts"]
            asker = talk.model(
                said, place, held, flags=flags, model_requested=self.model, model_answered=message.get("model")
            )
            for part in said:
                if isinstance(part, dict) and part.get("type") == "tool_call":
                    asked = transcripts.arguments(part["arguments"])
                    talk.call(part["name"], asked, place, part, call_id=part["id"], asker=asker)
        else:
            made = talk.answer(
                message.get("tool_call_id"), transcripts.told(content), place, held, fault=events.fault(message), name=message.get("function")
            )  # fmt: skip
            made.flags |= flags

    def _scores(self) -> Iterator[Score]:
        held = self._held
        for name, score in inner(held, "scores").items():
            yield from self._score(name, score)
        if isinstance(held.get("score"), dict):
            yield from self._score("score", held["score"])
        if held.get(TARGET) not in (None, "", []):
            yield Score(trace_id=self.trace_id, name=TARGET, text=canonical(held[TARGET]).decode(), origin="human")
        if isinstance(held.get("limit"), dict):
            yield Score(trace_id=self.trace_id, name="limit", label=str(held["limit"].get("type")), origin="code")

    def _score(self, name: str, held: Any) -> Iterator[Score]:
        value = held.get("value") if isinstance(held, dict) else None
        if value is None:
            return
        told = (
            {"value": _LETTERS[value], "label": value}
            if isinstance(value, str) and value in _LETTERS
            else graded(value)
        )
        comment = held.get("explanation")
        yield Score(
            trace_id=self.trace_id, name=name, origin="llm" if name.startswith("model_graded") else "code",
            comment=comment if isinstance(comment, str) and comment else None, **told,
        )  # fmt: skip
