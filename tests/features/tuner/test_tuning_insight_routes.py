"""What tasks of the autotuner have come to, over HTTP."""

import csv
import os
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.event_clients import StreamClient, following
from tests.api.world import Served
from tests.e2e.box import COMMAND_S, CORRAL
from tests.features.tuner.test_tuning_routes import NOBODY, TASK, a_task, tried

MONITORING = {"sample_count": 3, "gpu_stats": {}}
HOSTILE = "=cmd|'/c calc'!A0"


def measured(latency: float, throughput: float) -> dict[str, Any]:
    return {
        "status": "success",
        "objective_score": latency,
        "gpu_info": {"model": "NVIDIA A100", "count": 2},
        "metrics": {
            "mean_e2e_latency": latency,
            "mean_total_throughput_per_gpu": throughput,
            "mean_ttft": "<img src=x>",
            "gpu_monitoring": MONITORING,
            "total_requests": 9,
            "total_completed_requests": 9,
        },
    }


def a_measured_task(served: Served) -> str:
    task_id = a_task(served, started=True)
    for number, (latency, throughput) in enumerate([(3.0, 30.0), (1.0, 10.0), (2.0, 5.0)], 1):
        tried(served, task_id, number, **measured(latency, throughput))
    tried(served, task_id, 4, status="failed", error_message=HOSTILE)
    tried(served, task_id, 5)
    return task_id


def test_experiments_in_short_have_their_figures_a_page_at_a_time(served: Served) -> None:
    task_id = a_measured_task(served)
    rows = served.call("GET", f"/tasks/{task_id}/experiments?limit=4").data["experiments"]
    assert [(row["experiment_id"], row["gpus"], row["monitored"]) for row in rows[2:]] == [
        (3, 2, True),
        (4, None, False),
    ]
    assert rows[0]["figures"] == {"mean_e2e_latency": 3.0, "mean_total_throughput_per_gpu": 30.0}
    assert (rows[0]["gpu_model"], rows[3]["error_message"]) == ("NVIDIA A100", HOSTILE)
    (last,) = served.call("GET", f"/tasks/{task_id}/experiments?after=4").data["experiments"]
    assert (last["experiment_id"], last["status"], last["figures"]) == (5, "pending", {})
    assert served.call("GET", "/tasks/999/experiments").status == 404
    assert served.call("GET", f"/tasks/{task_id}/experiments?limit=0").status == 422


def test_findings_name_the_best_what_mattered_and_what_no_other_beats(served: Served) -> None:
    task_id = a_measured_task(served)
    rows = served.call("GET", f"/tasks/{task_id}/experiments").data["experiments"]
    found = served.call("GET", f"/tasks/{task_id}/findings").data
    assert (found["scored"], found["best_id"]) == (3, rows[1]["id"])
    assert found["fronts"][0]["ids"] == [rows[1]["id"], rows[0]["id"]]
    assert [(one["name"], one["values"], one["part"]) for one in found["importances"]] == [("tp-size", 3, None)]
    assert "--tensor-parallel-size 2" in found["command"]
    nothing = served.call("GET", f"/tasks/{a_task(served)}/findings").data
    assert (nothing["scored"], nothing["best_id"], nothing["command"]) == (0, None, None)


def test_no_experiment_is_beaten_by_one_on_another_model_of_gpu(served: Served) -> None:
    task_id = a_measured_task(served)
    faster = {**measured(0.5, 90.0), "gpu_info": {"model": "NVIDIA H100", "count": 2}}
    tried(served, task_id, 6, **faster)
    rows = served.call("GET", f"/tasks/{task_id}/experiments").data["experiments"]
    found = served.call("GET", f"/tasks/{task_id}/findings").data
    assert found["fronts"][0]["ids"] == [rows[1]["id"], rows[0]["id"], rows[5]["id"]]
    refused = served.call("GET", f"/tasks/{task_id}/serving")
    assert (refused.status, refused.error["message"].partition(": ")[2]) == (
        409,
        "its experiments ran on several models of GPU, whose figures do not compare; name one of them",
    )


