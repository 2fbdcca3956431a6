import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from sample_cases import REFUND, SIGNATURE, THURSDAY, save_catalog, twiceshy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_catalog(tmp_path_factory.mktemp("catalog") / "cases")


@pytest.mark.parametrize(
    ("candidate", "code", "phrases"),
    [
        ("examples.refund:buggy", 1, [f"FAILED {SIGNATURE}", f"trace={REFUND}", "assertion=refund-over-limit-missing-approval", "at=#4 issue_refund[intercepted]"]),
        ("examples.refund:hook_fixed", 1, ["FAILED"]),
        ("examples.refund:hook_fixed_and_guarded", 0, ["exit 0: passed"]),
        ("examples.refund:approval_removed", 1, ["assertion=refund-over-limit-missing-approval"]),
        ("examples.refund:apologises_only", 3, [f"DIVERGED {SIGNATURE}", "divergence=opportunity_not_reached"]),
        ("examples.scheduling:buggy", 1, ["assertion=confirmation-before-reschedule", f"trace={THURSDAY}"]),
        ("examples.scheduling:confirms_first", 1, ["FAILED"]),
        ("examples.scheduling:fixed", 3, ["divergence=args_mismatch at=#5 list_open_slots", "other arguments: day"]),
    ],
)  # fmt: skip
def test_each_version_gets_its_verdict(cases: Path, candidate: str, code: int, phrases: list[str]) -> None:
    ran = twiceshy("gate", "--candidate", candidate, "--cases", cases)
    assert ran.code == code, ran
    assert [phrase for phrase in phrases if phrase not in ran.out] == []
    assert ("FAILED" in ran.out) == (code == 1)


