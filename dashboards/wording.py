"""What the pages call things: an icon, a word and a meaning for every outcome, state and alignment, so that colour never says anything alone.

A member without its words breaks at import.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, get_args

from tasks.publish.schema import CELL_STATES, CHANGES, VERDICTS
from tasks.sign.schema import STATES
from twiceshy.aligning import Alignment, Side
from twiceshy.outcome import BoundaryState, Divergence, NotExhaustive, Outcome


class Word(NamedTuple):
    """icon: a symbol of `_icons.html.j2`."""

    icon: str
    word: str
    meaning: str


OUTCOMES: Mapping[str, Word] = {
    "failed": Word("cross", "failed", "an invariant broke"),
    "error": Word("bang", "error", "our fault, not the candidate's: nothing was judged"),
    "diverged": Word("half", "diverged", "the case cannot judge this version"),
    "not_run": Word("dash", "not run", "the case was not judged in this run"),
    "no_case": Word("ring", "no case", "production showed it, but the catalog has no case for it"),
    "passed": Word("check", "passed", "every invariant held"),
}
"""Outcomes of cases and what stands for one where there is none; in the order of a person's attention."""

VERDICT_WORDS: Mapping[str, Word] = {
    "failed": Word("cross", "failed", "a case is red"),
    "error": Word("bang", "error", "nothing is red, but not every case could be run"),
    "diverged": Word("half", "diverged", "nothing is red, but the record cannot judge every case"),
    "nothing_judged": Word("dash", "nothing judged", "no case was selected or judged"),
    "passed": Word("check", "passed", "every judged case passed, or policy allows what did not"),
}
"""In the precedence of exit codes: 1 > 4 > 3 > 5 > 0."""

CELLS: Mapping[str, Word] = {
    "covered": Word("check", "covered", "case and a positive pass, and every break was killed"),
    "unproven": Word("half", "case, unproven", "a case, but a break is missing or not killed, or no positive passes"),
    "gap": Word("cross", "gap", "production runs, but no case"),
    "not_seen": Word("dash", "not seen", "neither production runs nor a case"),
}

CHANGE_WORDS: Mapping[str, Word] = {
    "regressed": Word("cross", "regressed", "it failed, and the champion did not"),
    "new": Word("cross", "newly failing", "it failed, and no champion has judged it"),
    "diverged": Word("half", "no longer judged", "the champion was judged, this version is not"),
    "unjudged": Word("bang", "unjudged", "neither passed nor failed this time"),
    "known": Word("cross", "still failing", "the champion fails it too"),
    "recovered": Word("check", "recovered", "judged again"),
    "fixed": Word("check", "fixed", "the champion failed it, this version does not"),
}

SIGNATURE_WORDS: Mapping[str, str] = {
    "open": "open: not proved yet; its case, a positive of its tool or a break is missing, or did not do its part",
    "covered": "covered: its case passes, and its breaks were killed",
    "escaped": "escaped: covered, and seen in production again",
    "retired": "retired",
}

BOUNDARIES: Mapping[str, Word] = {
    "frozen": Word("frozen", "frozen", "answered from the record"),
    "live": Word("live", "live", "the candidate's own code ran"),
    "intercepted": Word("stop", "intercepted", "a write, noted as an intent and not executed"),
}

SIDES: Mapping[str, str] = {
    "proposed": "what the model or the agent asked for",
    "seen": "what the boundary got, after the hooks before it",
    "raw": "what the boundary returned",
    "shown": "what went back, after the hooks behind it",
    "error": "the error it ended in",
    "blocked_by": "the guard that refused it",
}

ALIGNMENTS: Mapping[str, str] = {
    "same": "same",
    "changed": "changed",
    "only_recorded": "only recorded",
    "only_replayed": "only replayed",
}


DIVERGENCES: Mapping[str, str] = {kind.value: kind.meaning for kind in Divergence}


def _check(table: Mapping[str, object], members: type[StrEnum] | tuple[str, ...] | Mapping[str, int]) -> None:
    if missing := {str(member) for member in members} - set(table):
        raise NotExhaustive(f"no words for {', '.join(sorted(missing))}")


_check(OUTCOMES, Outcome)
_check(VERDICT_WORDS, VERDICTS)
_check(CELLS, CELL_STATES)
_check(CHANGE_WORDS, CHANGES)
_check(SIGNATURE_WORDS, STATES)
_check(BOUNDARIES, BoundaryState)
_check(ALIGNMENTS, Alignment)
_check(SIDES, get_args(Side))
