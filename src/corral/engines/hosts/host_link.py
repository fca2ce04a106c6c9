"""Keeps the connection to one host: a thread connects, and connects again, and says why it cannot.

One session of `ssh` makes the connection, and stays open while the agent answers. All other sessions share it. So a
host that is unreachable costs one attempt at a time, and calls to its agent fail at once.
"""

import logging
import random
import shlex
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from corral.clock import Clock
from corral.core.model.devices.joined_host import HostEntry, HostState, JoinedHost, JoinOrder
from corral.core.model.errors import CorralError, NodeUnreachable, Refused
from corral.engines.hosts import link_row
from corral.engines.hosts.first_session import FirstSession, await_end, connect, explained
from corral.engines.hosts.host_session import HostSession, await_agent, open_session
from corral.engines.hosts.host_work import HostWork
from corral.engines.hosts.installing.installer import Step
from corral.engines.hosts.link_row import HostLinkRow
from corral.engines.hosts.ssh import FIND_AGENT, SshFailed, SshFailure, SshRoute
from corral.engines.hosts.turns import SpacedTurns
from corral.engines.hosts.wake import Wake
from corral.host.node.agent_claim import ServerClaim
from corral.host.node.protocol import BadFrame, Closed, receive_frame, send
from corral.host.node.remote import MAX_GREETING_BYTES
from corral.wire import to_plain

log = logging.getLogger(__name__)

Install = Callable[[SshRoute, bool, Step], SshRoute]
"""Installs an agent on the host of a route, also with an unknown host key, and returns the route to the agent."""

MOST_SESSIONS = 8
"""The most sessions besides the one that made the connection: an SSH server allows 10 by default."""

TURNS = SpacedTurns(0.05)
"""The turns of all hosts to be connected. Making a connection costs computing time, and waiting for a host none."""

INSTALLING = threading.Semaphore(8)
"""So many hosts are being installed at a time."""

_RELEASE_S = 10.0


