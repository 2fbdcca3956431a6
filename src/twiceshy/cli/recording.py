"""`twiceshy record`: run an agent live, in front of its real services, and keep what crossed: a command behind a gateway, a factory in this process."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twiceshy.cli.options import candidate_spec, configured, refuse_unwritable
from twiceshy.errors import InputError

if TYPE_CHECKING:
    from twiceshy.commands import Command
    from twiceshy.envelope import Disposition, Envelope
    from twiceshy.gateway.recorded import RecordingServer
    from twiceshy.gateway.upstream import Upstreams
    from twiceshy.policy import ToolsPolicy
    from twiceshy.recording import Recorder
    from twiceshy.running import CandidateSpec

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
    str | None,
    typer.Option("--input", help="The run's input as JSON; a command gets it on standard input.", show_default=False),
]
Words = Annotated[list[str] | None, typer.Argument(help="The agent's command, after --.", show_default=False)]
Recorded = Annotated[
    str | None,
    typer.Option(
        "--candidate",
        "-c",
        help="In place of a command: a name from twiceshy.toml, or package.module:factory.",
        show_default=False,
    ),
]
Workflow = Annotated[
    str | None,
    typer.Option(
        "--workflow", "-w", help="The workflow of its policies; a candidate names its own.", show_default=False
    ),
]
Kept = Annotated[
    Path | None,
    typer.Option(
        "--run", help="A new folder in which the run is kept besides, for `twiceshy case from-run`.", show_default=False
    ),
]
_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"


def record(
    out: Annotated[Path, typer.Option("--out", "-o", help="OTLP JSON lines; each run adds one.", show_default=False)],
    command: Words = None,
    candidate: Recorded = None,
    workflow: Workflow = None,
    given: Given = None,
    openai_upstream: OpenAI = _OPENAI,
    anthropic_upstream: Anthropic = _ANTHROPIC,
    tools_upstream: Tools = None,
    mcp_upstream: Mcp = None,
    run: Kept = None,
) -> None:
    """Run an agent live, its writes included, and add what crossed to a file of traces. Nothing is redacted yet.

    A command runs behind a recording gateway: it is told OPENAI_BASE_URL, ANTHROPIC_BASE_URL, TWICESHY_MCP_URL and TWICESHY_TOOLS_URL, as in a replay.
    Its real keys stay with us, and its exit code is ours. A factory runs in this process; where its agent raises, we end with 1.

    For example:

      twiceshy record -c refund -o traces/run.jsonl --input '{"message": "..."}'

      twiceshy record -w refund -o traces/run.jsonl --input '{"message": "..."}' -- node agent.mjs
    """
    from twiceshy import keeping
    from twiceshy.gateway import spans
    from twiceshy.gateway.upstream import Upstreams

    keeping.refuse_existing(run)
    spec = _spec(candidate, command or [], workflow)
    user = _input(given)
    upstreams = Upstreams(
        openai=openai_upstream, anthropic=anthropic_upstream, tools=tools_upstream, mcp=mcp_upstream,
        openai_key=os.environ.get("OPENAI_API_KEY"), anthropic_key=os.environ.get("ANTHROPIC_API_KEY"),
    )  # fmt: skip
    refuse_unwritable(out=out)  # before the run: what it does cannot be done again
    with out.open("ab") as file:
        code, made = _factory(spec, user) if spec.command is None else _command(spec.command, upstreams, user)
        file.write(spans.request(made) + b"\n")
    if run is not None:
        keeping.save(run, keeping.of_recording(made, candidate or spec.factory))
        typer.echo(f"kept: {run}", err=True)
    typer.echo(f"{out}: trace {made.trace_id}, {len(made.crossings)} crossings, not redacted", err=True)
    raise typer.Exit(code)


def _spec(candidate: str | None, command: list[str], workflow: str | None) -> CandidateSpec:
    """Who is recorded: exactly one of a candidate and a command with its workflow."""
    from twiceshy.commands import Command
    from twiceshy.running import CandidateSpec

    if (candidate is None) == (not command):
        raise InputError("write one agent to record: --candidate NAME, or its command after --.")
    if candidate is not None:
        if workflow is not None:
            raise InputError("--workflow is for a command: a candidate names its own.")
        return candidate_spec(candidate, configured())
    if workflow is None:
        raise InputError("a command needs its --workflow.")
    return CandidateSpec(
        factory=command[0], command=Command(argv=command, folder=str(Path.cwd()), workflow=workflow, tools=[])
    )


def _input(given: str | None) -> Any:
    """The run's input; UNSET where none was given."""
    import msgspec

    try:
        return msgspec.UNSET if given is None else msgspec.json.decode(given)
    except msgspec.DecodeError as broken:
        raise InputError(f"--input is not JSON: {broken}.") from None


def _policy(workflow: str) -> ToolsPolicy | None:
    """What its tools do, where that is written already."""
    from twiceshy import policy

    path = configured().path("policies") / workflow / "tools.yaml"
    if path.exists():
        return policy.load(path)
    typer.echo(f"{path}: not there yet; `twiceshy refresh` needs it, and a redaction.yaml beside it", err=True)
    return None


