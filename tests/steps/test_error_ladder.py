import pytest

from tasks.sources import faults, templates
from tasks.sources.templates import parameterised


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("payment method gift_card_7504069 not found", "payment method <id> not found"),
        ("total price is 1002, but paid 957.50", "total price is <int>, but paid <float>"),
        ("no seat on 2024-05-20T10:00:00Z or May 3, 2024", "no seat on <date> or <date>"),
        ("mail ann@example.com via https://x.test/a?b=1", "mail <email> via <url>"),
        ("10.0.0.1:80 did not answer in 30 s", "<ip> did not answer in <duration>"),
        ("request 123e4567-e89b-12d3-a456-426614174000 failed", "request <uuid> failed"),
        ("KeyError: 'limit'", "KeyError: 'limit'"),
        ("reason='out of stock' at 0x7f", "reason=<quoted> at <hex>"),
        ('{"code": "E_X", "n": 5}', '{"code": <quoted>, "n": <int>}'),
    ],
)
def test_parameters_are_taken_out(text: str, template: str) -> None:
    assert parameterised(text) == template
    assert parameterised(template) == template


def test_names_of_the_schema_are_no_parameters() -> None:
    assert parameterised("field order_id2 of A1042", keep={"order_id2"}) == "field order_id2 of <id>"


@pytest.mark.parametrize(
    ("result", "code", "rung"),
    [
        ("Error: user not found", templates.code("t", "user not found"), "text"),
        ("TimeoutError: 30 s", "timeout", "text"),
        ({"error": "user not found"}, templates.code("t", "user not found"), "structured"),
        ({"error": {"code": "PERMISSION_DENIED", "message": "no"}}, "permission", "structured"),
        ({"error": {"type": "E_FUNDS"}}, "E_FUNDS", "structured"),
        ({"exit_code": 2}, "exit_2", "structured"),
        ({"is_error": True, "content": "user not found"}, templates.code("t", "user not found"), "structured"),
        ({"response_status": "Error"}, templates.code("t", "error"), "structured"),
    ],
)
def test_returned_error_is_found(result: object, code: str, rung: str) -> None:
    fault = faults.returned("t", result)
    assert fault is not None
    assert (fault.cls, fault.code, fault.source, fault.definite) == (faults.RETURNED, code, rung, None)


@pytest.mark.parametrize(
    "result",
    [
        "No error: all is well",
        "errors were found",
        {"error": None},
        {"exit_code": 0},
        {"status": "failed"},
        {"is_error": False},
        ["Error: x"],
        None,
        7,
    ],
)
def test_other_results_are_no_errors(result: object) -> None:
    assert faults.returned("t", result) is None


def test_first_rung_names_base_vocabulary() -> None:
    assert [
        faults.typed(kind, "").code for kind in ("httpx.ReadTimeout", "_OTHER", "PermissionError", "shop.Broken")
    ] == ["timeout", "unknown", "permission", "Broken"]
    assert faults.bare("").code == "unknown"
