import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, NODES
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import CORRAL, ControlPlane, Processes
from tests.engines.kubernetes.rights import give_documented_rights
from tests.engines.kubernetes.shared_plane import shared_plane

PLANES = {"control_plane", "own_control_plane"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skipped here, and not in the fixture, so that one line says it of all tests."""
    if PLANES & set(getattr(item, "fixturenames", ())):
        missing = [name for name in ("kube-apiserver", "etcd") if find_program(name) is None]
        if missing:
            pytest.skip(f"no {' and no '.join(missing)}: set KUBEBUILDER_ASSETS to where setup-envtest puts them")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[ControlPlane]:
    """A real API server that all tests of a run share: they keep to a namespace and to node names of their own."""
    root = tmp_path_factory.getbasetemp()
    # Each worker's base is a directory in that of the run.
    root = root.parent if root.name.startswith("popen-") else root
    with shared_plane(root / f"kubernetes-{testrun_uid}") as plane:
        yield plane


@pytest.fixture
def own_control_plane(tmp_path: Path) -> Iterator[Processes]:
    """A control plane that the test may kill, hold and start again. It takes some seconds."""
    processes = Processes(tmp_path / "control-plane")
    try:
        processes.start()
        yield processes
    finally:
        processes.stop()


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """An administrator's client."""
    cluster = control_plane.connect(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def cluster_of_corral(control_plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """The client of a user who has the rights that docs/kubernetes.md asks for, and no others."""
    give_documented_rights(cluster, CORRAL)
    client = control_plane.connect(tmp_path, CORRAL)
    # An API server takes a moment to know of a role.
    until = time.monotonic() + 30
    while not client.can_i("list", NODES):
        assert time.monotonic() < until
        time.sleep(0.05)
    yield client
    client.close()


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A namespace of the test's own. It stays: nothing deletes namespaces where no controllers run."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster.create(NAMESPACES, {"metadata": {"name": name}})
    return name
