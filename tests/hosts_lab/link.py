"""The link between a machine and the bridge of its lab, and its faults."""

import sys
from contextlib import suppress
from pathlib import Path

from tests.hosts_lab.machine import Machine

_SLOW_WIRE = Path(__file__).with_name("slow_wire.py")
_NETWORK_BITS = 24


class Link:
    """Implements what a lab can do to the network of one machine. `keeper` is the machine that has the bridge."""

    def __init__(self, keeper: Machine, number: int, log: Path) -> None:
        self._keeper = keeper
        self._port, self._near, self._far = f"port{number}", f"near{number}", f"far{number}"
        # A host that boots again has the same network card.
        self._card = f"02:00:00:00:00:{number:02x}"
        self._log = log
        self._wire: Machine | None = None

    def join(self, machine: Machine, address: str) -> None:
        """Give a machine, which has just come up, its interface and its address."""
        peer = ("name", "eth0", "address", self._card, "netns", str(machine.pid))
        self._ip("link", "add", self._port, "type", "veth", "peer", *peer)
        machine.ok("ip", "address", "add", f"{address}/{_NETWORK_BITS}", "dev", "eth0")
        machine.ok("ip", "link", "set", "lo", "up")
        machine.ok("ip", "link", "set", "eth0", "up")
        self._ip("link", "set", self._port, "up")
        self.mend()

    def cut(self) -> None:
        """From now on nothing passes in either direction, and nobody is told."""
        self._remove_wire()
        self._ip("link", "set", self._port, "nomaster")

    def cut_to(self) -> None:
        """Nothing reaches the machine any more; what it sends goes out."""
        self.impair(lost_to=1.0)

    def cut_from(self) -> None:
        """Nothing gets out of the machine any more; what is sent to it comes in."""
        self.impair(lost_from=1.0)

    def slow(self, round_trip_s: float = 0.2, lost: float = 0.01) -> None:
        """Let each round trip take so long, and lose a share of what passes."""
        self.impair(round_trip_s / 2, lost, lost)

    def impair(self, delay_s: float = 0.0, lost_to: float = 0.0, lost_from: float = 0.0) -> None:
        """Let what passes take so long in each direction, and lose these shares of it."""
        self.cut()
        self._ip("link", "add", self._near, "type", "veth", "peer", "name", self._far)
        for interface in (self._near, self._far):
            self._ip("link", "set", interface, "up")
        self._ip("link", "set", self._far, "master", "wire")
        # Nothing else runs in the keeper's namespaces.
        words = (sys.executable, "-I", "-S", str(_SLOW_WIRE), self._port, self._near)
        self._wire = Machine((*self._keeper.entered(), *words, str(delay_s), str(lost_to), str(lost_from)), self._log)
        self._wire.await_ready()

    def mend(self) -> None:
        """Let everything pass again."""
        self._remove_wire()
        self._ip("link", "set", self._port, "master", "wire")

    def leave(self) -> None:
        """End what is beside a machine that has ended; its interface has gone with it."""
        self._remove_wire()
        with suppress(AssertionError):
            self._ip("link", "del", self._port)

    def _remove_wire(self) -> None:
        if self._wire is not None:
            self._wire.kill()
            self._wire = None
            self._ip("link", "del", self._near)

    def _ip(self, *words: str) -> None:
        self._keeper.ok("ip", *words)
