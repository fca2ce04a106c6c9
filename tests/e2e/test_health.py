"""Sick GPUs leave the pool by themselves, and come back once they have proved themselves."""

from collections.abc import Callable
from typing import Any

from tests.e2e.box import Box, described, uuid

SETTINGS = "kill_grace: 1s\nsample_interval: 0.2s\nstale_sample: 1s\n"


def site(new_box: Callable[[str], Box], gpus: int = 1, *, watch: str = "1s", settings: str = "") -> Box:
    box = new_box(described(gpus))
    (box.home / "config.yaml").write_text(f"{SETTINGS}probation_watch: {watch}\n{settings}")
    box.up()
    return box


def health(box: Box, gpu: int = 0) -> str:
    rows: list[dict[str, Any]] = box.json("devices", "--json")
    return str(rows[gpu]["health"])


def began_from(box: Box, job: str) -> list[int]:
    """The step from which each attempt of a job has begun, as it says."""
    return [int(line.split()[1]) for line in box.ok("logs", job).splitlines() if line.startswith("from ")]


def becomes(box: Box, word: str) -> None:
    box.until(lambda: health(box) == word)


def test_a_gpu_that_fell_off_the_bus_takes_no_job_until_it_has_proved_itself(new_box: Callable[[str], Box]) -> None:
    box = site(new_box)
    box.describe(described(1, extra="xid = 79\nlost = true"))
    becomes(box, "quarantined")
    waiting = box.submit("--gpus", "1", "--", "true")
    assert "Xid 79: the GPU has fallen off the bus" in box.ok("health")
    box.describe(described(1, extra="xid = 79"))
    becomes(box, "probation")
    assert box.ended(waiting)["phase"] == "SUCCEEDED"
    assert health(box) == "healthy"
    evidence = box.home / "evidence.txt"
    box.ok("health", "evidence", "0", "--out", str(evidence))
    text = evidence.read_text()
    for said in (uuid(0), "Xid 79", "quarantined", "it passed its test", "it has proved itself", f"job {waiting} of"):
        assert said in text


def test_an_xid_that_a_program_caused_leaves_the_gpu_healthy(new_box: Callable[[str], Box]) -> None:
    box = site(new_box)
    box.describe(described(1, extra="xid = 31"))
    box.until(lambda: box.json("devices", "--json")[0]["xid"] == 31)
    assert box.ended(box.submit("--gpus", "1", "--", "true"))["phase"] == "SUCCEEDED"
    assert health(box) == "healthy"


def test_an_xid_that_nobody_knows_makes_the_gpu_suspect_and_only_small_jobs_start_on_it(
    new_box: Callable[[str], Box],
) -> None:
    box = site(new_box, 2, watch="1h")
    box.describe(described(2).replace('load = "follow-jobs"', "xid = 9999", 1))
    becomes(box, "suspect")
    assert box.ended(box.submit("--device", "0", "--", "true"))["phase"] == "SUCCEEDED"
    large = box.submit("--gpus", "2", "--", "true")
    box.until(lambda: "1 suspect (Xid 9999" in box.ok("why", large))


def test_a_test_that_hangs_fails_and_an_administrator_has_the_last_word(new_box: Callable[[str], Box]) -> None:
    box = site(new_box, settings="probation_command: echo began; sleep 1000\nprobation_timeout: 1s\n")
    box.describe(described(1, extra="lost = true"))
    becomes(box, "quarantined")
    box.describe(described(1))
    box.until(lambda: "had not ended after 1s" in box.ok("health"))
    assert health(box) == "quarantined"
    box.ok("health", "trust", "0")
    assert box.ended(box.submit("--gpus", "1", "--", "true"))["phase"] == "SUCCEEDED"


def test_memory_errors_keep_jobs_off_until_they_are_gone_or_trusted_also_over_a_restart(
    new_box: Callable[[str], Box],
) -> None:
    box = site(new_box)
    box.describe(described(1, extra="ecc_errors = 2"))
    becomes(box, "quarantined")
    box.down()
    box.up()
    assert health(box) == "quarantined"
    box.ok("health", "trust", "0")
    assert box.ended(box.submit("--gpus", "1", "--", "true"))["phase"] == "SUCCEEDED"
    box.describe(described(1, extra="ecc_errors = 0"))
    box.until(lambda: box.json("health", "--json")["devices"][0]["trusted"] == [])
    box.describe(described(1, extra="ecc_errors = 1"))
    becomes(box, "quarantined")


def test_a_job_goes_on_elsewhere_from_its_checkpoint_while_its_gpu_proves_itself(new_box: Callable[[str], Box]) -> None:
    box = site(new_box, 2)
    saved = box.home / "step"
    work = f"""n=$(cat {saved} 2>/dev/null || echo 0); echo "from $n"
        while :; do n=$((n + 1)); echo $n > {saved}.new; mv {saved}.new {saved}; sleep 0.05; done"""
    job = box.submit("--gpus", "1", "--retries", "1", "--", "sh", "-c", work)
    box.until(lambda: saved.exists() and int(saved.read_text()) > 3)
    (first,) = box.job(job)["devices"]
    before, _, after = described(2).partition(f'"{first}"')
    box.describe(f'{before}"{first}"\nxid = 79\nlost = true{after}')
    box.until(lambda: box.job(job)["phase"] == "RUNNING" and box.job(job)["devices"] != [first])
    box.until(lambda: len(began_from(box, job)) == 2)
    assert began_from(box, job)[0] == 0 < began_from(box, job)[1]
    box.describe(f'{before}"{first}"\nxid = 79{after}')
    box.until(lambda: {row["uuid"]: row["health"] for row in box.json("devices", "--json")}[first] == "healthy")
    assert box.job(job)["phase"] == "RUNNING"
    assert box.ended(box.submit("--device", first, "--", "true"))["phase"] == "SUCCEEDED"
