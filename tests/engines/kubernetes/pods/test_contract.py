"""Pods keep the contract of runtimes on a real API server, with the rights that the documentation asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from tests.engines.kubernetes.pods.conftest import StartKubelet
from tests.engines.kubernetes.pods.rig import PodRig
from tests.host.runtimes.contract import MembersContract, RuntimeContract


@pytest.fixture
def rig(cluster_of_corral: Cluster, namespace: str, start_kubelet: StartKubelet, tmp_path: Path) -> Iterator[PodRig]:
    rig = PodRig(cluster_of_corral, namespace, start_kubelet(), tmp_path)
    yield rig
    rig.close()


class TestPods(RuntimeContract, MembersContract):
    pass
