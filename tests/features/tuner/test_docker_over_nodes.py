"""Containers of one inference server on two nodes: a real dockerd, which is that of both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from tests.docker.daemon import DockerDaemon
from tests.e2e.box import SETTINGS, Box, serving
from tests.engines.pool import cluster
from tests.features.tuner.stand_in_image import IMAGE, write_stand_in_image
from tests.features.tuner.tasks import TASK, begun, over


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the site shows its jobs."""
    directory = tmp_path_factory.mktemp("models")
    directory.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def box(dockerd: DockerDaemon, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    image = tmp_path_factory.mktemp("image") / "image.tar"
    write_stand_in_image(image)
    dockerd.docker("import", str(image), IMAGE)
    image.unlink()
    site = f"docker: {{host_paths: [{models}], networks: [bridge, host]}}\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", dockerd.address)
        with dockerd.network(), serving(cluster(a="", b=""), SETTINGS + site) as serving_box:
            yield serving_box
    dockerd.docker("rmi", IMAGE)


@pytest.fixture
def task(models: Path) -> dict[str, Any]:
    return {
        **TASK,
        "model": {"id_or_path": str(models)},
        "deployment_mode": "docker",
        "runtime_image_tag": IMAGE.rpartition(":")[2],
        "parameters": {"tp": [4]},
    }


def test_containers_on_the_networks_of_their_hosts_meet(box: Box, dockerd: DockerDaemon, task: dict[str, Any]) -> None:
    others = set(dockerd.containers())
    with Client(box.home) as client:
        task_id = begun(client, **task, docker={"network": "host", "shm_size": "64M"})
        row = over(box, client, task_id)
        one, *_ = client.experiments.list(task_id)
        log = b"".join(client.jobs.logs_bytes(one.job_id or "", rank="all")).decode()
    assert (row.status, one.error_message) == ("completed", None)
    assert one.gpu_info is not None
    assert [node["node"] for node in one.gpu_info["nodes"]] == ["a", "b"]
    assert "[0] member 1 of 2 is there" in log
    for rank, node in enumerate("ab"):
        assert f"[{rank}] devices=GPU-{node}-0,GPU-{node}-1 " in log
    shown = box.ok("tasks", "show", task_id)
    assert "corral run --gpus 2 --gang 2 --spread --gpu-model " in shown
    assert f"--image {IMAGE} --shm-size 64M --workdir / --network host " in shown
    box.until(lambda: set(dockerd.containers()) <= others)


def test_containers_that_cannot_meet_are_refused_and_those_on_one_node_run(box: Box, task: dict[str, Any]) -> None:
    with Client(box.home) as client:
        parameters = {"tp": [4, 2]}
        task_id = begun(client, **{**task, "parameters": parameters}, docker={"network": "bridge", "shm_size": "64M"})
        over(box, client, task_id)
        two, one, *_ = client.experiments.list(task_id)
    why = "it needs 2 nodes: network: the members of a gang do not reach each other on Docker's network bridge; add"
    assert (two.error_message or "").startswith(why)
    assert (two.error_message or "").endswith('in the file of the task that is docker.network, such as "host"')
    assert one.job_id is not None
