"""Tasks of the autotuner and their experiments over HTTP."""

import os
import pwd
from typing import Any

import pytest

from corral.core.model.fact import SiteArranged
from corral.core.model.queues.queue import Project, Queue
from tests.api.world import Served

NOBODY = pwd.getpwuid(65534).pw_name
TASK = {
    "task_name": "llama",
    "model": {"id_or_path": "llama-3-8b"},
    "base_runtime": "vllm",
    "parameters": {"tp-size": [1, 2]},
    "env": {"HF_TOKEN": "secret"},
}


def a_task(served: Served, *, started: bool = False, **fields: Any) -> str:
    answer = served.call("POST", "/tasks", {**TASK, **fields})
    assert answer.status == 201, answer.data
    if started:
        assert served.call("POST", f"/tasks/{answer.data['id']}/start").status == 200
    return str(answer.data["id"])


def tried(served: Served, task_id: str, number: int, **changes: Any) -> dict[str, Any]:
    parameters = changes.pop("parameters", {"tp-size": number})
    new = {"task_id": task_id, "experiment_id": number, "parameters": parameters}
    answer = served.call("POST", "/experiments", new)
    assert answer.status == 201, answer.data
    if changes:
        answer = served.call("PATCH", f"/experiments/{answer.data['id']}", changes)
        assert answer.status == 200, answer.data
    row: dict[str, Any] = answer.data
    return row


def row_of(served: Served, task_id: str) -> dict[str, Any]:
    row: dict[str, Any] = served.call("GET", f"/tasks/{task_id}").data["task"]
    return row


