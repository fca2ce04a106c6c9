"""A job that takes more of a shared device than it was granted is told, and then stopped; its neighbours are not."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.e2e.box import Box

DEVICE = """slot_name = "cuda"
devices = [{{ mother_uuid = "GPU-a", model_name = "NVIDIA A100", memory_size = "80G", processes = [{processes}] }}]
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""


def uses(box: Box, memory_by_pid: dict[str, str]) -> None:
    """Let the driver say that these processes use so much memory."""
    processes = ", ".join(f'{{ pid = {pid}, memory = "{memory}" }}' for pid, memory in memory_by_pid.items())
    box.describe(DEVICE.format(processes=processes))


def started(box: Box) -> tuple[str, str]:
    """A job with a quarter of a device that runs, and the pid of its process.

    A quarter, for the device can bear a little more than that all at once: who takes so much is warned first.
    """
    job = box.submit("--gpus", "0.25", "--", "sh", "-c", "echo $$; exec sleep 600")
    pid: str = box.until(lambda: box.ok("logs", job).strip())
    return job, pid


def pids(box: Box, job: str, attempts: int) -> list[str]:
    """What each of so many attempts wrote of its pid."""

    def written() -> list[str]:
        return [line.split()[1] for line in box.ok("logs", job).splitlines() if line.startswith("pid ")]

    box.until(lambda: len(written()) == attempts)
    return written()


def used_mib(box: Box) -> int:
    used: int = box.json("devices", "--json")[0]["memory_used_mib"]
    return used


def test_a_job_over_its_grant_is_warned_and_stopped_and_its_neighbour_runs_on(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(DEVICE.format(processes=""))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nsample_interval: 0.2s\nguard_grace: 1s\n")
    box.up()
    (greedy, greedy_pid), (modest, modest_pid) = started(box), started(box)
    uses(box, {greedy_pid: "21G", modest_pid: "15G"})
    row = box.ended(greedy)
    assert (row["phase"], row["attempts"]) == ("FAILED", 1)
    assert row["reason"].startswith("it held 21G of GPU 0 for ")
    assert "1G more than its grant of 20G" in row["reason"]
    assert "ask for more next time: --gpu-mem 21504M" in row["reason"]
    warned, stopped = (line for line in box.ok("logs", greedy).splitlines() if line.startswith("corral: "))
    assert "it is stopped unless it is back within 1 s" in warned
    assert "is stopped: it held 21G" in stopped
    assert box.job(modest)["phase"] == "RUNNING"
    assert box.ok("logs", modest).strip() == modest_pid


def test_no_job_is_stopped_for_what_another_process_takes_in_its_name(new_box: Callable[[str], Box]) -> None:
    box = new_box(DEVICE.format(processes=""))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nsample_interval: 0.2s\nguard_grace: 0.5s\n")
    box.up()
    victim, victim_pid = started(box)
    marks = Path(f"/proc/{victim_pid}/environ").read_bytes().decode().split("\0")
    environment = dict(entry.split("=", 1) for entry in marks if entry.startswith(("CORRAL_", "PATH=")))
    worn = [f"{name}={value}" for name, value in environment.items() if name != "PATH"]
    thief = box.submit("--gpus", "0.25", "--", "env", *worn, "sh", "-c", "echo $$; exec sleep 600")
    thief_pid = box.until(lambda: box.ok("logs", thief).strip())
    with subprocess.Popen(["sleep", "600"], env=environment) as stranger:
        uses(box, {victim_pid: "10G", thief_pid: "30G", str(stranger.pid): "30G"})
        assert "it held 30G of GPU 0" in box.ended(thief)["reason"]
        (device,) = box.json("devices", "--json")
        jobs = {process["pid"]: process["job"] for process in device["processes"]}
        assert jobs[int(victim_pid)] == victim
        assert jobs[stranger.pid] is None
        stranger.kill()
    assert box.job(victim)["phase"] == "RUNNING"
    assert box.ok("logs", victim).strip() == victim_pid


def test_a_job_that_may_be_retried_is_tried_again_after_it_was_stopped(new_box: Callable[[str], Box]) -> None:
    box = new_box(DEVICE.format(processes=""))
    settings = "kill_grace: 1s\nsample_interval: 0.2s\nguard_grace: 0s\nretry_backoff: 0.1s\n"
    (box.home / "config.yaml").write_text(settings)
    box.up()
    job = box.submit("--gpus", "0.5", "--retries", "1", "--", "sh", "-c", "echo pid $$; exec sleep 60")
    uses(box, {pids(box, job, 1)[0]: "50G"})
    uses(box, {pids(box, job, 2)[1]: "50G"})
    row = box.ended(job)
    assert (row["phase"], row["attempts"]) == ("FAILED", 2)


def test_a_job_that_goes_back_within_its_grace_runs_on_and_is_warned_anew(new_box: Callable[[str], Box]) -> None:
    box = new_box(DEVICE.format(processes=""))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nsample_interval: 0.2s\nguard_grace: 10m\n")
    box.up()
    job, pid = started(box)

    def warnings() -> int:
        return box.ok("logs", job).count("unless it is back")

    def warnings_after_going_back_and_growing_again() -> int:
        for used_gib in (19, 21):
            uses(box, {pid: f"{used_gib}G"})
            box.until(lambda used_gib=used_gib: used_mib(box) == used_gib * 1024)  # type: ignore[misc]
        return warnings()

    uses(box, {pid: "21G"})
    box.until(lambda: warnings() == 1)
    box.until(lambda: warnings_after_going_back_and_growing_again() > 1)
    assert box.job(job)["phase"] == "RUNNING"
