"""A small agent with a shop behind it: find (read), pay (write), a planner; recorded and replayed inside this process."""

from collections.abc import Callable
from typing import Any

from builders import a_policy, recorded, replayed
from twiceshy.boundary import Boundary
from twiceshy.envelope import Envelope
from twiceshy.outcome import Divergence
from twiceshy.transcript import Transcript

POLICY = a_policy(find="read", add="none")
Agent = Callable[[Any], Any]


class Shop:
    """A live system that counts how often it is reached."""

    def __init__(self) -> None:
        self.reached = 0
        self.slots = {"thu": [], "fri": ["9:00"]}

    def find(self, day: str) -> list[str]:
        self.reached += 1
        return self.slots[day]

    def pay(self, amount: int, note: str = "none") -> dict[str, Any]:
        self.reached += 1
        return {"ok": True, "amount": amount, "note": note}


def plan(request: dict[str, Any]) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": f"step {len(request['messages'])}"}]}


def build_with(body: Callable[..., Any], shop: Shop | None = None, **extra: Any) -> Callable[[Boundary], Agent]:
    """An agent with find, pay, add, a planner, and a body that gets them."""
    shop = shop or Shop()

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", shop.find, effect="read")
        pay = boundary.tool("pay", shop.pay)
        planner = boundary.model("planner", plan)
        for name, declare in extra.items():
            declare(boundary, name)
        return lambda user: body(user, find, pay, planner)

    return build


def usual(user: Any, find: Any, pay: Any, planner: Any) -> Any:
    planner({"messages": [user]})
    found = find(day="thu")
    planner({"messages": [user, found]})
    return [found, pay(amount=100)]


def record(body: Callable[..., Any] = usual, **extra: Any) -> Envelope:
    return recorded(build_with(body, **extra), policy=POLICY)


def replay(envelope: Envelope, body: Callable[..., Any] = usual, **given: Any) -> Transcript:
    shop = Shop()
    extra = {name: given.pop(name) for name in list(given) if name.startswith("with_")}
    told = replayed(build_with(body, shop, **extra), envelope, **{"policy": POLICY, **given})
    assert shop.reached == 0, "a replay reached the live system"
    return told


def diverged(told: Transcript) -> Divergence | None:
    return told.divergence.kind if told.divergence else None
