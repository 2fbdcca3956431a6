import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builders import a_crossing, a_policy, an_envelope
from twiceshy import documents, policy
from twiceshy.envelope import Effect, Envelope
from twiceshy.errors import FormatError
from twiceshy.policy import ToolsPolicy
from twiceshy.suggesting import LISTING, diff, evidence, hinted, proposals

GIT = shutil.which("git") or "git"
READ, WRITE = Effect.READ, Effect.WRITE


def listing(**hints: dict[str, bool]) -> dict[str, Any]:
    return {"tools": [{"name": name, "annotations": given} for name, given in hints.items()]}


def proposed(
    *runs: Envelope, hints: dict[str, Effect] | None = None, held: ToolsPolicy | None = None
) -> dict[str, Effect]:
    made = proposals(evidence(runs, hints or {}), held or a_policy())
    return {name: proposal.effect for name, proposal in made.items()}


def test_hints_are_read_strictly() -> None:
    found = hinted(
        listing(
            get={"readOnlyHint": True}, pay={"destructiveHint": True}, odd={"readOnlyHint": True, "destructiveHint": True},
            put={"readOnlyHint": False}, quiet={"idempotentHint": True},
        )
    )  # fmt: skip
    assert found == {"get": READ, "pay": WRITE, "odd": WRITE, "put": WRITE}
    assert hinted(["nonsense", {"name": "x"}]) == {}


def test_read_is_proposed_only_with_a_reason() -> None:
    run = an_envelope(
        a_crossing(1, "get", effect=READ, key="k"),
        a_crossing(2, "look", effect=None, key="k"),
        a_crossing(3, "pay", effect=WRITE),
    )
    assert proposed(run) == {"get": READ, "look": WRITE, "pay": WRITE}
    assert proposed(run, hints={"look": READ}) == {"get": READ, "look": READ, "pay": WRITE}


def test_trace_contradicts_a_hint() -> None:
    run = an_envelope(
        a_crossing(1, "get", raw=1, key="k"), a_crossing(2, "look", key="k2"), a_crossing(3, "get", raw=2, key="k")
    )  # fmt: skip
    assert proposed(run, hints={"look": READ})["look"] is WRITE


def test_recorded_listing_hints_too() -> None:
    run = an_envelope(a_crossing(1, LISTING, raw=listing(get={"readOnlyHint": True}, pay={"destructiveHint": True})))
    assert proposed(run) == {"get": READ, "pay": WRITE}


def test_listed_tools_are_only_tightened() -> None:
    held = a_policy(get="read", pay="write", add="none")
    assert proposed(hints={"get": WRITE, "pay": READ, "add": WRITE}, held=held) == {"get": WRITE, "add": WRITE}


def test_diff_is_what_a_person_applies(tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text(
        "workflow: w\ntools:\n  get:\n    effect: read\n    reads: [orders]\n\n# the end\ndone: state == 1\n",
        encoding="utf-8",
    )
    made = proposals(evidence([], {"get": WRITE, "look": READ, "a.b": WRITE}), policy.load(file))
    text = diff(documents.Document(file), "tools.yaml", made, "w")
    assert text.startswith("diff --git a/tools.yaml b/tools.yaml\n--- a/tools.yaml\n+++ b/tools.yaml\n")
    assert "-    effect: read\n+    effect: write\n" in text
    apply(text, tmp_path)
    after = policy.load(file)
    assert {name: tool.effect for name, tool in after.tools.items()} == {"get": WRITE, "look": READ, "a.b": WRITE}
    assert after.of("get").reads == ("orders",)
    assert proposals(evidence([], {"get": WRITE, "look": READ, "a.b": WRITE}), after) == {}


def test_new_workflow_gets_a_whole_file() -> None:
    made = proposals(evidence([], {"get": READ}), a_policy("w"))
    text = diff(None, "data/policies/w/tools.yaml", made, "w")
    assert "--- /dev/null\n" in text
    assert "+workflow: w\n" in text
    assert "+  get: {effect: read}  # " in text


def test_nothing_to_say_is_no_diff() -> None:
    assert diff(None, "tools.yaml", {}, "w") == ""


@pytest.mark.parametrize(
    "text",
    [
        "workflow: w\ntools:\n  get: {effect: read}",
        "workflow: w\ntools:\n  get: {effect: 'read', reads: [a]}  # get it\n",
        'workflow: w\ntools:\n  get:\n    effect:   "none"\n',
    ],
)
def test_however_an_effect_is_written(text: str, tmp_path: Path) -> None:
    file = tmp_path / "data/policies/w/tools.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    made = proposals(evidence([], {"get": WRITE, "pay": WRITE}), policy.load(file))
    apply(diff(documents.Document(file), "data/policies/w/tools.yaml", made, "w"), tmp_path)
    assert {name: tool.effect for name, tool in policy.load(file).tools.items()} == {"get": WRITE, "pay": WRITE}


@pytest.mark.parametrize("tools", ["{get: {effect: read}}", "\n    get: {effect: read}"])
def test_a_file_that_lines_do_not_fit_is_refused(tools: str, tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text(f"workflow: w\ntools: {tools}\n", encoding="utf-8")
    made = proposals(evidence([], {"pay": WRITE}), policy.load(file))
    with pytest.raises(FormatError, match=r"no diff can be made of .* pay: \{effect: write\}"):
        diff(documents.Document(file), "tools.yaml", made, "w")


def apply(text: str, folder: Path) -> None:
    subprocess.run([GIT, "apply"], cwd=folder, input=text, text=True, check=True)
