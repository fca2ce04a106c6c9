"""Whatever the description lets be sent, and what it does not: no answer is a fault of the server's own, and each is
one that the description tells of.

`make soak` does the same for longer, with a server that runs jobs.
"""

import pytest

from corral.core.model.token import TokenScope
from tests.api.described import DescribedApi, Statuses
from tests.api.world import TOKEN, UUIDS, Served

pytestmark = pytest.mark.long

EXAMPLES = 2
LOOKS = {"/api/v1/jobs/dry-run", "/api/v1/jobs/wait", "/api/v1/session"}
"""Routes that are no GET, and change nothing; a session that is ended is the caller's own."""


@pytest.fixture
def statuses(served: Served) -> Statuses:
    jobs = [served.submit(), served.submit(name="b" * 64, held=True), served.submit(array={"indices": [0, 3]})]
    spec = {"task_name": "t", "model": {"id_or_path": "m"}, "base_runtime": "vllm", "parameters": {"a": [1]}}
    tasks = [served.call("POST", "/tasks", spec).data["id"] for _ in range(2)]
    served.call("POST", f"/tasks/{tasks[0]}/start")
    tried = {"task_id": tasks[0], "experiment_id": 1, "parameters": {"a": 1}}
    experiment = served.call("POST", "/experiments", tried).data["id"]
    of_tuner = {"task_id": tasks, "experiment_id": [experiment]}
    known = {
        **of_tuner,
        "job_id": [*jobs, f"{jobs[2]}_3"],
        "device": ["0", UUIDS[1]],
        "uuid": [UUIDS[0]],
        "node": ["here"],
    }
    scoped = {str(scope): served.call("POST", "/tokens", {"scope": scope}).data["token"] for scope in TokenScope}
    tokens = {"nobody": None, **scoped, "owner": TOKEN}
    api = DescribedApi(served.call("GET", "/openapi.json").data, f"http://127.0.0.1:{served.port}", tokens, known)
    try:
        api.ask(EXAMPLES)
        return api.statuses
    finally:
        api.close()


def test_every_answer_is_one_that_is_described_and_no_token_does_more_than_its_scope(statuses: Statuses) -> None:
    assert {200, 404, 422} <= {status for _, _, _, status in statuses}
    assert len({(method, path) for _, method, path, _ in statuses}) > 40
    told = {(method, path) for who, method, path, status in statuses if who == "nobody" and status < 400}
    assert told == {("GET", "/api/v1/health"), ("DELETE", "/api/v1/session")}
    changes = {(who, path) for who, method, path, status in statuses if method != "GET" and status < 300}
    assert {path for who, path in changes if who == TokenScope.READ} <= LOOKS
    assert {path for who, path in changes if who == TokenScope.SUBMIT} - LOOKS
