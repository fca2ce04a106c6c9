"""What a search knows of earlier tasks."""

from corral.client import Client
from corral.features.tuner.running.task_run import earlier_trials
from tests.api.conftest import home, served, world  # noqa: F401
from tests.api.world import Served
from tests.features.tuner.test_tuning_routes import a_task, tried

READING = {"level": {"scenario": "D(1,1)", "concurrency": 1, "minutes": 1.0}, "metrics": {"mean_ttft": 0.5}}


def test_a_search_begins_with_what_ended_tasks_of_the_same_model_and_server_measured(
    served: Served,  # noqa: F811
) -> None:
    def measured(**fields: object) -> str:
        task_id = a_task(served, started=True, **fields)
        state = {"readings": [READING]}
        tried(served, task_id, 1, status="success", objective_score=0.5, search_state=state)
        tried(served, task_id, 2, status="failed", error_message="no memory")
        served.call("POST", f"/tasks/{task_id}/end", {"status": "completed"})
        return task_id

    measured()
    measured(base_runtime="sglang")
    measured(model={"id_or_path": "another"})
    later = a_task(served, started=True)
    measured()
    with Client(str(served.world.home.root)) as client:
        found = earlier_trials(client, client.tasks.get(later))
        first = earlier_trials(client, client.tasks.get("1"))
    assert [(trial.number, trial.readings[0].metrics) for trial in found] == [(1, {"mean_ttft": 0.5})]
    assert first == ()
