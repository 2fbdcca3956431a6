"""Every word that a run can come to has a meaning, and a word without one breaks at import."""

import pytest

from twiceshy.outcome import Divergence, NotExhaustive, Outcome, _check


def test_every_kind_has_its_meaning() -> None:
    assert all(kind.meaning for kind in (*Outcome, *Divergence))


@pytest.mark.parametrize("kinds", [Outcome, Divergence])
def test_a_kind_without_a_meaning_is_refused(kinds: type[Outcome] | type[Divergence]) -> None:
    table = {kind: kind.meaning for kind in kinds}
    _check(table, kinds)
    table.popitem()
    with pytest.raises(NotExhaustive, match=f"{kinds.__name__}: .* without a meaning"):
        _check(table, kinds)
