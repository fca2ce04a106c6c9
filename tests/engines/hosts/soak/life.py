"""A life of hosts by SSH under random faults, drawn from a seed: hosts lose their power, links are cut, agents die.

Jobs hold a lock for each of their devices, and for their member of their attempt, as long as any process of them lives.
Locks are files that all hosts share, so what two of them have at once is found where it happens.
"""

import fcntl
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from corral.client import Client
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.core.ledger.fold import check
from corral.core.model.home import Home
from corral.features.feature_list import slices
from tests.e2e.agent_life import MEMBER
from tests.engines.hosts.ssh_pool import SshPool
from tests.hosts_lab.agents import agent_pid, start_agent
from tests.hosts_lab.host import Host

GPUS = 2
FAULTS = (
    ("cut", 3),
    ("cut_to", 1),
    ("cut_from", 1),
    ("slow", 2),
    ("lose_power", 3),
    ("kill_agent", 3),
    ("kill_server", 1),
    ("mend_one", 6),
    ("pause", 6),
)
LONGEST_S = 2.0
_SHAPES: tuple[RequestOptions, ...] = ({"gpus": 1}, {"gpus": 2}, {"gang": 2, "spread": True, "gpus": 1})
STILL_HELD_S = 20.0


class HostsLife:
    """One life of so many hosts and jobs; `live` returns a sentence for each promise that was broken."""

    def __init__(self, seed: int, *, hosts: int, jobs: int, patience_s: float) -> None:
        self.events: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._names = tuple(f"n{number}" for number in range(hosts))
        self._jobs = jobs
        self._patience_s = patience_s
        self._codes: dict[str, int] = {}

    def live(self, faults: int) -> list[str]:
        """Let so many faults happen while jobs run, then mend all, and let all jobs end."""
        self._pool = SshPool("4s", nodes=self._names, gpus=GPUS)
        try:
            self._locks = self._pool.shared / "locks"
            self._locks.mkdir()
            self._pool.up()
            self._pool.until(lambda: set(self._states().values()) == {"ready"})
            self._submit_all()
            names, weights = zip(*FAULTS, strict=True)
            for fault in self._chance.choices(names, weights, k=faults):
                self.events[fault] += 1
                getattr(self, f"_{fault}")(self._pool.host(self._chance.choice(self._names)))
            self._pool.mend()
            broken = self._ended()
            still_held = self._still_held()
            self._pool.down()
            return [*broken, *self._told(), *still_held, *check(Home(self._pool.home).ledger_url, slices())]
        finally:
            self._pool.discard()

    def _states(self) -> dict[str, str]:
        rows = self._pool.json("nodes", "--json")
        return {row["name"]: row["state"] for row in rows if row["name"] in self._names}

    def _submit_all(self) -> None:
        """Jobs and gangs, each of which runs for a while and ends well, or not."""
        works = []
        codes = []
        for _ in range(self._jobs):
            codes.append(self._chance.choice([0, 0, 5]))
            shape = self._chance.choice(_SHAPES)
            retries = self._chance.choice([0, 3])
            command = ["bash", "-c", MEMBER, f"{self._chance.uniform(0.0, LONGEST_S):.1f}", str(codes[-1])]
            words = {"LOCKS": str(self._locks)}
            works.append(submission(command, {**shape, "retries": retries, "env": words, "workdir": "/"}))
        with Client(self._pool.home) as client:
            handles = client.submit_many(works)
        self._codes = dict(zip((handle.id for handle in handles), codes, strict=True))

    # Faults

    def _pause(self, _: Host) -> None:
        time.sleep(self._chance.uniform(0.2, LONGEST_S))

    def _cut(self, host: Host) -> None:
        if host.lives:
            host.link.cut()

    def _cut_to(self, host: Host) -> None:
        if host.lives:
            host.link.cut_to()

    def _cut_from(self, host: Host) -> None:
        if host.lives:
            host.link.cut_from()

    def _slow(self, host: Host) -> None:
        if host.lives:
            host.link.slow()

    def _lose_power(self, host: Host) -> None:
        host.kill()

    def _kill_agent(self, host: Host) -> None:
        pid = agent_pid(host) if host.lives else None
        if pid is not None:
            host.signal(pid, signal.SIGKILL)

    def _kill_server(self, _: Host) -> None:
        self._pool.kill()
        self._pool.up()

    def _mend_one(self, host: Host) -> None:
        if not host.lives:
            host.boot()
        host.link.mend()
        if agent_pid(host) is None:
            start_agent(host)
        self._pool.run("hosts", "check", host.name)

    # What must hold

    def _ended(self) -> list[str]:
        """Wait for all jobs to end: each must have ended as its processes did, or say why not."""
        broken = []
        with Client(self._pool.home) as client:
            client.wait(list(self._codes), self._patience_s)
            for job_id, code in self._codes.items():
                row = client.jobs.get(job_id)
                self.ended[str(row.phase)] += 1
                as_told = {0: ("SUCCEEDED", 0), 5: ("FAILED", 5)}[code] == (row.phase, row.exit_code)
                if not as_told and not (row.phase == "LOST" and row.reason):
                    broken.append(f"job {job_id} ends with {code}, and is {row.phase}, {row.exit_code}: {row.reason}")
        return broken

    def _told(self) -> list[str]:
        found = Path(f"{self._locks}.broken")
        return found.read_text().splitlines() if found.exists() else []

    def _still_held(self) -> list[str]:
        """What still runs although all jobs have ended, and all hosts were there to end it."""
        until = time.monotonic() + STILL_HELD_S
        held = {path for path in self._locks.iterdir() if _locked(path)}
        while held and time.monotonic() < until:
            time.sleep(0.1)
            held = {path for path in held if _locked(path)}
        return [f"{path.name} is still in use at the end" for path in sorted(held)]


def _locked(path: Path) -> bool:
    with path.open("a") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True