def test_what_was_found_is_a_file_in_each_format(served: Served) -> None:
    task_id = a_measured_task(served)
    forms = ("csv", "yaml", "submit", "ome")
    files = {form: served.call("GET", f"/tasks/{task_id}/export/{form}").body.decode() for form in forms}
    lines = list(csv.DictReader(StringIO(files["csv"])))
    assert [(line["experiment_id"], line["tp-size"], line["mean_e2e_latency"]) for line in lines[:2]] == [
        ("1", "1", "3.0"),
        ("2", "2", "1.0"),
    ]
    assert lines[3]["error_message"] == f"'{HOSTILE}"
    best = yaml.safe_load(files["yaml"])
    assert (best["parameters"], best["experiment"], best["gpus"]) == ({"tp-size": 2}, 2, 2)
    assert files["submit"].startswith(
        "corral submit --gpus 2 --gpu-model 'NVIDIA A100' --env HF_TOKEN --workdir / -- vllm serve llama-3-8b "
    )
    manifest = yaml.safe_load(files["ome"])
    runner = manifest["spec"]["engine"]["runner"]
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("InferenceService", "llama")
    assert runner["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert runner["args"][-2:] == ["--tensor-parallel-size", "2"]
    assert served.call("GET", f"/tasks/{task_id}/export/xml").status == 422
    assert served.call("GET", f"/tasks/{a_task(served)}/export/ome").status == 409


def test_figures_of_the_best_and_of_the_default_are_the_means_of_all_their_measurements(served: Served) -> None:
    task_id = a_task(served, started=True)
    for number, (ranks, latency) in enumerate([(1, 3.0), (2, 1.0), (1, 5.0), (2, 1.5)], 1):
        tried(served, task_id, number, parameters={"tp-size": ranks}, **measured(latency, 10.0))
    found = served.call("GET", f"/tasks/{task_id}/findings").data
    latency = next(one for one in found["figures"] if one["label"] == "latency")
    assert (latency["best"], latency["default"]) == ("1,250.0 ms", "4,000.0 ms")
    file = yaml.safe_load(served.call("GET", f"/tasks/{task_id}/export/yaml").body.decode())
    assert (file["experiment"], file["objective_score"], file["metrics"]["mean_e2e_latency"]) == (2, 1.25, 1.25)


def test_a_winner_on_several_nodes_is_no_service_on_one(served: Served) -> None:
    task_id = a_task(served, started=True)
    nodes = [{"node": name, "device_ids": [f"GPU-{name}"], "indices": [0]} for name in "ab"]
    gpu_info = {"model": "NVIDIA A100", "count": 2, "nodes": nodes}
    tried(served, task_id, 1, **{**measured(2.0, 7.0), "gpu_info": gpu_info})
    refused = served.call("GET", f"/tasks/{task_id}/export/ome")
    assert (refused.status, refused.error["field"]) == (422, "format")
    assert "ran on 2 nodes" in refused.error["message"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {},
            {
                "experiments": 4,
                "combinations": 2,
                "gpus_least": 1,
                "gpus_most": 2,
                "nodes_most": 1,
                "hours": 4 * 40 / 60,
            },
        ),
        ({"max_parallel": 2}, {"hours": 6 * 40 / 60 / 2}),
        ({"parameters": {"tp-size": [4]}}, {"gpus_most": 4, "hours": None}),
        ({"optimization": {"strategy": "random", "max_iterations": 1}}, {"experiments": 2}),
    ],
)
def test_what_a_task_would_take_is_told_without_writing_it_down(
    served: Served, changed: dict[str, Any], told: dict[str, Any]
) -> None:
    benchmark = {"num_concurrency": [1, 8], "traffic_scenarios": ["D(10,10)"], "max_time_per_iteration": 20}
    found = served.call("POST", "/tasks/estimate", {**TASK, "benchmark": benchmark, **changed}).data
    assert {name: found[name] for name in told} == pytest.approx(told)
    assert found["measuring_s"] == 2400
    assert served.call("GET", "/tasks").data["tasks"] == []


def test_what_makes_no_sense_is_refused_with_its_field_before_it_is_written_down(served: Served) -> None:
    wrong = served.call("POST", "/tasks/estimate", {**TASK, "parameters": {"tp-size": 1}})
    assert (wrong.status, wrong.error["field"]) == (422, "parameters.tp-size")


def test_those_who_follow_events_are_told_of_tasks_and_experiments(served: Served) -> None:
    task_id = a_task(served, started=True)
    tried(served, task_id, 1, **measured(2.0, 7.0))
    served.call("POST", f"/tasks/{task_id}/cancel")
    with following(served.raw_connection, StreamClient, "topics=tasks&after=0") as client:
        told = [client.next() for _ in range(5)]
    assert [event["what"] for event in told] == [
        "created", "started", "experiment_created", "experiment_ended", "cancelled",
    ]  # fmt: skip
    (row,) = told[3]["rows"]
    (listed,) = served.call("GET", f"/tasks/{task_id}/experiments").data["experiments"]
    assert row == listed
    assert told[4]["rows"][0]["status"] == "cancelled"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
