from corral.client import Client
from tests.e2e.box import Box


def test_scratch_that_waits_for_the_next_attempt_goes_with_the_job_if_it_ends_before(box: Box) -> None:
    job = box.submit("--gpus", "1", "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    scratch = box.home / "scratch" / job
    (scratch / "state").write_text("needed by the next attempt")
    other = box.submit("--gpus", "4", "--priority", "0", "--", "sleep", "1000")
    with Client(box.home) as client:
        client.jobs.requeue(job)
        box.until_phase(job, "PENDING")
        assert (scratch / "state").exists()
        client.jobs.cancel(job)
        box.until(lambda: not scratch.exists())
        assert box.job(other)["phase"] == "RUNNING"
