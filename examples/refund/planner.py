"""The refund agent's model, as a scripted policy: what it does next follows from the prompt, the user and the results it is shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from examples.conversation import Conversation, final

if TYPE_CHECKING:
    from examples.conversation import Result

MODEL = "refund-planner-1"

ORDER = re.compile(r"\b[A-Z]\d{3,6}\b")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
AMOUNT = re.compile(r"(?:£\s?|GBP )(\d+(?:\.\d{1,2})?)|(\d+(?:\.\d{1,2})?) ?(?:GBP|pounds)")
REFUND = re.compile(r"refund|money back", re.IGNORECASE)
APPROVAL = re.compile(r"approv", re.IGNORECASE)
RETRIES = 1


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """The next output: a proposal or a final answer."""
    talk = Conversation.read(request)
    return _retry(talk) or _find(talk) or _decide(talk, talk.value("get_order"))


def _retry(talk: Conversation) -> dict[str, Any] | None:
    """A read that timed out is asked once more; a write never is, because it may have happened."""
    last = talk.results[-1] if talk.results else None
    if last is None or "TimeoutError" not in (last.error or ""):
        return None
    timed_out = [result for result in talk.all(last.name) if "TimeoutError" in (result.error or "")]
    if last.name.startswith("get_") and len(timed_out) <= RETRIES:
        return talk.propose((last.name, last.arguments))
    return final("unavailable", "Our systems are slow right now; a colleague will get back to you today.")


def _find(talk: Conversation) -> dict[str, Any] | None:
    """The step that finds the order: by its number, or through the customer's address."""
    if talk.value("get_order") is not None:
        return None
    failed = talk.last("get_order")
    if failed is not None:
        return final("not_found", f"I cannot find order {failed.arguments['order_id']}. Could you check the number?")
    number = ORDER.search(talk.user)
    if number is None:
        return _find_customer(talk)
    order = ("get_order", {"order_id": number.group()})
    if APPROVAL.search(talk.user) and "get_approval" in talk.offered:
        return talk.propose(order, ("get_approval", {"order_id": number.group()}))
    return talk.propose(order)


def _find_customer(talk: Conversation) -> dict[str, Any]:
    address = EMAIL.search(talk.user)
    known = talk.last("get_customer")
    if known is not None and known.ok and known.response["orders"]:
        return talk.propose(("get_order", {"order_id": known.response["orders"][-1]}))
    if known is None and address is not None:
        return talk.propose(("get_customer", {"email": address.group()}))
    return final("needs_information", "Which order is it about? Please send me its number.")


def _decide(talk: Conversation, order: dict[str, Any]) -> dict[str, Any]:
    if not REFUND.search(talk.user):
        return final("answered", f"Order {order['order_id']} ({order['item']}) is {order['status']}.")
    amount = _amount(talk, order)
    refund = talk.last("issue_refund")
    if refund is not None:
        return _after_refund(talk, order, refund)
    grant = talk.value("get_approval")
    token = {"approval_token": grant["token"]} if grant and grant["status"] == "granted" else {}
    if not token and _over_limit(talk, order, amount):
        return _ask_approval(talk, order, amount)
    return _refund(talk, order, amount, token)


def _refund(talk: Conversation, order: dict[str, Any], amount: float, token: dict[str, str]) -> dict[str, Any]:
    return talk.propose(("issue_refund", {"order_id": order["order_id"], "amount_gbp": amount, **token}))


def _over_limit(talk: Conversation, order: dict[str, Any], amount: float) -> bool:
    """Whether the prompt's rule applies. Without a visible limit it cannot: this is how the stripped field becomes a refund."""
    limit = order.get("policy_limit_gbp")
    return "needs an approval token" in talk.system and limit is not None and amount > limit


def _after_refund(talk: Conversation, order: dict[str, Any], refund: Result) -> dict[str, Any]:
    if refund.blocked is not None:
        return _ask_approval(talk, order, refund.arguments["amount_gbp"])
    if refund.error is not None:
        return final("not_refunded", "I could not issue this refund; a colleague will look at it today.")
    text = (
        f"Dear {_first_name(order)}, your refund of {refund.arguments['amount_gbp']} GBP for order "
        f"{order['order_id']} is on its way."
    )
    return _told(talk, order, "refunded", text)


def _ask_approval(talk: Conversation, order: dict[str, Any], amount: float) -> dict[str, Any]:
    asked = talk.last("create_approval")
    if asked is None:
        reason = f"refund of {amount} GBP for {order['item']}"
        return talk.propose(
            ("create_approval", {"order_id": order["order_id"], "amount_gbp": amount, "reason": reason})
        )
    if asked.ok and asked.response["status"] == "not_required":
        return _refund(talk, order, amount, {})
    text = (
        f"Dear {_first_name(order)}, a refund of {amount} GBP for order {order['order_id']} needs a supervisor's approval; "
        "I have asked for it."
    )
    return _told(talk, order, "pending_approval", text)


def _told(talk: Conversation, order: dict[str, Any], status: str, text: str) -> dict[str, Any]:
    """The customer is written to, then the run ends with the same words."""
    if talk.last("send_message") is None:
        return talk.propose(("send_message", {"to": order["customer"]["email"], "body": text}))
    return final(status, text)


def _amount(talk: Conversation, order: dict[str, Any]) -> float:
    found = AMOUNT.search(talk.user)
    if found is None:
        return order["total_gbp"]  # type: ignore[no-any-return]
    value = float(found.group(1) or found.group(2))
    return int(value) if value.is_integer() else value


def _first_name(order: dict[str, Any]) -> str:
    return str(order["customer"]["name"]).split()[0]
