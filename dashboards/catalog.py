"""The catalog as the pages list it: every signature and every positive case, with what the newest runs came to."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dashboards.published import Publication, Queries
from dashboards.wording import CHANGE_WORDS, OUTCOMES, VERDICT_WORDS
from tasks.contracts import SEVERITIES
from tasks.sign.schema import NONE

_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_ATTENTION = {status: rank for rank, status in enumerate(OUTCOMES)}
_SEVERITY = {severity: rank for rank, severity in enumerate(SEVERITIES)}

HAPPY = "ok"
"""The error code of a call that ended well."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One signature or one positive case. `signature` and `result` are rows of those queries, None where there is none.

    nights: the result of each night of its workflow on which it was judged, oldest first.
    """

    name: str
    workflow: str
    status: str
    signature: Row | None
    result: Row | None
    nights: list[Row]

    @property
    def page(self) -> str:
        """Its page, relative to the site."""
        return f"sig/{slug(self.name)}.html"

    @property
    def case_id(self) -> str | None:
        """The case that is replayed; None where there is none."""
        return (self.result or self.signature or {}).get("case_id")

    @property
    def tool(self) -> str | None:
        """The tool involved."""
        named = (self.signature or {}).get("tool") or (self.result or {}).get("tool")
        return None if named in (None, NONE) else str(named)

    @property
    def error_code(self) -> str:
        """The column of the coverage grid it belongs to."""
        named = (self.signature or {}).get("error_class", NONE)
        return HAPPY if named == NONE else str(named)

    @property
    def why(self) -> str:
        """The first line of what an ERROR was."""
        return str((self.result or {}).get("reason") or "").partition("\n")[0][:160]

    @property
    def escaped(self) -> bool:
        """Covered, and seen in production again."""
        return self.signature is not None and self.signature["state"] == "escaped"

    @property
    def hits(self) -> int:
        """Production traces that show it."""
        return 0 if self.signature is None else int(self.signature["traces"])

    @property
    def severity(self) -> str | None:
        """None for a positive case."""
        return None if self.signature is None else str(self.signature["severity"])

    def over(self, nights: Iterable[str]) -> list[Row | None]:
        """Its result on each of these nights; None where it was not judged."""
        judged = {row["night"]: row for row in self.nights}
        return [judged.get(night) for night in nights]

    @property
    def searched(self) -> str:
        """The text that the filter looks in."""
        told = [self.signature or {}, self.result or {}]
        names = ("invariant_id", "message", "case_id", "trace_id", "case_trace_id", "divergence", "layer", "change")
        words = [
            self.name,
            self.workflow,
            self.tool or "",
            *(str(row[name]) for row in told for name in names if row.get(name)),
        ]
        return " ".join(dict.fromkeys(words)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the newest runs came to, taken together: the worst verdict, and the sums of their counts."""

    verdict: str
    exit_code: int
    counts: dict[str, int]
    newly_covered: int
    newly_lost: int
    changed: dict[str, int]
    nights: list[str]
    runs: list[Row]

    @property
    def headline(self) -> str:
        """The verdict in one line: what a person opens the page for. Where no single case is what it says, its first reason."""
        count = self.counts.get(self.verdict, 0)
        cases = "1 case" if count == 1 else f"{count} cases"
        told = {
            "failed": f"{cases} failed",
            "error": f"{cases} could not be run",
            "diverged": f"{cases} could not be judged",
        }
        told |= {"nothing_judged": "Nothing was judged", "passed": f"All clear: {cases} passed"}
        why = next((run["reasons"] for run in self.runs if run["verdict"] == self.verdict and run["reasons"]), None)
        if not count and self.verdict in ("failed", "error", "diverged") and why:
            return f"{why[0][:1].upper()}{why[0][1:]}"
        total = sum(self.counts.values())
        return f"{count} of {total} cases passed" if self.verdict == "passed" and count < total else told[self.verdict]

    @property
    def compared(self) -> bool:
        """Whether there is a champion to compare with."""
        return any(run["champion_digest"] for run in self.runs)


def slug(name: str) -> str:
    """The file name for a name: its letters and digits, and a short digest, since two names may have the same."""
    return f"{_NOT_SLUG.sub('-', name.lower()).strip('-')[:80]}-{sha256(name.encode()).hexdigest()[:6]}"


def standing(runs: Sequence[Row], results: Iterable[Row]) -> Standing:
    """The standing of the current runs."""
    verdicts = {run["verdict"]: run["exit_code"] for run in runs}
    verdict = next((verdict for verdict in VERDICT_WORDS if verdict in verdicts), "nothing_judged")
    changed = Counter(result["change"] for result in results)
    return Standing(
        verdict=verdict, exit_code=verdicts.get(verdict, 5), counts={name: sum(run[name] for run in runs) for name in OUTCOMES if name != "no_case"},
        newly_covered=sum(run["newly_covered"] for run in runs), newly_lost=sum(run["newly_lost"] for run in runs), changed={change: changed[change] for change in CHANGE_WORDS if changed[change]},
        nights=sorted({run["night"] for run in runs}), runs=list(runs),
    )  # fmt: skip


def entries(queries: Queries, publication: Publication, *, runs: Sequence[str]) -> list[Entry]:
    """Everything in the catalog in the order of a person's attention: outcome, severity, then production hits.

    runs: the newest run of every workflow.
    """
    judged = queries.rows("results", runs=list(runs))
    history = _history(queries, publication)
    signatures = queries.rows("signatures")
    owned = {row["signature"]: _result_of(row, judged) for row in signatures}
    taken = {id(result) for result in owned.values()}
    made = [_of_signature(row, owned[row["signature"]], history) for row in signatures]
    made += [_of_case(result, history) for result in judged if id(result) not in taken]
    return sorted(made, key=_attention)


def _result_of(signature: Row, judged: Sequence[Row]) -> Row | None:
    """The result of a signature's case. A case that was written by hand knows the slug of its signature, not its id."""
    for name, theirs in (("signature", "signature"), ("case_id", "case_id"), ("slug", "slug")):
        found = [result for result in judged if result[theirs] and result[theirs] == signature[name]]
        if found:
            return found[0]
    return None


def _attention(entry: Entry) -> tuple[bool, int, int, int, str]:
    severity = _SEVERITY.get(entry.severity or "", len(_SEVERITY))
    return not entry.escaped, _ATTENTION[entry.status], severity, -entry.hits, entry.name


def _of_signature(row: Row, result: Row | None, history: Mapping[str, list[Row]]) -> Entry:
    status = result["outcome"] if result else "not_run" if row["case_id"] else "no_case"
    return Entry(
        name=row["slug"], workflow=row["workflow"] or "unknown", status=status, signature=row, result=result,
        nights=history.get(row["case_id"] or "", []),
    )  # fmt: skip


def _of_case(result: Row, history: Mapping[str, list[Row]]) -> Entry:
    return Entry(
        name=result["slug"] or result["case_id"], workflow=result["workflow"], status=result["outcome"], signature=None,
        result=result, nights=history.get(result["case_id"], []),
    )  # fmt: skip


def _history(queries: Queries, publication: Publication) -> dict[str, list[Row]]:
    """case_id -> its results, oldest first, one a night."""
    runs = {run["run_id"]: run for run in queries.rows("nights", latest=publication.run_id)}
    found: dict[str, list[Row]] = defaultdict(list)
    for result in queries.asked(
        "select run_id, case_id, night, outcome, change, decided from results order by night, run_id"
    ):
        if run := runs.get(result["run_id"]):
            found[result["case_id"]].append({**result, "versions": run["versions"], "candidate": run["candidate"]})
    return found
