import pytest

from tasks.sources import faults, templates


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
