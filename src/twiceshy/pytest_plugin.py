"""The pytest plugin: a catalogued case as a test, judged by the same engine as the gate.

    @pytest.mark.twiceshy("refund-t-1042", candidate="refund")
    def test_known_failure(replay):
        assert replay.intents == ["create_approval"]      # further checks, if any; the case is judged in any case

Several ids make one test id a case. The test fails unless the case PASSED: FAILED fails it, DIVERGED is reported as a kind of its own and fails it too
(`--twiceshy-diverged=skip` skips instead), and what is ours or the machine's fault, or what no gate accepts, is an error. Nothing of twiceshy is imported until a test asks for it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from twiceshy.configuration import Configuration
    from twiceshy.judging import Judged, Rules
    from twiceshy.running import Session

MARK = "twiceshy"
DIVERGED = "diverged"
_OPTIONS = frozenset({"candidate", "mode", "expect"})
_EXPECTED = ("passed", "failed", "diverged")
_SEEN = "twiceshy_outcome"


class Replayed:
    """What the fixture `replay` gives: one judged case. outcome: passed, failed or diverged; text: the aligned transcript of the deciding trial."""

    def __init__(self, judged: Judged) -> None:
        self.result = judged.result
        self._judged = judged

    @property
    def outcome(self) -> str:
        """`passed`, `failed` or `diverged`."""
        return self.result.outcome.value

    @property
    def passed(self) -> bool:
        """Whether the case was judged and held."""
        return self.outcome == "passed"

    @property
    def violated(self) -> list[str]:
        """The ids of the violated assertions."""
        return [violation.assertion_id for violation in self.result.violations]

    @property
    def intents(self) -> list[str]:
        """The tools of the intercepted writes that no guard had refused, in order."""
        return [intent.tool for intent in self.result.write_intents if intent.blocked_by is None]

    @property
    def why(self) -> str:
        """Why it did not pass, in one clause."""
        from twiceshy.reporting import phrases

        return phrases.why(self.result)

    @property
    def text(self) -> str:
        """Recorded beside replayed, step by step, without payloads."""
        from twiceshy.reporting import transcripttext

        shown = []
        for run in self._judged.modes:
            told = transcripttext.render(self._judged.loaded.envelope, run.deciding.transcript, run.verdict)
            shown.append(f"{self.result.case.id} [{run.cut.label}]\n{told}")
        return "".join(shown)


class _Marked(NamedTuple):
    case: str
    candidate: str
    mode: str
    expect: str


class _Court:
    """The candidates of one pytest process, each in one sealed session that serves all its tests."""

    def __init__(self, start: Path, trials: int | None) -> None:
        self._start = start
        self._trials = trials
        self._stack = ExitStack()
        self._sessions: dict[str, Session] = {}
        self._rules: dict[str, Rules] = {}

    def judge(self, asked: _Marked) -> Replayed:
        """One case, by its judging modes. Raises TwiceshyError for whatever is not the candidate's own doing."""
        from twiceshy import configuration, judging
        from twiceshy.cli.gating import champion_of
        from twiceshy.cli.options import bench, judges, live_models, one_case
        from twiceshy.errors import InputError

        config = configuration.load(self._start, os.environ)
        loaded = one_case(asked.case, judging.load_cases(config.path("cases")))
        session = self._session(asked.candidate, config)
        rules = self._rules_of(loaded.case.workflow, config)
        if session.ready.workflow != loaded.case.workflow:
            raise InputError(
                f"candidate {asked.candidate!r} is of workflow {session.ready.workflow!r}, case {asked.case!r} of {loaded.case.workflow!r}."
            )
        trials = self._trials or config.settings.gate.trials
        terms = judging.Terms(judges=judges(asked.mode, None, None, None), trials=trials, bench=bench(config))
        judging.refuse_keyless(live_models(config), [loaded], terms.judges)
        champion = champion_of(config, loaded.case.workflow)
        (grader,) = judging.graders([loaded], rules, terms, champion=champion, boundaries=session.ready.boundaries)
        against = judging.candidacy(
            session.ready.versions, champion.versions if champion else None, tools=judging.tools_of([loaded])
        )
        return Replayed(judging.judge_case(session, grader, rules, terms, against))

    def close(self) -> None:
        """End every session."""
        self._stack.close()

    def _session(self, candidate: str, config: Configuration) -> Session:
        from twiceshy.cli.options import candidate_spec, live_models
        from twiceshy.running import Session

        if candidate not in self._sessions:
            made = Session(
                candidate_spec(candidate, config),
                env=os.environ,
                folder=config.root,
                cases=[config.path("cases")],
                live=live_models(config),
            )
            self._sessions[candidate] = self._stack.enter_context(made)
        return self._sessions[candidate]

    def _rules_of(self, workflow: str, config: Configuration) -> Rules:
        from twiceshy import judging
        from twiceshy.cli.options import keyring

        if workflow not in self._rules:
            self._rules[workflow] = judging.rules_of(config.path("policies"), workflow, keyring())
        return self._rules[workflow]


