"""The trace format of a till: a line a call, `run;tool;what it got;what it gave`."""

import json

from tasks.sources import ids
from tasks.sources.records import Side, Span
from tasks.sources.source import FileSource, Intake, Mapped, Raw, lines

NAME = "till_roll"
FIELDS = 4


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per line."""
    intake = Intake(raw, NAME, harness_state)
    for number, offset, line in lines(raw.content):
        fields = line.decode(errors="replace").split(";")
        if len(fields) != FIELDS:
            intake.reject("unknown_container", "row", f"line {number}", line, byte_offset=offset)
            continue
        run, tool, got, gave = fields
        flags: set[str] = set()
        intake.take(
            Span(
                trace_id=ids.trace_id(run, NAME, flags), span_id=ids.span_id(f"{run}#{number}", NAME, flags), source_trace_id=run, source_span_id=str(number),
                container="till_roll", dialect=NAME, mapper="till_roll@1", kind="tool", name=tool, tool_name=tool, seq=number, time_precision="none",
                sides={"seen": Side(json.loads(got)), "raw": Side(json.loads(gave))}, flags=flags,
            ),
            f"line {number}",
        )  # fmt: skip
    return intake.mapped()


source = FileSource(NAME, spans, frozenset({".roll"}))
