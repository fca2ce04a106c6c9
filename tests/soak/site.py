"""The server of a soak: one that is killed and started again, and what the kernel knows of its process."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from corral.client import Client
from corral.pid_file import read_pid
from tests.e2e.box import Box, described

DEVICES = 4
COOL, HOT = "temperature_c = 60", "temperature_c = 91"
SETTINGS = """kill_grace: 1s
sample_interval: 1s
guard_grace: 2s
retry_backoff: 1s
queues:
  - {{name: urgent, preempts: true}}
  - {{name: night, policy: fair-share}}
prices: 2
currency: EUR
channels:
  ops: json://127.0.0.1:{webhook}
alerts:
  - {{name: temperature, for: 2s, to: [ops]}}
"""


@dataclass(frozen=True)
class Footprint:
    """What the process of a server takes."""

    memory_mib: float
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Outage:
    """From when to when nobody answered, Unix seconds."""

    began: float
    ended: float


class Site:
    """A box whose server may be killed. Whoever is at work while it is down waits in `there`.

    Attributes:
        outages: when it was down.
        crashes: how it ended by itself, which no server may.
    """

    def __init__(self, webhook_port: int) -> None:
        self.box = Box(described(DEVICES, extra=COOL), SETTINGS.format(webhook=webhook_port))
        self.ran = self.box.home / "ran"
        """To which each process of a job adds a line as it begins."""
        self.outages: list[Outage] = []
        self.crashes: list[str] = []
        self._there = threading.Event()

    def up(self) -> None:
        self.box.ok("up", "--detach", "--mock", str(self.box.mock), "--listen", "127.0.0.1:0")
        self._there.set()

    def kill(self) -> None:
        """Kill the server as `kill -9` does, and start it again."""
        self._there.clear()
        began, pid = time.time(), self.pid
        if self.lives():
            os.kill(pid, signal.SIGKILL)
            # A lock that is still held says that the process is not gone yet.
            self.box.until(lambda: not self.lives())
        else:
            self.crashes.append(self._last_words())
        self.up()
        self.outages.append(Outage(began, time.time()))

    def lives(self) -> bool:
        """Whether the process of the server is there."""
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return False

    def _last_words(self) -> str:
        lines = (self.box.home / "server.log").read_text().splitlines()
        critical = [number for number, line in enumerate(lines) if " CRITICAL " in line]
        return "\n    ".join(lines[critical[-1] :][:40] if critical else lines[-3:])

    def down(self) -> None:
        self._there.clear()
        self.box.down()

    def there(self, timeout_s: float) -> bool:
        """Wait until the server is up; whether it is."""
        return self._there.wait(timeout_s)

    def was_away_since(self, began: float) -> bool:
        """Whether the server was down at some time since then (Unix seconds), or is."""
        return not self._there.is_set() or any(outage.ended > began for outage in self.outages)

    def heat(self, extra: str) -> None:
        """Have the devices so from now on."""
        self.box.describe(described(DEVICES, extra=extra))

    @contextmanager
    def client(self) -> Iterator[Client]:
        with Client(self.box.home) as client:
            yield client

    @property
    def pid(self) -> int:
        found = read_pid(self.box.home / "corral.pid")
        assert found is not None
        return found

    @property
    def url(self) -> str:
        """Where it answers over TCP."""
        return str(re.findall(r"http://\S+", (self.box.home / "server.log").read_text())[-1])

    def footprint(self) -> Footprint:
        proc = Path(f"/proc/{self.pid}")
        lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return Footprint(
            int(lines["VmRSS"].split()[0]) / 1024, len(list((proc / "fd").iterdir())), int(lines["Threads"])
        )

    def processes(self) -> list[str]:
        """All processes whose environment names this home: those of its jobs, and its own."""
        mark = f"CORRAL_HOME={self.box.home}\0".encode()
        found = []
        for proc in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (proc / "environ").read_bytes() + b"\0":
                    found.append(f"{proc.name} {(proc / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()[:80]}")
        return found
