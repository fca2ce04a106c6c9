"""Tasks whose servers are model services: a real API server, and an operator that is played to the last."""

import os
import signal
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.client import Client
from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import PODS, SECRETS
from corral.features.services.service_kinds import KINDS
from tests.e2e.box import COMMAND_S, CORRAL, Box, described, serving
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.definitions import needs_definitions
from tests.engines.kubernetes.exporter import Exporter
from tests.engines.kubernetes.inventory.readings.test_cluster_readings import prometheus
from tests.engines.kubernetes.inventory.readings.test_cluster_readings import serving as serving_text
from tests.features.services.conftest import Site
from tests.features.services.playing_operator import PlayingOperator, playing_operator
from tests.features.tuner.tasks import SLOW, TASK, begun, over, tuner_of, until
from tests.prometheus import needs_prometheus

pytestmark = needs_definitions


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with serving(described(1)) as serving_box:
        yield serving_box


@pytest.fixture
def task(site: Site, control_plane: ControlPlane, tmp_path: Path) -> dict[str, Any]:
    """One for the site's runtime, of which no engine is known."""
    return {
        **TASK,
        "task_name": "Tuned by test",
        "model": {"id_or_path": site.model, "namespace": site.namespace},
        "base_runtime": site.runtime,
        "env": {"KUBECONFIG": str(control_plane.kubeconfig(tmp_path / "config"))},
    }


