import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import corral
from corral.client import Client, NoServer, WaitTimedOut
from corral.client.submitting.request import submission
from corral.core.model.errors import NotFound, Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.wire import from_plain, to_plain
from tests.client.conftest import Script


def sent(script: Script) -> Submission:
    return from_plain(Submission, script.asked[-1][2])


def test_what_is_submitted_reads_back_on_the_servers_side(
    home: Path, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    script.answers["POST /jobs"] = 201, {"id": "17", "array_size": 2}
    with Client(home) as client:
        job = client.submit(["python", "train.py"], gpus=2, min_memory="40G", time="2h", array="0-1%1", env={"A": "b"})
    assert (job.id, job.array_size) == ("17", 2)
    read = sent(script)
    assert read.command == ("python", "train.py")
    assert (read.request.devices, read.request.min_memory_mib, read.time_limit_s) == (2, 40960, 7200.0)
    assert read.array == ArraySpec((0, 1), 1)
    assert read.env["A"] == "b"
    assert read.workdir == str(tmp_path)


def test_an_unknown_option_is_refused_with_the_nearest_name(home: Path) -> None:
    with Client(home) as client, pytest.raises(Refused, match="gpu_model"):
        client.submit(["true"], gpu_modl="A100")  # type: ignore[call-arg]


def test_many_are_submitted_in_one_request(home: Path, script: Script) -> None:
    script.answers["POST /jobs/batch"] = 201, {"ids": ["1", "2"]}
    with Client(home) as client:
        jobs = client.submit_many(submission(["true"], {"name": name}) for name in ("a", "b"))
    assert [job.id for job in jobs] == ["1", "2"]
    assert [job["name"] for job in script.asked[0][2]["jobs"]] == ["a", "b"]


def test_a_reservation_names_its_owner_and_its_end(home: Path, script: Script) -> None:
    script.answers["POST /jobs"] = 201, {"id": "3"}
    with Client(home) as client:
        client.reserve(4213, gpus=1, time="30m")
    read = sent(script)
    assert (read.kind, read.owner_pid, read.time_limit_s, read.command) == (JobKind.RESERVE, 4213, 1800.0, ())


def test_an_adoption_sends_only_what_was_said(home: Path, script: Script) -> None:
    script.answers["POST /jobs/adopt"] = 201, {"id": "4"}
    with Client(home) as client:
        assert client.adopt(4213, name="sft").id == "4"
    assert script.asked[0][2] == {"pid": 4213, "name": "sft"}


def test_waiting_asks_until_all_have_ended(home: Path, script: Script) -> None:
    answers = [
        {"done": False, "jobs": [{"id": "1", "phase": "RUNNING"}]},
        {"done": True, "jobs": [{"id": "1", "phase": "FAILED", "exit_code": 3}]},
    ]
    script.answers["POST /jobs/wait"] = lambda body: (200, answers.pop(0))
    with Client(home) as client:
        (row,) = client.wait("1")
    assert (row.ended, row.succeeded, row.exit_code) == (True, False, 3)
    assert len(script.asked) == 2


def test_waiting_ends_after_its_time_and_tells_how_things_stand(home: Path, script: Script) -> None:
    def slow(body: Any) -> tuple[int, Any]:
        time.sleep(body["timeout_s"])
        return 200, {"done": False, "jobs": [{"id": "1", "phase": "RUNNING"}, {"id": "2", "phase": "SUCCEEDED"}]}

    script.answers["POST /jobs/wait"] = slow
    with Client(home) as client, pytest.raises(WaitTimedOut, match="1 of 2 jobs") as late:
        client.wait(["1", "2"], timeout_s=0.05)
    assert [row.id for row in late.value.jobs] == ["1", "2"]
    assert isinstance(late.value, TimeoutError)


def test_any_number_of_jobs_can_be_waited_for(home: Path, script: Script) -> None:
    script.answers["POST /jobs/wait"] = lambda body: (
        200, {"done": True, "jobs": [{"id": one, "phase": "SUCCEEDED"} for one in body["ids"]]},
    )  # fmt: skip
    ids = [str(number) for number in range(2500)]
    with Client(home) as client:
        assert [row.id for row in client.wait(ids)] == ids
    assert max(len(body["ids"]) for _, _, body in script.asked) <= 1000


def test_waiting_outlasts_a_server_that_goes_away_for_a_moment(home: Path, script: Script) -> None:
    def first_then_gone(body: Any) -> tuple[int, Any]:
        if len(script.asked) == 1:
            script.drop_before_answer = 3
            return 200, {"done": False, "jobs": []}
        return 200, {"done": True, "jobs": []}

    script.answers["POST /jobs/wait"] = first_then_gone
    with Client(home) as client:
        assert client.wait(["1"]) == ()


def test_waiting_outlasts_a_server_that_goes_away_before_it_has_answered_at_all(home: Path, script: Script) -> None:
    script.drop_before_answer = 2
    script.answers["POST /jobs/wait"] = 200, {"done": True, "jobs": []}
    with Client(home) as client:
        assert client.wait(["1"]) == ()


def test_waiting_for_a_server_that_is_away_ends_in_time_too(home: Path, script: Script) -> None:
    script.drop_before_answer = 1_000_000
    with Client(home) as client, pytest.raises(NoServer, match="went away"):
        client.wait(["1"], timeout_s=0.1)


def test_waiting_where_no_server_is_ends_at_once(tmp_path: Path) -> None:
    with Client(tmp_path) as client, pytest.raises(NoServer, match="corral up"):
        client.wait(["1"])


def test_rows_pass_over_what_a_newer_server_adds_and_do_without_what_an_older_lacks(home: Path, script: Script) -> None:
    told = {"id": "1", "phase": "DREAMING", "devices": ["GPU-a"], "of_the_future": {}}
    script.answers["GET /jobs"] = 200, {"jobs": [told], "next": None}
    with Client(home) as client:
        (row,) = client.jobs.list(all=True, limit=None)
    assert (row.id, row.devices, row.exit_code, str(row.phase)) == ("1", ("GPU-a",), None, "DREAMING")
    assert script.asked[0][1] == "/api/v1/jobs?all=1&limit=0"


def test_a_device_row_holds_rows_and_gives_back_the_plain_data_it_was_read_from(home: Path, script: Script) -> None:
    plain = {
        "uuid": "GPU-a", "index": 0, "state": "in_use",
        "holders": [{"job": "7", "user": "alice", "share_milli": 1000, "memory_mib": None}],
        "processes": [{"pid": 1, "user": "bob", "command": "python", "memory_mib": 10, "job": None, "container": None}],
    }  # fmt: skip
    script.answers["GET /devices"] = 200, {"devices": [plain]}
    with Client(home) as client:
        (row,) = client.devices.list()
    assert (row.holders[0].job, row.processes[0].user) == ("7", "bob")
    given_back = to_plain(row)
    assert {key: given_back[key] for key in plain} == plain


def test_devices_and_jobs_are_named_safely_in_a_path(home: Path, script: Script) -> None:
    script.answers["POST /devices/GPU%2Fa/cordon"] = 200, {"devices": [{"uuid": "GPU/a", "state": "cordoned"}]}
    script.answers["POST /jobs/1_0/cancel"] = 200, {"ids": ["1_0"]}
    with Client(home) as client:
        assert client.devices.cordon("GPU/a", "loud")[0].state == "cordoned"
        assert client.jobs.cancel("1_0") == ("1_0",)


@pytest.mark.parametrize("name", ["", "../../etc/passwd"])
def test_what_can_be_no_id_is_no_job_and_asks_the_server_nothing(home: Path, name: str) -> None:
    with Client(home) as client, pytest.raises(NotFound, match=f"there is no job '{name}'"):
        client.jobs.why(name)


def test_a_handle_answers_for_its_job(home: Path, script: Script) -> None:
    script.answers["POST /jobs"] = 201, {"id": "5"}
    script.answers["GET /jobs/5"] = 200, {"id": "5", "phase": "RUNNING"}
    script.answers["GET /jobs/5/why"] = (
        200,
        {"id": "5", "reason": "it runs", "waited": [{"reason": "Resources", "seconds": 2}]},
    )
    script.answers["POST /jobs/5/cancel"] = 200, {"ids": ["5"]}
    script.log_blocks = (b"hi",)
    with Client(home) as client:
        job = client.submit(["true"])
        assert job.row().phase == "RUNNING"
        assert job.why().waited[0].seconds == 2
        assert "".join(job.logs()) == "hi"
        assert b"".join(job.logs_bytes()) == b"hi"
        assert job.cancel() == ("5",)


def test_the_client_is_there_under_the_packages_name() -> None:
    assert corral.Client is Client


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = ["rich", "starlette", "pydantic", "sqlalchemy", "numpy", "asyncio", "yaml", "corral.core.model.fact"]
    code = f"import sys, corral.client; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
