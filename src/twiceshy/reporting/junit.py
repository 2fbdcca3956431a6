"""The verdict as JUnit XML: the colour of every test case follows from the verdict, and all of them together equal the exit code (faces.md §4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from twiceshy.outcome import BoundaryState, Failure, Outcome
from twiceshy.reporting import phrases
from twiceshy.reporting.console import line
from twiceshy.reporting.escaping import xml

if TYPE_CHECKING:
    from twiceshy.verdict import Result, Verdict


def render(verdict: Verdict) -> str:
    """One suite with a test case a result; a run that is red for a reason that no single case has is an error of its own."""
    suite = ET.Element("testsuite", name=xml(f"twiceshy.{verdict.run.workflow}"), timestamp=xml(verdict.run.started))
    said = {"remarks": "; ".join(phrases.remarks(verdict))}
    _properties(suite, {"candidate": verdict.run.candidate.ref, "exit_code": str(verdict.summary.exit_code), **said})
    for result in verdict.results:
        suite.append(_case(result, verdict))
    tag = {0: None, 1: "failure"}.get(verdict.summary.exit_code, "error")
    if tag is not None and not any(case.find(tag) is not None for case in suite.iter("testcase")):
        suite.append(_whole(verdict, tag))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _case(result: Result, verdict: Verdict) -> ET.Element:
    case = ET.Element(
        "testcase", classname=xml(f"{verdict.run.workflow}.{result.mode}"), name=xml(result.name), file=xml(result.case.path),
        time=f"{(result.duration_ms or 0) / 1000:.3f}",
    )  # fmt: skip
    by_state = {state: [bound.name for bound in result.boundaries if bound.state is state] for state in BoundaryState}
    _properties(
        case,
        {
            "trace_id": result.trace_id, "signature": result.signature or "", "case_version": result.case.digest,
            "boundaries_frozen": ", ".join(dict.fromkeys(by_state[BoundaryState.FROZEN])),
            "boundaries_live": ", ".join(dict.fromkeys(by_state[BoundaryState.LIVE])),
            "champion": verdict.run.champion.ref if verdict.run.champion else "",
        },
    )  # fmt: skip
    shown = _child(result, verdict)
    if shown is not None:
        case.append(shown)
    return case


def _child(result: Result, verdict: Verdict) -> ET.Element | None:
    """The colour: none for what the policy lets through as passed, skipped for what it allows, failure and error for what it does not."""
    why = phrases.why(result)
    match result.outcome:
        case Outcome.PASSED:
            return None
        case Outcome.ERROR:
            return _told("error", "Harness", why, result)
        case Outcome.FAILED:
            if result.red and Outcome.FAILED in verdict.policy.fail_on:
                return _told("failure", _type(result), why, result)
            return ET.Element("skipped", message=xml(f"{'waived' if result.waiver else 'allowed'}: {why}"))
        case Outcome.DIVERGED:
            if Outcome.DIVERGED in verdict.policy.fail_on and (result.lost or verdict.summary.over_budget):
                return _told("error", "Diverged", why, result)
            return ET.Element("skipped", message=xml(f"diverged: {why}"))


def _type(result: Result) -> str:
    if result.failure is Failure.CANDIDATE_CRASHED:
        return "CandidateCrashed"
    if result.failure is Failure.CANDIDATE_TIMEOUT:
        return "CandidateTimeout"
    if result.failure is Failure.DIMENSION:
        return "Dimension"
    first = result.violations[0] if result.violations else None
    if first is not None and first.assertion_id == "call_counts":
        return "CallCount"
    return "TrajectoryConstraint" if first is not None and first.tier == "trajectory" else "HardInvariant"


def _told(tag: str, kind: str, why: str, result: Result) -> ET.Element:
    element = ET.Element(tag, type=kind, message=xml(why))
    element.text = xml(line(result))
    return element


def _whole(verdict: Verdict, tag: str) -> ET.Element:
    case = ET.Element("testcase", classname=xml(f"{verdict.run.workflow}.{verdict.run.mode}"), name="gate")
    case.append(
        ET.Element(tag, type="Gate" if tag == "failure" else "Harness", message=xml("; ".join(verdict.summary.reasons)))
    )
    return case


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    held = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(held, "property", name=name, value=xml(value))
