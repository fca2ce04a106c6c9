"""The pods of agents are those of one service account, on a node, that have not ended."""

from typing import Any

from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod, agent_pods_of

keep = agent_pods_of("corral-system/corral-agent")


def pod(*, namespace: str = "corral-system", account: str = "corral-agent", **more: Any) -> dict[str, Any]:
    spec = {"serviceAccountName": account, "nodeName": more.get("node", "gpu-07")}
    metadata = {"namespace": namespace, "name": "agent-x", "uid": "u1"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": more.get("phase", "Running")}}


def test_a_pod_of_the_account_is_kept_with_its_node() -> None:
    assert keep(pod()) == AgentPod("corral-system", "agent-x", "u1", "gpu-07")


def test_pods_of_other_accounts_and_namespaces_are_none() -> None:
    assert keep(pod(account="default")) is None
    assert keep(pod(namespace="team-a")) is None


def test_a_pod_without_a_node_and_one_that_has_ended_are_none() -> None:
    assert keep(pod(node="")) is None
    assert keep(pod(phase="Failed")) is None
    assert keep({"metadata": None, "spec": [], "status": 3}) is None
