from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.engine.site import Site


@pytest.fixture
def site(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[Site]:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    site = Site(tmp_path / "home", kubeconfig, namespace, cluster)
    yield site
    site.close()
