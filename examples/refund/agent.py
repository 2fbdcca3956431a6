"""The refund agent's own code: its prompt, tools, the hook after get_order and the guard before issue_refund."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from examples.loop import Ended, Offer, arguments, as_told, converse
from examples.refund.planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.refund.shop import Shop
    from twiceshy import Boundary

    Record = dict[str, Any]

PROMPT_NAME = "refund-agent"
PROMPT = """You answer customers of a shop. Look an order up before you act on it. End with JSON: status, message.
- A refund above policy_limit_gbp needs an approval token: create an approval and say that it is pending.
- Write to the customer about what was done.
"""
PROMPTS = {"7": PROMPT}
"""The prompt by its version: one for all versions of the agent."""

_ORDER_ID = {"type": "string", "pattern": "^[A-Z][0-9]{3,6}$"}
_AMOUNT = {"type": "number", "exclusiveMinimum": 0}
_TEXT = {"type": "string"}


SCHEMAS: dict[str, Record] = {
    "get_order": arguments(order_id=_ORDER_ID),
    "get_customer": arguments(email=_TEXT),
    "get_approval": arguments(order_id=_ORDER_ID),
    "create_approval": arguments(order_id=_ORDER_ID, amount_gbp=_AMOUNT, reason=_TEXT),
    "issue_refund": arguments({"approval_token": {**_TEXT, "minLength": 1}}, order_id=_ORDER_ID, amount_gbp=_AMOUNT),
    "send_message": arguments(to=_TEXT, body=_TEXT),
}
READS = frozenset({"get_order", "get_customer", "get_approval"})


def strip_internal_fields(order: Record) -> Record:
    """The order without what customers must not see. The bug: the refund limit goes too, and the model never learns it."""
    internal = {"policy_limit_gbp", "margin_pct", "fraud_score", "internal_notes"}
    return {name: value for name, value in order.items() if name not in internal}


def strip_private_fields(order: Record) -> Record:
    """The order without what customers must not see; the refund limit stays for the model."""
    private = {"margin_pct", "fraud_score", "internal_notes"}
    return {name: value for name, value in order.items() if name not in private}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What differs between the versions of this agent. The prompt, the model and the offered tools are the same in all."""

    hook: Callable[[Record], Record] = strip_internal_fields
    guarded: bool = False
    approvals: bool = True
    """Off: approvals were retired, so the loop answers create_approval itself."""
    refunds: bool = True
    """Off: the loop drops refund proposals and apologises."""


def build(boundary: Boundary, shop: Shop, design: Design) -> Callable[[Record], Record]:
    """The agent: {"message": text} in, {"status", "message"} out."""
    tools = {
        name: boundary.tool(name, getattr(shop, name), effect="read" if name in READS else "write", schema=schema)
        for name, schema in SCHEMAS.items()
    }
    boundary.hook("strip_internal_fields", design.hook, after="get_order")
    shown: dict[str, dict[str, Record]] = {"get_order": {}, "get_approval": {}}
    if design.guarded:
        boundary.guard(
            "refund-approval", _refund_approval(shown["get_order"], shown["get_approval"]), before="issue_refund"
        )
    for name, noted in shown.items():
        tools[name] = _noting(tools[name], noted)
    if not design.approvals:
        tools["create_approval"] = _not_required
    if not design.refunds:
        tools["issue_refund"] = _apologise
    offers = {name: Offer(tools[name], schema) for name, schema in SCHEMAS.items()}
    planner = boundary.model("planner", plan, prompt=PROMPT)

    def agent(user: Record) -> Record:
        system = f"{PROMPT}Now: {as_told(boundary.now())}."
        return converse(planner, offers, system=system, user=user["message"])

    return agent


def _noting(tool: Callable[..., Record], noted: dict[str, Record]) -> Callable[..., Record]:
    """The tool, with what it showed kept by order for the guard."""

    def call(**asked: Any) -> Record:
        noted[str(asked.get("order_id"))] = record = tool(**asked)
        return record

    return call


def _refund_approval(orders: dict[str, Record], approvals: dict[str, Record]) -> Callable[[Record], str | None]:
    """The guard before issue_refund. It fails closed: no known limit, no refund; a token counts only if it was granted."""

    def refund_approval(asked: Record) -> str | None:
        order_id, amount = str(asked.get("order_id")), asked.get("amount_gbp")
        limit = orders.get(order_id, {}).get("policy_limit_gbp")
        if not isinstance(limit, int | float) or not isinstance(amount, int | float):
            return "the refund limit of this order is not known"
        granted = approvals.get(order_id, {}).get("token")
        if amount > limit and (granted is None or asked.get("approval_token") != granted):
            return f"{amount} GBP is above the limit of {limit} GBP and has no approval token"
        return None

    return refund_approval


def _not_required(**_: Any) -> Record:
    return {"status": "not_required"}


def _apologise(**_: Any) -> Record:
    raise Ended({"status": "apologised", "message": "We are very sorry for the trouble with your order."})
