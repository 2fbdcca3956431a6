"""OTLP traces, as JSON or JSON lines, to canonical spans: GenAI conventions (>= 1.37) and the attributes that twiceshy's own recorder exports.

A span is one crossing, or context. `twiceshy.*` says what the conventions have no word for; a source that writes none of it is read by `gen_ai.*` alone, and
where both tell a value, `twiceshy.*` wins. A span with `twiceshy.kind`, and the root beside it, is our recorder's: its JSON text is `identity.tagged`'s, scalars too.

| attribute                        | on                          | content                                                                              |
|----------------------------------|-----------------------------|--------------------------------------------------------------------------------------|
| twiceshy.kind                    | every crossing              | model tool retrieval memory user human clock random flag hook guard router handoff   |
| twiceshy.name                    | every crossing              | the boundary's name (model `planner`, hook `strip`); absent: tool name or span name   |
| twiceshy.seq, .sub               | every crossing              | its place in the envelope: #seq.sub; a sub's span is a child of its step's span      |
| twiceshy.parent                  | crossings inside others     | the place of the crossing in whose code it happened: `#4`, `#4.1`                    |
| twiceshy.tightened               | tool crossings              | true: a server's hint made a write of it                                             |
| twiceshy.scope                   | crossings of spawned agents | spawn path; absent for the root agent                                                |
| twiceshy.group                   | tool crossings              | seq of the model crossing that asked                                                 |
| twiceshy.at                      | hooks, guards               | `before:TOOL` or `after:TOOL`                                                        |
| twiceshy.attempt                 | tool crossings              | 2 and up; absent for a first attempt                                                 |
| twiceshy.proposed .seen .raw .shown | crossings                | tagged JSON text of that side; absent is unknown, the text `null` is a recorded null |
| twiceshy.blocked_by              | tool crossings              | the guard that refused the call                                                      |
| twiceshy.error.class .type .message .definite | crossings, root | the error that was raised; span status 2 besides                                     |
| twiceshy.clock.text .tz .instant_ns | root                     | the pinned clock: what the agent was told, its zone, the instant                     |
| twiceshy.workflow                | root, or the resource       | the workflow whose policies and cases apply                                          |
| twiceshy.goal                    | root                        | `input.goal`                                                                         |
| twiceshy.seen, .raw              | root                        | the run's input (`input.user`) and its final output; no .raw: it never returned      |
| twiceshy.agent.version           | root, or the resource       | version of the harness (`gen_ai.agent.version` is read too)                          |
| twiceshy.versions                | root                        | JSON of `pins.versions`: the layers model, prompt, tools, routing, ... as recorded   |
| twiceshy.prompt.name .version    | model crossings             | version of the prompt; the digest is computed from the system text                   |
| twiceshy.request                 | model crossings             | tagged JSON: what the request holds beside `messages` and `tools` (sampling, output_format) |
| twiceshy.score.origin            | evaluation events           | human llm code api (`api`: feedback of the user)                                     |
| twiceshy.tags                    | root                        | list of tags                                                                         |

A model crossing's request is `gen_ai.input.messages` + `gen_ai.tool.definitions` + `twiceshy.request`; its output is the one message of `gen_ai.output.messages`
(`parts`, `finish_reason`), as JSON text exactly as the run had them. `twiceshy.seen` and `twiceshy.raw` are read there only where those cannot express it.
The root is `gen_ai.operation.name = invoke_agent` with `gen_ai.agent.name`, `gen_ai.conversation.id`. Tool crossings carry `gen_ai.tool.name`, `.call.id` besides.
Scores are span events `gen_ai.evaluation.result` {gen_ai.evaluation.name, .score.value, .score.label, .explanation}.
"""

from __future__ import annotations

from tasks.sources import containers, reading
from tasks.sources.otlp_fields import UNREADABLE, reason_of
from tasks.sources.otlp_requests import Unreadable
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw

NAME = "otlp"


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per span that can be read; scores from evaluation events and tags. One bad span or line is set aside alone."""
    intake = Intake(raw, NAME, harness_state)
    for item in containers.items(raw.content, NAME):
        if isinstance(item, Unreadable):
            intake.reject(item.reason, "row", item.locator, item.content, byte_offset=item.byte_offset)
            continue
        try:
            held = item.read()
            span, scores = reading.span_of(held), list(reading.scores_of(held))
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "span", item.locator, item.content(), ids=item.ids())
            continue
        intake.take(span, item.locator)
        intake.scores += scores
    return intake.mapped()


source = FileSource(NAME, spans, JSON_SUFFIXES | {".pb", ".binpb"})
