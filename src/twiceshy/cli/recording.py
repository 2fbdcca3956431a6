"""`twiceshy record`: run an unmodified agent behind a gateway in front of its real services, and keep what crossed."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twiceshy.errors import InputError

if TYPE_CHECKING:
    from twiceshy.envelope import Disposition, Envelope
    from twiceshy.gateway.recorded import RecordingServer

OpenAI = Annotated[
    str, typer.Option("--openai-upstream", envvar="OPENAI_BASE_URL", help="Where OpenAI requests go on to.")
]
Anthropic = Annotated[
    str, typer.Option("--anthropic-upstream", envvar="ANTHROPIC_BASE_URL", help="Where Anthropic requests go on to.")
]
Tools = Annotated[
    str | None, typer.Option("--tools-upstream", help="Where POST /tools/NAME goes on to.", show_default=False)
]
Mcp = Annotated[
    str | None, typer.Option("--mcp-upstream", help="The MCP server (streamable HTTP) behind ours.", show_default=False)
]
Given = Annotated[
    str | None, typer.Option("--input", help="The run's input as JSON, given on standard input.", show_default=False)
]
_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"


def record(
    command: Annotated[list[str], typer.Argument(help="The agent's command, after --.", show_default=False)],
    workflow: Annotated[
        str, typer.Option("--workflow", "-w", help="The workflow of its policies.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="OTLP JSON lines; each run adds one.", show_default=False)],
    given: Given = None,
    openai_upstream: OpenAI = _OPENAI,
    anthropic_upstream: Anthropic = _ANTHROPIC,
    tools_upstream: Tools = None,
    mcp_upstream: Mcp = None,
) -> None:
    """Run an agent live behind a recording gateway, and add what crossed to a file of traces. Its real keys stay with us. Nothing is redacted yet.

    It is told OPENAI_BASE_URL, ANTHROPIC_BASE_URL, TWICESHY_MCP_URL and TWICESHY_TOOLS_URL, as in a replay. Ends with the command's own exit code.

    For example:

      twiceshy record -w refund -o traces/run.jsonl --input '{"message": "..."}' -- node agent.mjs
    """
    import msgspec

    from twiceshy.gateway import spans
    from twiceshy.gateway.recorded import RecordingServer
    from twiceshy.gateway.upstream import Upstreams
    from twiceshy.recording import Recorder
    from twiceshy.reporting.escaping import plain

    user = _input(given)
    upstreams = Upstreams(
        openai=openai_upstream, anthropic=anthropic_upstream, tools=tools_upstream, mcp=mcp_upstream,
        openai_key=os.environ.get("OPENAI_API_KEY"), anthropic_key=os.environ.get("ANTHROPIC_API_KEY"),
    )  # fmt: skip
    recorder = Recorder()
    server = RecordingServer(recorder, upstreams, secrets.token_urlsafe(24))
    started = time.time_ns()
    code, disposition = _run(command, server, user if given is not None else msgspec.UNSET)
    made = _envelope(server, recorder, workflow, user, started, disposition)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("ab") as file:
        file.write(spans.request(made) + b"\n")
    for what, times in sorted(server.missing.items()):
        typer.echo(f"not in the record, {times} times: {plain(what)}", err=True)
    typer.echo(f"{out}: trace {made.trace_id}, {len(made.crossings)} crossings, not redacted", err=True)
    raise typer.Exit(code)


def _input(given: str | None) -> Any:
    import msgspec

    try:
        return None if given is None else msgspec.json.decode(given)
    except msgspec.DecodeError as broken:
        raise InputError(f"--input is not JSON: {broken}.") from None


def _run(command: list[str], server: RecordingServer, user: Any) -> tuple[int, Disposition]:
    """The command's exit code and how it ended; what it says on standard output is passed on once it has ended."""
    import msgspec

    from twiceshy.gateway import hosting

    settle = hosting.serve(server)
    env = {**os.environ, **hosting.environment(server, None if user is msgspec.UNSET else user)}
    sent = None if user is msgspec.UNSET else msgspec.json.encode(user)
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(command, env=env, input=sent, stdout=output, check=False)
        except OSError as broken:
            raise InputError(f"the command {command[0]!r} cannot be started: {broken.strerror}.") from None
        finally:
            settle()
            server.server_close()
        output.seek(0)
        said = output.read()
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
    return done.returncode, hosting.ended(done.returncode, said)


def _envelope(
    server: RecordingServer, recorder: Any, workflow: str, user: Any, started: int, disposition: Disposition
) -> Envelope:
    from twiceshy.envelope import Clock, LayerVersion, Pins, RunInput, Versions

    asked = server.asked or {}
    model = LayerVersion(name=str(asked["model"]), version=str(asked["model"])) if "model" in asked else LayerVersion()
    told = {message["role"]: _text(message) for message in reversed(asked.get("messages", []))}
    made = recorder.envelope(
        trace_id=secrets.token_hex(16), source="record", workflow=workflow,
        run_input=RunInput(system=told.get("system"), user=told.get("user") if user is None else user), disposition=disposition,
        pins=Pins(clock=Clock(instant_ns=started), versions=Versions(model=model)),
    )  # fmt: skip
    return server.finished(made)


def _text(message: dict[str, Any]) -> str:
    return "".join(str(part.get("content", "")) for part in message["parts"] if part.get("type") == "text")
