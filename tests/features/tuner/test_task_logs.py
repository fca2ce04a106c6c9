"""Logs of tasks and experiments, and what those are told who follow them over WebSockets."""

import json
import os
import pwd
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, TextMessage
from wsproto.events import Request as Handshake

from corral.api.events import event_feed
from corral.api.requests.request_turns import whose_request
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.task_access import TaskAccess
from tests.api.world import PATIENCE_S, Served
from tests.features.tuner.test_autotuner_routes import ask
from tests.features.tuner.test_tuning_routes import a_task, row_of, tried


class Follower:
    """Reads the lines of Server-Sent Events, in a thread of its own."""

    def __init__(self, served: Served, path: str) -> None:
        self.lines: list[str] = []
        self.ended = threading.Event()
        self._grown = threading.Condition()
        self._served, self._path = served, path
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        with self._served.connection() as connection:
            connection.request("GET", self._path)
            answer = connection.getresponse()
            assert answer.getheader("content-type", "").startswith("text/event-stream")
            for line in answer:
                with self._grown:
                    if line.startswith(b"data: ") and line != b"data: \n":
                        self.lines.append(line.removeprefix(b"data: ").decode().rstrip("\n"))
                    if line == b"event: end\n":
                        self.ended.set()
                    self._grown.notify_all()

    def until(self, part: str) -> None:
        with self._grown:
            assert self._grown.wait_for(lambda: any(part in line for line in self.lines), PATIENCE_S), self.lines


def said(lines: list[str]) -> list[str]:
    """Without their times."""
    assert all(line.split(" ")[0].endswith("Z") for line in lines)
    return [line.partition(" ")[2] for line in lines]


def test_a_log_that_was_followed_has_the_same_lines_as_one_that_is_read_and_ends_with_the_task(served: Served) -> None:
    task_id = a_task(served, started=True)
    one = tried(served, task_id, 1, status="deploying", job_id="7")
    follower = Follower(served, f"/api/v1/tasks/{task_id}/logs?follow=true")
    follower.until("deployed as job 7")
    two = tried(served, task_id, 2)
    served.call("PATCH", f"/experiments/{one['id']}", {"status": "success", "objective_score": 0.5})
    served.call("POST", f"/tasks/{task_id}/cancel")
    follower.until("is cancelled")
    assert not follower.ended.is_set()
    ending = {"status": "failed", "error_message": "died of \x1b[31mred\nand a log"}
    served.call("PATCH", f"/experiments/{two['id']}", ending)
    follower.thread.join(PATIENCE_S)
    assert follower.ended.is_set()
    read = served.call("GET", f"/tasks/{task_id}/logs").body.decode().splitlines()
    assert sorted(follower.lines) == sorted(read)
    assert said(read) == [
        f"task {task_id} (llama) of {row_of(served, task_id)['user']}",
        f"task {task_id} began",
        "experiment 1: tp-size 1",
        "experiment 1 has its GPUs and is deployed as job 7",
        "experiment 2: tp-size 2",
        "experiment 1: success, score 0.5",
        f"task {task_id} is cancelled",
        r"experiment 2: failed: died of \x1b[31mred",
    ]
    assert ask(served, "GET", f"/tasks/{task_id}/logs").data["logs"].splitlines() == read


def test_a_browser_that_comes_back_after_the_end_is_told_to_stay_away(served: Served) -> None:
    task_id = a_task(served, started=True)
    served.call("POST", f"/tasks/{task_id}/cancel")
    with served.connection() as connection:
        connection.request("GET", f"/api/tasks/{task_id}/logs?follow=true")
        assert connection.getresponse().read().endswith(b"id: end\nevent: end\ndata: \n\n")
        connection.request("GET", f"/api/tasks/{task_id}/logs?follow=true", headers={"Last-Event-ID": "end"})
        assert connection.getresponse().status == 204


def test_an_experiment_has_the_log_of_its_job_whose_lines_cannot_make_events(served: Served) -> None:
    task_id = a_task(served, started=True)
    job_id = served.submit()
    tried(served, task_id, 1, status="deploying", job_id=job_id)
    log = b"ready\rdata: forged\n\nevent: end\n" + b"x" * 20_000 + b"\nhalf"
    served.world.log_of(job_id).write_bytes(log)
    tried(served, task_id, 2)
    none = ask(served, "GET", f"/tasks/{task_id}/experiments/2/logs")
    assert (none.status, "without a job" in none.error["message"]) == (404, True)
    assert ask(served, "GET", f"/tasks/{task_id}/experiments/3/logs").status == 404
    assert ask(served, "GET", f"/tasks/{task_id}/experiments/x/logs").status == 404
    assert ask(served, "GET", f"/tasks/{task_id}/experiments/1/logs").data == {"logs": log.decode()}
    served.call("POST", f"/jobs/{job_id}/cancel")
    followed = ask(served, "GET", f"/tasks/{task_id}/experiments/1/logs?follow=true").body
    lines = ["ready", "data: forged", "", "event: end", "x" * 20_000, "half"]
    assert followed.decode() == "".join(f"data: {line}\n\n" for line in lines) + "id: end\nevent: end\ndata: \n\n"


