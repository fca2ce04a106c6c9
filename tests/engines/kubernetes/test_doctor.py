"""`corral doctor --engine kubernetes` tells how a real cluster stands, and what mends it."""

import subprocess
import sys
from pathlib import Path

import pytest

from corral.core.model.errors import Forbidden
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.pod_facts import read_pod
from corral.engines.kubernetes.cluster.resource import NAMESPACES, NODES, PODS
from corral.engines.kubernetes.cluster.rights import RUNNING_JOBS, SEEING, require_rights
from corral.engines.kubernetes.doctor import examine
from corral.formatting.check_result import FAILURE, OK, WARNING, CheckResult
from tests.engines.kubernetes.binding.site import pod_of_others, site
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node


def findings(cluster: Cluster) -> dict[str, CheckResult]:
    return {finding.about: finding for finding in examine(cluster)}


def test_an_administrator_is_told_of_nodes_pods_and_readings(cluster: Cluster, namespace: str) -> None:
    make_node(cluster, f"doctor-{namespace}", gpus=4)
    waiting = pod("waits", namespace, gpus=2)
    cluster.create(PODS, waiting)
    found = findings(cluster)
    assert found["rights"].state == OK
    assert found["nodes"].state in (OK, WARNING)
    assert "of which no pod has asked for" in found["nodes"].found
    assert found["readings"].state == WARNING
    assert "dcgm-exporter" in found["readings"].advice
    assert found["pods"].state == WARNING
    assert "waiting" in found["pods"].found


def test_pods_that_corral_has_not_queued_are_told_with_the_reason(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    first = f"a-{namespace}"
    cluster.create(NAMESPACES, {"metadata": {"name": first}})
    with site(cluster, namespace, tmp_path / "home", nodes=1) as place:
        part = pod_of_others("part", namespace, gpus=0, annotations={"gpu-fraction": "0.5"})
        for one in (part, pod_of_others("waits", namespace, gpus=9)):
            # The first by name are told, and other tests have pods in this cluster too.
            one["metadata"]["namespace"] = first
            cluster.create(PODS, one, first)
        place.eventually(lambda: f"{first}/part: gpu-fraction" in told(cluster) and why_waits(cluster, first) != "")
    assert why_waits(cluster, first) == "Unschedulable"
    assert f"{first}/waits" not in told(cluster)
    for name in ("part", "waits"):
        cluster.delete(PODS, name, first)


def told(cluster: Cluster) -> str:
    return findings(cluster)["queued"].found


def why_waits(cluster: Cluster, namespace: str) -> str:
    found = read_pod(cluster.get(PODS, "waits", namespace)).condition("PodScheduled")
    return "" if found is None else found.reason or ""


def test_gpus_that_are_unhealthy_and_nodes_that_are_closed_are_named(cluster: Cluster, namespace: str) -> None:
    # The first by name are told, and other tests have nodes in this cluster too.
    name = f"a-{namespace}"
    make_node(cluster, name)
    cluster.patch(NODES, name, {"status": {"allocatable": {"nvidia.com/gpu": "6"}}}, subresource="status")
    cluster.patch(NODES, name, {"spec": {"unschedulable": True}})
    found = findings(cluster)
    assert found["nodes"].state == WARNING
    assert "unhealthy ones on" in found["nodes"].found
    assert found["taints"].state in (WARNING, FAILURE)
    cluster.delete(NODES, name)


def test_slices_that_corral_does_not_give_out_are_named(cluster: Cluster, namespace: str) -> None:
    name = f"a-{namespace}"
    make_node(cluster, name, gpus=0)
    slices = {"nvidia.com/mig-1g.10gb": "14"}
    cluster.patch(NODES, name, {"status": {"capacity": slices, "allocatable": slices}}, subresource="status")
    found = findings(cluster)["slices"]
    assert found.state == WARNING
    assert f"gets nvidia.com/mig-1g.10gb of {name}" in found.found
    cluster.delete(NODES, name)


def test_who_has_no_rights_is_told_which_and_nothing_is_guessed(control_plane: ControlPlane, tmp_path: Path) -> None:
    nobody = control_plane.connect(tmp_path, NOBODY)
    found = findings(nobody)
    nobody.close()
    assert found["rights"].state == FAILURE
    assert "to know GPUs: list nodes, watch nodes, list pods, watch pods" in found["rights"].found
    assert "ClusterRole" in found["rights"].advice
    assert "nodes" not in found


def test_the_documented_role_lets_a_server_do_all_that_is_looked_for(cluster_of_corral: Cluster) -> None:
    assert findings(cluster_of_corral)["rights"].state == OK


def test_every_right_without_which_a_server_does_not_start_is_looked_for(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    nobody = control_plane.connect(tmp_path, NOBODY)
    found = findings(nobody)["rights"].found
    with pytest.raises(Forbidden) as refused:
        require_rights(nobody)
    nobody.close()
    for right in (*SEEING, *RUNNING_JOBS):
        assert str(right) in found
        assert str(right) in str(refused.value)
    assert "to bind pods of others: create pods/binding" in found


def test_a_namespace_that_is_not_there_is_a_failure(control_plane: ControlPlane, tmp_path: Path) -> None:
    missing = f"no-{tmp_path.name}"[:40].replace("_", "-").lower().rstrip("-")
    kubeconfig = control_plane.kubeconfig(tmp_path / "config", namespace=missing)
    elsewhere = Cluster.connect(str(kubeconfig))
    found = findings(elsewhere)["namespace"]
    elsewhere.close()
    assert found.state == FAILURE
    assert f"kubectl create namespace {missing}" in found.advice


@pytest.mark.parametrize(("user", "code"), [("admin", (0, 1)), ("nobody", (1,))])
def test_the_command_prints_each_check_and_exits_by_the_worst(
    control_plane: ControlPlane, tmp_path: Path, user: str, code: tuple[int, ...]
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "config", user)
    command = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())", "doctor"]
    told = subprocess.run(
        [*command, "--engine", "kubernetes", "--kubeconfig", str(kubeconfig)], capture_output=True, text=True
    )
    assert told.returncode in code, told.stderr
    assert "Kubernetes 1." in told.stdout
    assert ("FAILURE" in told.stdout or "failure" in told.stdout) == (told.returncode == 1)


def test_no_cluster_is_one_line_with_advice(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: x, user: {token: t}}]\n"
    )
    (only,) = examine(Cluster.connect(str(config)))
    assert (only.about, only.state) == ("cluster", FAILURE)
    assert "127.0.0.1:9" in only.found
