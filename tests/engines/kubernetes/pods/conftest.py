import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from tests.engines.kubernetes.kubelet import Kubelet

StartKubelet = Callable[..., Kubelet]


@pytest.fixture
def start_kubelet(cluster: Cluster, tmp_path: Path) -> Iterator[StartKubelet]:
    """Starts a kubelet for a node of this test's own."""
    with ExitStack() as stack:

        def start(gpus: int = 8) -> Kubelet:
            kubelet = Kubelet(cluster, f"node-{uuid.uuid4().hex[:10]}", tmp_path / uuid.uuid4().hex, gpus=gpus)
            stack.callback(kubelet.close)
            kubelet.start()
            return kubelet

        yield start
