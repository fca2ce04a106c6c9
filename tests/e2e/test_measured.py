"""What was measured of jobs that share a GPU: each has its own, while it runs, after its end and after a restart."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.e2e.box import Box

DEVICE = """[[devices]]
mother_uuid = "GPU-a"
model_name = "NVIDIA A100"
memory_size = "80G"
processes = [{processes}]
"""


def uses(box: Box, used: dict[str, tuple[str, int]]) -> None:
    """Let the driver say that these processes, by pid, use so much memory, and the GPU for so much of the time."""
    processes = ", ".join(
        f'{{ pid = {pid}, memory = "{memory}", utilization_pct = {pct} }}' for pid, (memory, pct) in used.items()
    )
    box.describe(DEVICE.format(processes=processes))


def pid_of(box: Box, job: str) -> str:
    return box.ok("logs", job).strip()


def most(box: Box, job: str) -> tuple[float, float] | None:
    """The highest utilisation and memory (MiB) of a job on GPU 0, None where nothing was measured yet."""
    found: dict[str, Any] = box.job(job).get("gpu_monitoring", {}).get("gpu_stats", {}).get("0", {})
    return (found["utilization"]["max"], found["memory_used_mb"]["max"]) if "utilization" in found else None


def test_jobs_on_one_gpu_have_each_what_their_own_processes_use(new_box: Callable[[str], Box]) -> None:
    box = new_box(DEVICE.format(processes=""))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nsample_interval: 0.2s\n")
    box.up()
    jobs = [box.submit("--gpus", "0.25", "--", "sh", "-c", "echo $$; exec sleep 600") for _ in range(2)]
    first, second = (box.until(partial(pid_of, box, job)) for job in jobs)
    uses(box, {first: ("9G", 30), second: ("12G", 50)})
    box.until(lambda: [most(box, job) for job in jobs] == [(30, 9216), (50, 12288)])
    # Of the first nothing is left on the GPU before the second has it alone.
    uses(box, {second: ("12G", 50)})
    box.ok("cancel", *jobs)
    for job in jobs:
        box.ended(job)
    assert [most(box, job) for job in jobs] == [(30, 9216), (50, 12288)]
    assert "12G" in box.ok("show", jobs[1])
    box.down()
    box.up()
    assert [most(box, job) for job in jobs] == [(30, 9216), (50, 12288)]
