"""OpenAI embeddings: the request in our form ({"embed": input, ...}), our output ({"vectors": [...]}) as their list, and their list in our form again."""

from __future__ import annotations

import base64
from array import array
from typing import TYPE_CHECKING, Any

from twiceshy.gateway.messages import BadRequest, Unspeakable, canonical_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twiceshy.gateway.messages import Json

# How a vector is spelled says nothing of what is embedded.
_SPENT = ("input", "encoding_format")


def asked(body: Mapping[str, Any]) -> Json:
    """The request in our form. Raises BadRequest for one without input."""
    held = body.get("input")
    if not isinstance(held, str | list) or not held:
        raise BadRequest("embeddings: `input` must be text or a list.")
    return canonical_request(body, {"embed": [held] if isinstance(held, str) else held}, sampling=(), spent=_SPENT)


def reply(output: Any, body: Mapping[str, Any]) -> Json:
    """The list of vectors, as numbers or as base64 of little-endian float32. Raises Unspeakable."""
    vectors = output.get("vectors") if isinstance(output, dict) else None
    if not isinstance(vectors, list):
        raise Unspeakable.of(output)
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": at, "embedding": _packed(vector) if packed else vector}
        for at, vector in enumerate(vectors)
    ]
    usage = output.get("usage") or {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


def heard(told: Mapping[str, Any]) -> Json:
    """The list of an upstream in our form, the vectors as numbers."""
    rows = sorted(told.get("data") or (), key=lambda row: row.get("index", 0))
    return {"vectors": [_unpacked(row["embedding"]) for row in rows], "usage": told.get("usage")}


def _packed(vector: list[float]) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode()


def _unpacked(held: Any) -> list[float]:
    return array("f", base64.b64decode(held)).tolist() if isinstance(held, str) else list(held)
