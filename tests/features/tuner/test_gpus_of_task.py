"""The GPUs of a task's experiments: a real server with nodes of several models, and stand-ins."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from corral.client import Client
from corral.core.model.errors import Refused
from tests.e2e.box import Box, serving
from tests.features.tuner.tasks import SLOW, TASK, begun, over, until

pytestmark = pytest.mark.long

NODES = {
    "small": ("Tesla T4", "16G", 2, "a"),
    "large": ("NVIDIA H100 80GB HBM3", "80G", 2, "b"),
    "alike": ("NVIDIA H100 80GB HBM3 MAX", "80G", 2, "b"),
}
TP = "tensor-parallel-size"
SHORT = {**TASK["benchmark"], "max_time_per_iteration": 0.03}


def cluster() -> str:
    """The description of a node for each model, each with two GPUs."""
    lines = ['slot_name = "cuda"', 'device_plugin_name = "CUDADevice"']
    for name, (model, memory, count, zone) in NODES.items():
        lines += ["[[nodes]]", f'name = "{name}"', "cpus = 8", f'labels = {{ zone = "{zone}" }}']
        for index in range(count):
            lines += [
                "[[nodes.devices]]",
                f'mother_uuid = "GPU-{name}-{index}"',
                f'model_name = "{model}"',
                f'memory_size = "{memory}"',
                'load = "follow-jobs"',
            ]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def site() -> Iterator[Box]:
    with serving(cluster()) as box:
        yield box


def models_of(client: Client, task_id: str) -> list[str | None]:
    return [None if row.gpu_info is None else row.gpu_info["model"] for row in client.experiments.list(task_id)]


def test_all_experiments_have_the_model_that_the_first_one_got(site: Box) -> None:
    with Client(site.home) as client:
        task_id = begun(client, parameters={"max-num-seqs": [1, 4, 8, 16]}, max_parallel=4)
        row = over(site, client, task_id)
        models = models_of(client, task_id)
    assert (row.status, len(models) > 4) == ("completed", True)
    assert len(set(models)) == 1


def test_a_candidate_that_the_model_cannot_hold_is_recorded_not_moved_and_no_iteration(site: Box) -> None:
    with Client(site.home) as client:
        fields = {"parameters": {TP: [1, 4, 2]}, "optimization": {**TASK["optimization"], "max_iterations": 2}}
        task_id = begun(client, label={"zone": "a"}, **fields)
        row = over(site, client, task_id)
        ran, other, last, *again = client.experiments.list(task_id)
        named = client.jobs.list(all=True, name=f"tune-{task_id}-*")
    assert (row.status, ran.status, other.status, last.status) == ("completed", "success", "failed", "success")
    assert "not runnable on Tesla T4, to which the task keeps: the largest node" in (other.error_message or "")
    assert (other.job_id, {job.id for job in named}) == (None, {one.job_id for one in (ran, last, *again)})
    assert row.planned_experiments == 5


KEYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "gpu_model": ({"gpu_model": ["T4"]}, ["GPU-small"]),
    "node": ({"node": ["large"]}, ["GPU-large"]),
    "label": ({"label": {"zone": "a"}}, ["GPU-small"]),
    "prefer": ({"prefer": {"zone": "b"}}, ["GPU-alike", "GPU-large"]),
    "min_memory": ({"min_memory": "40G", "label": {"zone": "b"}}, ["GPU-alike", "GPU-large"]),
    "device": ({"device": ["GPU-alike-1"]}, ["GPU-alike-1"]),
    "exclusive": ({"exclusive": True, "node": ["small"]}, ["GPU-small"]),
}


@pytest.fixture(scope="module")
def of_keys(site: Box) -> dict[str, Any]:
    """The first experiment of a task with each key; they run at once."""
    with Client(site.home) as client:
        ids = {key: begun(client, parameters={"max-num-seqs": [4]}, **fields) for key, (fields, _) in KEYS.items()}
        for task_id in ids.values():
            assert over(site, client, task_id).status == "completed"
        return {key: client.experiments.list(task_id)[0].gpu_info for key, task_id in ids.items()}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_task_chooses_gpus_as_the_option_of_a_job_does(of_keys: dict[str, Any], key: str) -> None:
    uuids = of_keys[key]["device_ids"]
    assert all(any(uuid.startswith(one) for one in KEYS[key][1]) for uuid in uuids), uuids


def test_an_exclusive_experiment_has_all_gpus_of_a_node_and_uses_its_own_number(of_keys: dict[str, Any]) -> None:
    assert (of_keys["exclusive"]["count"], of_keys["exclusive"]["world_size"]) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"min_memory": "much"}, "min_memory"),
        ({"min_memory": "0"}, "min_memory"),
        ({"label": {"zone": ""}}, "label"),
        ({"prefer": {f"k{number}": "v" for number in range(101)}}, "prefer"),
        ({"node": ["gpu-["]}, "node"),
        ({"device": ["GPU-1", "GPU-1"]}, "device"),
        ({"device": ["GPU-1"], "exclusive": True}, "exclusive"),
        ({"gpu_models": ["T4"]}, "gpu_models"),
        ({"deployment_mode": "kserve", "gpu_model": ["T4"]}, "gpu_model"),
    ],
)
def test_a_value_that_a_job_would_not_take_is_refused(site: Box, fields: dict[str, Any], field: str) -> None:
    with Client(site.home) as client, pytest.raises(Refused) as refused:
        client.tasks.create({**TASK, **fields})
    assert refused.value.field == field


def test_a_task_that_names_gpus_measures_no_candidate_that_needs_more(site: Box) -> None:
    with Client(site.home) as client:
        task_id = begun(client, parameters={TP: [2, 1]}, device=["GPU-small-1"])
        row = over(site, client, task_id)
        more, fits, _ = client.experiments.list(task_id)
    assert (row.status, fits.status) == ("completed", "success")
    assert more.error_message == "it needs 2 GPUs, and the task names 1 GPU"


def test_an_experiment_that_begins_again_on_another_model_is_moved_back(site: Box) -> None:
    with Client(site.home) as client:
        task_id = begun(client, parameters={"max-num-seqs": [4]}, benchmark=SLOW, prefer={"zone": "a"})
        running = until(site, client, task_id, lambda row: row.status == "benchmarking")
        assert (running.gpu_info or {})["model"] == "Tesla T4"
        client.nodes.cordon("small")
        client.jobs.requeue(running.job_id or "")
        waiting = until(site, client, task_id, lambda row: row.job_id != running.job_id)
        client.nodes.uncordon("small")
        again = until(site, client, task_id, lambda row: row.status == "benchmarking")
        client.tasks.cancel(task_id)
        over(site, client, task_id)
    assert (again.job_id, (again.gpu_info or {})["model"]) == (waiting.job_id, "Tesla T4")


def test_the_file_of_a_task_names_gpus_as_a_command_does(site: Box) -> None:
    file = site.home / "task.json"
    fields = {"parameters": {"max-num-seqs": [4]}, "device": "small:1", "gpu_model": "T4, A100"}
    file.write_text(json.dumps({**TASK, **fields}))
    task_id = site.ok("tune", str(file)).strip()
    with Client(site.home) as client:
        config = client.tasks.get(task_id).config
        assert over(site, client, task_id).status == "completed"
        assert models_of(client, task_id)[0] == "Tesla T4"
    assert (config.device, config.gpu_model) == (("GPU-small-1",), ("T4, A100",))
    file.write_text(json.dumps({**TASK, "device": [7]}))
    assert "device: there is no GPU 7" in site.run("tune", str(file)).stderr


def test_with_several_models_figures_are_marked_and_no_winner_is_named_across_them(site: Box) -> None:
    with Client(site.home) as client:
        held = client.submit(["sleep", "600"], gpus=1, node="small")
        site.until_phase(held.id, "RUNNING")
        task_id = begun(
            client, parameters={TP: [1, 2]}, gpu_model=["T4", "H100"], node=["small", "large"], max_parallel=2
        )
        row = over(site, client, task_id)
        rows = client.experiments.list(task_id)
        client.jobs.cancel(held.id)
    models = {one.experiment_id: (one.gpu_info or {})["model"] for one in rows}
    assert set(models.values()) == {"Tesla T4", "NVIDIA H100 80GB HBM3"}
    assert {models[one.repeats] == models[one.experiment_id] for one in rows if one.repeats} == {True}
    assert (row.status, row.best_experiment_id, row.best_score) == ("completed", None, None)
    found = site.api(f"/api/v1/tasks/{task_id}/findings")
    assert (found["best_id"], found["command"], found["gain"]) == (None, None, None)
    assert [one["gpu_model"] for one in found["by_gpu_model"]] == ["NVIDIA H100 80GB HBM3", "Tesla T4"]
    assert all(len(one["measured_by"]) == 2 for one in found["by_gpu_model"])
    assert "has no winner" in site.api(f"/api/v1/tasks/{task_id}/export/yaml")["error"]["message"]
    shown = site.ok("tasks", "show", task_id)
    assert "no winner: experiments ran on several models of GPU" in shown
    assert "best on Tesla T4: experiment" in shown
    first = {models[number]: number for number in (2, 1)}
    untried = {one["gpu_model"]: one["sureness"].rpartition("; ")[2] for one in found["by_gpu_model"]}
    said = {model: f"not tried on this model of GPU: experiment {3 - number}" for model, number in first.items()}
    assert untried == said
    logged = (site.home / "server.log").read_text()
    assert all(
        f"task {task_id}: the best on {model} is experiment {number}: " in logged for model, number in first.items()
    )


def test_the_estimated_memory_is_asked_for_so_a_large_model_never_runs_on_a_small_gpu(site: Box) -> None:
    with Client(site.home) as client:
        task_id = begun(client, model={"id_or_path": "org/toy-13b"}, parameters={TP: [1]}, prefer={"zone": "a"})
        over(site, client, task_id)
        row = client.experiments.list(task_id)[0]
        asked = client.jobs.get(row.job_id or "").request["min_memory_mib"]
    assert (row.status, (row.gpu_info or {})["model"] != "Tesla T4") == ("success", True)
    assert 26_000_000_000 / 2**20 < asked <= 80 * 1024


def test_what_is_known_not_to_run_is_judged_by_the_gpus_that_the_task_can_get(site: Box) -> None:
    with Client(site.home) as client:
        task_id = begun(client, model={"id_or_path": "org/toy-13b"}, parameters={TP: [1]}, gpu_model=["T4"])
        row = over(site, client, task_id)
    assert (row.status, row.total_experiments) == ("failed", 0)
    assert "no experiment succeeded" in (row.error_message or "")


def test_a_candidate_too_large_for_the_model_that_the_task_keeps_to_is_not_moved_to_a_larger_one(site: Box) -> None:
    with Client(site.home) as client:
        for node in ("large", "alike"):
            client.nodes.cordon(node)
        fields = {"model": {"id_or_path": "org/toy-13b"}, "parameters": {TP: [2, 1]}, "benchmark": SHORT}
        task_id = begun(client, **fields)
        until(site, client, task_id, lambda row: row.gpu_info is not None)
        for node in ("large", "alike"):
            client.nodes.uncordon(node)
        over(site, client, task_id)
        small, large, again = client.experiments.list(task_id)
    assert [(one.gpu_info or {}).get("model") for one in (small, large, again)] == ["Tesla T4", None, "Tesla T4"]
    assert (small.status, large.status, large.job_id) == ("success", "failed", None)
    assert "not runnable on Tesla T4, to which the task keeps: " in (large.error_message or "")