_COURT = pytest.StashKey[_Court]()
_ASKED = pytest.StashKey[_Marked]()
_JUDGED = pytest.StashKey[Replayed]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own prefix, so that no other plugin's are in the way."""
    group = parser.getgroup("twiceshy", "replay of catalogued agent failures")
    group.addoption(
        "--twiceshy-candidate",
        metavar="NAME",
        help="candidate of marks that name none: a name from twiceshy.toml, or package.module:factory",
    )
    group.addoption(
        "--twiceshy-diverged",
        choices=("fail", "skip"),
        default="fail",
        help="what becomes of a test whose case cannot judge this version (fail)",
    )
    group.addoption(
        "--twiceshy-trials",
        type=_trials,
        metavar="K",
        help="trials a case and judging mode, at least 2 (from twiceshy.toml)",
    )


def _trials(text: str) -> int:
    """As in the gate: of one trial nobody knows whether the next comes to the same."""
    if not text.isdigit() or int(text) < 2:  # noqa: PLR2004 - the least there is to compare
        raise pytest.UsageError(f"--twiceshy-trials {text!r}: write 2 or more.")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers", f"{MARK}(*cases, candidate=..., mode='auto', expect='passed'): judge the candidate by these cases"
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the candidates' processes."""
    court = config.stash.get(_COURT, None)
    if court is not None:
        court.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test id a case."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    wrong = sorted(mark.kwargs.keys() - _OPTIONS)
    if not mark.args or wrong:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: @pytest.mark.{MARK} takes case ids and {', '.join(sorted(_OPTIONS))}"
            + (f", not {', '.join(wrong)}." if wrong else ".")
        )
    expected = mark.kwargs.get("expect", "passed")
    if expected not in _EXPECTED:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: expect={expected!r} is none of {', '.join(_EXPECTED)}.")
    if MARK not in metafunc.fixturenames:
        metafunc.fixturenames.append(MARK)
    metafunc.parametrize(MARK, [str(case) for case in mark.args], ids=[str(case) for case in mark.args])


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Replayed:
    """The judged case of this test's mark."""
    judged: Replayed | None = request.node.stash.get(_JUDGED, None)
    if judged is None:
        raise pytest.UsageError(f"the fixture `replay` needs a mark: @pytest.mark.{MARK}('case-id')")
    return judged


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Judge the case before the test's fixtures ask for it. What goes wrong here is an error of the test, not a failure."""
    asked = _asked(item)
    if asked is not None:
        item.stash[_ASKED] = asked
        item.stash[_JUDGED] = _judged(item, asked)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """The test's own checks, then the case's: a body that passes is not enough."""
    yielded = yield
    judged = item.stash.get(_JUDGED, None)
    if judged is None or judged.outcome == item.stash[_ASKED].expect:
        return yielded
    if judged.outcome == DIVERGED and item.config.getoption("twiceshy_diverged") == "skip":
        pytest.skip(f"DIVERGED: {judged.why}")
    expected = item.stash[_ASKED].expect
    wanted = "" if expected == "passed" else f", expected {expected.upper()}"
    pytest.fail(f"{judged.outcome.upper()}{wanted}: {judged.why}\n{judged.text}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say on the report what the case came to; xdist carries it to the process that prints."""
    report = yield
    judged = item.stash.get(_JUDGED, None)
    if judged is not None and report.when == "call":
        setattr(report, _SEEN, judged.outcome)
        report.user_properties += [("twiceshy_case", judged.result.case.id), (_SEEN, judged.outcome)]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """DIVERGED as a kind of its own; it still counts as failed."""
    if report.when == "call" and report.failed and getattr(report, _SEEN, None) == DIVERGED:
        return DIVERGED, "D", "DIVERGED"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The diverged tests, with what each case could not judge."""
    reports: Sequence[pytest.TestReport] = terminalreporter.stats.get(DIVERGED, [])
    if not reports:
        return
    terminalreporter.section("DIVERGED: these cases cannot judge this version", sep="=", yellow=True)
    for report in reports:
        terminalreporter.section(report.nodeid, sep="_")
        terminalreporter.write_line(report.longreprtext)


def _asked(item: pytest.Item) -> _Marked | None:
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    params = getattr(getattr(item, "callspec", None), "params", {})
    if MARK not in params:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.{MARK} makes one test a case, which pytest does for plain test functions and classes only; "
            "here (a unittest.TestCase, or a mark that was added later) no case would be judged."
        )
    candidate = mark.kwargs.get("candidate") or item.config.getoption("twiceshy_candidate")
    if candidate is None:
        raise pytest.UsageError(
            f"{item.nodeid}: no candidate. Name one in the mark, candidate=..., or give --twiceshy-candidate NAME."
        )
    return _Marked(params[MARK], str(candidate), mark.kwargs.get("mode", "auto"), mark.kwargs.get("expect", "passed"))


def _judged(item: pytest.Item, asked: _Marked) -> Replayed:
    from twiceshy.errors import TwiceshyError
    from twiceshy.gate import unaccepted

    config = item.config
    if _COURT not in config.stash:
        config.stash[_COURT] = _Court(config.rootpath, config.getoption("twiceshy_trials"))
    try:
        judged = config.stash[_COURT].judge(asked)
    except TwiceshyError as fault:
        pytest.fail(f"twiceshy: {fault}", pytrace=False)
    wrong = [judged.why] if judged.outcome == "error" else [reason.text for reason in unaccepted([judged.result])]
    if wrong:
        pytest.fail(f"ERROR: {'; '.join(wrong)}", pytrace=False)
    return judged