def _factory(spec: CandidateSpec, user: Any) -> tuple[int, Envelope]:
    """One run of a factory's agent in this process, on its real services."""
    import msgspec

    from twiceshy import candidates
    from twiceshy.boundary import Boundary
    from twiceshy.envelope import Clock, Pins, RunInput
    from twiceshy.identity import tagged
    from twiceshy.recording import Recorder, run
    from twiceshy.reporting.escaping import plain

    if Path(spec.python).absolute() != Path(sys.executable).absolute():
        raise InputError(
            f"candidate {spec.factory!r} runs under {spec.python}: record it there, as `{spec.python} -m twiceshy record ...`."
        )
    sys.path[:0] = [str(folder) for folder in spec.path]
    factory, said = candidates.load(spec.factory)
    said = msgspec.structs.replace(said, versions={**said.versions, **spec.versions})
    versions = candidates.layers(factory, said)
    recorder = Recorder(policy=_policy(said.workflow))
    started = time.time_ns()
    asked = None if user is msgspec.UNSET else user
    disposition = run(factory(Boundary(recorder)), asked)
    if disposition.error is None:
        typer.echo(msgspec.json.encode(tagged(disposition.output)).decode())
    else:
        typer.echo(f"the agent raised {disposition.error.cls}: {plain(disposition.error.message)}", err=True)
    made = recorder.envelope(
        trace_id=secrets.token_hex(16), source="record", workflow=said.workflow, run_input=RunInput(user=asked), disposition=disposition,
        pins=Pins(clock=Clock(instant_ns=started, tz=_zone()), versions=versions),
    )  # fmt: skip
    return int(not disposition.ended), made


def _command(command: Command, upstreams: Upstreams, user: Any) -> tuple[int, Envelope]:
    """One run of a command behind a recording gateway."""
    from twiceshy.gateway.recorded import RecordingServer
    from twiceshy.recording import Recorder
    from twiceshy.reporting.escaping import plain

    policy = _policy(command.workflow)
    recorder = Recorder(policy=policy)
    server = RecordingServer(recorder, upstreams, secrets.token_urlsafe(24))
    started = time.time_ns()
    code, disposition = _run(command, server, user)
    for what, times in sorted(server.missing.items()):
        typer.echo(f"not in the record, {times} times: {plain(what)}", err=True)
    made = _envelope(server, recorder, command, user, started, disposition)
    _tell_unlisted(made, policy)
    return code, made


def _tell_unlisted(made: Envelope, policy: ToolsPolicy | None) -> None:
    """Name the tools of which tools.yaml says nothing: what a replay would make of them is safe, and seldom what was meant."""
    from twiceshy.matching import CALLS
    from twiceshy.reporting.escaping import plain

    called = {crossing.name for crossing in made.crossings if crossing.kind in CALLS}
    unlisted = sorted(called - policy.tools.keys()) if policy is not None else []
    if unlisted:
        typer.echo(f"not in tools.yaml, and so a write that touches everything: {plain(', '.join(unlisted))}", err=True)


def _zone() -> str:
    """The time zone that a run here reads its clock in, where it has a name."""
    from zoneinfo import ZoneInfo

    linked = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked):
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, KeyError):
            continue
    return "UTC"


def _run(command: Command, server: RecordingServer, user: Any) -> tuple[int, Disposition]:
    """The command's exit code and how it ended; what it says on standard output is passed on once it has ended."""
    import msgspec

    from twiceshy.gateway import hosting

    settle = hosting.serve(server)
    env = {**os.environ, **hosting.environment(server, None if user is msgspec.UNSET else user)}
    sent = None if user is msgspec.UNSET else msgspec.json.encode(user)
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(command.argv, env=env, input=sent, stdout=output, check=False, cwd=command.folder)
        except OSError as broken:
            raise InputError(f"the command {command.argv[0]!r} cannot be started: {broken.strerror}.") from None
        finally:
            settle()
            server.server_close()
        output.seek(0)
        said = output.read()
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
    return done.returncode, hosting.ended(done.returncode, said)


def _envelope(
    server: RecordingServer, recorder: Recorder, command: Command, user: Any, started: int, disposition: Disposition
) -> Envelope:
    import msgspec

    from twiceshy.commands import versions_of
    from twiceshy.envelope import Clock, LayerVersion, Pins, RunInput

    asked = server.asked or {}
    versions = versions_of(command)
    if versions.model.version is None and "model" in asked:
        named = str(asked["model"])
        versions = msgspec.structs.replace(versions, model=LayerVersion(name=named, version=named))
    told = {message["role"]: _text(message) for message in reversed(asked.get("messages", []))}
    made = recorder.envelope(
        trace_id=secrets.token_hex(16), source="record", workflow=command.workflow,
        run_input=RunInput(system=told.get("system"), user=told.get("user") if user is msgspec.UNSET else user), disposition=disposition,
        pins=Pins(clock=Clock(instant_ns=started, tz=_zone()), versions=versions),
    )  # fmt: skip
    return server.finished(made)


def _text(message: dict[str, Any]) -> str:
    return "".join(str(part.get("content", "")) for part in message["parts"] if part.get("type") == "text")
