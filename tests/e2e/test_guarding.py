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
    for grown in ("39G", "41G"):
        uses(box, {greedy_pid: grown, modest_pid: "30G"})
        box.until(lambda grown=grown: used_mib(box) == (int(grown[:-1]) + 30) * 1024)  # type: ignore[misc]
    row = box.ended(greedy)
    assert (row["phase"], row["attempts"]) == ("FAILED", 1)
    assert row["reason"].startswith("it held 41G of GPU 0 for ")
    assert "1G more than its grant of 40G" in row["reason"]
    assert "ask for more next time: --gpu-mem 41984M" in row["reason"]
    warned, stopped = (line for line in box.ok("logs", greedy).splitlines() if line.startswith("corral: "))
    assert "it is stopped unless it is back within 1 s" in warned
    assert "is stopped: it held 41G" in stopped
    assert box.job(modest)["phase"] == "RUNNING"
    assert box.ok("logs", modest).strip() == modest_pid


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
