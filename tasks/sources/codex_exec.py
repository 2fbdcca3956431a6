"""The event stream of `codex exec --json`: an item is told when it starts, as it goes on and when it is complete; the last word counts.

It shows what the agent did and said, not what its model was asked and proposed: its answers are flagged `preview_only`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.sources import faults, transcripts
from tasks.sources.entries import inner
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.records import Side

if TYPE_CHECKING:
    from tasks.sources.entries import Entry
    from tasks.sources.faults import Fault
    from tasks.sources.records import Span
    from tasks.sources.transcripts import Transcript

_EVENTS = ("thread.", "turn.", "item.")
_TEXTS = {"agent_message": "text", "assistant_message": "text", "reasoning": "reasoning"}
_USAGE = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cached_input_tokens"}


@dataclass(slots=True)
class Stream:
    """One stream on its way to spans."""

    talk: Transcript
    _calls: dict[str, Span] = field(default_factory=dict)
    _last: Span | None = None

    @staticmethod
    def speaks(held: dict[str, Any]) -> bool:
        """Whether a line is an event of this stream."""
        kind = held.get("type")
        return isinstance(kind, str) and (kind.startswith(_EVENTS) or (kind == "error" and "message" in held))

    def hear(self, entry: Entry) -> None:
        """One event. Raises BadSpan."""
        line, kind = entry.held, str(entry.held["type"])
        if kind.startswith("item."):
            item = line.get("item")
            if not isinstance(item, dict):
                raise BadSpan("bad_type")
            self._item(line, item, entry)
            return
        if kind == "turn.completed" and self._last is not None:
            held = inner(line, "usage")
            self._last.usage = {name: held[key] for name, key in _USAGE.items() if isinstance(held.get(key), int)}
        broke = kind in ("turn.failed", "error")
        told = inner(line, "error") or line
        self.talk.add(
            "agent" if kind == "turn.failed" else "step", kind, entry.place, line, flags=set(entry.flags), is_error=broke,
            error_class=kind if broke else None, error_message=str(told.get("message")) if broke else None,
        )  # fmt: skip

    def _item(self, line: dict[str, Any], item: dict[str, Any], entry: Entry) -> None:
        kind = str(item.get("type", item.get("item_type")))
        read = _CALLS.get(kind)
        if read is not None:
            self._call(line, item, entry)
        elif kind in _TEXTS and isinstance(item.get("text"), str):
            if line["type"] == "item.completed":
                part = {"type": _TEXTS[kind], "text": item["text"]}
                flags = set(entry.flags) | {"preview_only"}
                self._last = self.talk.model([part], entry.place, line, flags=flags)
            else:
                self.talk.add("step", str(line["type"]), entry.place, line, flags=set(entry.flags))
        else:
            self.talk.add("step", f"{line['type']}/{kind}", entry.place, line, flags=set(entry.flags))

    def _call(self, line: dict[str, Any], item: dict[str, Any], entry: Entry) -> None:
        tool, asked, names = _CALLS[str(item.get("type", item.get("item_type")))]
        name = str(item.get("tool")) if tool is None else tool
        key = str(item.get("id"))
        span = self._calls.get(key)
        if span is None:
            server = item.get("server") if isinstance(item.get("server"), str) else None
            span = self._calls[key] = self.talk.add(
                "tool", name, entry.place, line, tool_name=name, mcp_server=server, flags=set(entry.flags)
            )  # fmt: skip
        else:
            self.talk.found(span, line)
        held = {part: item[part] for part in asked if part in item}
        if held:
            read = transcripts.arguments(held.get("arguments", held))
            span.sides["seen"] = Side(read.value, read.encoding)
            span.flags |= read.flags
        if line["type"] == "item.completed":
            result = {part: item[part] for part in names if item.get(part) is not None}
            if result:
                span.sides["raw"] = Side(result.get("result", result))
            transcripts.failed(span, _fault(name, item))


def _fault(tool: str, item: dict[str, Any]) -> Fault | None:
    """An exit code, an error of its own, or a status that says it failed or was refused."""
    if item.get("status") == "declined":
        return faults.typed("approval", "declined", definite=True)
    found = faults.returned(tool, {name: item[name] for name in ("exit_code", "error") if name in item})
    return found or (faults.bare("failed") if item.get("status") == "failed" else None)


# The tool, None where the item names it; where its arguments stand, and where its result. A change of files tells which they are, and not what was written.
_CALLS: dict[str, tuple[str | None, tuple[str, ...], tuple[str, ...]]] = {
    "command_execution": ("shell", ("command",), ("aggregated_output", "exit_code")),
    "file_change": ("apply_patch", (), ("changes", "status")),
    "mcp_tool_call": (None, ("arguments",), ("result",)),
    "web_search": ("web_search", ("query",), ()),
}
