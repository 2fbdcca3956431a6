"""The gateway of a replay: its routes, and what a client sees where the run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from twiceshy.boundary import Blocked
from twiceshy.errors import TwiceshyError
from twiceshy.gateway import anthropic, embeddings, mcp, messages, openai_chat, openai_responses
from twiceshy.gateway.answering import Refusal
from twiceshy.gateway.answers import NO_RETRY, Answer, code_of, missed, model_failed, refused, stream
from twiceshy.gateway.listening import Listener
from twiceshy.identity import tagged
from twiceshy.outcome import Divergence
from twiceshy.replaying import RunDiverged, RunFaulted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from twiceshy.gateway.answering import Gateway
    from twiceshy.gateway.messages import Json, Said

VERSION = "1"
MODEL_WIRES: Mapping[str, ModuleType] = {
    "/v1/chat/completions": openai_chat,
    "/v1/responses": openai_responses,
    "/v1/messages": anthropic,
}


class Server(Listener):
    """The gateway of a replay. on_passage: called before and after each request is answered."""

    def __init__(self, gateway: Gateway, token: str, *, port: int = 0) -> None:
        super().__init__(token, port=port)
        self.gateway = gateway
        self.on_passage: Callable[[], object] = lambda: None
        self.spoken: dict[str, list[Json]] = {}
        """Response id -> the conversation up to and with it."""

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.gateway.ended is not None

    def routed(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one request. Whatever goes wrong in here ends the run: a passage that nobody saw would be a hole in the evidence."""
        if self.gateway.ended is not None:
            return missed(self.gateway.ended)
        try:
            self.on_passage()
            answer = self._faced(method, path, headers, body)
            self.on_passage()
        except RunDiverged as over:
            return missed(over.divergence)
        except RunFaulted:
            return refused(503, "fault", "the harness could not go on; the run ended here")
        except messages.BadRequest as wrong:
            return refused(400, "invalid_request_error", str(wrong))
        except Exception as broken:  # noqa: BLE001 - ours, and the client would only try again
            return self._broken(broken)
        return answer

    def _broken(self, broken: Exception) -> Answer:
        try:
            self.gateway.fault(f"the gateway failed: {type(broken).__name__}")
        except RunFaulted:
            return refused(503, "fault", "the harness could not go on; the run ended here")

    def _faced(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if method == "GET":
            return self._looked_up(path)
        if path in MODEL_WIRES:
            return self._model(path, object_of(body))
        if path == "/v1/embeddings":
            return self._embeddings(object_of(body))
        if path == "/mcp":
            return self._mcp(method, body)
        if path.startswith("/tools/"):
            return self._tool(unquote(path.removeprefix("/tools/")), headers, object_of(body or b"{}"))
        return self._unknown(path)

    def _looked_up(self, path: str) -> Answer:
        if path == "/clock":
            now = self.gateway.now()
            return Answer(200, {"now": now.isoformat(), "unix_ms": int(now.timestamp() * 1000), "tz": str(now.tzinfo)})
        if path == "/v1/models":
            return Answer(
                200, {"object": "list", "data": [self._listed(name) for name in self.gateway.catalog.wire_names]}
            )
        if path.startswith("/v1/models/") and unquote(path[11:]) in self.gateway.catalog.wire_names:
            return Answer(200, self._listed(unquote(path[11:])))
        if path == "/tools":
            return Answer(
                200,
                {"tools": [{"name": tool.name, "parameters": tool.parameters} for tool in self.gateway.catalog.tools]},
            )
        if path == "/mcp":  # no stream of the server's own: it has nothing to say unasked
            return Answer(405, headers={"Allow": "POST"})
        return self._unknown(path)

    def _unknown(self, path: str) -> Answer:
        """No face of ours. Under /v1 something would have answered in production, so what the run does without it proves nothing."""
        if path.startswith("/v1/"):
            self.gateway.refuse(Divergence.UNRECORDED_CALL, "model", "an endpoint that the gateway does not answer")
        return refused(404, "not_found", "the gateway has no such path")

    def _model(self, path: str, body: Json) -> Answer:
        wire = MODEL_WIRES[path]
        before = self.spoken.get(str(body.get("previous_response_id")), [])
        if body.get("previous_response_id") is not None and not before:
            raise messages.BadRequest("responses: `previous_response_id` names no response of this run.")
        request = wire.asked(body, before) if wire is openai_responses else wire.asked(body)
        try:
            output = self.gateway.model(body.get("model"), request)
        except Exception as raised:  # noqa: BLE001 - an error that was recorded
            return model_failed(raised)
        said = self._spoken(output)
        number, created = self.requests, self.gateway.catalog.instant_s
        if wire is openai_responses:
            self.spoken[f"resp_{number}"] = openai_responses.spoken(request, body, said)
        if body.get("stream"):
            return Answer(200, events=stream(wire, wire.events(said, body, number, created)))
        return Answer(200, wire.reply(said, body, number, created))

    def _spoken(self, output: Any) -> Said:
        try:
            return messages.said(output)
        except messages.Unspeakable as broken:
            self.gateway.fault(str(broken))

    def _embeddings(self, body: Json) -> Answer:
        try:
            output = self.gateway.embedding(body.get("model"), embeddings.asked(body))
        except TwiceshyError:
            raise
        except Exception as raised:  # noqa: BLE001 - an error that was recorded
            return model_failed(raised)
        try:
            return Answer(200, embeddings.reply(output, body))
        except messages.Unspeakable as broken:
            self.gateway.fault(str(broken))

    def _mcp(self, method: str, body: bytes) -> Answer:
        if method != "POST":
            return Answer(405, headers={"Allow": "POST"})
        told = decoded(body)
        batch = told if isinstance(told, list) else [told]
        found = [
            mcp.answered(message, self.gateway.catalog.tools, self.gateway.tool, version=VERSION) for message in batch
        ]
        answers = [one for one in found if one is not None]
        if not answers:
            return Answer(202)
        return Answer(200, answers if isinstance(told, list) else answers[0])

    def _tool(self, name: str, headers: Mapping[str, str], arguments: Json) -> Answer:
        guard = headers.get("x-twiceshy-blocked-by")
        reported = Refusal(guard, headers.get("x-twiceshy-reason", "refused")) if guard else None
        try:
            return Answer(200, tagged(self.gateway.tool(name, arguments, reported)))
        except Blocked as refused:
            return Answer(200, {"blocked": refused.reason})
        except Exception as raised:  # noqa: BLE001 - an error that was recorded
            told = {"class": type(raised).__name__, "type": code_of(raised), "message": str(raised)}
            return Answer(422, {"error": told}, headers=NO_RETRY)

    def _listed(self, name: str) -> Json:
        return {
            "id": name, "object": "model", "type": "model", "display_name": name, "created": self.gateway.catalog.instant_s,
            "created_at": "1970-01-01T00:00:00Z", "owned_by": "twiceshy",
        }  # fmt: skip


def decoded(body: bytes) -> Any:
    """The JSON value that a body holds. Raises BadRequest."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise messages.BadRequest("the body is not JSON.") from None


def object_of(body: bytes) -> Json:
    """The JSON object that a body holds. Raises BadRequest."""
    told = decoded(body)
    if not isinstance(told, dict):
        raise messages.BadRequest("the body must be a JSON object.")
    return told
