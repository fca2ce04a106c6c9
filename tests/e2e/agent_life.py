"""A life of a cluster with real agents and real processes under random faults, drawn from a seed.

Jobs hold a lock for each of their devices, and for their member of their attempt, as long as any process of them lives.
So what two of them have at once is found where it happens, whatever servers and agents believe.
"""

import fcntl
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from corral.client import Client
from corral.core.ledger.fold import check
from corral.core.model.home import Home
from corral.features.feature_list import slices
from tests.e2e.box import Box

NODES = ("a", "b")
DEVICES = 2
SETTINGS = """kill_grace: 1s
sample_interval: 0.5s
node_silent_after: 1s
node_gone_after: 4s
retry_backoff: 0.1s
"""
EVENTS = (("come", 4), ("pause", 3), ("stop_agent", 3), ("go_on", 3), ("kill_agent", 2), ("kill_server", 2))
COUNT = 9
LONGEST_S = 4.0
ALL_ENDED_S = 120.0

MEMBER = r"""
IFS=,
for what in $CUDA_VISIBLE_DEVICES $CORRAL_JOB_ID.$CORRAL_ATTEMPT.${RANK:-0}; do
    exec {lock}>>"$LOCKS/$what"
    flock -n $lock || echo "job $CORRAL_JOB_ID finds $what in use on $CORRAL_NODE" >>"$LOCKS.broken"
done
sleep $0
exit $1
"""


class AgentLife:
    """One life; `live` returns a sentence for each promise that was broken."""

    def __init__(self, seed: int) -> None:
        self.events: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._box = Box(_cluster(), SETTINGS)
        self._locks = self._box.home / "locks"
        self._box.env["LOCKS"] = str(self._locks)
        self._codes: dict[str, int] = {}
        self._stopped: dict[str, int] = {}

    def live(self) -> list[str]:
        """Let events happen, then let all jobs end."""
        self._locks.mkdir()
        self._box.up()
        try:
            self._come()
            for _ in range(COUNT):
                names, weights = zip(*EVENTS, strict=True)
                (event,) = self._chance.choices(names, weights)
                self.events[event] += 1
                getattr(self, f"_{event}")()
            self._go_on()
            broken = self._ended()
            self._box.down()
            return [*broken, *self._told(), *self._still_held(), *check(Home(self._box.home).ledger_url, slices())]
        finally:
            self._go_on()
            self._box.discard()

    def _come(self) -> None:
        """Jobs and gangs, each of which runs for a while and ends well, or not."""
        code = self._chance.choice([0, 0, 5])
        shape = self._chance.choice([["--gpus", "1"], ["--gpus", "2"], ["--gang", "2", "--spread", "--gpus", "1"]])
        retries = str(self._chance.choice([0, 2]))
        seconds = f"{self._chance.uniform(0.2, LONGEST_S):.1f}"
        command = ["bash", "-c", MEMBER, seconds, str(code)]
        self._codes[self._box.submit(*shape, "--retries", retries, "--", *command)] = code

    def _pause(self) -> None:
        time.sleep(self._chance.uniform(0.2, LONGEST_S))

    def _stop_agent(self) -> None:
        self._signal(self._chance.choice(NODES), signal.SIGSTOP)

    def _kill_agent(self) -> None:
        self._signal(self._chance.choice(NODES), signal.SIGKILL)

    def _go_on(self) -> None:
        for pid in self._stopped.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()

    def _kill_server(self) -> None:
        self._box.kill()
        self._box.up()

    def _signal(self, node: str, number: signal.Signals) -> None:
        try:
            pid = int((self._box.home / "nodes" / node / "corral.pid").read_text())
            os.kill(pid, number)
        except (OSError, ValueError):
            # There is no agent at present: it was killed a moment ago.
            return
        if number is signal.SIGSTOP:
            self._stopped[node] = pid

    def _ended(self) -> list[str]:
        """Wait for all jobs to end: each must have ended as its processes did, or say why not."""
        broken = []
        with Client(self._box.home) as client:
            client.wait(list(self._codes), ALL_ENDED_S)
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
        """What still runs although all jobs have ended, and all nodes were there to end it."""
        return [f"{path.name} is still in use at the end" for path in sorted(self._locks.iterdir()) if not _free(path)]


def _free(path: Path) -> bool:
    def locked() -> bool:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    return _within(10.0, lambda: not locked())


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _cluster() -> str:
    return "".join(
        f'[[nodes]]\nname = "{name}"\n'
        + "".join(
            f'[[nodes.devices]]\nmother_uuid = "GPU-{name}-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
            for i in range(DEVICES)
        )
        for name in NODES
    )
