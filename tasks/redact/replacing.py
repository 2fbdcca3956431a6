"""The second walk over a trace: every value replaced by rule, every text by what was found in the first walk."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from tasks.redact.findings import effective_rule, reference_for
from tasks.redact.texts import DROPPED
from twiceshy.redaction import RESTRICTED
from twiceshy.redaction.redactor import takes_whole

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from tasks.redact.findings import Findings
    from tasks.redact.places import Default
    from tasks.redact.texts import Texts
    from twiceshy.redaction import FieldRule, Redactor

# Edges of the bands, as multiples of what an amount is compared with, and the multiple that stands for each band.
_BANDS = ((0.5, 0.25), (1.0, 0.75), (1.5, 1.25), (2.0, 1.75))
_ABOVE = 3.0


class Replacing:
    """The visitor of the second walk."""

    def __init__(
        self,
        redactor: Redactor,
        findings: Findings,
        texts: Texts,
        counts: Counter[tuple[str, str, str, str]],
        shown: Callable[[str], str],
    ) -> None:
        self._redactor = redactor
        self._findings = findings
        self._texts = texts
        self._counts = counts
        self._shown = shown
        self.root = ""
        self.default: Default = "hold"
        self.dated = True
        self.done: dict[str, str] = {}
        """Place, with no key that is a value -> action, of the payloads walked since it was last emptied."""
        self.renamed: dict[str, str] = {}

    def dropped(self, place: str) -> bool:
        """Whether a rule drops it."""
        rule = self._redactor.policy.rule(place)
        if rule is None or rule.action != "drop":
            return False
        self._did(rule, place)
        return True

    def whole(self, place: str) -> bool:
        """Whether a rule takes it as one value."""
        return takes_whole(effective_rule(self._redactor.policy, place))

    def leaf(self, place: str, value: Any, depth: int) -> Any:  # noqa: ARG002 - the walk's protocol
        """The leaf by its rule; without one, as free text."""
        rule = effective_rule(self._redactor.policy, place)
        if rule is None or rule.action == "keep":
            return self._free(place, value, ruled=rule is not None)
        return self.ruled(rule, place, value)

    def ruled(self, rule: FieldRule, place: str, value: Any) -> Any:
        """What a rule makes of a value; null stays null."""
        if value is None or rule.action == "keep":
            return value
        self._did(rule, place)
        if rule.action == "synthesize":
            return self._redactor.pseudonymized(rule.type or "", value)
        if rule.action == "generalize":
            return self._generalized(rule, place, value)
        return RESTRICTED

    def name(self, place: str, key: str) -> str:
        """The key by its rule; without one, as free text."""
        rule = self._redactor.policy.rule(place)
        if rule is not None and rule.action == "synthesize":
            self._did(rule, place)
            new = self._redactor.pseudonym_in(rule.type or "", key)
        elif rule is not None and rule.action in {"drop", "restrict"}:
            self._did(rule, place)
            new = RESTRICTED
        else:
            new = self._texts.redacted(key, dated=self.dated)
        if new != key:
            self.renamed[key] = new
        return new

    def _free(self, place: str, value: Any, *, ruled: bool) -> Any:
        if self.default == "drop" and not ruled and place != self.root and not isinstance(value, bool | None):
            self._counts["unknown", "", "drop", ""] += 1
            return DROPPED
        if isinstance(value, str):
            return self._texts.redacted(value, dated=self.dated)
        if isinstance(value, bytes):
            return self._bytes(value)
        return self._texts.moved(value) if isinstance(value, date) and self.dated else value

    def _bytes(self, value: bytes) -> bytes:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        return self._texts.redacted(text, dated=self.dated).encode()

    def _generalized(self, rule: FieldRule, place: str, value: Any) -> Any:
        if rule.band is not None:
            reference = reference_for(self._findings, rule.band.relative_to, place)
            is_amount = isinstance(value, int | float) and not isinstance(value, bool)
            return banded(value, reference) if is_amount and reference is not None else RESTRICTED
        if rule.to == "year_band_5":
            return self._texts.redacted(str(value)) if isinstance(value, str) else RESTRICTED
        return self._texts.moved(value)

    def _did(self, rule: FieldRule, place: str) -> None:
        self._counts["field", rule.type or "", rule.action, rule.path] += 1
        self.done[self._shown(place)] = rule.action


def banded(amount: float, reference: float) -> float:
    """An amount that stands to `reference` as this one does: equal, or in the same band of multiples of it. An int stays an int."""
    if amount == reference:
        return amount
    if reference == 0:
        return 1 if amount > 0 else -1
    ratio = amount / reference
    if ratio <= 0:
        made = 0 if ratio == 0 else -0.5 * reference
    else:
        made = reference * next((stand for edge, stand in _BANDS if ratio < edge), _ABOVE)
    return round(made) if isinstance(amount, int) and abs(made) > len(_BANDS) else made
