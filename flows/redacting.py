"""Redaction of a pull: every workflow's traces under its own policy and key, one namespace after the other, proven to change no verdict."""

from collections import defaultdict

from flows.checkout import Checkout
from flows.request import Request
from flows.verdicts import verdicts
from tasks.prefect_tasks import Pulled, Redacted, RedactOptions, redact
from tasks.redact.leakscan import Hit, Known, scan
from tasks.redact.shares import NO_KEY, UNCLAIMED, Joined, Share, joined, shares
from tasks.workflows import Workflow
from twiceshy.envelope import Effect


def redacted(place: Checkout, asked: Request, pulled: Pulled) -> Joined:
    """All that was pulled, redacted. Raises ConfigurationError where the samples' key would redact anything else, KeyMissing."""
    tables: dict[str, dict[str, str]] = defaultdict(dict)
    parts = [
        _share(place, asked, share, tables) for share in shares(pulled.spans, pulled.scores, list(place.redactable))
    ]
    return joined(parts, harness_state=place.harness_state)


def leaks(safe: Joined, trace_id: str, content: bytes) -> list[Hit]:
    """What a scan finds in the final bytes of a case; of a trace of an earlier pull only patterns are looked for, since its raw values are gone."""
    known: list[Known] = list(safe.known.get(trace_id, ()))
    return scan(content, known)


def _share(place: Checkout, asked: Request, share: Share, tables: dict[str, dict[str, str]]) -> Redacted:
    if share.workflow is None:
        return redact(share.spans, UNCLAIMED, NO_KEY, scores=share.scores)
    asked.refuse_sample_key(place, share.workflow)
    policy = place.redaction[share.workflow]
    options = _options(place.workflows.get(share.workflow), tables[policy.namespace])
    done = redact(share.spans, policy, place.keyring, scores=share.scores, options=options)
    tables[policy.namespace] = done.table
    return done


def _options(workflow: Workflow | None, table: dict[str, str]) -> RedactOptions:
    if workflow is None:
        return RedactOptions(table=table)
    tools = workflow.policy.tools
    return RedactOptions(
        reads=[name for name, tool in tools.items() if tool.effect is Effect.READ],
        schemas={name: tool.schema for name, tool in tools.items() if tool.schema},
        table=table,
        verdicts=verdicts(workflow),
    )
