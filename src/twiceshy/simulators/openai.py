"""The simulator `openai`: a model behind any OpenAI-compatible endpoint plays the tool. Every reply is kept in a file and served from there when the same is asked."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.errors import ConfigurationError, FormatError, InfrastructureError
from twiceshy.identity import canonical, digest
from twiceshy.simulators.protocol import CannotSimulate

if TYPE_CHECKING:
    from pathlib import Path

    from twiceshy.simulators.protocol import Asked, Settings

_TASK = (
    "You stand in for a tool of a software agent. You get recorded calls of the tool with what it returned, and a call that was not recorded. "
    "Reply with what the tool would return: one JSON value and nothing else."
)
_EXAMPLES = 5
_TIMEOUT_S = 60.0


class OpenAI:
    """Asks `POST {url}/chat/completions` at temperature 0."""

    name = "openai"
    version = 1

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError without an http(s) address, a model and a file for the replies."""
        if settings.url is None or settings.model is None or settings.replies is None:
            raise ConfigurationError(
                "the simulator openai needs --simulator-url, --simulator-model and --replies, the file that keeps its replies."
            )
        if not settings.url.startswith(("http://", "https://")):
            raise ConfigurationError(f"--simulator-url {settings.url!r} is no http(s) address.")
        self._url = settings.url.rstrip("/") + "/chat/completions"
        self._model = settings.model
        self._key = settings.key
        self._replies = _Replies(settings.replies)

    def answer(self, asked: Asked) -> Any:
        """The value that the model replies. Raises CannotSimulate for a reply that is no JSON, InfrastructureError where there is none."""
        request = self._request(asked)
        asked_for = digest(request)
        reply = self._replies.of(asked_for)
        if reply is None:
            reply = self._post(request)
            self._replies.keep(asked_for, reply)
        try:
            return msgspec.json.decode(reply)
        except msgspec.DecodeError:
            raise CannotSimulate(f"the reply for {asked.tool} is no JSON value") from None

    def _request(self, asked: Asked) -> dict[str, Any]:
        shown = [{"arguments": example.args, "returned": example.answer} for example in asked.examples[:_EXAMPLES]]
        told = {
            "tool": asked.tool,
            "result_schema": asked.schema,
            "recorded_calls": shown,
            "call": {"arguments": asked.args},
        }
        messages = [{"role": "system", "content": _TASK}, {"role": "user", "content": canonical(told).decode()}]
        return {"model": self._model, "temperature": 0, "messages": messages}

    def _post(self, request: dict[str, Any]) -> str:
        headers = {
            "content-type": "application/json",
            **({"authorization": f"Bearer {self._key}"} if self._key else {}),
        }
        asked = urllib.request.Request(self._url, data=msgspec.json.encode(request), headers=headers)  # noqa: S310 - http(s) only, checked above
        try:
            with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
                told = msgspec.json.decode(answer.read())
            return str(told["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as refused:
            refused.close()
            raise InfrastructureError(f"the simulator at {self._url} answered {refused.code}.") from None
        except (OSError, msgspec.DecodeError, LookupError, TypeError) as broken:
            raise InfrastructureError(
                f"the simulator at {self._url} gave no reply ({type(broken).__name__})."
            ) from None


class _Replies:
    """One line a reply: the digest of the request, the text, and that it is simulated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: dict[str, str] = {}
        for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
            try:
                kept = msgspec.json.decode(line)
                self._held[kept["request"]] = kept["reply"]
            except (msgspec.DecodeError, LookupError, TypeError):
                raise FormatError.at(path, "no kept reply.", line=number) from None

    def of(self, request: str) -> str | None:
        return self._held.get(request)

    def keep(self, request: str, reply: str) -> None:
        self._held[request] = reply
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode({"request": request, "reply": reply, "simulated": True}) + b"\n")
