"""The gateway in front of real services: every request goes on and is recorded as a crossing, so that an unmodified agent leaves a record.

A tool that passes through POST /tools or the MCP server is recorded whole. Of one that the agent runs itself, the model's conversation tells what was
proposed and what was shown; the sides between are unknown, and say so. A stream is passed on as it comes, and recorded as far as its client has read it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from http.client import HTTPException
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Boundary, running
from twiceshy.encoding import sealed
from twiceshy.gateway import embeddings, mcp, messages, openai_responses
from twiceshy.gateway.answers import Answer, refused
from twiceshy.gateway.coming import Coming, forwarding, relayed, sound
from twiceshy.gateway.flowing import Relayed
from twiceshy.gateway.listening import Listener
from twiceshy.gateway.server import MODEL_WIRES, arguments_of, decoded, object_of
from twiceshy.gateway.upstream import forward

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from twiceshy.envelope import Envelope
    from twiceshy.gateway.listening import Request, Unread
    from twiceshy.gateway.messages import Json, Said
    from twiceshy.gateway.upstream import Reply, Upstreams
    from twiceshy.recording import Recorder


class RecordingServer(Listener):
    """A gateway that records. `asked` holds the first model request in our form: the run's system text and, where it has none of its own, its input."""

    def __init__(self, recorder: Recorder, upstreams: Upstreams, token: str) -> None:
        super().__init__(token)
        self.asked: Json | None = None
        self.missing: Counter[str] = Counter()
        """What reached the gateway and is not in the record, or not whole."""
        self._boundary = Boundary(recorder)
        self._upstreams = upstreams
        self._guard = Lock()  # one thread a connection: guards the tables below
        self._proposed: dict[str, Json] = {}
        self._passed: Counter[str] = Counter()
        self._derived: set[int] = set()
        self._spoken: dict[str, list[Json]] = {}

    def routed(self, request: Request) -> Answer:
        """The answer of the service behind a face. Raises nothing."""
        try:
            return self._faced(request)
        except messages.BadRequest as wrong:
            self._miss(f"{request.method} {request.path}: {wrong}")
            return refused(400, "invalid_request_error", str(wrong))
        except (OSError, HTTPException, msgspec.MsgspecError) as lost:
            return refused(502, "upstream", f"the upstream gave no answer that can be read: {type(lost).__name__}")

    def unread(self, request: Unread) -> Answer:
        """The refusal of a request that cannot be sent on."""
        self._miss(f"{request.method} {request.path}: {request.why}".strip(" :"))
        return request.refusal

    def broken(self, problem: BaseException) -> None:
        """Hear that a request was lost by our own fault."""
        self._miss(f"a request was lost: {type(problem).__name__}")

    def _miss(self, what: str) -> None:
        with self._guard:
            self.missing[what] += 1

    def finished(self, envelope: Envelope) -> Envelope:
        """The envelope with only those sides that were seen of the tools which the agent ran itself."""
        crossings = [
            msgspec.structs.replace(one, seen=UNSET, raw=UNSET) if one.seq in self._derived and not one.sub else one
            for one in envelope.crossings
        ]
        return sealed(msgspec.structs.replace(envelope, crossings=tuple(crossings)))

    def _faced(self, request: Request) -> Answer:
        path = request.path
        if path == "/clock":
            now = self._boundary.now()
            return Answer(200, {"now": now.isoformat(), "unix_ms": int(now.timestamp() * 1000), "tz": str(now.tzinfo)})
        if request.method == "POST" and path in MODEL_WIRES:
            return self._model(MODEL_WIRES[path], request)
        if request.method == "POST" and path == "/v1/embeddings":
            asked = embeddings.asked(object_of(request.body))
            return self._crossed(asked, request, lambda reply: embeddings.heard(reply.value))
        if path == "/mcp":
            return self._mcp(request)
        if request.method == "POST" and path.startswith("/tools/"):
            return self._tool(unquote(path.removeprefix("/tools/")), request)
        self._miss(f"{request.method} {path}: passed on, and no crossing")
        return relayed(forward(**self._sending(request)))

    def _model(self, wire: ModuleType, asked: Request) -> Answer:
        told = object_of(asked.body)
        before = self._spoken.get(str(told.get("previous_response_id")), [])
        request = wire.asked(told, before) if wire is openai_responses else wire.asked(told)
        self.asked = self.asked or request
        self._derive(request)
        if told.get("stream"):
            return self._streamed(wire, request, asked, told)
        native: list[Json] = []

        def output(reply: Reply) -> Json:
            native.append(reply.value)
            heard: Json = wire.heard(native[0])
            return heard

        answer = self._crossed(request, asked, output)
        if native:
            self._said(wire, request, told, str(native[0].get("id")), messages.said(wire.heard(native[0])))
        return answer

    def _streamed(self, wire: ModuleType, request: Json, asked: Request, told: Json) -> Answer:
        """The stream of the service, passed on and recorded event by event. What it answers in place of one goes back as it came."""
        coming = Coming(self._sending(asked), wire)
        model = self._boundary.model(str(request.get("model")), coming.chunks)
        flow = Relayed(model(request), coming, lambda said: self._said(wire, request, told, coming.response_id, said))
        with suppress(messages.UpstreamFailed):  # as in `_crossed`
            flow.start()
        if coming.reply is None or coming.reply.streamed:
            return Answer(200, flow=flow)
        flow.take()
        return relayed(coming.reply)

    def _said(self, wire: ModuleType, request: Json, told: Json, response_id: str, said: Said) -> None:
        """Know what an output proposed, and what a later request may go on from."""
        with self._guard:
            self._proposed |= {str(call["id"]): call for call in said.calls}
        if wire is openai_responses:
            self._spoken[response_id] = openai_responses.spoken(request, told, said)

    def _crossed(self, request: Json, asked: Request, output: Callable[[Reply], Any]) -> Answer:
        replies: list[Reply] = []

        def ask(_: object) -> Any:
            replies.append(forward(**self._sending(asked)))
            return output(sound(replies[0]))

        with suppress(messages.UpstreamFailed):  # recorded as it closed; the client gets what came
            self._boundary.model(str(request.get("model")), ask)(request)
        return relayed(replies[0])

    def _derive(self, request: Json) -> None:
        """Record the tools that the agent ran itself since the last turn: an answer in the conversation to a proposal that passed no face of ours."""
        for message in request["messages"]:
            for part in message["parts"] if message["role"] == "tool" else ():
                with self._guard:
                    call = self._proposed.pop(str(part.get("id")), None)
                    if call is None or not isinstance(call["arguments"], dict):
                        continue
                    passed = self._passed[call["name"]] > 0
                    self._passed[call["name"]] -= passed
                if not passed:
                    self._boundary.tool(call["name"], self._shown(part.get("response")))(**call["arguments"])

    def _shown(self, response: Any) -> Callable[..., Any]:
        def shown(**_: object) -> Any:
            passage = running()
            if passage is not None:
                self._derived.add(passage.seq)
            return response

        return shown

    def _tool(self, name: str, request: Request) -> Answer:
        if self._upstreams.tools is None:
            return self._nothing_behind(request, "--tools-upstream")
        if request.query:
            self._miss(f"{request.method} {request.path}: arguments in the address, which the record does not have")
        address = f"{self._upstreams.tools.rstrip('/')}/{name}"
        arguments = arguments_of(name, request.body)
        return self._called(name, arguments, lambda: forward(**forwarding(address, request)), lambda reply: reply.value)

    def _mcp(self, request: Request) -> Answer:
        if self._upstreams.mcp is None:
            return self._nothing_behind(request, "--mcp-upstream")
        if request.method != "POST":
            return Answer(405, headers={"Allow": "POST"})
        address = self._upstreams.mcp
        told = decoded(request.body)
        params = told.get("params") if isinstance(told, dict) and told.get("method") == "tools/call" else None
        if not isinstance(params, dict):
            if isinstance(told, list):
                self._miss("POST /mcp: a batch of messages, passed on, and no crossing")
            return relayed(forward(**forwarding(address, request)))
        arguments = params.get("arguments") or {}
        return self._called(
            str(params.get("name")), arguments, lambda: forward(**forwarding(address, request)), _mcp_value
        )

    def _nothing_behind(self, request: Request, option: str) -> Answer:
        self._miss(f"{request.method} {request.path}: no {option} is set")
        return refused(404, "not_found", f"no {option} is set, so nothing is behind this face")

    def _called(self, name: str, arguments: Json, send: Callable[[], Reply], value: Callable[[Reply], Any]) -> Answer:
        replies: list[Reply] = []

        def call(**_: object) -> Any:
            replies.append(send())
            return value(sound(replies[0]))

        with self._guard:
            self._passed[name] += 1
        with suppress(messages.UpstreamFailed):  # as above
            self._boundary.tool(name, call)(**arguments)
        return relayed(replies[0])

    def _sending(self, request: Request) -> dict[str, Any]:
        """Where a request goes on to, and with which key."""
        path = request.path
        theirs = path == "/v1/messages" or "anthropic-version" in request.headers
        base = self._upstreams.anthropic if theirs else self._upstreams.openai
        if base is None:
            raise messages.BadRequest("no upstream is set for this protocol.")
        if theirs:
            key = {"x-api-key": self._upstreams.anthropic_key} if self._upstreams.anthropic_key else {}
            return forwarding(base.rstrip("/") + path, request, key)
        key = {"authorization": f"Bearer {self._upstreams.openai_key}"} if self._upstreams.openai_key else {}
        return forwarding(base.rstrip("/") + path.removeprefix("/v1"), request, key)


def _mcp_value(reply: Reply) -> Any:
    told = next((event for event in reply.events() if "id" in event), {}) if reply.streamed else reply.value
    result = told.get("result")
    if not isinstance(result, dict) or result.get("isError"):
        told_by_tool = mcp.value(result) if isinstance(result, dict) else None
        said = messages.spelled(told_by_tool) if told_by_tool is not None else "the tool failed"
        raise messages.UpstreamFailed("http_422", said)
    return mcp.value(result)