def test_a_task_comes_back_as_its_file_had_it_and_waits_to_be_started(served: Served) -> None:
    task_id = a_task(served)
    detail = served.call("GET", f"/tasks/{task_id}").data
    assert TASK.items() <= detail["config"].items() or detail["config"]["model"]["id_or_path"] == "llama-3-8b"
    assert {name: detail["config"][name] for name in ("parameters", "env")} == {
        "parameters": {"tp-size": [1, 2]},
        "env": {"HF_TOKEN": "secret"},
    }
    assert (detail["task"]["status"], detail["task"]["total_experiments"]) == ("pending", 0)
    assert [row["id"] for row in served.call("GET", "/tasks").data["tasks"]] == [task_id]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"task_nam": "x"}, "did you mean 'task_name'?"),
        ({"task_name": ""}, "task_name must have 1 to 63"),
        ({"model": {}}, "model.id_or_path is missing"),
        ({"benchmark": {"num_concurency": [1]}}, "did you mean 'num_concurrency'?"),
        ({"benchmark": {"num_concurrency": [0]}}, "must be from 1"),
        ({"benchmark": {"traffic_scenarios": []}}, "name 1 to 20"),
        ({"max_parallel": 65}, "max_parallel must be from 1 to 64"),
        ({"optimization": {"timeout_per_iteration": 0}}, "timeout_per_iteration must be from 1 to 604800"),
        ({"optimization": {"timeout_per_iteration": 1e12}}, "timeout_per_iteration must be from 1 to 604800"),
        ({"optimization": {"timeout_per_iteration": "soon"}}, "timeout_per_iteration is 'soon'; it must be a number"),
        ({"optimization": {"timeout_per_iteration": [1]}}, "it must be a number of seconds, such as 1800"),
        ({"deployment_mode": "dokcer"}, "did you mean 'docker'?"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused_with_the_field(served: Served, wrong: dict[str, Any], why: str) -> None:
    answer = served.call("POST", "/tasks", {**TASK, **wrong})
    assert answer.status == 422
    assert why in answer.error["message"]


def test_a_task_in_a_queue_or_project_that_is_not_its_users_is_refused_before_its_first_experiment(
    served: Served,
) -> None:
    of_others = Project("secret", users=("somebody-else",))
    served.world.ledger.observe([SiteArranged(queues=(Queue("default"), Queue("night")), projects=(of_others,))])
    for path in ("/tasks", "/tasks/estimate"):
        unknown = served.call("POST", path, {**TASK, "queue": "nihgt"})
        assert (unknown.status, unknown.error["field"]) == (422, "queue")
        assert "there is no queue 'nihgt' here; did you mean 'night'?" in unknown.error["message"]
        assert served.call("POST", path, {**TASK, "project": "secret"}).status == 403
        assert served.call("POST", path, {**TASK, "queue": "night"}).status in (200, 201)
        # A service has a queue only where a server binds its pods.
        assert served.call("POST", path, {**TASK, "deployment_mode": "ome", "queue": "q"}).status in (200, 201)


def test_experiments_are_numbered_without_gaps_so_that_none_is_written_down_twice(served: Served) -> None:
    task_id = a_task(served)
    assert served.call("POST", "/experiments", {"task_id": task_id, "experiment_id": 1, "parameters": {}}).status == 409
    served.call("POST", f"/tasks/{task_id}/start")
    tried(served, task_id, 1)
    again = served.call("POST", "/experiments", {"task_id": task_id, "experiment_id": 1, "parameters": {}})
    assert (again.status, "is number 2, not 1" in again.error["message"]) == (409, True)
    tried(served, task_id, 2)
    listed = served.call("GET", f"/experiments?task={task_id}").data["experiments"]
    assert [(row["experiment_id"], row["status"]) for row in listed] == [(1, "pending"), (2, "pending")]
    later = served.call("GET", f"/experiments?task={task_id}&after=1&limit=5").data["experiments"]
    assert [row["experiment_id"] for row in later] == [2]


def test_what_is_over_stays_as_it_is_and_counts_once(served: Served) -> None:
    task_id = a_task(served, started=True)
    first = tried(served, task_id, 1, status="benchmarking", job_id="7")
    assert first["started_at"] is not None
    done = {"status": "success", "objective_score": 0.5, "metrics": {"mean_ttft": 0.1}}
    ended = served.call("PATCH", f"/experiments/{first['id']}", done).data
    assert ended["completed_at"] >= ended["started_at"]
    assert served.call("PATCH", f"/experiments/{first['id']}", {"status": "failed"}).status == 409
    tried(served, task_id, 2, status="success", objective_score=0.25)
    tried(served, task_id, 3, status="failed", error_message="it died")
    row = row_of(served, task_id)
    assert (row["total_experiments"], row["successful_experiments"], row["best_score"]) == (3, 2, 0.25)
    assert served.call("GET", f"/experiments/{row['best_experiment_id']}").data["experiment_id"] == 2
    listed = served.call("GET", f"/experiments?task={task_id}").data["experiments"]
    assert [one["metrics"] for one in listed] == [None, None, None]
    whole = served.call("GET", f"/experiments?task={task_id}&metrics=true").data["experiments"]
    assert (
        whole[0]["metrics"] == served.call("GET", f"/experiments/{first['id']}").data["metrics"] == {"mean_ttft": 0.1}
    )


def test_a_task_ends_only_after_its_experiments_and_begins_anew_without_them(served: Served) -> None:
    task_id = a_task(served, started=True)
    one = tried(served, task_id, 1)
    assert served.call("POST", f"/tasks/{task_id}/end", {"status": "completed"}).status == 409
    assert served.call("POST", f"/tasks/{task_id}/cancel").data["status"] == "cancelled"
    for verb in ("start", "restart", "clear"):
        answer = served.call("POST", f"/tasks/{task_id}/{verb}")
        assert (answer.status, "1 experiment" in answer.error["message"]) == (409, True)
    assert served.call("DELETE", f"/tasks/{task_id}").status == 409
    served.call("PATCH", f"/experiments/{one['id']}", {"status": "failed"})
    assert served.call("POST", f"/tasks/{task_id}/start").data["total_experiments"] == 1
    assert served.call("POST", f"/tasks/{task_id}/end", {"status": "completed"}).data["status"] == "completed"
    assert served.call("POST", f"/tasks/{task_id}/start").status == 409
    fresh = served.call("POST", f"/tasks/{task_id}/restart").data
    assert (fresh["status"], fresh["total_experiments"], fresh["completed_at"]) == ("running", 0, None)
    tried(served, task_id, 1, status="success")
    failed = served.call("POST", f"/tasks/{task_id}/end", {"status": "failed", "error_message": "no GPUs"}).data
    assert (failed["status"], failed["error_message"]) == ("failed", "no GPUs")
    assert served.call("POST", f"/tasks/{task_id}/clear").data["status"] == "pending"
    assert served.call("DELETE", f"/tasks/{task_id}").status == 200
    assert served.call("GET", f"/tasks/{task_id}").status == 404


def test_what_a_tuner_says_is_bounded(served: Served) -> None:
    task_id = a_task(served, started=True)
    one = tried(served, task_id, 1)
    large = served.call("PATCH", f"/experiments/{one['id']}", {"metrics": {"x": "y" * (1 << 20)}})
    assert (large.status, "are allowed" in large.error["message"]) == (422, True)
    long = served.call(
        "PATCH", f"/experiments/{one['id']}", {"error_message": "it died\n" + "a" * 9000 + "last words"}
    ).data
    assert len(long["error_message"]) == 8000
    assert long["error_message"].startswith("it died\na")
    assert long["error_message"].endswith("last words")


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_a_task_is_changed_by_its_user_and_its_variables_are_theirs(served: Served) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    task_id = a_task(served, started=True)
    one = tried(served, task_id, 1)
    assert served.call_tcp("GET", f"/tasks/{task_id}", token=token).data["config"]["env"] == {}
    asked = {"task_id": task_id, "experiment_id": 2, "parameters": {}}
    answers = [
        served.call_tcp("POST", f"/tasks/{task_id}/cancel", token=token),
        served.call_tcp("DELETE", f"/tasks/{task_id}", token=token),
        served.call_tcp("POST", "/experiments", asked, token=token),
        served.call_tcp("PATCH", f"/experiments/{one['id']}", {"status": "failed"}, token=token),
    ]
    assert [answer.status for answer in answers] == [403] * 4
