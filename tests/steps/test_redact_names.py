"""Names that an id spells."""

import re

import pytest

from redacting import a_call, a_redaction_policy, a_request, everything, holds, redacted, rule

SPELLED = r"(?P<first_name>[a-z]+)(?:_[a-z]+)*_(?P<last_name>[a-z]+)_\d{4}"


@pytest.mark.parametrize("where", ["field", "text"])
def test_name_that_an_id_spells_is_gone_where_nobody_was_looked_up(where: str) -> None:
    policy = a_redaction_policy(
        rule("tool.*.**.user_id", "user_id", pattern=SPELLED), detectors={"user_id": "synthesize"}
    )
    asked = {"user_id": "mia_jo_kovacs_3668"} if where == "field" else {"id": "O1"}
    spoken = "I am Mia Kovacs." if where == "field" else "I am Mia Kovacs, mia_jo_kovacs_3668."
    result = redacted(a_call(0, "get_order", asked, {"status": "open"}), a_request(1, ("user", spoken)), policy=policy)
    assert holds(result) == []
    assert not re.search("mia|kovacs", everything(result), re.IGNORECASE)


def test_id_whose_pattern_names_no_groups_spells_no_name() -> None:
    policy = a_redaction_policy(rule("tool.*.**.user_id", "user_id", pattern=r"[a-z]+_[a-z]+_\d{4}"))
    result = redacted(
        a_call(0, "get_order", {"user_id": "red_panda_3668"}, {"status": "open"}),
        a_request(1, ("user", "A red panda?")),
        policy=policy,
    )
    assert "A red panda?" in everything(result)
