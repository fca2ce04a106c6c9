"""A job that takes more of a shared device than it was granted is told, and then stopped; its neighbours are not."""

from collections.abc import Callable

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
    box.mock.write_text(DEVICE.format(processes=processes))


def started(box: Box) -> tuple[str, str]:
    """A job with half a device that runs, and the pid of its process."""
    job = box.submit("--gpus", "0.5", "--", "sh", "-c", "echo $$; exec sleep 60")
    pid: str = box.until(lambda: box.ok("logs", job).strip())
    return job, pid


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
    for grown in ("39G", "41G"):
        uses(box, {greedy_pid: grown, modest_pid: "30G"})
        box.until(lambda grown=grown: used_mib(box) == (int(grown[:-1]) + 30) * 1024)  # type: ignore[misc]
    row = box.ended(greedy)
    assert (row["phase"], row["attempts"]) == ("CANCELLED", 1)
    assert "uses 41G of GPU-a and was granted 40G" in row["reason"]
    assert "ask for more next time: --gpu-mem 41984M" in row["reason"]
    warned, stopped = (line for line in box.ok("logs", greedy).splitlines() if line.startswith("corral: "))
    assert "it is stopped unless it is back within 1 s" in warned
    assert "is stopped: it uses 41G" in stopped
    assert box.job(modest)["phase"] == "RUNNING"
    assert box.ok("logs", modest).strip() == modest_pid


def test_a_job_that_goes_back_within_its_grace_runs_on(new_box: Callable[[str], Box]) -> None:
    box = new_box(DEVICE.format(processes=""))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nsample_interval: 0.2s\nguard_grace: 5s\n")
    box.up()
    job, pid = started(box)
    uses(box, {pid: "39G"})
    box.until(lambda: used_mib(box) == 39 * 1024)
    uses(box, {pid: "41G"})
    box.until(lambda: "unless it is back" in box.ok("logs", job))
    uses(box, {pid: "39G"})
    box.until(lambda: used_mib(box) == 39 * 1024)
    assert box.job(job)["phase"] == "RUNNING"
