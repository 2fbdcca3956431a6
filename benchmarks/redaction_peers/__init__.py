"""Presidio on the same texts, patterns only: no names, no model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks import environments

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGES = ("presidio-analyzer==2.2.366",)


def found(texts: Sequence[str], *, entities: Sequence[str] = (), rounds: int = 1) -> dict[str, Any]:
    """`spans`: for each text the [start, end, type, score] that Presidio finds; `cpu_s`: of each round. entities: all of its default ones where none is named."""
    asked = json.dumps({"texts": list(texts), "entities": list(entities), "rounds": rounds})
    return environments.asked("benchmarks.redaction_peers.presidio", packages=PACKAGES, given=asked)
