"""The doctor says which nodes with GPUs have no agent that runs."""

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.doctor import Examined, ServerHere
from corral.engines.kubernetes.inventory.cluster_gpus import NodeGpus
from corral.features.agent_reports.agent_check import check_agents
from corral.formatting.check_result import OK, WARNING
from tests.engines.kubernetes.agent_reports.agents import ACCOUNT, make_agent_pod


def test_each_node_with_gpus_is_to_have_an_agent_that_runs(cluster: Cluster, namespace: str) -> None:
    nodes = [NodeGpus(name, 8, 8) for name in ("gpu-of-no-kubelet-0", "gpu-of-no-kubelet-1")]
    examined = Examined(cluster, None, nodes, ServerHere(agent_account=f"{namespace}/{ACCOUNT}"))

    found = check_agents(examined)
    assert (found.state, "there are none" in found.found) == (OK, True)

    make_agent_pod(cluster, namespace, "stranger", nodes[1].node_name, account="other")
    make_agent_pod(cluster, namespace, "agent-0", nodes[0].node_name)
    found = check_agents(examined)
    assert (found.state, found.found) == (WARNING, f"none on {nodes[1].node_name}, which have GPUs")

    make_agent_pod(cluster, namespace, "agent-1", nodes[1].node_name)
    found = check_agents(examined)
    assert (found.state, found.found) == (OK, "2 agents, on every node with GPUs")

    waiting = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 3}
    waiting["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    cluster.patch(PODS, "agent-1", {"status": {"containerStatuses": [waiting]}}, namespace, subresource="status")
    found = check_agents(examined)
    assert (found.state, found.found) == (WARNING, f"{nodes[1].node_name}: CrashLoopBackOff")
    assert found.advice == f"kubectl --namespace {namespace} logs --previous agent-1"
