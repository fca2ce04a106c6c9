"""Makes the link and the agent of a host; installs an agent there, upgrades and removes it.

It is loaded with the first host.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from corral.clock import Clock
from corral.config import Settings
from corral.core.model.devices.joined_host import UPGRADE, HostEntry, JoinedHost, JoinOrder
from corral.core.model.errors import Conflict, CorralError
from corral.core.model.home import Home
from corral.engines.hosts.host_link import HostLink
from corral.engines.hosts.host_record import HostRecord
from corral.engines.hosts.installing.agent_settings import agent_settings
from corral.engines.hosts.installing.host_shell import HostShell
from corral.engines.hosts.installing.installer import (
    LOOK_S,
    WORK_S,
    InstallOrder,
    Step,
    install,
    own_key,
    uninstall,
    upgrade,
)
from corral.engines.hosts.meeting_agents import Address, MeetingAgent
from corral.engines.hosts.own_claim import own_claim
from corral.engines.hosts.ssh import SshRoute
from corral.host.node.remote import RemoteNode
from corral.wire import to_plain

log = logging.getLogger(__name__)


class HostAgent(MeetingAgent):
    """The agent of a joined host, reached through a link."""

    def __init__(self, link: HostLink, address: Address) -> None:
        super().__init__(RemoteNode(link), address)


class LinkedHost(NamedTuple):
    """The link to a host, which was not started yet, and the agent that is reached through it."""

    link: HostLink
    agent: HostAgent

    def upgrade(self, home: Home) -> JoinedHost:
        """Begin to bring the agent to this server's version and settings. Raises Conflict if it does not answer."""
        row = self.link.row()
        if not self.link.answers:
            raise Conflict(
                f"host {row.name} does not answer: {row.reason or 'it is being connected'}; once it can be reached, "
                f"`corral hosts add {row.name} --install` installs its agent anew"
            )
        settings, agent = agent_settings(home.config_file), self.agent
        self.link.begin(UPGRADE, lambda step: upgrade(agent.installation, settings, step))
        return self.link.row()

    def give_up(self) -> bool:
        """End the jobs there, for which nobody asks any more, and have the agent remove what was installed there.

        Return False if it does not answer, or was not installed.
        """
        with suppress(CorralError):
            self.agent.launches.reconcile((), ())
        try:
            self.agent.installation.remove(even_if_jobs_run=True)
        except CorralError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class HostJoining:
    """Joins hosts to the server with this home."""

    home: Home
    settings: Settings
    clock: Clock

    def linked(
        self, record: HostRecord, order: JoinOrder | None, control: Path, ready: Callable[[HostEntry], None]
    ) -> LinkedHost:
        """Return a host with its link. `control` is the socket of its connection."""
        entry, identity = record.entry, self.home.ssh_key_file if record.restricted else None
        link = HostLink(
            entry,
            SshRoute(entry.destination, control, self.settings.ssh_config, identity),
            self.clock,
            ready,
            claim=own_claim(self.home),
            install=lambda route, accept_new, step: self._install(entry, route, accept_new, step),
            order=order,
            from_settings=record.from_settings,
        )
        return LinkedHost(link, HostAgent(link, link.address))

    def uninstall(self, host: LinkedHost, is_joined: Callable[[str], bool]) -> None:
        """Remove what was installed on a host whose agent does not answer, as far as the host does.

        An installation there ends before. `is_joined` tells whether a destination was joined again meanwhile.
        """
        entry = host.link.entry
        host.link.close(time.monotonic() + LOOK_S + WORK_S)
        if is_joined(entry.destination):
            return
        route = SshRoute(entry.destination, Path("none"), self.settings.ssh_config)
        try:
            uninstall(HostShell(route), own_claim(self.home).server, entry.name, even_if_jobs_run=True)
        except CorralError as error:
            log.warning("host %s: what this server installed stays there: %s", entry.name, error)

    def _install(self, entry: HostEntry, route: SshRoute, accept_new: bool, step: Step) -> SshRoute:
        """Install an agent, and return the route by which the server's own key reaches it."""
        mock = () if entry.mock is None else ("--mock", entry.mock)
        claim = own_claim(self.home)
        order = InstallOrder(
            claim.server,
            ("--claimed", "--node", entry.name, *mock),
            agent_settings(self.home.config_file),
            own_key(self.home.ssh_key_file),
            to_plain(replace(claim, name=entry.name)),
            entry.name,
        )
        installed = install(HostShell(route, accept_new=accept_new), order, step)
        log.info("host %s: version %s is installed as %s", entry.name, installed.version, installed.service)
        for remark in installed.remarks:
            log.warning("host %s: %s", entry.name, remark)
        return replace(route, identity=self.home.ssh_key_file)
