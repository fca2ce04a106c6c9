"""A server, or the API server, that ends in the middle of a job: no job is lost, and none runs twice."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, PODS
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.kubelet import Kubelet

pytestmark = pytest.mark.long

HASTY = "node_silent_after: 1s\nnode_gone_after: 3s\n"


@pytest.fixture
def site(tmp_path: Path, own_control_plane: Processes) -> Iterator[Site]:
    plane = own_control_plane.plane
    cluster = plane.connect(tmp_path)
    cluster.create(NAMESPACES, {"metadata": {"name": "jobs"}})
    site = Site(tmp_path / "home", plane.kubeconfig(tmp_path / "kubeconfig", namespace="jobs"), "jobs", cluster)
    site.home.mkdir()
    (site.home / "config.yaml").write_text(HASTY)
    kubelet = Kubelet(cluster, f"{site.prefix}-a", tmp_path / "kubelet", gpus=2)
    kubelet.start()
    yield site
    # Its nodes go with the control plane, which may be away for good.
    site.corral("down", status=None)
    kubelet.close()
    cluster.close()


def pods(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.list(PODS)]


def test_a_job_outlives_the_api_server_and_its_own_server(site: Site, own_control_plane: Processes) -> None:
    site.up()
    mark = site.home.parent / "ran"
    go_on = site.home.parent / "go-on"
    script = f"echo once >> {mark}; while [ ! -e {go_on} ]; do sleep 0.1; done; exit 3"
    site.corral("submit", "--image", "train:1", "--gpus", "2", "--", "sh", "-c", script)
    site.until("ps", says="RUNNING")
    site.until("status", says="0 of 2 GPUs free")

    own_control_plane.kill_api_server()
    site.until("nodes", says="silent")
    # Longer than after which a node that alone does not answer is gone, and its jobs with it.
    time.sleep(4.0)
    assert "RUNNING" in site.corral("ps")
    assert "gone" not in site.corral("nodes")
    own_control_plane.start_api_server()
    site.until_not("nodes", says="silent")

    site.corral("down")
    site.up()
    site.until_not("nodes", says="silent")
    assert "RUNNING" in site.corral("ps")
    assert len(pods(site.cluster)) == 1

    go_on.touch()
    site.until("ps", "--all", says="FAILED")
    assert "exit code 3" in site.corral("show", "1")
    assert mark.read_text() == "once\n"
    site.until("status", says="2 of 2 GPUs free")


def test_what_ends_or_is_submitted_while_the_api_server_is_away_is_caught_up_with(
    site: Site, own_control_plane: Processes
) -> None:
    site.up()
    mark, go_on = site.home.parent / "ran", site.home.parent / "go-on"
    script = f"echo once >> {mark}; while [ ! -e {go_on} ]; do sleep 0.1; done; exit 6"
    site.corral("submit", "--image", "train:1", "--gpus", "1", "--", "sh", "-c", script)
    site.until("ps", says="RUNNING")
    own_control_plane.kill_api_server()
    go_on.touch()
    site.corral("submit", "--image", "train:1", "--gpus", "1", "--", "sh", "-c", f"echo once >> {mark}; exit 7")
    time.sleep(1.0)
    own_control_plane.start_api_server()
    site.until("show", "1", says="exit code 6")
    site.until("show", "2", says="exit code 7")
    assert mark.read_text() == "once\nonce\n"


def test_a_server_starts_again_while_the_api_server_is_away_only_to_say_so(
    site: Site, own_control_plane: Processes
) -> None:
    own_control_plane.kill_api_server()
    said = site.up(status=1)
    assert "the server did not start" in said
    assert own_control_plane.plane.url in said
