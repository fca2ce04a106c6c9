"""Many jobs one after another leave nothing behind: `python -m tests.soak.many_jobs JOBS`, or `make soak`.

A real server with described devices runs so many trivial jobs, a batch at a time. Once `wait` has returned for a batch,
every job of it is listed as it ended, which is a claim of its own. In the end nothing is left of any but its log and
its rows, and the server takes what it took when it had run the first of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.client import Client
from corral.client.submitting.request import submission
from corral.core.model.home import Home
from corral.pid_file import read_pid
from tests.e2e.box import PATIENCE_S, Box, described, serving
from tests.soak.claims import Claim

JOBS = 50_000
SLOTS = 64
BATCH = 1_000
WARM_JOBS = 5_000
"""So many are run before it is seen what the server takes: it grows while it does what it does once."""

MOST_GROWTH_MIB = 100.0
"""Of private memory after the first jobs. Measured on a busy machine: 77 MiB over 45,000 jobs.

Python's own objects grow by 0.2 KB a job (`tracemalloc`, 4,000 jobs); the rest is kept by allocators and the database.
"""

MORE_DESCRIPTORS = 6
"""Connections that wait to be used again, of the server; a zygote has none."""

BATCH_S = 600.0

LIMITED: Any = {"gpus": 0, "cpus": 0.01, "host_memory": "64M"}
"""A job that is held to a part of the host, where cgroups can do that."""


@dataclass(frozen=True)
class Taken:
    """What a process takes: private memory, open descriptors and threads."""

    private_mib: float
    descriptors: int
    threads: int


def taken(pid: int) -> Taken:
    """What it takes now."""
    proc = Path(f"/proc/{pid}")
    private = re.findall(r"^Private_\w+: +(\d+) kB", (proc / "smaps_rollup").read_text(), re.MULTILINE)
    return Taken(sum(map(int, private)) / 1024, len(os.listdir(proc / "fd")), len(os.listdir(proc / "task")))


def run(jobs: int) -> list[Claim]:
    """Run so many jobs, and look at what they have left; a claim for each thing. Few tell nothing of memory."""
    first = min(WARM_JOBS, jobs // 2)
    with serving(described(SLOTS)) as box, Client(box.home) as client:
        server, zygote = _server_and_zygote(box)
        of_a_job = _cgroups_of_a_job(client, box)
        odd = list(_odd(client, first))
        settle(box, zygote)
        before = {pid: taken(pid) for pid in (server, zygote)}
        odd += _odd(client, jobs - first)
        settle(box, zygote)
        after = {pid: taken(pid) for pid in (server, zygote)}
        said = "; ".join(odd[:5]) or f"{jobs} jobs"
        return [
            Claim("every job is listed as it ended once `wait` has returned", not odd, said),
            *_left_behind(box, zygote, jobs),
            Claim("no cgroup is left behind", not (groups := cgroups(box)), f"{groups[:5] or of_a_job}"),
            *_descriptors("server", before[server], after[server], MORE_DESCRIPTORS),
            *_descriptors("zygote", before[zygote], after[zygote], 0),
            *_memory("server", before[server], after[server], jobs),
            *_memory("zygote", before[zygote], after[zygote], jobs),
        ]


def _server_and_zygote(box: Box) -> tuple[int, int]:
    server = read_pid(box.home / "corral.pid")
    assert server is not None
    (zygote,) = (pid for pid in children(server) if _name(pid) == "corral-zygote")
    return server, zygote


def _name(pid: int) -> str:
    """What ps shows as the command name; "" for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _cgroups_of_a_job(client: Client, box: Box) -> str:
    """Which cgroups a job has here while it runs: without these it would be no wonder that none is left."""
    job = client.submit(["sleep", "1000"], **LIMITED)
    box.until_phase(job.id, "RUNNING")
    found = cgroups(box)
    job.cancel()
    job.wait()
    return f"none; a job has {len(found)} while it runs"


def _odd(client: Client, jobs: int) -> Iterator[str]:
    """Run so many jobs a batch at a time; those that are not listed as ended well when `wait` has returned."""
    work = [submission(["true"], {"gpus": 1}), submission(["true"], LIMITED)]
    for first in range(0, jobs, BATCH):
        count = min(BATCH, jobs - first)
        ids = [job.id for job in client.submit_many([work[number % 2] for number in range(count)])]
        client.wait(ids, BATCH_S)
        listed = {row.id: row for row in client.jobs.list(all=True, limit=count)}
        rows = [(job_id, listed.get(job_id)) for job_id in ids]
        yield from (f"{job_id}: {row}" for job_id, row in rows if row is None or row.exit_code != 0)


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that are its own."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def settle(box: Box, zygote: int) -> None:
    """Wait until what is cleaned up when there is nothing else to do is gone, for as long as it becomes less.

    A supervisor ends a moment after its job is known to have ended.
    """
    ending = time.monotonic() + PATIENCE_S
    while children(zygote) and time.monotonic() < ending:
        time.sleep(0.05)
    launches = Home(box.home).launches
    least, deadline = len(os.listdir(launches)), time.monotonic() + PATIENCE_S
    while least and time.monotonic() < deadline:
        time.sleep(0.1)
        if (left := len(os.listdir(launches))) < least:
            least, deadline = left, time.monotonic() + PATIENCE_S


def _left_behind(box: Box, zygote: int, jobs: int) -> Iterator[Claim]:
    home = Home(box.home)
    supervisors = children(zygote)
    yield Claim("no process is left behind", not supervisors, f"{supervisors[:5] or 'none'}")
    for place in (home.launches, home.scratch):
        kept = sorted(os.listdir(place)) if place.exists() else []
        yield Claim(f"nothing is left behind in {place.name}", not kept, f"{len(kept)} directories, {kept[:5]}")
    names = os.listdir(home.logs)
    logs = sum(not name.endswith(".log.of") for name in names)
    said = f"{len(names)} files, {logs} of them no marks"
    yield Claim("a job leaves one log with its mark, and no more", len(names) - logs <= logs <= jobs + 1, said)


def cgroups(box: Box) -> list[str]:
    """The cgroups of this server's jobs: what is below one that has its name, wherever that is."""
    name = "corral-" + hashlib.sha256(os.fsencode(box.home.resolve())).hexdigest()[:12]
    # Those of other servers come and go meanwhile, which `os.walk` takes as it is.
    walked = os.walk("/sys/fs/cgroup")
    return [f"{place}/{group}" for place, groups, _ in walked if os.path.basename(place) == name for group in groups]


def _descriptors(name: str, before: Taken, after: Taken, more: int) -> Iterator[Claim]:
    said = f"{before.descriptors} before, {after.descriptors} after"
    yield Claim(f"the {name} has no descriptor more", after.descriptors <= before.descriptors + more, said)


def _memory(name: str, before: Taken, after: Taken, jobs: int) -> Iterator[Claim]:
    if jobs >= 2 * WARM_JOBS:
        said = f"{before.private_mib:.1f} MiB before, {after.private_mib:.1f} after; {after.threads} threads"
        holds = after.private_mib <= before.private_mib + MOST_GROWTH_MIB
        yield Claim(f"the memory of the {name} grows no more than documented", holds, said)


def main(words: list[str]) -> int:
    """Run so many jobs; 0 where all holds."""
    jobs = int(words[0]) if words else JOBS
    began = time.monotonic()
    claims = run(jobs)
    print(f"{jobs} jobs in {time.monotonic() - began:.0f} s")
    for claim in claims:
        print(f"{'holds' if claim.holds else 'FAILS'}  {claim.name}: {claim.said}")
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
