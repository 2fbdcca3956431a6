"""Lists of messages in any provider's shape (shapes.py): `{messages, system?}`, several of them by name, recorded requests of a model's API, and texts with a role a line.

What a list of messages does not say is missing: a text with a role a line names no tools and shows no calls, so its answers are flagged `preview_only`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tasks.sources import messages, shapes
from tasks.sources.entries import entries, inner
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, spelled
from tasks.sources.payloads import Payload
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.entries import Entry

NAME = "messages"
_SYSTEM = ("system", "system_prompt", "system_instruction")
_TURN = re.compile(r"^(system|user|assistant|tool): ", re.MULTILINE)
_NOTHING = "None"


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row a message, and one a call with what answered it."""
    intake = Intake(raw, NAME, harness_state)
    for entry in entries(intake):
        found = list(_conversations(entry))
        if not found:
            entry.reject(intake, "unknown_container")
        for name, held in found:
            _enter(entry, name, held, intake)
    return intake.mapped()


def _conversations(entry: Entry) -> Iterator[tuple[str, dict[str, Any]]]:
    """The conversations of one object: itself, the request and answer that it recorded, or those that it holds by name."""
    held = entry.held
    if _speaks(held):
        yield "", held
    elif _speaks(inner(held, "body")):
        body = inner(held, "body")
        model = body.get("model") or inner(held, "response").get("model")
        yield "", body | {"answer": held.get("response"), "model": model}
    else:
        yield from ((name, value) for name, value in held.items() if isinstance(value, dict) and _speaks(value))


def _speaks(held: dict[str, Any]) -> bool:
    listed = held.get("messages")
    return isinstance(held.get("messages_display"), str) or (
        isinstance(listed, list) and all(map(shapes.is_message, listed)) and bool(listed)
    )


def _enter(entry: Entry, name: str, held: dict[str, Any], intake: Intake) -> None:
    own = held.get("id") or held.get("conversation_id")
    talk = Transcript.of(NAME, own, f"{intake.raw.name}, {entry.place} {name}".rstrip(), common=_common(held))
    talk.flags |= entry.flags
    for number, (message, flags) in enumerate(_said(held)):
        place = f"{entry.place}, message {number}"
        try:
            _message(talk, message, place, flags)
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "span", place, spelled(message))
    talk.enter(intake)


def _common(held: dict[str, Any]) -> dict[str, Any]:
    model = held.get("model")
    return {"model_requested": model} if isinstance(model, str) and model else {}


def _said(held: dict[str, Any]) -> Iterator[tuple[Any, set[str]]]:
    """The messages in order, with the flags of each."""
    display = held.get("messages_display")
    if isinstance(display, str):
        yield from _turns(display)
        return
    system = next((text for name in _SYSTEM if isinstance(text := messages.system_text(held.get(name)), str)), None)
    if system is not None:
        yield {"role": "system", "content": system}, set()
    for message in held["messages"]:
        yield message, set()
    answer = held.get("answer")
    if isinstance(answer, dict) and shapes.is_message(answer):
        yield answer, set()
    elif isinstance(answer, str):  # a binary stream that nobody decoded
        yield {"role": "assistant", "content": None}, {"preview_only"}


def _turns(text: str) -> Iterator[tuple[dict[str, Any], set[str]]]:
    starts = list(_TURN.finditer(text))
    for start, after in zip(starts, [*starts[1:], None], strict=True):
        said = text[start.end() : after.start() if after else len(text)].removesuffix("\n")
        is_model = start[1] == "assistant"
        content = None if is_model and said == _NOTHING else said
        yield {"role": start[1], "content": content}, {"preview_only"} if is_model else set()


def _message(talk: Transcript, held: Any, place: str, flags: set[str]) -> None:
    shaped = shapes.message(held)
    role, parts = shaped.get("role"), shaped.get("parts") or []
    answers = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_call_response"]
    rest = [part for part in parts if part not in answers]
    for part in answers:
        response = part.get("response")
        talk.answer(
            part.get("id"), told(response) if isinstance(response, str) else Payload(response, "json"), place, held
        )
    if role == "system":
        talk.system(messages.texts(rest), place, held)
    elif role == "assistant":
        span = talk.model(rest, place, held, flags=flags)
        for part in rest:
            if isinstance(part, dict) and part.get("type") == "tool_call":
                talk.call(
                    part.get("name"),
                    Payload(part.get("arguments"), "json"),
                    place,
                    part,
                    call_id=part.get("id"),
                    asker=span,
                )
    elif role == "user" and (rest or not answers):
        talk.user(rest, place, held)
    elif role not in ("user", "tool"):
        raise BadSpan("bad_enum")


source = FileSource(NAME, spans)
