"""`twiceshy break` on a checkout of its own: every kind of break, and the score of a whole catalog."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import recorded
from repositories import git
from sample_cases import twiceshy
from sealed import a_host_folder
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.breaking import CodeBreak
from twiceshy.casefile import Case, Review

pytestmark = pytest.mark.slow

OPEN = """
import os
import twiceshy

LIMIT = int(os.environ.get("LIMIT", "500"))

@twiceshy.candidate(workflow="till")
def build(boundary):
    pay = boundary.tool("pay", lambda amount: {"paid": amount})

    def limit(asked):
        if asked["amount"] > LIMIT:
            return "too much"
        return None

    boundary.guard("limit", limit, before="pay")

    def agent(user):
        try:
            pay(amount=user["amount"])
        except twiceshy.Blocked:
            return {"status": "refused"}
        return {"status": "paid"}

    return agent
"""

INVARIANTS = """
workflow: till
invariants:
  - id: no-large-payment
    tier: hard
    kind: must_not
    at: {tool: pay}
    when: args.amount > 500
    on_missing: violated
    message: nothing above 500 is paid
"""
DIFF = """--- a/till.py
+++ b/till.py
@@ -11,4 +11,2 @@
     def limit(asked):
-        if asked["amount"] > LIMIT:
-            return "too much"
         return None
"""


def paying(boundary: Boundary) -> Callable[[Any], Any]:
    pay = boundary.tool("pay", lambda amount: {"paid": amount})
    return lambda user: [pay(amount=user["amount"]), {"status": "paid"}][1]


@pytest.fixture
def till() -> Iterator[Path]:
    """A checkout of its own, outside /tmp: a seal shows a candidate in there as little as it can."""
    with a_host_folder() as folder:
        checked_out(folder)
        yield folder


def checked_out(root: Path) -> None:
    """Its first commit pays everything; a case of that, and one of a small payment done right."""
    git(root, "init", "-q", ".")
    (root / "till.py").write_text(OPEN.replace('"500"', '"100000"'))
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "till.py").write_text(OPEN)
    (root / "twiceshy.toml").write_text("")
    policies = root / "data" / "policies" / "till"
    policies.mkdir(parents=True)
    (policies / "tools.yaml").write_text("workflow: till\ntools: {pay: {effect: write}}\n")
    (policies / "invariants.yaml").write_text(INVARIANTS)
    breaks = [
        CodeBreak(patch="limit.diff"),
        CodeBreak(env={"LIMIT": "9999"}),
        CodeBreak(git="HEAD"),
        CodeBreak(git="HEAD~9"),
    ]
    save(root, "large", 750, kind="failure", invariants=["no-large-payment"], breaks=["guard.off:limit", *breaks])
    save(root, "small", 100, kind="positive", invariants=["no_duplicate_write"], breaks=["call.duplicate:pay"])
    (root / "data/cases/large/limit.diff").write_text(DIFF)


def save(root: Path, name: str, amount: int, **given: Any) -> None:
    envelope = recorded(paying, {"amount": amount}, workflow="till")
    case = Case(
        id=name,
        workflow="till",
        trace_id=envelope.trace_id,
        tool="pay",
        review=Review(status="promoted"),
        **given,
    )
    casefile.save(root / "data" / "cases" / name, case, envelope)


def test_real_code_is_broken_in_a_private_copy(till: Path) -> None:
    ran = twiceshy("break", "--all", "-c", "till:build", "--json", "-", cwd=till)
    assert ran.err.splitlines()[-1].startswith("mutation score:"), ran.err
    told = {case["case"]: case for case in json.loads(ran.out)["cases"]}
    assert [one["state"] for one in told["small"]["breaks"]] == ["killed"]
    assert [(one["break"], one["state"]) for one in told["large"]["breaks"] if one["mode"] == "full"] == [
        ("guard.off:limit", "killed"),
        ("patch:limit.diff", "killed"),
        ("env:LIMIT=9999", "killed"),
        ("git:HEAD", "killed"),
        ("git:HEAD~9", "error"),
    ]
    assert told["large"]["uncovered"] == "not killed: git:HEAD~9"
    assert json.loads(ran.out)["score"] == {
        "killed": 5,
        "declared": 6,
        "applied": 5,
        "equivalent": 0,
        "of_all": 5 / 6,
        "of_reachable": 5 / 6,
    }
    assert ran.code == 1
    assert (till / "till.py").read_text() == OPEN


def test_nothing_is_covered_without_a_seal(till: Path) -> None:
    save(till, "large", 750, kind="failure", invariants=["no-large-payment"], breaks=["guard.off:limit"])
    sealed = twiceshy("break", "--all", "-c", "till:build", cwd=till)
    assert (sealed.code, sealed.out.count("covered   ")) == (0, 2), sealed
    weak = twiceshy("break", "--all", "-c", "till:build", "--allow-weak-isolation", cwd=till)
    assert (weak.code, weak.out.count("covered   "), weak.out.count("unproven  ")) == (4, 0, 2), weak
    assert "its isolation was weak" in weak.out
    assert weak.err.startswith("isolation: weak: ")
    one = twiceshy("break", "large", "-c", "till:build", "--allow-weak-isolation", cwd=till)
    assert (one.code, "1 of 1 breaks killed" in one.out) == (4, True)


def test_a_break_of_what_is_not_there_names_what_is(till: Path) -> None:
    save(till, "large", 750, kind="failure", invariants=["no-large-payment"], breaks=["guard.off:limitt"])
    ran = twiceshy("break", "large", "-c", "till:build", cwd=till)
    assert (ran.code, ran.out.splitlines()[0]) == (
        1,
        "error         guard.off:limitt  [full]  it applied nowhere: it declares no guard 'limitt'. Did you mean 'limit'?",
    )


def test_a_wrong_break_is_refused_with_its_line(till: Path) -> None:
    path = till / "data/cases/large/case.yaml"
    path.write_text(path.read_text().replace("guard.off:limit", "guard.of:limit"))
    ran = twiceshy("break", "large", "-c", "till:build", cwd=till)
    line = next(at for at, text in enumerate(path.read_text().splitlines(), start=1) if "guard.of" in text)
    assert (ran.code, f"data/cases/large/case.yaml:{line}: 'guard.of:limit' is no break" in ran.err) == (2, True)
    assert ran.err.count("\n") == 1


def test_one_case_or_all_is_named() -> None:
    assert twiceshy("break", "-c", "till:build").code == 2
    assert twiceshy("break", "large", "--all", "-c", "till:build").code == 2
