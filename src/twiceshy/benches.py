"""Where a judge is asked: an OpenAI-compatible endpoint, called by the parent, and the replies it gave, kept by the digest of what was asked."""

from __future__ import annotations

import http.client
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from twiceshy.envelope import Record
from twiceshy.errors import ConfigurationError, FormatError, InfrastructureError
from twiceshy.identity import digest
from twiceshy.semantic import Unconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twiceshy.configuration import JudgeSettings
    from twiceshy.semantic import Bench

FORMAT = "twiceshy/reply/1"
_MOST = 1_000_000
"""Bytes of a reply; a judge says one sentence."""


class Reply(Record, frozen=True, kw_only=True):
    """One recorded reply. Grain: (request digest, judge version, sample)."""

    format: str = FORMAT
    request: str
    version: str
    sample: int
    reply: str


class RecordedBench:
    """Replies as they were given before; what was never asked goes to the bench behind, and is kept."""

    def __init__(self, folder: Path, behind: Bench) -> None:
        self._folder = folder
        self._behind = behind

    def reply(self, request: dict[str, Any], *, version: str, sample: int) -> str:
        """The recorded reply, or a new one. Raises FormatError for a file that is none."""
        asked = digest(request)
        path = self._folder / f"{digest([asked, version, sample])}.json"
        if path.exists():
            return _read(path, asked)
        said = self._behind.reply(request, version=version, sample=sample)
        _write(path, Reply(request=asked, version=version, sample=sample, reply=said))
        return said


class HttpBench:
    """A judge behind `POST {base_url}/chat/completions`. key: its bearer token, where it wants one. timeout_s: of one request.

    Raises ConfigurationError for an address that is none.
    """

    def __init__(self, base_url: str, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"[judge] base_url {base_url!r} is no address. Write http://host:port/v1.")
        self._parts = parts
        self._key = key
        self._timeout_s = timeout_s

    def reply(self, request: dict[str, Any], *, version: str, sample: int) -> str:  # noqa: ARG002 - the endpoint serves one version
        """The content of the first choice. Raises InfrastructureError where there is none; nothing of an answer is quoted."""
        where = f"the judge at {self._parts.hostname}"
        try:
            status, body = self._post(msgspec.json.encode(request))
        except (OSError, http.client.HTTPException) as broken:
            raise InfrastructureError(f"{where} cannot be asked: {type(broken).__name__}") from None
        if status != http.client.OK:
            raise InfrastructureError(f"{where} answered {status}")
        try:
            return str(msgspec.json.decode(body)["choices"][0]["message"]["content"])
        except (msgspec.DecodeError, KeyError, IndexError, TypeError):
            raise InfrastructureError(f"{where} answered no chat completion") from None

    def _post(self, body: bytes) -> tuple[int, bytes]:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout_s)
        headers = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {self._key}"} if self._key else {}),
        }
        try:
            connection.request("POST", f"{self._parts.path.rstrip('/')}/chat/completions", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST)
        finally:
            connection.close()


def bench_of(judge: JudgeSettings, *, replies: Path, env: Mapping[str, str]) -> RecordedBench:
    """The recorded replies in a folder, then the endpoint of the settings, where there is one. env: holds the key under the name that the settings give."""
    if judge.base_url is None:
        return RecordedBench(replies, Unconfigured())
    key = env.get(judge.key_env) if judge.key_env else None
    return RecordedBench(replies, HttpBench(judge.base_url, key=key, timeout_s=judge.timeout))


def _read(path: Path, asked: str) -> str:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Reply)
    except msgspec.DecodeError as broken:
        raise FormatError.at(path, f"{broken}.") from None
    if (kept.format, kept.request) != (FORMAT, asked):
        raise FormatError.at(path, "a reply of another format, or to another request.", hint="Remove the file.")
    return kept.reply


def _write(path: Path, reply: Reply) -> None:
    """Whole or not at all: several workers may ask the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(reply, order="deterministic"), indent=1) + b"\n")
    Path(name).chmod(0o644)
    Path(name).replace(path)
