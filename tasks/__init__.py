"""The steps of the pipeline, frame in, frame out, in the order in which a trace meets them, and the table each one writes.

| step      | writes                                               |
|-----------|------------------------------------------------------|
| pull      | pulls (and raw copies; span records for redact)      |
| redact    | redacted span records for normalize                  |
| normalize | traces, spans, scores, crossings                     |
| detect    | findings                                             |
| stratify  | strata                                               |
| sign      | memberships, signatures                              |
| attribute | attributions                                         |
| admit     | admissions; the review flow appends reviews          |
| replay    | replays, violations, intents, dimensions, steps      |
| publish   | runs, results, coverage, divergence, champion_diff, quality |
| retain    | nothing: it takes away what has expired              |
| any step  | quarantine (rows set aside), timings (never digested)|

A table's contract stands in `schema.py` beside its step, with the grain in the first line of its docstring; `contracts.py` has what they share.

There are no Prefect decorators here: `import prefect` costs some 9 s, and a step is to run in a test, a notebook or a pool without it.
`prefect_tasks.py` wraps every step in one table of names, retries, timeouts and limits.
"""
