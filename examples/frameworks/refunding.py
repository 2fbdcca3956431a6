"""What the refund agents of all frameworks share: the tools' functions, the guard, and the hook of T-1042."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal

from examples.refund.agent import strip_internal_fields
from examples.refund.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy import Boundary

EFFECTS: dict[str, Literal["read"]] = {"get_order": "read", "get_customer": "read", "get_approval": "read"}


class Tools:
    """The shop's tools as a framework reads them: typed functions with a docstring."""

    def __init__(self, shop: Shop | None = None) -> None:
        self._shop = shop or Shop()

    def get_order(self, order_id: str) -> dict[str, Any]:
        """The order with its customer."""
        return self._shop.get_order(order_id=order_id)

    def get_customer(self, email: str) -> dict[str, Any]:
        """The customer with this address."""
        return self._shop.get_customer(email=email)

    def get_approval(self, order_id: str) -> dict[str, Any]:
        """Where the approval of a refund stands."""
        return self._shop.get_approval(order_id=order_id)

    def create_approval(self, order_id: str, amount_gbp: float, reason: str) -> dict[str, Any]:
        """Ask a supervisor."""
        return self._shop.create_approval(order_id=order_id, amount_gbp=amount_gbp, reason=reason)

    def issue_refund(self, order_id: str, amount_gbp: float) -> dict[str, Any]:
        """Pay money back."""
        return self._shop.issue_refund(order_id=order_id, amount_gbp=amount_gbp)

    def send_message(self, to: str, body: str) -> dict[str, Any]:
        """Write to a customer."""
        return self._shop.send_message(to=to, body=body)

    def all(self) -> list[Callable[..., Any]]:
        """Every tool, in order."""
        return [
            function
            for name, function in inspect.getmembers(self, inspect.ismethod)
            if name[0] != "_" and name != "all"
        ]


def hooked(boundary: Boundary) -> None:
    """The hook that strips the limit, so that the model never learns it."""
    boundary.hook("strip_internal_fields", strip_internal_fields, after="get_order")


def guarded(boundary: Boundary) -> None:
    """The guard that the repaired agent has: nothing above 500 GBP without an approval."""
    boundary.guard("refund-approval", _within_limit, before="issue_refund")


def _within_limit(asked: dict[str, Any]) -> str | None:
    limit = 500
    if asked["amount_gbp"] > limit:
        return f"{asked['amount_gbp']} GBP is above the limit of {limit} GBP and has no approval token"
    return None
