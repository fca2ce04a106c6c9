"""A whole server on a driver: the stub library, real processes on its GPUs, and what goes wrong with drivers."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.box import Box
from tests.vendors.nvidia.nvml_stub import NvmlStub, nvml_library, nvml_stub, stub_uuid

__all__ = ["nvml_library", "nvml_stub"]


@pytest.fixture
def box(new_box: Callable[[str], Box], nvml_stub: NvmlStub) -> Box:
    """A server on two GPUs of the stub."""
    nvml_stub.say("devices 2")
    box = new_box("")
    box.env.update(nvml_stub.env)
    box.ok("up", "--detach")
    return box


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def device(box: Box, index: int) -> dict[str, Any]:
    row: dict[str, Any] = box.json("status", "--json")[index]
    return row


def index_of(box: Box, job: str) -> int:
    """Which of the two GPUs the job has."""
    (given,) = box.job(job)["devices"]
    return [stub_uuid(0), stub_uuid(1)].index(given)


def test_the_drivers_gpus_are_listed_and_handed_out_by_uuid(box: Box) -> None:
    assert [row["uuid"] for row in box.json("status", "--json")] == [stub_uuid(0), stub_uuid(1)]
    assert (
        box.ok("run", "--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        == f"{stub_uuid(0)},{stub_uuid(1)}\n"
    )


def test_a_stranger_is_named_and_its_gpu_is_not_handed_out(
    box: Box, nvml_stub: NvmlStub, stranger: "subprocess.Popen[bytes]"
) -> None:
    nvml_stub.say("devices 2", f"gpu 0 process {stranger.pid} 500")
    box.until(lambda: device(box, 0)["state"] == "in_use")
    (process,) = device(box, 0)["processes"]
    assert (process["pid"], process["command"], process["job"]) == (stranger.pid, "sleep 600", None)
    assert box.ok("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == f"{stub_uuid(1)}\n"
    nvml_stub.say("devices 2")
    box.until(lambda: device(box, 0)["state"] == "free")


def test_a_stranger_that_came_since_the_last_sample_is_seen_before_a_launch(
    box: Box, nvml_stub: NvmlStub, stranger: "subprocess.Popen[bytes]"
) -> None:
    nvml_stub.say("devices 2", f"gpu 0 process {stranger.pid} 500")
    assert box.ok("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == f"{stub_uuid(1)}\n"


def test_a_jobs_own_process_on_its_gpu_is_no_stranger(box: Box, nvml_stub: NvmlStub) -> None:
    job = box.submit("--", "sh", "-c", "echo pid=$$; exec sleep 600")
    box.until(lambda: "pid=" in box.run("logs", job).stdout)
    pid = box.ok("logs", job).split("pid=")[1].strip()
    index = index_of(box, job)
    nvml_stub.say("devices 2", f"gpu {index} process {pid} 500")
    box.until(lambda: device(box, index)["processes"] != [])
    assert device(box, index)["state"] == "allocated"
    assert device(box, index)["processes"][0]["job"] == job


def test_a_driver_that_hangs_holds_up_nobody_and_is_used_again_when_it_answers(box: Box, nvml_stub: NvmlStub) -> None:
    nvml_stub.say("devices 2", "gpu 0 hang 1")
    job = box.submit("--", "true")
    assert box.ok("run", "--gpus", "0", "--", "echo", "alive") == "alive\n"
    box.until(
        lambda: (
            "has not answered" in box.json("why", job, "--json")["reason"] or device(box, 0)["state"] == "unreadable"
        )
    )
    nvml_stub.say("devices 2")
    box.ok("wait", job)


def test_a_gpu_that_falls_off_the_bus_is_set_aside_with_its_reason(box: Box, nvml_stub: NvmlStub) -> None:
    nvml_stub.say("devices 2", "gpu 0 lost 1")
    box.until(lambda: device(box, 0)["state"] == "unreadable")
    row = device(box, 0)
    assert row["memory_used_mib"] is None
    assert box.ok("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == f"{stub_uuid(1)}\n"


def test_a_second_server_on_the_same_gpus_is_told_of_the_first(
    box: Box, new_box: Callable[[str], Box], nvml_stub: NvmlStub
) -> None:
    second = new_box("")
    second.env.update(nvml_stub.env)
    begun = second.run("up", "--detach")
    assert begun.returncode == 0
    assert "another server manages GPUs of this one too: GPU 0, 1 to the one of" in begun.stderr
    assert "another server manages GPUs" in (second.home / "server.log").read_text()
    second.down()
