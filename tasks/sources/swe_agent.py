"""SWE-agent's trajectories: a file a run, a step an answer of the model and the action that it came to.

In function-calling runs the call stands in the history, beside the answer; elsewhere the action is a command line, the tool `shell`. An empty observation is a result.
The demonstration that a prompt begins with is no turn of a user. There are no times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import payloads, shapes, transcripts
from tasks.sources.entries import Entry, entries, inner
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, spelled
from tasks.sources.payloads import Payload
from tasks.sources.records import Score, Side
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.records import Span

NAME = "swe_agent"
AGENT = "swe-agent"
SHELL = "shell"
_GOOD = "submitted"
_REPLAYED = ("replay", "human", "instant_empty_submit")
"""Names of models that are none."""


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per message before the first answer, per answer, per action, and one for how the run ended."""
    intake = Intake(raw, NAME, harness_state)
    for number, entry in enumerate(entries(intake)):
        if not isinstance(entry.held.get("trajectory"), list) or not entry.held["trajectory"]:
            entry.reject(intake, "unknown_container")
            continue
        file = raw.name if number == 0 else f"{raw.name}#{number}"
        _Run(Transcript.of(NAME, None, file, common={"agent_name": AGENT}), entry).enter(intake)
    return intake.mapped()


class _Run:
    """One trajectory on its way to spans."""

    def __init__(self, talk: Transcript, entry: Entry) -> None:
        self._talk, self._entry = talk, entry
        talk.flags |= entry.flags
        self._model = _model(entry.held)
        listed = entry.held.get("history")
        self._history = [held for held in listed if isinstance(held, dict)] if isinstance(listed, list) else []

    def enter(self, intake: Intake) -> None:
        """Hand all of it to the intake."""
        place = self._entry.place
        for number, held in enumerate(self._begun()):
            self._heard(held, f"{place}, message {number}")
        told = self._answered()
        for number, step in enumerate(self._entry.held["trajectory"]):
            where = f"{place}, step {number}"
            try:
                self._step(step, where, number, told)
            except UNREADABLE as bad:
                intake.reject(reason_of(bad), "span", where, spelled(step))
        self._ended(place, intake)
        self._talk.enter(intake)

    def _begun(self) -> Iterator[dict[str, Any]]:
        """What stands before the first answer; answers and observations of a demonstration are of that, too."""
        for held in self._history:
            if held.get("role") == "assistant" and held.get("is_demo") is not True:
                return
            yield held

    def _answered(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Every answer of the history with the message that follows it."""
        own = [held for held in self._history if held.get("is_demo") is not True]
        return [
            (held, after) for held, after in zip(own, [*own[1:], {}], strict=False) if held.get("role") == "assistant"
        ]

    def _heard(self, held: dict[str, Any], place: str) -> None:
        content = held.get("content")
        if held.get("role") == "system":
            self._talk.system(transcripts.plain(content) or "", place, held)
        else:
            aside = held.get("is_demo") is True or held.get("role") != "user"
            self._talk.user(content if content is not None else "", place, held, kind="step" if aside else "user")

    def _step(self, step: Any, place: str, number: int, told: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        if not isinstance(step, dict) or not isinstance(step.get("response", ""), str):
            raise BadSpan("bad_type")
        # The last step of some runs is not in the history, and one that was asked again is there twice.
        found = next((at for at, (held, _) in enumerate(told) if held.get("action") == step.get("action")), None)
        said, after = told[found] if found is not None else ({}, {})
        del told[: 0 if found is None else found + 1]
        calls = [shapes.message({"role": "assistant", "tool_calls": [call]})["parts"][0] for call in _calls(said)]
        text = [{"type": "text", "text": step["response"]}] if step.get("response") else []
        query = step.get("query")
        asker = self._talk.model(
            [*text, *calls], place, step, model_requested=self._model, messages_in=shapes.messages(query) if isinstance(query, list) else UNSET,
            provenance={"model_requested": {"key": "replay_config", "grade": "derived"}} if self._model else {},
        )  # fmt: skip
        action = step.get("action")
        if calls:
            for call in calls:
                self._acted(
                    asker, call["name"], transcripts.arguments(call["arguments"]), call["id"], step, after, place
                )
        elif isinstance(action, str) and action.strip():
            made = self._acted(asker, SHELL, Payload({"command": action}, "json"), f"step {number}", step, after, place)
            made.sides["seen"] = made.sides["proposed"]
            made.call_id = None

    def _acted(
        self, asker: Span, name: Any, asked: Payload, call_id: Any, step: dict[str, Any], after: dict[str, Any], place: str
    ) -> Span:  # fmt: skip
        made = self._talk.call(name, asked, place, step, call_id=call_id, asker=asker)
        if isinstance(step.get("observation"), str):
            self._talk.answer(call_id, payloads.parsed(step["observation"]), place, after, side="raw")
        if after.get("role") in ("tool", "user") and after.get("content") is not None:
            shown = transcripts.told(after["content"])
            made.sides["shown"] = Side(shown.value, shown.encoding)
        return made

    def _ended(self, place: str, intake: Intake) -> None:
        info = inner(self._entry.held, "info")
        if not info:
            return
        status, submission = info.get("exit_status"), info.get("submission")
        failed = isinstance(status, str) and not status.startswith(_GOOD)
        self._talk.add(
            "agent", AGENT, place, info, agent_version=_text(info, "swe_agent_version"), is_error=failed, error_class=str(status) if failed else None,
            sides={"raw": Side(submission, "text")} if isinstance(submission, str) else {},
        )  # fmt: skip
        if isinstance(status, str):
            intake.scores.append(
                Score(trace_id=self._talk.trace_id, name="exit_status", label=status, origin="code")
            )  # fmt: skip


def _calls(held: dict[str, Any]) -> list[Any]:
    listed = held.get("tool_calls")
    return listed if isinstance(listed, list) else []


def _model(held: dict[str, Any]) -> str | None:
    """The model that the run was configured with."""
    config = held.get("replay_config")
    config = payloads.parsed(config).value if isinstance(config, str) else config
    name = inner(inner(config, "agent"), "model").get("name")
    return name if isinstance(name, str) and name not in _REPLAYED else None


def _text(held: dict[str, Any], name: str) -> str | None:
    found = held.get(name)
    return found if isinstance(found, str) and found else None


source = FileSource(NAME, spans, JSON_SUFFIXES | {".traj"})
