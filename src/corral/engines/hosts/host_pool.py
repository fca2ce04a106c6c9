"""The hosts that are joined to a server by SSH: the record, the link and the agent of each."""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.joined_host import HostEntry, JoinedHost, JoinOrder
from corral.core.model.errors import Conflict, CorralError, NotFound, nearest
from corral.core.model.home import Home
from corral.core.ports.engine import Joined, Left
from corral.core.ports.node import NodeAgent
from corral.engines.hosts.host_record import HostRecord, HostRecords
from corral.engines.hosts.meeting_agents import address_towards

if TYPE_CHECKING:
    from corral.engines.hosts.host_joining import HostJoining, LinkedHost

log = logging.getLogger(__name__)

_CONTROL_PATH_BYTES = 80
"""The most bytes of the path of a connection's socket: `ssh` adds 17 for a moment, and a path may have 107."""

_LOOK_S = 0.05
_CLOSE_S = 3.0
"""The server waits so long for the ends of its connections."""


class HostPool:
    """Implements `corral.core.ports.engine.JoinedHosts`. Thread-safe.

    A host that has answered once is a node from then on, whether it answers or not.
    """

    def __init__(self, home: Home, settings: Settings, clock: SystemClock) -> None:
        """Raises BackendFailed if the list of hosts cannot be read."""
        self._home = home
        self._clock = clock
        self._settings = settings
        self._records = HostRecords(home.hosts_file)
        self._records.settle(settings.hosts)
        self._controls: Path | None = None
        self._lock = threading.RLock()
        self._own: Collection[str] = ()
        self._hosts: dict[str, LinkedHost] = {}
        self._watchers: tuple[Joined, Left] | None = None

    def has(self, node: str) -> bool:
        """Return whether this node is a joined host."""
        return node in self._hosts

    def via(self, node: str) -> str | None:
        """Return how a node is reached, for a person; None for a node of this machine."""
        host = self._hosts.get(node)
        return None if host is None else f"ssh {host.link.row().ssh}"

    def start(self, own: Collection[str]) -> Mapping[str, NodeAgent]:
        """Begin to connect to all hosts. Return the agents of those that are nodes. `own` are this machine's nodes."""
        self._own = frozenset(own)
        with self._lock:
            records = self._records.all()
            for name, record in records.items():
                if name in self._own:
                    log.error("host %s is not joined: this machine has a node of that name", name)
                else:
                    self._link(record, None)
            return {name: host.agent for name, host in self._hosts.items() if records[name].joined}

    def watch(self, joined: Joined, left: Left) -> None:
        """Report hosts that become nodes after `start`, and nodes that are removed."""
        with self._lock:
            self._watchers = joined, left
            for name, record in self._records.all().items():
                # It may have answered for the first time meanwhile.
                if not record.joined and name in self._hosts and self._hosts[name].link.answers:
                    self._first_answer(record)

    def close(self) -> None:
        """Close all connections; work on the hosts goes on."""
        hosts = list(self._hosts.values())
        for host in hosts:
            host.link.close()
        until = time.monotonic() + _CLOSE_S
        for host in hosts:
            host.link.close(until)
            host.agent.close()
        if self._controls is not None and self._controls.parent != self._home.root:
            shutil.rmtree(self._controls, ignore_errors=True)

    def at_work(self) -> Iterator[str]:
        """Return what runs on the hosts, whatever the ledger says. Call it after `start`.

        Raises Conflict if a host does not answer: what runs there is unknown.
        """
        # A server without hosts does not load it.
        from corral.engines.hosts.first_session import ATTEMPT_S

        until = time.monotonic() + ATTEMPT_S
        for name, record in self._records.all().items():
            if not record.joined or name not in self._hosts:
                continue
            link, agent = self._hosts[name]
            while not link.answers and link.row().reason is None and time.monotonic() < until:
                time.sleep(_LOOK_S)
            if not link.answers:
                raise Conflict(f"host {name} does not answer: {link.row().reason or 'it takes too long'}")
            yield from (f"job {launch} on {name}" for launch in agent.installation.state().launches)

    def own_address(self) -> str | None:
        """Return the address at which the joined hosts reach this machine; None as long as none has answered."""
        with self._lock:
            known = [self._hosts[name].link.address() for name in sorted(self._hosts)]
        return next((own for one in known if one and (own := address_towards(one)) is not None), None)

    def rows(self) -> Sequence[JoinedHost]:
        with self._lock:
            return tuple(self._hosts[name].link.row() for name in sorted(self._hosts))

    def add(self, entry: HostEntry, order: JoinOrder) -> JoinedHost:
        with self._lock:
            if entry.name in self._own:
                raise Conflict(
                    f"{entry.name} is the name of a node of this machine; add it by another name, "
                    f"with --ssh {entry.destination}"
                )
            record = self._records.all().get(entry.name)
            if record is not None and record.from_settings and record.entry != entry:
                if entry != HostEntry(entry.name):
                    raise Conflict(
                        f"host {entry.name} is in the settings; change it there, and give no --ssh, --address or --mock"
                    )
                entry = record.entry
            if record is not None and record.entry == entry:
                link = self._hosts[entry.name].link
                if order.install and link.answers and link.restricted:
                    return self.upgrade(entry.name)
                link.try_again(order)
                return link.row()
            record = HostRecord(entry) if record is None else replace(record, entry=entry)
            self._records.put(record)
            self._unlink(entry.name)
            self._link(record, order)
            return self._hosts[entry.name].link.row()

    def check(self, name: str) -> JoinedHost:
        link = self._host(name).link
        link.try_again()
        return link.row()

    def upgrade(self, name: str) -> JoinedHost:
        return self._host(name).upgrade(self._home)

    def remove(self, name: str) -> None:
        host = self._host(name)
        with self._lock:
            record = self._records.all()[name]
            if record.from_settings:
                raise Conflict(f"host {name} is in the settings; remove it there, and restart the server")
            self._records.remove(name)
            if record.joined and self._watchers is not None:
                self._watchers[1](name)
        removed = host.give_up()
        if record.joined and not removed:
            host.link.release()
        installs = host.link.installs
        with self._lock:
            self._unlink(name)
        if (record.restricted or installs) and not removed:
            uninstall = self._joining().uninstall
            threading.Thread(target=uninstall, args=(host, self._is_joined), daemon=True).start()

    def _is_joined(self, destination: str) -> bool:
        return any(record.entry.destination == destination for record in self._records.all().values())

    def _joining(self) -> "HostJoining":
        # A server without hosts does not load it.
        from corral.engines.hosts.host_joining import HostJoining

        return HostJoining(self._home, self._settings, self._clock)

    def _link(self, record: HostRecord, order: JoinOrder | None) -> None:
        name = record.entry.name
        if self._controls is None:
            self._controls = _control_directory(self._home)
        control = self._controls / sha256(name.encode()).hexdigest()[:8]
        host = self._hosts[name] = self._joining().linked(record, order, control, self._answered)
        host.link.start()

    def _unlink(self, name: str) -> None:
        host = self._hosts.pop(name, None)
        if host is not None:
            host.agent.close()
            host.link.close()

    def _host(self, name: str) -> "LinkedHost":
        with self._lock:
            if name not in self._hosts:
                raise NotFound(f"there is no host {name!r:.80}; {nearest(name, self._hosts)}", field="name")
            return self._hosts[name]

    def _answered(self, entry: HostEntry) -> None:
        with self._lock:
            record = self._records.all().get(entry.name)
            if record is None or record.entry != entry:
                return
            record = replace(record, restricted=self._hosts[entry.name].link.restricted)
            self._keep(record)
            if record.joined or self._watchers is None:
                return
            self._first_answer(record)

    def _first_answer(self, record: HostRecord) -> None:
        """Make a node of a host that has answered for the first time."""
        assert self._watchers is not None
        self._keep(replace(record, joined=True))
        name = record.entry.name
        self._watchers[0](name, self._hosts[name].agent)

    def _keep(self, record: HostRecord) -> None:
        try:
            self._records.put(record)
        except CorralError as error:
            log.error("%s", error)


def _control_directory(home: Home) -> Path:
    """Return a directory for the sockets of connections, which only this user can enter."""
    directory = home.root / "ssh"
    if len(bytes(directory)) > _CONTROL_PATH_BYTES:
        return Path(tempfile.mkdtemp(prefix="corral-ssh-"))
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory
