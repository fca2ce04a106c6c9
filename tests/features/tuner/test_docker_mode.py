"""Tasks whose servers are containers: a real dockerd, and a hook in place of NVIDIA's that takes any GPU."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.features.tuner.answers import ExperimentRow
from tests.docker.daemon import DockerDaemon
from tests.e2e.box import SETTINGS, Box, described, serving
from tests.features.tuner.printed import asked_for, in_shell
from tests.features.tuner.stand_in_image import IMAGE, write_stand_in_image
from tests.features.tuner.tasks import SLOW, TASK, begun, over, tuner_of, until


@pytest.fixture(scope="module")
def network(dockerd: DockerDaemon) -> Iterator[str]:
    """One on which each container has an address of its own; the host's where this machine lets none be made."""
    try:
        dockerd.docker("network", "create", "tuning")
    except subprocess.CalledProcessError:
        yield "host"
        return
    yield "tuning"
    dockerd.docker("network", "rm", "tuning")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the site shows its jobs."""
    directory = tmp_path_factory.mktemp("models")
    directory.chmod(0o755)
    (directory / "llama").mkdir()
    return directory


@pytest.fixture(scope="module")
def box(dockerd: DockerDaemon, network: str, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    image = tmp_path_factory.mktemp("image") / "image.tar"
    write_stand_in_image(image)
    dockerd.docker("import", str(image), IMAGE)
    image.unlink()
    site = f"docker: {{host_paths: [{models}], networks: [{network}]}}\ntuner: {{model_root: {models}}}\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", dockerd.address)
        # In its network the tuner reaches the containers, and the daemon the registry.
        with dockerd.network(), serving(described(2), SETTINGS + site) as serving_box:
            yield serving_box
    dockerd.docker("rmi", IMAGE)


@pytest.fixture
def task(network: str, models: Path) -> dict[str, Any]:
    """One of two experiments with a GPU each."""
    return {
        **TASK,
        "model": {"id_or_path": str(models / "llama")},
        "deployment_mode": "docker",
        "runtime_image_tag": IMAGE.rpartition(":")[2],
        "docker": {"network": network, "shm_size": "64M"},
    }


@pytest.fixture
def registry(box: Box) -> Iterator[str]:
    """The address of one that has no image, in the network of the box."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/v2/"
            said = b"{}" if found else b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said if self.command == "GET" else b"")

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def seen(client: Client, row: ExperimentRow) -> dict[str, str]:
    """What the image's Python has said of its environment."""
    said = "".join(client.jobs.logs(row.job_id or "")).splitlines()
    return dict(word.split("=") for word in next(line for line in said if "devices=" in line).split())


def test_from_the_command_to_the_winner_each_container_sees_the_gpus_of_its_allocation(
    box: Box, dockerd: DockerDaemon, task: dict[str, Any], network: str
) -> None:
    others = set(dockerd.containers())
    file = box.home / "task.json"
    file.write_text(json.dumps({**task, "parameters": {"max-num-seqs": [16], "tp": [1, 2]}}))
    told = box.ok("tune", str(file), "--follow")
    assert re.search(r"(\d) experiments, \1 succeeded", told)
    served = next(line for line in told.splitlines() if line.startswith("serve it: "))
    asked = f"--gpus 1 --gpu-model 'Mock A100' --image {IMAGE} --shm-size 64M --workdir / --network {network} --volume "
    assert f"corral run {asked}" in served
    assert served.endswith("--tensor-parallel-size 1")
    with Client(box.home) as client:
        rows = client.experiments.list(client.tasks.list()[0].id, metrics=True)
        saw = [seen(client, row) for row in rows]
    # Those that measure a combination again come after those of all combinations.
    assert [row.gpu_info["count"] for row in rows if row.gpu_info][:2] == [1, 2]
    assert all(row.repeats for row in rows[2:])
    for row, found in zip(rows, saw, strict=True):
        assert row.gpu_info is not None
        assert found == {"devices": ",".join(row.gpu_info["device_ids"]), "cuda": "absent", "model": "/model"}
    addresses = {(row.service_url or "").rpartition(":")[0] for row in rows}
    assert ("http://127.0.0.1" in addresses) == (network == "host")
    box.until(lambda: set(dockerd.containers()) <= others)


