"""The use cases of hosts that are joined by SSH."""

from collections.abc import Callable
from dataclasses import replace

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.model.devices.joined_host import HostEntry, HostState, JoinedHost, JoinOrder
from corral.core.model.errors import Conflict
from corral.core.model.jobs.job import JobKind
from corral.core.model.units import count_of
from corral.core.model.view import View
from corral.core.ports.engine import JoinedHosts
from corral.features.hosts.answers import HostList

_RETURN_S = 5.0
"""What runs on a node that has returned is compared with the ledger meanwhile."""


class HostAccessByPeople:
    """Joins, lists, checks and removes hosts, for administrators. Thread-safe."""

    def __init__(self, hosts: JoinedHosts | None, view: Callable[[], View], clock: Clock) -> None:
        self._joined = hosts
        self._view = view
        self._clock = clock

    def rows(self) -> HostList:
        """Return all hosts, by name."""
        hosts = () if self._joined is None else self._joined.rows()
        return HostList(tuple(self._shown(row) for row in hosts))

    def add(self, entry: HostEntry, order: JoinOrder, caller: Caller) -> JoinedHost:
        """Begin to join a host. Raises Forbidden, Conflict and Refused."""
        must_be_admin(caller, "joining a host")
        return self._shown(self._hosts().add(entry, order))

    def check(self, name: str, caller: Caller) -> JoinedHost:
        """Try to reach a host now. Raises Forbidden and NotFound."""
        must_be_admin(caller, "checking a host")
        return self._shown(self._hosts().check(name))

    def upgrade(self, name: str, caller: Caller) -> JoinedHost:
        """Begin to bring a host's agent to this server's version. Raises Forbidden, NotFound and Conflict."""
        must_be_admin(caller, "upgrading a host")
        return self._shown(self._hosts().upgrade(name))

    def remove(self, name: str, caller: Caller, *, force: bool) -> HostList:
        """Remove a host. Raises Forbidden, NotFound, and Conflict while jobs run there, unless `force`.

        A reservation is no process that ends with its host: its owner or an administrator ends it before.
        """
        must_be_admin(caller, "removing a host")
        view = self._view()
        here = [view.jobs[view.allocations[one].job_id] for one in view.residents.get(name, ())]
        running = len(here)
        if reserved := [job.id for job in here if job.spec.kind is JobKind.RESERVE]:
            raise Conflict(f"GPUs of {name} are reserved; end that first: corral release {' '.join(reserved)}")
        if running and not force:
            verb = "runs" if running == 1 else "run"
            raise Conflict(
                f"{count_of(running, 'job')} still {verb} on {name}; let them end with `corral drain {name}`, "
                "or end them with --force"
            )
        self._hosts().remove(name)
        return self.rows()

    def _hosts(self) -> JoinedHosts:
        if self._joined is None:
            raise Conflict("this server's nodes are those of a cluster; a server on one machine joins hosts by SSH")
        return self._joined

    def _shown(self, row: JoinedHost) -> JoinedHost:
        if row.reason is None and row.state is HostState.READY:
            row = replace(row, reason=self._node_trouble(row.name))
        return row if row.since is None else replace(row, since=self._clock.shown(row.since))

    def _node_trouble(self, name: str) -> str | None:
        """Return why nothing starts on a host that is connected, if that has lasted for longer than a return does."""
        silence = self._view().silences.get(name)
        if silence is None or self._clock.now() - silence.since < _RETURN_S:
            return None
        return f"it is connected, and nothing starts there: {silence.reason}"