@pytest.fixture
def operator(request: pytest.FixtureRequest, site: Site) -> Iterator[PlayingOperator]:
    """That of the kind which a test names."""
    node = site.node("a", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    site.ready_on(node)
    with playing_operator(site.cluster, KINDS[request.param], site.namespace, node) as operator:
        yield operator


def variables_of(site: Site, service: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
    """What the server sees. The service itself has no value: all belong to a Secret that is removed with it."""
    found = {}
    for entry in container["env"]:
        named = entry["valueFrom"]["secretKeyRef"]
        assert entry == {"name": entry["name"], "valueFrom": {"secretKeyRef": named}}
        secret = site.cluster.get(SECRETS, named["name"], site.namespace)
        (owner,) = secret["metadata"]["ownerReferences"]
        assert owner["uid"] == service["metadata"]["uid"]
        found[entry["name"]] = b64decode(secret["data"][named["key"]]).decode()
    return found


def container_of(via: str, service: dict[str, Any]) -> dict[str, Any]:
    spec = service["spec"]
    container: dict[str, Any] = spec["engine"]["runner"] if via == "ome" else spec["predictor"]["model"]
    return container


def parts_of(via: str, service: dict[str, Any]) -> dict[str, Any]:
    """What is asked for, without what differs between two services: their names, marks, Secrets and nodes."""
    spec, noted = deepcopy(service["spec"]), service["metadata"]["annotations"]
    spec["engine" if via == "ome" else "predictor"].pop("affinity", None)
    container = container_of(via, {"spec": spec})
    container["env"] = [entry["name"] for entry in container["env"]]
    return {**spec, "noted": {key: noted[key] for key in noted if key.startswith(("ome.io/", "corral.dev/gpus"))}}


@pytest.mark.parametrize("operator", ["ome", "kserve"], indirect=True)
def test_the_printed_command_and_the_one_step_make_the_service_that_was_measured(
    box: Box, site: Site, operator: PlayingOperator, task: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    via = request.node.callspec.params["operator"]
    space = {"tensor-parallel-size": [2], "pipeline-parallel-size": [2], "max-num-seqs": [4]}
    mount = {"mount_path": "/raid/llama"} if via == "ome" else {}
    storage = {"type": "pvc", "pvc_name": "models", "pvc_subpath": "llama/3", **mount}
    task = {**task, "deployment_mode": via, "parameters": space, "storage": storage}
    task["env"] = {**task["env"], "ENGINE_LOG": "to $(HOME), 'a secret'"}
    with Client(box.home) as client:
        task_id = begun(client, **task)
        row = over(box, client, task_id)
    assert (row.status, row.error_message) == ("completed", None)
    served = next(line for line in box.ok("tasks", "show", task_id).splitlines() if line.startswith("serve it: "))
    command = served.removeprefix("serve it: ")
    assert "--gpus 4" in command
    assert "secret" not in command
    here = {"KUBECONFIG": task["env"]["KUBECONFIG"]}
    env = {**box.env, **here, "ENGINE_LOG": task["env"]["ENGINE_LOG"], "PATH": f"{Path(CORRAL).parent}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", f"{command} --detach"], env=env, check=True, timeout=COMMAND_S)
    box.ok("deploy", "in-one-step", "--from", task_id, "--detach", **here)
    measured = operator.made["tuned-by-test-exp1"]
    for name in ("tuned-by-test", "in-one-step"):
        box.until(partial(operator.made.get, name))
        again = operator.made[name]
        container = container_of(via, again)
        assert parts_of(via, again) == parts_of(via, measured)
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}
        assert variables_of(site, again, container) == {"ENGINE_LOG": task["env"]["ENGINE_LOG"]}
        box.ok("undeploy", name, "--namespace", site.namespace, **here)
    tried = box.run("deploy", "--from", task_id, "--experiment", "1", "--dry-run", **here)
    shown = yaml.safe_load(tried.stdout)
    assert parts_of(via, shown) == parts_of(via, measured)
    assert "secret'" not in tried.stdout + tried.stderr
    assert [entry["name"] for entry in container_of(via, shown)["env"]] == ["ENGINE_LOG"]
    box.until(lambda: not operator.servers)
    assert_nothing_is_left(site, via)


def assert_nothing_is_left(site: Site, via: str) -> None:
    assert site.cluster.list(KINDS[via].services, Selection(site.namespace)) == ()
    assert site.cluster.list(PODS, Selection(site.namespace)) == ()


@pytest.mark.parametrize("operator", ["ome"], indirect=True)
def test_every_tuned_parameter_reaches_the_engine_and_its_own_words_say_which_it_does_not_know(
    box: Box, site: Site, operator: PlayingOperator, task: dict[str, Any]
) -> None:
    space = {
        "tensor-parallel-size": [2],
        "pipeline-parallel-size": [2],
        "max-num-seqs": [4],
        "chunk-size": [64, "many"],
    }
    storage = {"type": "pvc", "pvc_name": "models", "pvc_subpath": "llama", "mount_path": "/raid/llama"}
    task = {**task, "deployment_mode": "ome", "parameters": space, "storage": storage}
    task["env"] = {**task["env"], "ENGINE_LOG": "debug"}
    with Client(box.home) as client:
        row = over(box, client, begun(client, **task))
        good, bad, _ = client.experiments.list(row.id, metrics=True)
    assert (row.status, good.status, bad.status) == ("completed", "success", "failed")
    assert "argument --chunk-size: invalid int value: 'many'" in (bad.error_message or "")
    assert (good.service_name, good.job_id) == ("tuned-by-test-exp1", None)
    assert good.gpu_info is not None
    assert (good.gpu_info["model"], good.gpu_info["count"]) == ("NVIDIA-H100-80GB-HBM3", 4)
    made = operator.made["tuned-by-test-exp1"]
    labels, noted = made["metadata"]["labels"], made["metadata"]["annotations"]
    assert (labels["autotuner.io/task"], labels["autotuner.io/experiment-id"]) == ("tuned-by-test", "1")
    kept = {name: value for name, value in noted.items() if name.startswith("ome.io/")}
    assert kept == {
        "ome.io/storage-type": "pvc",
        "ome.io/pvc-name": "models",
        "ome.io/pvc-subpath": "llama",
        "ome.io/mount-path": "/raid/llama",
    }
    engine = made["spec"]["engine"]
    runner = engine["runner"]
    axes = ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]
    assert runner["args"] == ["--port=8080", *axes, "--max-num-seqs=4", "--chunk-size=64"]
    assert runner["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert variables_of(site, made, runner) == {"ENGINE_LOG": "debug"}
    assert engine["volumes"][0]["persistentVolumeClaim"] == {"claimName": "models"}
    assert (runner["volumeMounts"][0]["mountPath"], runner["volumeMounts"][0]["subPath"]) == ("/raid/llama", "llama")
    assert_nothing_is_left(site, "ome")


@pytest.mark.parametrize("operator", ["kserve"], indirect=True)
def test_a_service_outlives_the_loss_of_its_pod_and_of_its_tuner_and_is_gone_in_the_end(
    box: Box, site: Site, operator: PlayingOperator, task: dict[str, Any]
) -> None:
    claim = {"type": "pvc", "pvc_name": "models", "pvc_subpath": "llama"}
    task = {**task, "deployment_mode": "kserve", "parameters": {"max-num-seqs": [4]}, "storage": claim}
    with Client(box.home) as client:
        task_id = begun(client, **{**task, "benchmark": {**SLOW, "max_time_per_iteration": 0.05}})
        until(box, client, task_id, lambda row: row.status == "benchmarking")
        with operator.evicted("tuned-by-test-exp1"):
            until(box, client, task_id, lambda row: row.status == "pending")
            os.kill(tuner_of(box, task_id), signal.SIGKILL)
        row = over(box, client, task_id)
        one, _ = client.experiments.list(task_id, metrics=True)
    assert (row.error_message, one.status, len((one.metrics or {})["raw_results"])) == (None, "success", 1)
    assert (list(operator.made), len(operator.uids)) == (["tuned-by-test-exp1", "tuned-by-test-exp2"], 2)
    assert operator.made["tuned-by-test-exp1"]["spec"]["predictor"]["model"]["storageUri"] == "pvc://models/llama"
    assert_nothing_is_left(site, "kserve")


# The pods of both operators are read in one way.
@needs_prometheus
@pytest.mark.parametrize("operator", ["ome"], indirect=True)
def test_the_gpus_of_a_service_are_read_while_it_is_measured(
    box: Box, site: Site, operator: PlayingOperator, task: dict[str, Any], tmp_path: Path
) -> None:
    exporter = Exporter(f"host-a-{site.tag}")
    exporter.give(site.namespace, "tuned-by-test-exp1-pod", 3, 5)
    exporter.give(site.namespace, "tuned-by-test-exp2-pod", 0, 1)
    exporter.gpus[3].used_pct, exporter.gpus[3].power_w = 90, 400
    exporter.gpus[5].used_pct, exporter.gpus[5].power_w = 80, 300
    levels = {**SLOW, "num_concurrency": [1, 4], "max_time_per_iteration": 0.08}
    space = {"tensor-parallel-size": [2]}
    task = {**task, "deployment_mode": operator.via, "parameters": space, "benchmark": levels}
    with (
        serving_text(exporter.answer) as url,
        prometheus(tmp_path, url.removeprefix("http://"), namespace="gpu-operator", pod="dcgm-x") as told,
        Client(box.home) as client,
    ):
        task["env"] = {**task["env"], "CORRAL_PROMETHEUS_URL": told}
        row = over(box, client, begun(client, **task))
        one, again = client.experiments.list(row.id, metrics=True)
    assert (row.error_message, one.status) == (None, "success")
    metrics = one.metrics or {}
    monitoring = metrics["gpu_monitoring"]
    stats = monitoring["gpu_stats"]
    # Each of two levels is 4.8 s long. A scrape comes each second, and later on a busy machine.
    assert 2 <= monitoring["sample_count"] <= 2 * 6
    assert 2 <= monitoring["monitoring_duration_seconds"] <= 10
    assert all(level["gpus"] for level in metrics["raw_results"])
    assert {label: (gpu["utilization"]["mean"], gpu["power_draw_w"]["mean"]) for label, gpu in stats.items()} == {
        "3": (90, 400),
        "5": (80, 300),
    }
    assert stats["3"]["name"] == "NVIDIA-H100-80GB-HBM3"
    assert metrics["energy_j"] == pytest.approx(700 * metrics["elapsed_time"], rel=0.02)
    assert metrics["energy_per_output_token_j"] > 0
    assert one.gpu_info is not None
    assert one.gpu_info["device_ids"] == [f"GPU-host-a-{site.tag}-{index}" for index in (3, 5)]
    assert one.gpu_info["gpu_info"]["indices"] == [3, 5]
    assert list((again.metrics or {})["gpu_monitoring"]["gpu_stats"]) == ["0", "1"]
    assert "CORRAL_PROMETHEUS_URL" not in str(operator.made)
    assert_nothing_is_left(site, operator.via)


def test_what_no_combination_can_change_fails_the_task_after_one_experiment(
    box: Box, site: Site, task: dict[str, Any]
) -> None:
    task = {**task, "deployment_mode": "ome"}
    others = {"metadata": {"name": "taken-exp1"}, "spec": {"engine": {"minReplicas": 1}}}
    site.cluster.create(KINDS["ome"].services, others, site.namespace)
    wrong: dict[str, dict[str, Any]] = {
        "there is no runtime no-such-runtime": {"base_runtime": "no-such-runtime"},
        "there is a service taken-exp1 in namespace": {"task_name": "taken"},
        "/nowhere/config": {"env": {"KUBECONFIG": "/nowhere/config"}},
    }
    with Client(box.home) as client:
        for task_id, words in [(begun(client, **{**task, **fields}), words) for words, fields in wrong.items()]:
            row = over(box, client, task_id)
            assert row.status == "failed"
            assert row.total_experiments <= 1
            assert words in (row.error_message or "")
