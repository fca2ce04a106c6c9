"""The paths and fields of another autotuner, over the same tasks and experiments."""

import json
from typing import Any

import pytest

from tests.api.world import Answer, Served
from tests.features.tuner.test_tuning_routes import a_task, tried

TASK = {
    "task_name": "llama",
    "description": "which tp",
    "model": {"id_or_path": "llama-3-8b", "namespace": "models"},
    "base_runtime": "sglang",
    "runtime_image_tag": "v0.5.2-cu126",
    "deployment_mode": "docker",
    "parameters": {"tp-size": [1, 2], "mem-fraction-static": [0.8]},
    "optimization": {"strategy": "grid_search", "objective": "minimize_latency", "max_iterations": 10},
    "benchmark": {"task": "text-to-text", "traffic_scenarios": ["D(100,100)"], "num_concurrency": [4]},
    "slo": {"ttft": {"threshold": 0.5}},
}


def ask(served: Served, method: str, path: str, body: Any = None) -> Answer:
    with served.connection() as connection:
        connection.request(method, f"/api{path}", None if body is None else json.dumps(body).encode())
        return Answer(connection.getresponse())


def made(served: Served, **fields: Any) -> dict[str, Any]:
    answer = ask(served, "POST", "/tasks/", {**TASK, **fields})
    assert answer.status == 201, answer.data
    task: dict[str, Any] = answer.data
    return task


def test_what_was_sent_comes_back_with_a_number_as_id_and_times_in_utc(served: Served) -> None:
    task = made(served)
    assert {name: task[name] for name in TASK if name not in ("benchmark", "model")} == {
        name: value for name, value in TASK.items() if name not in ("benchmark", "model")
    }
    assert task["model"] == TASK["model"]
    assert TASK["benchmark"].items() <= task["benchmark"].items()  # type: ignore[attr-defined]
    assert (type(task["id"]), task["status"], task["best_experiment_id"]) == (int, "pending", None)
    assert task["created_at"].endswith("Z")
    assert task["gpu_wait_timeout_s"] == 300
    for path in (f"/tasks/{task['id']}", "/tasks/name/llama"):
        assert ask(served, "GET", path).data == task
    assert served.call("GET", f"/tasks/{task['id']}").data["config"]["gpu_wait_timeout_s"] == 300
    assert made(served, gpu_wait_timeout_s=None)["gpu_wait_timeout_s"] is None
    least = {name: TASK[name] for name in ("task_name", "model", "base_runtime", "parameters")}
    assert ask(served, "POST", "/tasks/", least).data["deployment_mode"] == "docker"


def test_lists_are_bare_newest_first_and_leave_out_what_is_skipped(served: Served) -> None:
    ids = [made(served, task_name=name)["id"] for name in "abc"]
    ask(served, "POST", f"/tasks/{ids[0]}/start")
    assert [row["id"] for row in ask(served, "GET", "/tasks/").data] == ids[::-1]
    assert [row["id"] for row in ask(served, "GET", "/tasks?skip=1&limit=1").data] == [ids[1]]
    assert [row["id"] for row in ask(served, "GET", "/tasks/?status_filter=running").data] == [ids[0]]
    assert ask(served, "GET", "/tasks/?limit=0").status == 422


def test_a_task_lives_by_the_same_rules_as_everywhere(served: Served) -> None:
    path = f"/tasks/{made(served)['id']}"
    assert ask(served, "POST", f"{path}/start").data["status"] == "running"
    assert ask(served, "DELETE", path).status == 409
    assert ask(served, "POST", f"{path}/cancel").data["status"] == "cancelled"
    assert ask(served, "POST", f"{path}/restart").data["status"] == "running"
    assert ask(served, "POST", f"{path}/cancel").data["completed_at"].endswith("Z")
    assert ask(served, "POST", f"{path}/clear").data["status"] == "pending"
    gone = ask(served, "DELETE", path)
    assert (gone.status, gone.body) == (204, b"")
    assert ask(served, "GET", path).status == 404


def test_a_task_is_edited_while_it_rests_and_once_something_was_tried_only_what_it_is_called(served: Served) -> None:
    task_id = made(served)["id"]
    path = f"/tasks/{task_id}"
    assert ask(served, "PATCH", path, {"description": "new"}).data["description"] == "new"
    assert ask(served, "PATCH", path, {"status": "completed"}).status == 422
    assert ask(served, "PUT", path, {**TASK, "parameters": {"tp-size": [4]}}).data["parameters"] == {"tp-size": [4]}
    ask(served, "POST", f"{path}/start")
    running = ask(served, "PUT", path, TASK)
    assert (running.status, "is running" in running.error["message"]) == (409, True)
    tried(served, str(task_id), 1, status="failed")
    ask(served, "POST", f"{path}/cancel")
    other = ask(served, "PUT", path, TASK)
    assert (other.status, "has 1 experiment" in other.error["message"]) == (409, True)
    named = ask(served, "PUT", path, {**TASK, "parameters": {"tp-size": [4]}, "task_name": "other"})
    assert (named.status, named.data["task_name"], named.data["status"]) == (200, "other", "cancelled")
    assert served.call("PUT", path, {**TASK, "task_nam": "x"}).status == 422


def test_experiments_have_the_same_fields_with_their_metrics_in_every_list(served: Served) -> None:
    tasks = [a_task(served, started=True), a_task(served, started=True)]
    done = {"status": "success", "objective_score": 0.5, "metrics": {"mean_ttft": 0.1}, "gpu_info": {"count": 2}}
    first = tried(served, tasks[0], 1, **done)
    tried(served, tasks[0], 2)
    tried(served, tasks[1], 1)
    told = ask(served, "GET", f"/experiments/{first['id']}").data
    assert (told["id"], told["task_id"], told["experiment_id"]) == (int(first["id"]), int(tasks[0]), 1)
    assert {name: told[name] for name in done} == done
    assert ask(served, "GET", f"/tasks/{tasks[0]}").data["best_experiment_id"] == told["id"]

    def listed(path: str) -> list[tuple[int, int]]:
        return [(row["task_id"], row["experiment_id"]) for row in ask(served, "GET", path).data]

    (one, other) = map(int, tasks)
    assert ask(served, "GET", f"/experiments/task/{one}").data[0] == told
    assert listed(f"/experiments/task/{one}?skip=1") == [(one, 2)]
    assert listed("/experiments/") == [(one, 1), (one, 2), (other, 1)]
    assert listed("/experiments?skip=1&limit=1") == [(one, 2)]
    assert listed("/experiments?skip=2") == [(other, 1)]


def test_a_list_with_large_metrics_ends_early_and_goes_on_where_it_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.features.tuner.experiment_table.PAGE_METRICS_BYTES", 1)
    one, other = (a_task(served, started=True) for _ in range(2))
    for task, number in ((one, 1), (one, 2), (other, 1)):
        tried(served, task, number, status="success", metrics={"mean_ttft": 0.1})
    pages: list[list[tuple[str, int]]] = []
    while page := ask(served, "GET", f"/experiments?skip={sum(map(len, pages))}").data:
        pages.append([(str(row["task_id"]), row["experiment_id"]) for row in page])
    assert pages == [[(one, 1)], [(one, 2), (other, 1)]]


@pytest.mark.parametrize("path", ["/tasks/99", "/tasks/name/nobody", "/experiments/99", "/experiments/task/99"])
def test_what_is_not_there_is_said(served: Served, path: str) -> None:
    assert ask(served, "GET", path).status == 404
