from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.kubernetes.cluster.client import Cluster
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.engine.site import Site


@pytest.fixture
def site(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[Site]:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    site = Site(tmp_path / "home", kubeconfig, namespace, cluster)
    yield site
    site.close()