@pytest.mark.parametrize("mode", ["process", "docker", "ome", "kserve"])
def test_no_command_tells_the_value_of_a_variable_and_names_are_for_those_who_may_see_them(
    served: Served, mode: str
) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    task_id = a_task(served, started=True, deployment_mode=mode, env={"SECRET_KEY": "secret-value"})
    tried(served, task_id, 1, **measured(1.0, 2.0))
    paths = [f"/tasks/{task_id}/{path}" for path in ("findings", "export/submit", "export/yaml")]
    own = [served.call("GET", path).body.decode() for path in paths]
    theirs = [served.call_tcp("GET", path, token=token).body.decode() for path in paths]
    assert all("corral " in text and "secret-value" not in text for text in own + theirs)
    assert ["SECRET_KEY" in text for text in own] == [True] * 3
    assert ["SECRET_KEY" in text for text in theirs] == [False] * 3
    plans = [served.call("GET", f"/tasks/{task_id}/serving").data]
    plans.append(served.call_tcp("GET", f"/tasks/{task_id}/serving", token=token).data)
    assert [plan["env_withheld"] for plan in plans] == [False, True]
    if mode in ("ome", "kserve"):
        assert [plan["service"]["env"] for plan in plans] == [{"SECRET_KEY": "secret-value"}, {}]
    assert "secret-value" not in "".join(plan["command"] for plan in plans)


def test_the_winner_of_model_services_is_exported_with_its_storage_and_without_the_values_of_variables(
    served: Served,
) -> None:
    storage = {"type": "pvc", "pvc_name": "models", "pvc_subpath": "llama", "mount_path": "/raid"}
    env = {"SECRET_KEY": "secret-value", "KUBECONFIG": "/of/the/tuner"}
    selection = {"affinity": "required", "prefer_nodes": ["gpu-01"]}
    fields = {"storage": storage, "env": env, "gpu_selection": selection}
    task_id = a_task(served, started=True, deployment_mode="ome", **fields)
    tried(served, task_id, 1, **measured(1.0, 2.0))
    text = served.call("GET", f"/tasks/{task_id}/export/ome").body.decode()
    engine = yaml.safe_load(text)["spec"]["engine"]
    assert engine["volumes"][0]["persistentVolumeClaim"] == {"claimName": "models"}
    assert (engine["runner"]["volumeMounts"][0]["mountPath"], "secret-value" in text) == ("/raid", False)
    named = {"secretKeyRef": {"name": "llama-env", "key": "SECRET_KEY"}}
    assert engine["runner"]["env"] == [{"name": "SECRET_KEY", "valueFrom": named}]
    plan = served.call("GET", f"/tasks/{task_id}/serving").data
    assert {name: plan["selection"][name] for name in selection} == selection
    command = plan["command"]
    assert command.endswith("--node required --prefer-node gpu-01")
    assert "--claim models/llama --mount-path /raid --env SECRET_KEY --param" in command
    assert "/of/the/tuner" not in command


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_another_user_deploys_no_service_whose_variables_are_withheld(served: Served, tmp_path: Path) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    task_id = a_task(served, started=True, deployment_mode="ome", env={"SECRET_KEY": "secret-value"})
    tried(served, task_id, 1, **measured(1.0, 2.0))
    env = {**os.environ, "CORRAL_URL": f"http://127.0.0.1:{served.port}", "CORRAL_TOKEN": token, "HOME": str(tmp_path)}
    told = subprocess.run(
        [CORRAL, "deploy", "--from", task_id], capture_output=True, text=True, env=env, timeout=COMMAND_S
    )
    assert (told.returncode, told.stdout.startswith("corral deploy llama --via ome ")) == (1, True)
    assert "that only the task's user and administrators may see" in " ".join(told.stderr.split())
    assert "SECRET_KEY" not in told.stdout + told.stderr
    assert served.call_tcp("GET", f"/tasks/{task_id}/serving", token="of-nobody").status == 401


