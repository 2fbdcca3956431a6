"""All six incidents, by name."""

from benchmarks.incidents_agents import deletion, invoice, mailing, payout, refund, trade
from benchmarks.incidents_agents.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    module.SCENARIO.name: module.SCENARIO for module in (refund, invoice, trade, mailing, payout, deletion)
}