class Socket:
    """Reads messages of a WebSocket; `code` is the one with which it was closed, `status` that of the answer."""

    def __init__(self, raw: socket.socket, path: str) -> None:
        self._raw, self._conn = raw, WSConnection(ConnectionType.CLIENT)
        self._messages: list[dict[str, Any]] = []
        self.status = 0
        raw.sendall(self._conn.send(Handshake(host="x", target=path)))
        while not self.status:
            self._take()

    def next(self) -> dict[str, Any]:
        while not self._messages:
            self._take()
        return self._messages.pop(0)

    def say(self, text: str) -> None:
        self._raw.sendall(self._conn.send(TextMessage(data=text)))

    def _take(self) -> None:
        data = self._raw.recv(1 << 16)
        assert data, "it was closed"
        self._conn.receive_data(data)
        for event in self._conn.events():
            match event:
                case AcceptConnection():
                    self.status = 101
                case RejectConnection():
                    self.status = event.status_code
                case TextMessage():
                    self._messages.append(json.loads(event.data))
                case CloseConnection():
                    raise AssertionError(f"closed with {event.code}")


@contextmanager
def listening(served: Served, path: str) -> Iterator[Socket]:
    with served.raw_connection() as raw:
        yield Socket(raw, path)


def test_who_follows_a_task_hears_what_happens_to_it_and_its_experiments_and_to_no_other(served: Served) -> None:
    task_id, other = a_task(served), a_task(served, started=True)
    with listening(served, f"/api/ws/tasks/{task_id}") as client:
        hello = client.next()
        assert (hello["type"], hello["task_id"], hello["data"]["status"]) == (
            "connection_established",
            int(task_id),
            "pending",
        )
        assert hello["timestamp"].endswith("Z")
        client.say("are you there?")
        served.call("POST", f"/tasks/{task_id}/start")
        tried(served, other, 1)
        one = tried(served, task_id, 1, status="deploying", job_id="7")
        path = f"/experiments/{one['id']}"
        served.call("PATCH", path, {"status": "benchmarking"})
        served.call("PATCH", path, {"metrics": {"mean_ttft": 0.1}})
        served.call("PATCH", path, {"status": "success", "objective_score": 0.5})
        tried(served, task_id, 2, status="failed", error_message="no memory")
        served.call("POST", f"/tasks/{task_id}/end", {"status": "completed"})
        heard = [client.next() for _ in range(9)]
    assert [(one["type"], one["experiment_id"]) for one in heard] == [
        ("task_started", None),
        ("experiment_started", 1),
        ("experiment_progress", 1),
        ("benchmark_started", 1),
        ("benchmark_progress", 1),
        ("experiment_completed", 1),
        ("experiment_started", 2),
        ("experiment_failed", 2),
        ("task_completed", None),
    ]
    assert {one["task_id"] for one in heard} == {int(task_id)}
    assert (heard[4]["data"]["figures"], heard[7]["message"]) == (
        {"mean_ttft": 0.1},
        "experiment 2 is failed: no memory",
    )
    assert heard[1]["data"]["parameters"] == {"tp-size": 1}


def test_who_follows_an_experiment_hears_of_that_one_alone(served: Served) -> None:
    task_id = a_task(served, started=True)
    one, two = tried(served, task_id, 1), tried(served, task_id, 2)
    with listening(served, f"/api/ws/experiments/{two['id']}") as client:
        hello = client.next()
        assert (hello["type"], hello["experiment_id"], hello["data"]["id"]) == (
            "connection_established", 2, int(two["id"]),
        )  # fmt: skip
        served.call("PATCH", f"/experiments/{one['id']}", {"status": "failed"})
        served.call("PATCH", f"/experiments/{two['id']}", {"status": "failed", "error_message": "why"})
        told = client.next()
        assert (told["type"], told["experiment_id"], told["data"]["error_message"]) == ("experiment_failed", 2, "why")


@pytest.mark.parametrize("kind", ["tasks", "experiments"])
def test_who_opens_a_websocket_waits_for_the_ledger_in_their_own_turn(
    served: Served, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    task_id = a_task(served, started=True)
    experiment_id = tried(served, task_id, 1)["id"]
    offers, turns_of = served.app_state.offers, list[str]()
    access, name = (offers.of(TaskAccess), "task") if kind == "tasks" else (offers.of(ExperimentAccess), "find")
    find = getattr(access, name)

    def noted(*args: object) -> object:
        turns_of.append(whose_request.get())
        return find(*args)

    monkeypatch.setattr(access, name, noted)
    with listening(served, f"/api/ws/{kind}/{task_id if kind == 'tasks' else experiment_id}") as client:
        assert client.status == 101
    assert turns_of == [pwd.getpwuid(os.geteuid()).pw_name]


@pytest.mark.parametrize("path", ["/api/ws/tasks/99", "/api/ws/experiments/99"])
def test_what_is_not_there_cannot_be_followed(served: Served, path: str) -> None:
    with listening(served, path) as client:
        assert client.status == 404


def test_a_follower_that_goes_gives_its_place_to_another_and_a_server_that_stops_ends_no_log(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "MOST_OF_A_USER", 1)
    path = f"/api/v1/tasks/{a_task(served, started=True)}/logs?follow=true"
    asked = f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()

    def follow(raw: socket.socket) -> bytes:
        raw.sendall(asked)
        return raw.recv(len(b"HTTP/1.1 200"))

    with served.raw_connection() as first, served.raw_connection() as second:
        assert (follow(first), follow(second)) == (b"HTTP/1.1 200", b"HTTP/1.1 503")
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        with served.raw_connection() as third:
            if follow(third) == b"HTTP/1.1 200":
                served.server.stop()
                rest = b"".join(iter(lambda: third.recv(1 << 16), b""))
                break
        assert time.monotonic() < give_up_at
    assert b"data: " in rest
    # Neither the event nor the last chunk that would say that this was all.
    assert b"event: end" not in rest
    assert not rest.endswith(b"0\r\n\r\n")
