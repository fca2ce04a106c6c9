"""Signals and input over HTTP, for jobs that wait; those that run are met in `tests/e2e`."""

import time

import pytest

from corral.api.routes import interaction
from tests.api.world import Served


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interaction, "LONGEST_WAIT_S", 0.05)


def test_input_for_a_job_that_waits_is_not_taken_yet(served: Served) -> None:
    job_id = served.submit(stdin=True)
    answer = served.call("POST", f"/jobs/{job_id}/input?offset=0", b"abc")
    assert (answer.status, answer.data) == (200, {"offset": 0, "state": "waiting"})


def test_who_sends_input_to_a_job_that_is_cancelled_hears_so_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interaction, "LONGEST_WAIT_S", 60.0)
    job_id = served.submit(stdin=True)
    with served.connection() as connection:
        connection.request("POST", f"/api/v1/jobs/{job_id}/input", b"abc")
        began = time.monotonic()
        served.call("POST", f"/jobs/{job_id}/cancel")
        assert b'"state":"closed"' in connection.getresponse().read()
        assert time.monotonic() - began < 30


def test_a_portion_of_input_has_64_kib_at_most(served: Served) -> None:
    job_id = served.submit(stdin=True)
    answer = served.call("POST", f"/jobs/{job_id}/input", bytes(65_537))
    assert (answer.status, "64 KiB" in answer.error["message"]) == (413, True)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("input", b"abc", 409, "takes no input"),
        ("input?offset=-1", b"", 422, "count bytes from 0"),
        ("signal", {"signal": "INT"}, 409, "only a job that runs can be sent a signal"),
        ("signal", {"signal": "KILL"}, 422, "use one of INT"),
        ("terminal", {"rows": 24, "columns": 80}, 409, "has no terminal"),
        ("terminal", {"rows": 0, "columns": 80}, 422, "rows"),
    ],
)
def test_what_a_job_cannot_take_is_refused(served: Served, path: str, body: object, status: int, said: str) -> None:
    answer = served.call("POST", f"/jobs/{served.submit()}/{path}", body)
    assert (answer.status, said in answer.error["message"]) == (status, True), answer.data


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"stdin": True, "array": {"indices": [0, 1]}}, "stdin"),
        ({"terminal": {"rows": 24, "columns": 80}, "stdin": True}, "stdin"),
        ({"terminal": {"rows": 0, "columns": 80}}, "rows"),
        ({"terminal": {"rows": 24, "columns": 80}, "output": "x"}, "output"),
        ({"command": [], "kind": "reserve", "stdin": True}, "stdin"),
    ],
)
def test_a_submission_that_cannot_be_sent_input_is_refused(served: Served, fields: object, field: str) -> None:
    assert isinstance(fields, dict)
    answer = served.call("POST", "/jobs", {"command": ["cat"], **fields})
    assert (answer.status, answer.error["field"]) == (422, field)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"command": ["true"]}, 409, "has not started"),
        ({"command": [""]}, 422, "is empty"),
        ({"command": ["a\0b"]}, 422, "NUL"),
        ({"command": "true"}, 422, "command"),
        ({"terminal": {"rows": 0, "columns": 80}}, 422, "rows"),
        ({"command": ["true"], "user": "root"}, 422, "user"),
    ],
)
def test_a_command_that_cannot_run_inside_a_job_is_refused(
    served: Served, body: object, status: int, said: str
) -> None:
    answer = served.call("POST", f"/jobs/{served.submit()}/execs", body)
    assert (answer.status, said in answer.error["message"]) == (status, True), answer.data


def test_output_of_a_command_that_does_not_run_is_not_found(served: Served) -> None:
    assert served.call("GET", f"/jobs/{served.submit()}/execs/0123/output").status == 404
