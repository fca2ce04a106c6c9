"""The GPUs of a service as its own pods see them, where a site allows it: a real API server, a played kubelet."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.pod_facts import read_pod
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.features.tuner.deployments.service_gpus import ServiceGpus
from corral.features.tuner.measuring.gpu_sampler import ReadGpus
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.manifests import pod
from tests.features.services.test_gpu_discovery import eventually


def test_a_service_whose_node_has_no_exporter_is_asked_itself(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-a, 61, 100, 1000, 50, 250.5, 1410'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    kubelet = Kubelet(cluster, f"own-{namespace}", tmp_path / "kubelet", gpus=4)
    kubelet.start()
    wanted = pod("llama", namespace, gpus=1, node=kubelet.name)
    wanted["spec"]["containers"][0]["command"] = ["sleep", "600"]
    cluster.create(PODS, wanted)
    eventually(lambda: cluster.get(PODS, "llama", namespace)["status"]["phase"], "Running")
    served = read_pod(cluster.get(PODS, "llama", namespace))

    def read(gpus: ServiceGpus) -> ReadGpus:
        return gpus.readings(0.0, time.time())

    with closing(ServiceGpus(cluster, ReadingSources(exec_nvidia_smi=True), lambda: [served])) as gpus:
        eventually(lambda: [device.label for device in read(gpus)], ["0"])
        (readings,) = read(gpus).values()
    kubelet.close()
    cluster.delete(NODES, kubelet.name)
    assert [value for value in readings[0].values if value is not None] == [61, 100, 50, 250.5, 1410]