class HostLink:
    """Implements `corral.host.node.remote.AgentDial` for one host. After `start`, a thread keeps it connected.

    `ready` is called, on that thread, whenever the agent begins to answer.
    """

    most_connections = MOST_SESSIONS
    same_users = False

    def __init__(
        self,
        entry: HostEntry,
        route: SshRoute,
        clock: Clock,
        ready: Callable[[HostEntry], None],
        *,
        claim: ServerClaim,
        install: Install,
        order: JoinOrder | None = None,
        from_settings: bool = False,
    ) -> None:
        """`claim` is this server's, and `order` is how to join a host that was not joined before.

        `install` installs the agent, and returns the way to it.
        """
        self.entry = entry
        self._claim = to_plain(replace(claim, name=entry.name))
        self._route = route
        self._clock = clock
        self._ready = ready
        self._install = install
        self._order = order or JoinOrder()
        self._row = HostLinkRow(
            JoinedHost(entry.name, entry.destination, entry.address, since=clock.now(), from_settings=from_settings)
        )
        self._work = HostWork(entry.name)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._attempted: HostSession | None = None
        self._wake = Wake()
        self._thread = threading.Thread(target=self._run, name=f"host-{entry.name}", daemon=True)

    def __str__(self) -> str:
        return f"the agent on {self._row.value.ssh}"

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def row(self) -> JoinedHost:
        """Return the present state."""
        row, step = self._row.value, self._work.step
        if step is not None:
            return replace(row, step=step)
        if row.state is not HostState.READY:
            return row
        return replace(row, reason=self._work.failure or link_row.other_version(row))

    @property
    def installs(self) -> bool:
        """Whether its agent is to be installed, or is being installed."""
        return self._order.install

    @property
    def restricted(self) -> bool:
        """Whether the server's own key reaches the agent, and nothing else there."""
        return self._route.identity is not None

    def begin(self, what: str, work: Callable[[Step], object]) -> None:
        """Do something with the agent, on a thread. The row tells its steps, and why it failed. Raises Conflict."""
        self._work.begin(what, work)

    def try_again(self, order: JoinOrder | None = None) -> None:
        """Connect now if it is not connected, in the way of a new order if there is one.

        If an installation is ordered, the connection ends for it.
        """
        with self._lock:
            if order is not None:
                self._order = order
            if not self.answers or self._order.install:
                self._change(HostState.CONNECTING)
        self._wake.set()

    @property
    def answers(self) -> bool:
        """Whether the agent answers."""
        return self._row.value.state is HostState.READY

    def address(self) -> str | None:
        """Return the address at which other hosts reach this one; None while it is unknown."""
        return self._row.value.address

    def close(self, until: float | None = None) -> None:
        """Close the connection; the agent goes on. Wait for its end until then (time.monotonic), None not at all.

        An installation may take longer.
        """
        self._closing.set()
        self._wake.set()
        self._attempt(self._attempted)
        if until is not None and self._thread.is_alive():
            self._thread.join(max(0.0, until - time.monotonic()))

    def connect(self, until: float) -> socket.socket:
        """Open a session to the agent. Raises NodeUnreachable at once while there is no connection."""
        return self._session(until, self._claim)

    def _session(self, until: float, claim: Mapping[str, Any]) -> HostSession:
        row = self._row.value
        if row.state is not HostState.READY:
            raise NodeUnreachable(row.reason or f"{row.ssh} is being connected")
        session = open_session(self._route.further_session(FIND_AGENT))
        try:
            if await_agent(session, until) is None:
                raise NodeUnreachable(f"{self} has ended the session at once")
            send(session, claim, until)
        except BaseException:
            session.close()
            raise
        return session

    def release(self) -> None:
        """Free the agent, so that another server can join the host. Does nothing if it does not answer now."""
        until = time.monotonic() + _RELEASE_S
        try:
            with self._session(until, {**self._claim, "releases": True}) as session:
                receive_frame(session, until, MAX_GREETING_BYTES)
        except (OSError, Closed, BadFrame, CorralError) as error:
            log.warning("host %s still belongs to this server (%s): `corral agent release` there frees it",
                        self.entry.name, error)  # fmt: skip

    def check(self, greeting: Mapping[str, Any]) -> None:
        """Keep what the agent says of itself. One of another version than before was upgraded after all."""
        before = self._row.value.version
        self._row.change(lambda row: link_row.of_version(row, greeting.get("version")))
        if before not in (None, self._row.value.version):
            self._work.done_otherwise()

    def _run(self) -> None:
        failures = 0
        while not self._closing.wait(TURNS.take()):
            self._wake.clear()
            try:
                session = self._joined()
                failures = 0
                failure = self._hold(session)
            except SshFailed as error:
                failure = error.failure
            if failure is not None and not self._closing.is_set():
                failures += 1
                self._failed(failure)
                self._wake.wait(link_row.pause_s(failures) * random.uniform(0.8, 1.2))
        self._wake.close()

    def _joined(self) -> HostSession:
        """Install the agent if that was ordered, connect, and return the first session. Raises SshFailed."""
        order = self._order
        found = self._installed(order) if order.install else None
        found = found or self._first_session(self._route, accept_new=order.accept_new)
        if found.address:
            self._reached(found.address)
        self.check(found.greeting)
        with self._lock:
            # An order that came meanwhile is carried out next.
            if self._order is order:
                self._order = JoinOrder()
        return found.session

    def _installed(self, order: JoinOrder) -> FirstSession | None:
        """Install the agent, and return the session to it; None if the server's own key does not reach it.

        Raises SshFailed.
        """
        try:
            with INSTALLING:
                self._must_go_on()
                self._work.done_otherwise()
                route = self._install(self._route, order.accept_new, self._step)
                self._must_go_on()
        except SshFailed as error:
            raise SshFailed(explained(self._route, error.failure, self._typed)) from None
        except CorralError as error:
            raise SshFailed(SshFailure(f"{self.entry.destination}: {error}", by_person=True)) from None
        try:
            found = self._first_session(route, accept_new=False)
        except SshFailed as error:
            log.warning("host %s: the server's own key does not reach the agent: %s", self.entry.name, error)
            return None
        self._route = route
        return found

    def _first_session(self, route: SshRoute, *, accept_new: bool) -> FirstSession:
        self._step(f"connecting to {self.entry.destination}")
        try:
            return connect(route, self._claim, accept_new=accept_new, begun=self._attempt)
        except SshFailed as error:
            raise SshFailed(explained(route, error.failure, self._typed)) from None
        finally:
            self._attempted = None

    def _attempt(self, session: HostSession | None) -> None:
        """Keep the session of an attempt, which ends at once when the link is closed."""
        self._attempted = session
        if session is not None and self._closing.is_set():
            session.process.terminate()

    def _must_go_on(self) -> None:
        """Raise SshFailed if the link was closed."""
        if self._closing.is_set():
            raise SshFailed(SshFailure("this server ends, or the host was removed"))

    def _typed(self, *flags: str) -> str:
        """The command that adds this host as it is, with these flags, and with those of the present order."""
        entry = self.entry
        more = (("--ssh", entry.ssh), ("--address", entry.address), ("--mock", entry.mock))
        given = () if self._row.value.from_settings else more
        options = [word for option, value in given if value is not None for word in (option, value)]
        install = ["--install"] if self._order.install and "--install" not in flags else []
        return shlex.join(["corral", "hosts", "add", entry.name, *options, *install, *flags])

    def _hold(self, session: HostSession) -> SshFailure | None:
        """Keep the connection until it ends. Return why it ended; None if it is closed, or to be installed anew."""
        self._change(HostState.READY)
        self._ready(self.entry)
        return await_end(session, self.entry.destination, self._wake, self._goes_on)

    def _goes_on(self) -> bool:
        return not (self._closing.is_set() or self._order.install)

    def _failed(self, failure: SshFailure) -> None:
        state, before = link_row.state_after(failure), self._row.value
        if (state, failure.reason) != (before.state, before.reason):
            place = "" if failure.place is None else f" (it is in {failure.place})"
            log.warning("host %s: %s%s", self.entry.name, failure.reason, place)
        self._change(state, failure.reason)

    def _reached(self, address: str) -> None:
        """Keep the address that SSH has reached, unless the site names another, or it is no address."""
        try:
            entry = replace(self.entry, address=self.entry.address or address)
        except Refused as refused:
            log.warning("host %s: %s", self.entry.name, refused)
            return
        self._row.change(lambda row: replace(row, address=entry.address))

    def _step(self, step: str) -> None:
        self._row.change(lambda row: replace(row, step=step))

    def _change(self, state: HostState, reason: str | None = None) -> None:
        self._row.change(partial(link_row.in_state, state=state, now=self._clock.now(), reason=reason))
