"""Sample traces: fourteen days of the three sample agents in production, as OTLP JSON lines a day. `python -m examples.samples` writes data/samples.

Every run goes through the real boundary and recorder under a simulated clock, in a world and with a request drawn from one seed: the same bytes on every
machine. Which version ran on which day is in deployments.yaml. Conversation T-1042 is the refund that the documentation tells of. People are invented.

Spans follow the OpenTelemetry GenAI conventions: `invoke_agent` (the root), `chat` a model crossing, `execute_tool` a tool crossing. Hooks, guards, routers,
the clock and chance are child spans of the step they belong to. What the conventions have no word for is `twiceshy.*`; the reader of it, with the whole
table, is `tasks/sources/otlp.py`. Values are lossless JSON text (`twiceshy.identity.tagged`).

| attribute                               | on                   | content                                                                          |
|-----------------------------------------|----------------------|----------------------------------------------------------------------------------|
| twiceshy.workflow                       | resource             | refund, scheduling, research                                                     |
| twiceshy.kind .name .seq .sub           | every crossing       | what it is and its place, #seq.sub; no .name on tools; no .sub: the step itself  |
| twiceshy.proposed .shown                | tools                | what was asked before the hooks, what went back after them                       |
| gen_ai.tool.call.arguments .result      | tools                | `seen` and `raw`: what the tool got and what it returned                         |
| twiceshy.seen .raw                      | hooks, guards, draws | what went in and what came out                                                   |
| twiceshy.seen .raw                      | root                 | the run's input and its final output                                             |
| twiceshy.at                             | hooks, guards        | `before:TOOL`, `after:TOOL`                                                      |
| twiceshy.group .attempt .blocked_by     | tools                | the model's step that asked, 2 and up, the guard that refused                    |
| twiceshy.error.class .type .message .definite | failed tools   | the error as it was raised; `error.type` and the span's status besides           |
| twiceshy.request                        | models               | what the request holds beside messages and tools                                 |
| twiceshy.prompt.name .version           | models               | the prompt                                                                       |
| twiceshy.clock.text .tz .instant_ns     | root                 | the clock as the agent was told it                                               |
| twiceshy.score.origin                   | evaluation events    | `api` a user, `llm` an online grader, `human` somebody who read the run          |

A run is flagged by the error status of its root (it gave up, or a tool stayed away) or by a `gen_ai.evaluation.result` event with a score under 0.5.
Some flagged ones are damaged on their way (`examples.samples.blemishes` says how, and what has to become of each).
"""
