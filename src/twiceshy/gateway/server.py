"""The gateway of a replay: its routes, and what a client sees where the run ends."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

import msgspec

from twiceshy.boundary import Blocked
from twiceshy.errors import TwiceshyError
from twiceshy.gateway import anthropic, embeddings, mcp, messages, openai_chat, openai_responses
from twiceshy.gateway.answering import Refusal
from twiceshy.gateway.answers import Answer, missed, model_failed, refused, tool_failed
from twiceshy.gateway.coming import Coming, forwarding, relayed
from twiceshy.gateway.flowing import Live, Told
from twiceshy.gateway.listening import Listener
from twiceshy.identity import tagged
from twiceshy.outcome import Divergence
from twiceshy.replaying import RunDiverged, RunFaulted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from twiceshy.gateway.answering import Gateway
    from twiceshy.gateway.listening import Request, Unread
    from twiceshy.gateway.messages import Json, Said
    from twiceshy.gateway.pieces import Outflow
    from twiceshy.streaming import Stream

VERSION = "1"
_DONE = b"data: [DONE]\n\n"
MODEL_WIRES: Mapping[str, ModuleType] = {
    "/v1/chat/completions": openai_chat,
    "/v1/responses": openai_responses,
    "/v1/messages": anthropic,
}


class Server(Listener):
    """The gateway of a replay. before, after: called around the answer to each request; `before` may end the run."""

    def __init__(self, gateway: Gateway, token: str, *, port: int = 0) -> None:
        super().__init__(token, port=port)
        self.gateway = gateway
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self._numbers = count(1)  # one C call, so no two threads get one number
        self.spoken: dict[str, list[Json]] = {}
        """Response id -> the conversation up to and with it."""
        self._theirs: set[str] = set()
        """The ids of those that a live model gave."""

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.gateway.ended is not None

    def routed(self, request: Request) -> Answer:
        """The answer to one request. Whatever goes wrong in here ends the run: a passage that nobody saw would be a hole in the evidence."""
        return self._settled(lambda: self._passed(request))

    def unread(self, request: Unread) -> Answer:
        """The refusal of one that cannot be routed, which ends the run: what it would have done nobody knows."""

        def ended() -> Answer:
            asked = {"method": request.method, "path": request.path}
            self.gateway.refuse(Divergence.UNRECORDED_CALL, "gateway", request.why, asked=asked)

        self._settled(ended)
        return request.refusal

    def broken(self, problem: BaseException) -> None:
        """End the run: a request was lost."""
        with suppress(RunFaulted):
            self.gateway.fault(f"the gateway lost a request: {type(problem).__name__}")

    def _settled(self, ask: Callable[[], Answer]) -> Answer:
        if self.gateway.ended is not None:
            return missed(self.gateway.ended)
        try:
            return ask()
        except RunDiverged as over:
            return missed(over.divergence)
        except RunFaulted:
            return refused(503, "fault", "the harness could not go on; the run ended here")
        except Exception as broken:  # noqa: BLE001 - ours, and the client would only try again
            return self._settled(partial(self.gateway.fault, f"the gateway failed: {type(broken).__name__}"))

    def _passed(self, request: Request) -> Answer:
        self.before()
        try:
            answer = self._faced(request)
        except messages.UnreadableCall as wrong:
            self.gateway.unreadable(wrong.tool, str(wrong))
        except messages.BadRequest as wrong:
            self.gateway.refuse(Divergence.UNRECORDED_CALL, "gateway", str(wrong), asked={"path": request.path})
        self.after()
        return answer

    def _faced(self, request: Request) -> Answer:
        method, path, body = request.method, request.path, request.body
        if method == "POST" and path in MODEL_WIRES:
            return self._model(request, object_of(body))
        if method == "POST" and path == "/v1/embeddings":
            return self._embeddings(request, object_of(body))
        if path == "/mcp":
            return self._mcp(method, body)
        if method == "POST" and path.startswith("/tools/"):
            return self._tool(unquote(path.removeprefix("/tools/")), request)
        if method == "GET" and path == "/clock":
            now = self.gateway.now()
            return Answer(200, {"now": now.isoformat(), "unix_ms": int(now.timestamp() * 1000), "tz": str(now.tzinfo)})
        return self._looked_up(request)

    def _looked_up(self, request: Request) -> Answer:
        """A list of what the record holds; nothing of the agent's passes, so it is noted."""
        listed = self._listing(request.path) if request.method == "GET" else None
        if listed is None:
            self._unknown(request)
        self.gateway.note(f"GET {request.path}")
        return Answer(200, listed)

    def _listing(self, path: str) -> Json | None:
        catalog = self.gateway.catalog
        if path == "/v1/models":
            return {"object": "list", "data": [self._listed(name) for name in catalog.wire_names]}
        if path.startswith("/v1/models/") and unquote(path[11:]) in catalog.wire_names:
            return self._listed(unquote(path[11:]))
        if path == "/tools":
            return {"tools": [{"name": tool.name, "parameters": tool.parameters} for tool in catalog.tools]}
        return None

    def _unknown(self, request: Request) -> NoReturn:
        """No face of ours. Something would have answered in production, so what the run does without it proves nothing."""
        model = request.path.startswith("/v1/")
        self.gateway.refuse(
            Divergence.UNRECORDED_CALL, "model" if model else "gateway", "a path that no face of the gateway has",
            asked={"method": request.method, "path": request.path},
        )  # fmt: skip

    def _model(self, asked: Request, body: Json) -> Answer:
        wire = MODEL_WIRES[asked.path]
        before = self.spoken.get(str(body.get("previous_response_id")), [])
        if body.get("previous_response_id") is not None and not before:
            raise messages.BadRequest("responses: `previous_response_id` names no response of this run.")
        if before and str(body["previous_response_id"]) not in self._theirs and self.gateway.opens(body.get("model")):
            self.gateway.fault("a live model cannot go on from a response of the record: `previous_response_id`")
        request = wire.asked(body, before) if wire is openai_responses else wire.asked(body)
        coming = self._coming(asked, wire)
        number = next(self._numbers)

        def heard(said: Said) -> None:
            if wire is openai_responses:
                known = coming.response_id if coming is not None and coming.reply is not None else ""
                self._theirs |= {known}
                self.spoken[known or f"resp_{number}"] = openai_responses.spoken(request, body, said)

        try:
            output = self.gateway.model(body.get("model"), request, stream=bool(body.get("stream")), coming=coming)
            if body.get("stream"):
                return self._streamed(output, wire.Outflow(body, number, self.gateway.catalog.instant_s), heard, coming)
        except Exception as raised:  # noqa: BLE001 - an error that was recorded, or that a live model answered
            return model_failed(raised) if coming is None or coming.reply is None else relayed(coming.reply)
        with self._speaking():
            said = messages.said(output)
            heard(said)
            if coming is not None and coming.reply is not None:
                return relayed(coming.reply)
            return Answer(200, wire.reply(said, body, number, self.gateway.catalog.instant_s))

    def _streamed(self, stream: Stream, out: Outflow, heard: Callable[[Said], object], coming: Coming | None) -> Answer:
        if coming is not None and stream.live:
            return self._passed_on(stream, coming, heard)
        last = _DONE if isinstance(out, openai_chat.Outflow) else b""
        flow = Told(stream, out, heard, last=last, speaking=self._speaking)
        flow.start()
        return Answer(200, flow=flow)

    def _passed_on(self, stream: Stream, coming: Coming, heard: Callable[[Said], object]) -> Answer:
        """A live model's own stream; what it answers whole although it was asked for one goes back whole."""
        flow = Live(stream, coming, heard, speaking=self._speaking)
        flow.start()
        if coming.reply is None or coming.reply.streamed:
            return Answer(200, flow=flow)
        with self._speaking():
            flow.take()
        return relayed(coming.reply)

    def _coming(self, asked: Request, wire: ModuleType) -> Coming | None:
        """How a request goes on to the parent, where live models may be asked."""
        door = self.gateway.door
        if door is None:
            return None
        return Coming(forwarding(door.origin + asked.path, asked, {"authorization": f"Bearer {door.token}"}), wire)

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """What no wire can carry ends the run by our own fault."""
        with self.gateway.passing():
            try:
                yield
            except messages.Unspeakable as broken:
                self.gateway.fault(str(broken))

    def _embeddings(self, asked: Request, body: Json) -> Answer:
        coming = self._coming(asked, embeddings)
        try:
            output = self.gateway.embedding(body.get("model"), embeddings.asked(body), coming=coming)
        except TwiceshyError:
            raise
        except Exception as raised:  # noqa: BLE001 - as above
            return model_failed(raised) if coming is None or coming.reply is None else relayed(coming.reply)
        if coming is not None and coming.reply is not None:
            return relayed(coming.reply)
        with self._speaking():
            return Answer(200, embeddings.reply(output, body))

    def _mcp(self, method: str, body: bytes) -> Answer:
        if method != "POST":  # no stream of the server's own, and no session to end: it has nothing to say unasked
            self.gateway.note(f"{method} /mcp")
            return Answer(405, headers={"Allow": "POST"})
        told = decoded(body)
        batch = told if isinstance(told, list) else [told]
        if not batch:
            raise messages.BadRequest("mcp: a batch of no messages.")
        gateway = self.gateway
        found = [
            mcp.answered(one, gateway.catalog.tools, gateway.tool, note=gateway.note, version=VERSION) for one in batch
        ]
        answers = [one for one in found if one is not None]
        if not answers:
            return Answer(202)
        return Answer(200, answers if isinstance(told, list) else answers[0])

    def _tool(self, name: str, request: Request) -> Answer:
        """A call. Arguments in the address are refused: the record has those of the body."""
        headers = request.headers
        guard = headers.get("x-twiceshy-blocked-by")
        reported = Refusal(guard, headers.get("x-twiceshy-reason", "refused")) if guard else None
        if request.query:
            raise messages.UnreadableCall.of(name)
        arguments = arguments_of(name, request.body)
        try:
            return Answer(200, tagged(self.gateway.tool(name, arguments, reported)))
        except Blocked as refused:
            return Answer(200, {"blocked": refused.reason})
        except Exception as raised:  # noqa: BLE001 - an error that was recorded
            return tool_failed(raised)

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


def arguments_of(tool: str, body: bytes) -> Json:
    """The arguments of a call, none for an empty body. Raises UnreadableCall."""
    try:
        return object_of(body or b"{}")
    except messages.BadRequest:
        raise messages.UnreadableCall.of(tool) from None
