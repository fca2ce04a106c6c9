"""Jobs through a whole server: from submit to process start, and a thousand of them to completion.

`python -m bench.jobs` prints each figure beside its goal and its anchor.
"""

import statistics
import time

from bench.server import throw_away
from corral.client import Client
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission

SINGLE_JOBS = 200
MANY_JOBS = 1_000
SLOTS = 64
ENV = {"PATH": "/usr/bin:/bin"}


def main() -> None:
    with throw_away(SLOTS) as server, Client(server.home) as client:
        one_at_a_time(client)
        many_at_once(client)


def one_at_a_time(client: Client) -> None:
    """On an idle machine: the clock of the submitter before, the clock of the supervisor at the start."""
    waits_ms = []
    for _ in range(SINGLE_JOBS):
        began = time.time()
        job = client.submit(["/bin/true"], workdir="/")
        (row,) = job.wait()
        assert row.started_at is not None
        waits_ms.append((row.started_at - began) * 1e3)
    percentiles = statistics.quantiles(waits_ms, n=100)
    print(
        f"submit to process start, {SINGLE_JOBS} jobs one by one: p50 {percentiles[49]:.1f} ms, "
        f"p99 {percentiles[98]:.1f} ms (goal 10 and 30 ms)"
    )


def many_at_once(client: Client) -> None:
    """Trivial jobs to completion, from before the submit until the last end is known."""
    work = Submission(("/bin/true",), request=Request(devices=1), env=ENV, workdir="/")
    began = time.perf_counter()
    jobs = client.submit_many([work] * MANY_JOBS)
    submitted_s = time.perf_counter() - began
    client.wait(jobs)
    took_s = time.perf_counter() - began
    print(
        f"{MANY_JOBS:,} trivial jobs on {SLOTS} slots: {MANY_JOBS / took_s:.0f} jobs/s to completion "
        f"(goal 300; Slurm on the same 43 to 46; prototype 480 to 630), submitted in {submitted_s * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main()
