"""The nodes of a server on one machine, and those of the hosts that are joined to it by SSH."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.home import Home
from corral.core.ports.engine import EngineTraits, Joined, Left, NodeEngine, PodScheduler
from corral.core.ports.node import NodeAgent
from corral.core.ports.pod_jobs import PodJobs
from corral.engines.hosts.host_pool import HostPool
from corral.engines.hosts.meeting_agents import OwnAgent


class HostsEngine:
    """Implements `corral.core.ports.engine.NodeEngine`. `inner` brings the nodes of this machine."""

    def __init__(self, inner: NodeEngine, home: Home, settings: Settings, clock: SystemClock) -> None:
        """Raises BackendFailed if the list of hosts cannot be read."""
        self._inner = inner
        self._hosts = HostPool(home, settings, clock)
        self.traits: EngineTraits = replace(inner.traits, hosts=self._hosts, via=self._hosts.via)

    @property
    def remarks(self) -> Sequence[str]:
        return self._inner.remarks

    @property
    def pod_scheduler(self) -> PodScheduler | None:
        return self._inner.pod_scheduler

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        """Return None for a joined host, whose files are not this machine's."""
        return None if self._hosts.has(node) else self._inner.log_path(node, job_id, rank)

    def start(self) -> Mapping[str, NodeAgent]:
        own = {name: self._own(agent) for name, agent in self._inner.start().items()}
        return {**own, **self._hosts.start(own)}

    def on_record(self) -> Collection[str]:
        return self._inner.on_record()

    def at_work(self) -> Collection[str]:
        return self._inner.at_work()

    def departed(self, node: str) -> NodeAgent | None:
        return self._inner.departed(node)

    def attend(self, jobs: PodJobs) -> None:
        self._inner.attend(jobs)

    def watch(self, joined: Joined, left: Left) -> None:
        self._inner.watch(lambda name, agent: joined(name, self._own(agent)), left)
        self._hosts.watch(joined, left)

    def _own(self, agent: NodeAgent) -> NodeAgent:
        return OwnAgent(agent, self._hosts.own_address)

    def close(self) -> None:
        self._hosts.close()
        self._inner.close()
