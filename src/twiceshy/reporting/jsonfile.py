"""The verdict as JSON, valid under `twiceshy schema gate-result`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from twiceshy.verdict import Verdict


def render(verdict: Verdict) -> str:
    """The verdict as indented JSON. ASCII only, lone surrogates and all, so that no viewer can be led astray by what is in it."""
    text = json.dumps(msgspec.to_builtins(verdict), indent=1)
    return text.replace("\x7f", "\\u007f") + "\n"
