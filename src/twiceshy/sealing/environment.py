"""The environment of a sealed process: a short list of names goes in, everything else stays out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twiceshy.sealing.faults import NotAllowable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_KEPT = re.compile(r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TERM|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH")

_NEVER = re.compile(
    r"""(?ix)
    .*_proxy | proxy
    | .*(api_?key|secret|passwo?r?d|credential|private_key).* | (.*_)?(token|pat|dsn|auth)
    | (aws|amazon|azure|gcp|gce|google|gcloud|cloudsdk|kubernetes|ecs|vault)_.*
    | (otel|otlp|opentelemetry|traceloop|langfuse|langsmith|langchain|helicone|arize|phoenix|logfire|sentry|dd|datadog
       |newrelic|new_relic|wandb|mlflow|braintrust|honeycomb|posthog)_.*
    | ssh_.* | dbus_.* | xdg_runtime_dir | docker_.*
    | ld_preload | ld_audit | pythonstartup
    """
)
"""Names that no allow-list can let in: credentials, proxies, cloud metadata, telemetry, ways to a host service."""

_DUMMY = "twiceshy-sealed"
_DUMMIES = dict.fromkeys(
    (
        "ANTHROPIC_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_OPENAI_API_KEY",
        "COHERE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GROQ_API_KEY",
        "HF_TOKEN",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
    ),
    _DUMMY,
)
"""Clients refuse to start without a key; these open nothing."""

_FIXED = {
    "ANONYMIZED_TELEMETRY": "false",
    "AWS_EC2_METADATA_DISABLED": "true",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "NO_GCE_CHECK": "true",
    "OTEL_SDK_DISABLED": "true",
    # Nothing is written beside the sources, and sets of strings iterate alike in every process.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",  # noqa: S108 - private inside the seal
    "TZ": "UTC",
}


def scrubbed_environment(env: Mapping[str, str], *, allow: Collection[str] = ()) -> dict[str, str]:
    """What a sealed process gets: names known to be harmless, those in `allow`, dummy keys and fixed switches.

    A name in `allow` that is set in `env` wins over a fixed value (a benchmark varies PYTHONHASHSEED and TZ so). Raises
    NotAllowable for one that may never enter, whether it is set or not.
    """
    for name in allow:
        if _NEVER.fullmatch(name):
            raise NotAllowable.named(name)
    kept = {name: value for name, value in env.items() if _KEPT.fullmatch(name)}
    asked = {name: env[name] for name in allow if name in env}
    return kept | _DUMMIES | _FIXED | asked
