"""A cluster with OME's and KServe's definitions, and nodes, models and runtimes that only one test sees."""

import fcntl
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.features.services.service_kinds import KSERVE, OME
from tests.engines.kubernetes.conftest import (
    cluster,
    cluster_of_corral,
    control_plane,
    namespace,
    own_control_plane,
    pytest_runtest_setup,
)
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.definitions import install
from tests.engines.kubernetes.nodes import make_node

__all__ = ["cluster", "cluster_of_corral", "control_plane", "namespace", "own_control_plane", "pytest_runtest_setup"]

FILES = (
    "ome/ome.io_inferenceservices.yaml",
    "ome/ome.io_clusterbasemodels.yaml",
    "ome/ome.io_clusterservingruntimes.yaml",
    "kserve/serving.kserve.io_inferenceservices.yaml",
    "kserve/serving.kserve.io_clusterservingruntimes.yaml",
    "kserve/serving.kserve.io_servingruntimes.yaml",
)


@dataclass
class Site:
    """A part of a cluster that one test has for itself: its nodes have a label of their own.

    Attributes:
        runtime: has a node selector for the label, and one option of its own.
        model: is ready on all nodes of the site.
    """

    cluster: Cluster
    namespace: str
    tag: str
    said: list[str]

    @property
    def runtime(self) -> str:
        return f"runtime-{self.tag}"

    @property
    def model(self) -> str:
        return f"model-{self.tag}"

    def node(self, name: str, gpus: int = 8, labels: dict[str, str] | None = None) -> str:
        """A node `NAME-TAG`, whose hostname label is `host-NAME-TAG`."""
        full = f"{name}-{self.tag}"
        hostname = {"kubernetes.io/hostname": f"host-{full}"}
        make_node(self.cluster, full, gpus=gpus, labels={"site": self.tag, **hostname, **(labels or {})})
        return full

    def ready_on(self, *nodes: str) -> None:
        """The model is ready on these nodes, as OME's agents say."""
        assert OME.models is not None
        self.cluster.patch(
            OME.models, self.model, {"status": {"nodesReady": list(nodes), "state": "Ready"}}, subresource="status"
        )

    def text(self) -> str:
        """All that a person was told."""
        return "\n".join(self.said)


@pytest.fixture(scope="session")
def _definitions(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> None:
    """They are large, so one worker installs them for all."""
    done = Path(control_plane.directory) / "model-services-installed"
    with (Path(control_plane.directory) / "model-services.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            admin = control_plane.connect(tmp_path_factory.mktemp("definitions"))
            install(admin, *FILES)
            admin.close()
            done.touch()


@pytest.fixture
def site(cluster: Cluster, namespace: str, _definitions: None) -> Site:
    site = Site(cluster, namespace, uuid.uuid4().hex[:8], [])
    pod_rules = {"nodeSelector": {"site": site.tag}}
    runner = {"name": "ome-container", "image": "example.test/server:1", "command": ["serve"], "args": ["--port=8080"]}
    assert OME.models is not None
    model_spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": "hf://example/model"}}
    cluster.create(OME.models, {"metadata": {"name": site.model}, "spec": model_spec})
    cluster.create(
        OME.runtimes[0], {"metadata": {"name": site.runtime}, "spec": {"engineConfig": {**pod_rules, "runner": runner}}}
    )
    container = {"name": "kserve-container", "image": "example.test/server:1"}
    spec = {"supportedModelFormats": [{"name": "huggingface"}], "containers": [container], **pod_rules}
    cluster.create(KSERVE.runtimes[0], {"metadata": {"name": site.runtime}, "spec": spec})
    return site
