"""The control plane that tests stand on is a whole one."""

import time
from pathlib import Path

import yaml

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.manifests import JOBS, pod
from tests.engines.kubernetes.nodes import make_node

PATIENCE_S = 90.0


def test_controllers_make_the_pods_of_a_job_and_kube_scheduler_binds_them(
    own_control_plane: Processes, tmp_path: Path
) -> None:
    plane = own_control_plane.plane
    cluster = plane.connect(tmp_path)
    kubeconfig = plane.kubeconfig(tmp_path / "programs.kubeconfig")
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig)},
                "leaderElection": {"leaderElect": False},
            }
        )
    )
    make_node(cluster, "n1")
    own_control_plane.start_controller_manager(kubeconfig)
    own_control_plane.start_scheduler(configuration)
    template = {"spec": pod("", "default", gpus=1)["spec"]}
    cluster.create(JOBS, {"metadata": {"name": "train", "namespace": "default"}, "spec": {"template": template}})
    until = time.monotonic() + PATIENCE_S
    while [one["spec"].get("nodeName") for one in cluster.list(PODS, Selection("default"))] != ["n1"]:
        assert time.monotonic() < until, (tmp_path / "control-plane" / "kube-scheduler.log").read_text()[-2000:]
        time.sleep(0.1)
    cluster.close()
