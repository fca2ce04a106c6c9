"""A replay's process beside a real server: it goes with it, and with its own jobs nothing happens."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.e2e.box import Box, described, serving


def held_worker(box: Box) -> int:
    """The process of the replay that runs, stopped in the middle; its pid."""
    server = (box.home / "corral.pid").read_text().split()[0]
    pid: int = box.until(lambda: _child(server))
    os.kill(pid, signal.SIGSTOP)
    return pid


def _child(server: str) -> int | None:
    for children in Path(f"/proc/{server}/task").glob("*/children"):
        with suppress(OSError):
            for pid in children.read_text().split():
                if b"replay_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
    return None


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_server_that_stops_ends_the_replay_at_once() -> None:
    with serving(described(1)) as box:
        box.ended(box.submit("--gpus", "1", "--", "true"))
        box.api("/api/v1/replays", {"policies": ["sjf"]})
        pid = held_worker(box)
        box.down()
        assert is_gone(pid)
        box.up()


def test_a_replay_has_little_priority_and_limits_and_is_killed_without_harm() -> None:
    with serving(described(1)) as box:
        box.ended(box.submit("--gpus", "1", "--", "true"))
        told = box.api("/api/v1/replays", {"policies": ["sjf"]})
        pid = held_worker(box)
        box.until(lambda: os.getpriority(os.PRIO_PROCESS, pid) > 0)
        os.kill(pid, signal.SIGKILL)
        failed = box.until(lambda: _failed(box, told["id"]))
        assert "signal 9" in failed
        again = box.api("/api/v1/replays", {"policies": ["sjf"]})
        box.until(lambda: box.api(f"/api/v1/replays/{again['id']}")["state"] == "done")


def _failed(box: Box, replay_id: str) -> str | None:
    told = box.api(f"/api/v1/replays/{replay_id}")
    error: str | None = told["error"]
    return error if told["state"] == "failed" else None


def test_what_really_ran_is_run_again_under_each_policy() -> None:
    with serving(described(2)) as box:
        ids = [box.submit("--gpus", "1", "--name", f"job-{number}", "--", "sleep", "0.5") for number in range(4)]
        for job_id in ids:
            box.ended(job_id)
        told = box.api("/api/v1/replays", {"policies": ["configured", "sjf/none", "las", "fair-share"]})
        done = box.until(lambda: _result(box, told["id"]))
        recorded, *simulated = done["courses"]
        assert (recorded["jobs"], len(simulated), done["gpus"]) == (4, 4, 2)
        for course in simulated:
            assert (course["jobs"], course["unfinished"]) == (4, 0)
            assert course["max_wait_s"] < recorded["max_wait_s"] + 1


def _result(box: Box, replay_id: str) -> dict[str, object] | None:
    told = box.api(f"/api/v1/replays/{replay_id}")
    assert told["state"] != "failed", told["error"]
    result: dict[str, object] | None = told["result"]
    return result
