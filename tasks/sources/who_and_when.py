"""Runs of several agents that failed, with who is to blame and at which step (Who&When): `{history[{content, role, name?}], mistake_agent, mistake_step, ...}`.

A history holds what the agents told each other. What their models were asked and which calls they made is not in it, so every answer is flagged `preview_only`:
such runs test the attribution, and become no cases. All labels are scores, and reach no span.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tasks.sources import faults
from tasks.sources.entries import Entry, entries
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, spelled
from tasks.sources.payloads import Payload
from tasks.sources.records import Score, graded
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasks.sources.records import Span

NAME = "who_and_when"
_USERS = ("human", "user")
_TERMINALS = re.compile(r"computer_?terminal", re.IGNORECASE)
_EXIT = re.compile(r"\s*exitcode: (\d+)")
_LABELS = ("is_correct", "is_corrected", "mistake_agent", "mistake_reason", "labels")


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per step; scores for the labels, that of `mistake_step` on its span."""
    intake = Intake(raw, NAME, harness_state)
    for entry in entries(intake):
        listed = entry.held.get("history")
        if not isinstance(listed, list) or not listed or "mistake_step" not in entry.held:
            entry.reject(intake, "unknown_container")
            continue
        own = entry.held.get("_source_path") or entry.held.get("question_ID")
        talk = Transcript.of(NAME, own, f"{raw.name}, {entry.place}")
        made = [_step(talk, entry, number, step, intake) for number, step in enumerate(listed)]
        talk.enter(intake)
        intake.scores += _scores(talk, entry.held, made)
    return intake.mapped()


def _step(talk: Transcript, entry: Entry, number: int, step: Any, intake: Intake) -> Span | None:
    place = f"{entry.place}, step {number}"
    try:
        return _made(talk, entry.held, number, step, place)
    except UNREADABLE as bad:
        intake.reject(reason_of(bad), "span", place, spelled(step))
        return None


def _made(talk: Transcript, run: dict[str, Any], number: int, step: Any, place: str) -> Span:
    if not isinstance(step, dict) or not isinstance(step.get("content"), str) or not isinstance(step.get("role"), str):
        raise BadSpan("bad_type")
    text, name = step["content"], step.get("name") or step["role"]
    if not isinstance(name, str):
        raise BadSpan("bad_type")
    if _TERMINALS.fullmatch(name):
        code = _EXIT.match(text)
        fault = faults.returned(name, {"exit_code": int(code[1])}) if code else None
        return talk.answer(None, Payload(text, "text"), place, step, side="raw", fault=fault, name=name)
    if number == 0 or name in _USERS:
        return talk.user(text, place, step)
    prompts = run.get("system_prompt")
    prompt = prompts.get(name) if isinstance(prompts, dict) else None
    system = {"system_text": prompt} if isinstance(prompt, str) else {}
    part = {"type": "text", "text": text}
    return talk.model([part], place, step, name=name, agent_name=name, flags={"preview_only"}, **system)


def _scores(talk: Transcript, run: dict[str, Any], made: Sequence[Span | None]) -> Iterator[Score]:
    for name in _LABELS:
        told = graded(run.get(name))
        if told:
            yield Score(trace_id=talk.trace_id, name=name, origin="human", **told)
    step = str(run["mistake_step"])
    at = made[int(step)] if step.isdecimal() and int(step) < len(made) else None
    yield Score(
        trace_id=talk.trace_id, span_id=at.span_id if at else None, name="mistake_step", label=step, origin="human"
    )
    if run.get("ground_truth") is not None:
        yield Score(
            trace_id=talk.trace_id, name="ground_truth", text=canonical(run["ground_truth"]).decode(), origin="human"
        )


source = FileSource(NAME, spans)