def test_who_deploys_from_a_task_that_runs_is_told_that_it_may_find_a_better_one(
    served: Served, tmp_path: Path
) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    env = {**os.environ, "CORRAL_URL": f"http://127.0.0.1:{served.port}", "CORRAL_TOKEN": token, "HOME": str(tmp_path)}
    task_id = a_measured_task(served)

    def said(*words: str) -> str:
        command = [CORRAL, "deploy", "--from", task_id, *words]
        return " ".join(
            subprocess.run(command, capture_output=True, text=True, env=env, timeout=COMMAND_S).stderr.split()
        )

    told = f"task {task_id} is still running: experiment 2 is its best so far"
    assert told in said()
    assert "still running" not in said("--experiment", "3")


def test_the_plan_of_serving_is_by_the_winner_or_by_the_experiment_that_is_named(served: Served) -> None:
    task_id = a_measured_task(served)
    best = served.call("GET", f"/tasks/{task_id}/serving").data
    assert (best["experiment_id"], best["gpus"], best["deployment_mode"], best["service"]) == (2, 2, "process", None)
    third = served.call("GET", f"/tasks/{task_id}/serving?experiment=3").data
    assert (third["experiment_id"], "--tensor-parallel-size 3" in third["command"]) == (3, True)
    failed = served.call("GET", f"/tasks/{task_id}/serving?experiment=4")
    assert (failed.status, "experiment 4 of task" in failed.error["message"]) == (409, True)
    assert served.call("GET", f"/tasks/{task_id}/serving?experiment=99").status == 404
    assert served.call("GET", f"/tasks/{task_id}/serving?experiment=0").status == 422
    assert served.call("GET", f"/tasks/{a_task(served)}/serving").status == 409
    assert served.call("GET", "/tasks/999/serving").status == 404


LOG_LINE = "Loading /data/of/alice with the key k-123"


def test_lines_of_a_servers_log_are_told_to_those_alone_who_may_read_it(served: Served) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    error = f"the server died; its last lines:\n{LOG_LINE}"
    task_id = a_task(served, started=True)
    tried(served, task_id, 1, status="failed", error_message=error)
    served.call("POST", f"/tasks/{task_id}/end", {"status": "failed", "error_message": f"none succeeded: {error}"})
    (experiment,) = served.call("GET", f"/experiments?task={task_id}").data["experiments"]
    paths = [f"/experiments/{experiment['id']}", f"/experiments?task={task_id}", f"/tasks/{task_id}/experiments"]
    paths += [f"/tasks/{task_id}", f"/tasks/{task_id}/export/csv", f"/api/tasks/{task_id}"]
    paths += [f"/api/experiments/{experiment['id']}", f"/api/experiments/task/{task_id}", "/api/experiments/"]
    public = ["/tasks", f"/tasks/{task_id}/logs", "/api/tasks/", f"/api/tasks/{task_id}/logs"]
    for path in paths + public:
        own, others = served.call("GET", path), served.call_tcp("GET", path, token=token)
        assert (own.status, others.status) == (200, 200), path
        assert b"died; its last lines:" in others.body, path
        assert LOG_LINE.encode() not in others.body, path
        assert (LOG_LINE.encode() in own.body) == (path in paths), path


def test_a_task_of_a_cluster_with_a_runtime_of_its_own_has_findings_and_a_command_too(served: Served) -> None:
    task_id = a_task(served, started=True, deployment_mode="ome", base_runtime="of-our-own", env={})
    tried(served, task_id, 1, **measured(1.0, 2.0))
    assert served.call("GET", f"/tasks/{task_id}/findings").data["command"].startswith("corral deploy llama ")
    assert served.call("GET", f"/tasks/{task_id}/export/submit").body.startswith(b"corral deploy ")


@pytest.mark.parametrize("parameters", [
    {f"p{i}": [1, 2] for i in range(1500)},
    {"tp-size": list(range(5000))},
    {"tp-size": {"type": "choice", "values": list(range(5000))}},
], ids=["many parameters", "many values", "many values of a choice"])  # fmt: skip
def test_a_task_of_too_many_parameters_is_refused_before_its_combinations_are_looked_at(
    served: Served, parameters: dict[str, Any]
) -> None:
    for path in ("/tasks/estimate", "/tasks"):
        refused = served.call("POST", path, {**TASK, "parameters": parameters})
        assert (refused.status, refused.error["field"]) == (422, "parameters")


def test_as_many_parameters_as_a_task_may_have_are_sized(served: Served) -> None:
    parameters = {f"p{i}": list(range(40)) for i in range(64)}
    assert served.call("POST", "/tasks/estimate", {**TASK, "parameters": parameters}).status == 200
