"""The check of agents for `corral doctor`: whether each node with GPUs has one that runs."""

from collections.abc import Mapping
from typing import Any

from corral.core.model.units import count_of
from corral.engines.kubernetes.agent_reports.agent_pods import agent_pods_of
from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.objects import mapping, sequence, text
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.doctor import SHOWN, Examined, more_of
from corral.formatting.check_result import OK, WARNING, CheckResult


def check_agents(examined: Examined) -> CheckResult:
    """Check the agents. A cluster without any is well: its GPUs are counted."""
    keep = agent_pods_of(examined.here.agent_account)
    namespace = examined.here.agent_account.partition("/")[0]
    items = examined.cluster.list(PODS, Selection(namespace=namespace))
    agents = {agent.node: (agent, _trouble(item)) for item in items if (agent := keep(item)) is not None}
    if not agents:
        return CheckResult("agents", OK, "there are none, so GPUs are counted and not known one by one")
    broken = [(agent, why) for _, (agent, why) in sorted(agents.items()) if why is not None]
    if broken:
        agent, why = broken[0]
        advice = f"kubectl --namespace {agent.namespace} logs --previous {agent.name}"
        return CheckResult("agents", WARNING, f"{_some([one.node for one, _ in broken])}: {why}", advice)
    without = sorted(one.node_name for one in examined.nodes if one.node_name not in agents)
    if without:
        advice = "look at the DaemonSet's node selector and tolerations; GPUs of nodes without an agent are counted"
        return CheckResult("agents", WARNING, f"none on {_some(without)}, which have GPUs", advice)
    return CheckResult("agents", OK, f"{count_of(len(agents), 'agent')}, on every node with GPUs")


def _trouble(item: Mapping[str, Any]) -> str | None:
    """Return why the containers of an agent's pod do not run; None if they do, or begin."""
    for container in sequence(mapping(item.get("status")).get("containerStatuses")):
        state = mapping(container.get("state"))
        stopped = mapping(state.get("waiting")) or mapping(state.get("terminated"))
        reason = text(stopped.get("reason"))
        if reason is not None and reason != "ContainerCreating":
            return reason
    return None


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + more_of(len(names))
