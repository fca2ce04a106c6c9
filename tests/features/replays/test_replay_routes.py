"""The past run again over HTTP: a real process over a real ledger, and who may ask for it."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from corral.client import Client
from corral.core.model.errors import Refused
from corral.core.model.fact import JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from tests.api.world import PATIENCE_S, Served

HOSTILE = "<img src=x onerror=alert(1)>"


def two_jobs(served: Served) -> None:
    """One of Alice's that ran for a minute an hour ago, and one of Bob's that waited for it."""
    begin = time.time() - 3600
    facts: list[JobSubmitted | JobChanged] = []
    for number, user, started_at in ((1, "alice", begin), (2, "bob", begin + 60)):
        job = Job(str(number), number, JobSpec(user=user, name=HOSTILE), begin)
        facts += [
            JobSubmitted(job, at=begin, by=user),
            JobChanged(job.id, {"phase": Phase.STARTING, "started_at": None}, at=started_at, by="test"),
            JobChanged(job.id, {"phase": Phase.RUNNING, "started_at": started_at}, at=started_at, by="test"),
            JobChanged(job.id, {"phase": Phase.SUCCEEDED, "ended_at": started_at + 60}, at=started_at + 60, by="test"),
        ]
    served.world.ledger.commit(lambda _: Decided(tuple(facts), None)).result()


def over(served: Served, replay_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while (told := served.call("GET", f"/replays/{replay_id}").data)["state"] in ("queued", "running"):
        assert time.monotonic() < deadline, told
        time.sleep(0.05)
    return dict(told)


def test_the_past_is_run_again_and_every_wait_is_told(served: Served) -> None:
    two_jobs(served)
    started = served.call("POST", "/replays", {"policies": ["configured", "fcfs/none"]})
    assert started.status == 202, started.data
    done = over(served, started.data["id"])
    assert (done["state"], done["error"]) == ("done", None)
    courses = done["result"]["courses"]
    assert [one["name"] for one in courses] == ["recorded", "configured", "fcfs/none"]
    assert [round(one["max_wait_s"]) for one in courses] == [60, 0, 0]
    assert {one["name"] for one in done["result"]["jobs"]} == {HOSTILE}
    listed = served.call("GET", "/replays").data
    assert [(one["id"], one["result"]) for one in listed["replays"]] == [(done["id"], None)]


def test_the_python_client_waits_for_what_comes_of_it(served: Served) -> None:
    two_jobs(served)
    with Client(served.world.home.root) as client:
        result = client.replay(["configured", "sjf"], since=time.time() - 7200)
        assert [one.name for one in result.courses] == ["recorded", "configured", "sjf"]
        with pytest.raises(Refused, match="choose another"):
            client.replay("sjf", since=1, until=2)
        with pytest.raises(Refused, match="policies"):
            client.replay(7)  # type: ignore[arg-type]


def test_who_waits_no_longer_ends_the_replay(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    two_jobs(served)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("corral.features.replays.client.time", SimpleNamespace(sleep=interrupt))
    with Client(served.world.home.root) as client, pytest.raises(KeyboardInterrupt):
        client.replay("sjf")
    (one,) = served.call("GET", "/replays").data["replays"]
    assert one["state"] == "cancelled"


def test_nothing_to_run_again_is_told_as_a_failure_with_what_to_do(served: Served) -> None:
    started = served.call("POST", "/replays", {"policies": ["sjf"]})
    failed = over(served, started.data["id"])
    assert failed["state"] == "failed"
    assert "choose another" in failed["error"]


def test_a_replay_can_be_ended(served: Served) -> None:
    two_jobs(served)
    started = served.call("POST", "/replays", {"policies": ["sjf"]}).data
    ended = served.call("DELETE", f"/replays/{started['id']}")
    assert ended.status == 200
    assert over(served, started["id"])["state"] in ("cancelled", "done")


def test_who_may_only_read_may_ask_what_if_and_sees_their_own_alone(served: Served) -> None:
    two_jobs(served)
    token = served.call("POST", "/tokens", {"user": "nobody", "scope": "read"}).data["token"]
    owners = served.call("POST", "/replays", {"policies": ["sjf"]}).data["id"]
    own = served.call_tcp("POST", "/replays", {"policies": ["sjf"]}, token=token)
    assert (own.status, own.data["user"]) == (202, "nobody")
    assert served.call_tcp("GET", f"/replays/{owners}", token=token).status == 404
    assert served.call_tcp("DELETE", f"/replays/{owners}", token=token).status == 404
    assert served.call_tcp("DELETE", f"/replays/{own.data['id']}", token=token).status == 200
    assert served.call_tcp("GET", "/replays", token=None).status == 401


def test_what_makes_no_sense_is_refused(served: Served) -> None:
    for body, field in (
        ({}, "policies"),
        ({"policies": []}, "policies"),
        ({"policies": [HOSTILE]}, "policy"),
        ({"policies": ["sjf"], "since": 9, "until": 3}, "since"),
        ({"policies": ["sjf"], "days": 3}, "days"),
    ):
        answer = served.call("POST", "/replays", body)
        assert (answer.status, answer.error["field"]) == (422, field)