def test_every_form_tells_the_same(cases: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("junit", "json", "summary")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    ran = twiceshy("gate", "-c", "examples.refund:buggy", "--cases", cases, "--exit-zero", *options)
    assert ran.code == 0
    verdict = json.loads(files["json"].read_text())
    assert (verdict["summary"]["exit_code"], verdict["summary"]["verdict"]) == (1, "failed")
    suite = ET.fromstring(files["junit"].read_text())  # noqa: S314 - our own output
    assert len(list(suite.iter("failure"))) == 1
    assert SIGNATURE.split("@")[0] in files["summary"].read_text()


def test_stdout_carries_only_what_was_asked(cases: Path) -> None:
    ran = twiceshy("gate", "-c", "examples.refund:buggy", "--cases", cases, "--json", "-")
    verdict = json.loads(ran.out)
    assert (verdict["run"]["workflow"], "FAILED" in ran.err) == ("refund", True)
    candidate, mode = verdict["run"]["candidate"], verdict["results"][0]["modes"][0]
    assert candidate["layers"].keys() == {"routing", "memory", "skills", "harness"}
    assert candidate["layers"]["harness"] is not None
    assert (mode["manifest"]["tool:issue_refund"], mode["manifest"]["tool:create_approval"]) == (
        "intercepted",
        "intercepted",
    )
    assert mode["seed"] == verdict["results"][0]["case"]["id"]


def test_a_named_champion_makes_a_regression(cases: Path, tmp_path: Path) -> None:
    env = {"TWICESHY_PATHS__CASES": str(cases), "TWICESHY_PATHS__CHAMPION": str(tmp_path)}
    pinned = twiceshy("champion", "pin", "-c", "examples.refund:hook_fixed_and_guarded", env=env)
    assert (pinned.code, pinned.out.rpartition(" pinned on ")[2]) == (0, "2 cases: 2 passed\n")
    shown = twiceshy("champion", "show", "refund", env=env)
    assert "passed    refund-t-1042" in shown.out
    same = twiceshy("champion", "diff", "-c", "examples.refund:hook_fixed_and_guarded", env=env)
    assert (same.code, "0 results differ, 3 were pinned" in same.out) == (0, True), same
    other = twiceshy("champion", "diff", "-c", "examples.refund:approval_removed", env=env)
    assert other.code == 1
    assert "passed    -> failed    refund-t-1042" in other.out
    ran = twiceshy("gate", "-c", "examples.refund:approval_removed", env=env)
    assert (ran.code, "change=regressed" in ran.out) == (1, True)
    lost = twiceshy("gate", "-c", "examples.refund:apologises_only", "--max-diverged", "100%", env=env)
    assert lost.code == 3
    assert "passed on the champion and diverged now" in lost.out


def test_what_is_accepted_or_waived_must_be_there(cases: Path, tmp_path: Path) -> None:
    """A layer that is none is refused; a waiver that excuses nothing is named, and excuses nothing."""
    env = {"TWICESHY_PATHS__CASES": str(cases), "TWICESHY_PATHS__CHAMPION": str(tmp_path)}
    refused = twiceshy("gate", "-c", "examples.refund:buggy", "--accept-unexercised", "NOLAYER", env=env)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "'NOLAYER' is no layer here" in refused.err
    assert "tool:issue_refund" in refused.err.partition("Known: ")[2]
    assert twiceshy("champion", "pin", "-c", "examples.refund:buggy", env=env).code == 0
    said = "by: '@ann', date: '2020-01-01', why: soon, assertions: [refund-over-limit-missing-approval]"
    rows = (
        f"- {{id: w1, case: refund-t-1042, until: '2020-02-01', {said}}}\n- {{id: w2, case: refund-t-1043, {said}}}\n"
    )
    (tmp_path / "refund.waivers.yaml").write_text(f"workflow: refund\nwaivers:\n{rows}")
    ran = twiceshy("gate", "-c", "examples.refund:buggy", "--json", tmp_path / "v.json", env=env)
    assert (ran.code, "waiver=" in ran.out) == (1, False)
    assert "warning: waiver 'w1' excuses nothing: it was valid until 2020-02-01" in ran.out
    assert "warning: waiver 'w2' excuses nothing: the catalog holds no case 'refund-t-1043'" in ran.out
    assert len(json.loads((tmp_path / "v.json").read_text())["warnings"]) == 2
    shown = twiceshy("champion", "show", "refund", env=env).out.splitlines()
    assert [line.split()[0] for line in shown if "@ann" in line] == ["not", "waived"]


def test_a_cut_point_runs_the_guard_live(cases: Path) -> None:
    ran = twiceshy("replay", "refund-t-1042", "-c", "examples.refund:guarded", "--after", "3", "-v", "--cases", cases)
    assert ran.code == 0
    assert "#4.1 guard refund-approval [live]" in ran.out
    assert "#2 tool get_order [frozen]" in ran.out
    assert twiceshy("replay", SIGNATURE, "-c", "examples.refund:hook_fixed", "--cases", cases).code == 1


@pytest.mark.parametrize("verb", [("gate",), ("replay", "refund-t-1042")])
@pytest.mark.parametrize("option", ["--live", "--freeze"])
def test_a_boundary_that_is_none_is_named(cases: Path, verb: tuple[str, ...], option: str) -> None:
    ran = twiceshy(*verb, "-c", "examples.refund:guarded", option, "tool:get_ordr", "--cases", cases)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "declares no boundary 'tool:get_ordr'" in ran.err
    assert "tool:get_order" in ran.err.partition("It declares")[2]


def test_a_prefix_that_is_all_judges_nothing(cases: Path) -> None:
    """Not even one that ends at the opportunity itself: a candidate that does the harm would pass or fail by the record."""
    for verb in (("gate",), ("replay", "refund-t-1042")):
        ran = twiceshy(*verb, "-c", "examples.refund:guarded", "--after", "4", "--cases", cases)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "nothing to judge" in ran.err
        assert "refund-t-1042 (--after 4, and its opportunity is step 4)" in ran.err


def test_a_break_turns_the_case_red(cases: Path) -> None:
    ran = twiceshy("break", "refund-t-1042", "-c", "examples.refund:hook_fixed_and_guarded", "--cases", cases)
    assert (ran.code, "1 of 1 breaks killed" in ran.out) == (0, True)
    unbroken = twiceshy("break", "refund-t-1042", "-c", "examples.refund:apologises_only", "--cases", cases)
    assert (unbroken.code, "error" in unbroken.out) == (1, True)


def test_weak_isolation_is_never_accepted(cases: Path) -> None:
    ran = twiceshy("gate", "-c", "examples.refund:hook_fixed_and_guarded", "--cases", cases, "--allow-weak-isolation")
    assert (ran.code, "no gate accepts" in ran.out) == (4, True)


def test_nothing_selected_is_never_green(cases: Path) -> None:
    ran = twiceshy("gate", "-c", "examples.refund:hook_fixed_and_guarded", "--cases", cases, "--select", "tool:none")
    assert ran.code == 5


def damaged(cases: Path, folder: Path, file: str, old: str, new: str) -> Path:
    root = folder / "cases"
    shutil.copytree(cases, root)
    path = root / "refund" / "refund-t-1042" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return root


@pytest.mark.parametrize(
    ("file", "old", "new", "phrase"),
    [
        ("envelope.jsonl", "twiceshy/envelope/1", "twiceshy/envelope/7", "format 'twiceshy/envelope/7' is not"),
        ("envelope.jsonl", "A184", "A185", "digest"),
        ("case.yaml", "severity: high", "severity: dire", "case.yaml:"),
        ("case.yaml", "- guard-refused-refund", "- guard-refused-refnd", "Did you mean 'guard-refused-refund'"),
        ("envelope.jsonl", '{"seq":4', '{"seq":4,,', "envelope.jsonl:"),
    ],
)  # fmt: skip
def test_a_damaged_case_is_one_clear_line(
    cases: Path, tmp_path: Path, file: str, old: str, new: str, phrase: str
) -> None:
    root = damaged(cases, tmp_path, file, old, new)
    ran = twiceshy("gate", "-c", "examples.refund:buggy", "--cases", root)
    assert (ran.code, ran.out) == (2, ""), ran
    assert phrase in ran.err
    assert len(ran.err.splitlines()) == 1
    assert twiceshy("case", "validate", "--cases", root).code == 2


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["-c", "examples.refund:bugy"], "Did you mean 'buggy'"),
        (["-c", "nowhere:build"], "No module named 'nowhere'"),
        (["-c", "refnd"], "not in twiceshy.toml"),
        (["-c", "examples.refund:buggy", "--live", "tool:issue_refund"], "no replay executes a write"),
        (["-c", "examples.refund:buggy", "--mode", "stub"], "--mode stub is for comparison only"),
        (["-c", "examples.refund:buggy", "--max-diverged", "few"], "neither a number nor a percentage"),
        (["-c", "examples.refund:buggy", "--select", "tol:x"], "keys are id"),
        (["-c", "examples.refund:buggy", "--champion", "missing.json"], "missing.json"),
    ],
)
def test_bad_usage_is_one_clear_line(cases: Path, words: list[str], phrase: str) -> None:
    ran = twiceshy("gate", *words, "--cases", cases)
    assert (ran.code, ran.out) == (2, ""), ran
    assert phrase in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "old", "new", "phrases"),
    [
        ("invariants.yaml", "args.amount_gbp > result", "args.amount_gbp >> result", ["invariants.yaml:"]),
        (
            "invariants.yaml",
            "at: {tool: issue_refund}",
            "at: {tool: issue_refnd}",
            ["invariants.yaml:", "Did you mean 'issue_refund'"],
        ),
        (
            "invariants.yaml",
            'result("get_order"',
            'result("get_ordr"',
            ["invariants.yaml:", "Did you mean 'get_order'"],
        ),
        ("tools.yaml", "  get_customer:", "  get_custmer:", ["tools.yaml:", "Did you mean 'get_customer'"]),
        ("tools.yaml", "effect: read", "efect: read", ["tools.yaml:", "Did you mean 'effect'"]),
    ],
)
def test_a_wrong_policy_names_file_and_line(
    cases: Path, tmp_path: Path, file: str, old: str, new: str, phrases: list[str]
) -> None:
    policies = tmp_path / "policies"
    shutil.copytree("data/policies", policies)
    path = policies / "refund" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    ran = twiceshy(
        "gate", "-c", "examples.refund:buggy", "--cases", cases, env={"TWICESHY_PATHS__POLICIES": str(policies)}
    )
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran
    assert [phrase for phrase in phrases if phrase not in ran.err] == []


def test_a_missing_folder_of_cases_is_named(tmp_path: Path) -> None:
    ran = twiceshy("gate", "-c", "examples.refund:buggy", "--cases", tmp_path / "none")
    assert (ran.code, "no such folder of cases" in ran.err) == (2, True)
