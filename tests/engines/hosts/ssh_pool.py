"""A server whose nodes are hosts of a lab, which it reaches by SSH."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.e2e.box import CORRAL
from tests.engines.pool import NODES, SETTINGS, Pool, runs_at
from tests.hosts_lab.agents import (
    agent_pid,
    await_agent,
    clock_ahead,
    describe,
    devices_of,
    put_corral_there,
    signal_agent,
    start_agent,
)
from tests.hosts_lab.host import Host
from tests.hosts_lab.lab import Lab


class SshPool(Pool):
    """The server runs on the head of a lab of its own.

    `own` describes its devices there, `gpus` are those of each host, and `more` are further settings of the server.
    """

    def __init__(
        self,
        gone_after: str = "10m",
        *,
        nodes: tuple[str, ...] = NODES,
        gpus: int = 2,
        own: str = "devices = []\n",
        more: str = "",
    ) -> None:
        settings = SETTINGS.format(gone_after=gone_after)
        super().__init__(own, f"{settings}hosts: [{', '.join(nodes)}]\n{more}")
        self._settings, self._gpus = settings, gpus
        self.lab = Lab()
        self.lab.start()
        self.shared = self.lab.shared
        for name in nodes:
            self.add_host(name)
        for host in self.lab.hosts.values():
            await_agent(host)

    def add_host(self, name: str) -> Host:
        """Make a host with an agent, which starts."""
        host = self.lab.add_host(name)
        self.put_agent_there(host)
        return host

    def put_agent_there(self, host: Host, *, ahead_s: int = 0) -> None:
        """Start an agent on a host, whose clock is ahead by so much."""
        describe(host, devices_of(host.name, self._gpus))
        put_corral_there(host, f"{self._settings}labels: {{zone: {host.name}}}\n")
        start_agent(host, environ=clock_ahead(ahead_s))

    def host(self, name: str) -> Host:
        return self.lab.hosts[name]

    def up(self) -> None:
        self.lab.head.ok(CORRAL, *self._up(), env=self.env)

    def discard(self) -> None:
        """End all at once. The server's process is one of this machine."""
        with suppress(OSError, ValueError):
            os.kill(int((self.home / "corral.pid").read_text()), signal.SIGKILL)
        self.lab.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def runs(self, node: str, pid: int) -> bool:
        host = self.host(node)
        return host.lives and runs_at(host.path(f"/proc/{pid}/stat"))

    def signal_agent(self, node: str, number: signal.Signals) -> None:
        signal_agent(self.host(node), number)

    def kill_agent(self, node: str) -> None:
        self.signal_agent(node, signal.SIGKILL)
        start_agent(self.host(node))

    def silence(self, node: str) -> None:
        self.host(node).link.cut()

    def switch_off(self, node: str) -> None:
        self.host(node).kill()

    def mend(self) -> None:
        for host in self.lab.hosts.values():
            if host.lives:
                host.link.mend()
            else:
                host.boot()
            if agent_pid(host) is None:
                start_agent(host)
        # A host is tried again less and less often; a person who has mended one says so.
        self.run("hosts", "check")

    @contextmanager
    def stranger(self, node: str) -> Iterator[int]:
        host = self.host(node)
        host.start("/dev/null", "sleep", "31415")
        (pid,) = host.processes("sleep 31415")
        devices = devices_of(node, self._gpus)
        try:
            describe(host, f'{devices}processes = [{{ pid = {pid}, user = "somebody", memory = "1G" }}]\n')
            yield pid
        finally:
            host.signal(pid, signal.SIGTERM)
            describe(host, devices)