@pytest.mark.parametrize("model", ["llama", "org/of-the-hub"])
def test_the_printed_command_makes_the_container_that_was_measured(
    box: Box, task: dict[str, Any], models: Path, model: str
) -> None:
    """The site's root has the model `llama`; that of the hub is kept where the shell's HF_HOME is."""
    variables = {"HF_HOME": str(models / "hub"), "MINE": "a $(id) secret"}
    with Client(box.home) as client:
        fields = {"model": {"id_or_path": model}, "parameters": {"tp": [2]}, "env": variables}
        task_id = begun(client, **{**task, **fields})
        row = over(box, client, task_id)
        assert (row.status, row.error_message) == ("completed", None)
        plan = client.experiments.serving(task_id)
        measured = client.jobs.get(client.experiments.of_number(task_id, plan.experiment_id).job_id or "")
        command = plan.command
        assert "secret" not in command
        with in_shell(box, command, **variables) as served:
            job = box.until(lambda: [row for row in client.jobs.list() if row.phase == "RUNNING"])[0]
            assert asked_for(client.jobs.get(job.id)) == asked_for(measured)
            assert measured.spec["container"]["image"] == IMAGE
            mounted = str(models / "llama") if model == "llama" else variables["HF_HOME"]
            assert measured.spec["container"]["volumes"][0]["source"] == mounted
            assert box.ok("exec", job.id, "--", "sh", "-c", 'printf %s "$MINE"') == variables["MINE"]
            client.jobs.cancel(job.id)
            served.communicate()


def test_a_dockerd_that_restarts_and_a_tuner_that_is_killed_leave_nothing_behind(
    box: Box, dockerd: DockerDaemon, task: dict[str, Any]
) -> None:
    others = set(dockerd.containers())
    with Client(box.home) as client:
        short = {**SLOW, "max_time_per_iteration": 0.05}
        task_id = begun(client, **{**task, "parameters": {"max-num-seqs": [4]}, "benchmark": short})
        first = until(box, client, task_id, lambda row: row.status == "benchmarking")
        os.kill(tuner_of(box, task_id), signal.SIGKILL)
        dockerd.kill()
        row = over(box, client, task_id)
        one, *_ = client.experiments.list(task_id)
        assert (row.status, row.error_message, one.job_id) == ("completed", None, first.job_id)
        assert client.jobs.get(one.job_id or "").attempts == 1
    box.until(lambda: set(dockerd.containers()) <= others)


def test_an_image_that_does_not_exist_fails_the_task_after_one_launch(
    box: Box, task: dict[str, Any], registry: str
) -> None:
    with Client(box.home) as client:
        task_id = begun(client, **{**task, "docker": {**task["docker"], "image": f"{registry}/team/vllm"}})
        row = over(box, client, task_id)
        (one,) = client.experiments.list(task_id)
        job = client.jobs.get(one.job_id or "")
    assert row.status == "failed"
    assert f"no experiment can be deployed: image {registry}/team/vllm:1 cannot be pulled" in (row.error_message or "")
    assert (row.total_experiments, job.attempts) == (1, 1)


def test_what_the_site_does_not_show_fails_the_task_with_the_setting_that_would(box: Box, task: dict[str, Any]) -> None:
    with Client(box.home) as client:
        row = over(box, client, begun(client, **{**task, "model": {"id_or_path": "/etc"}}))
    assert (row.status, row.total_experiments) == ("failed", 1)
    assert "The setting docker.host_paths lists those that it shows" in (row.error_message or "")
