"""A server over nodes that fail: real ledger, hub, controller and dispatcher, with a clock that is set by hand."""

import time
from collections.abc import Mapping
from contextlib import suppress

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.control.core import ControlCore
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.watching.draining import DrainWatch
from corral.core.control.watching.health_watch import HealthWatch, ProbationEnd
from corral.core.control.watching.sick_devices import SickDevices
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.lifecycle.device_health import HealthPolicy
from corral.core.model.answers.site import ServerInfo
from corral.core.model.devices.device import Device
from corral.core.model.devices.health import DeviceHealth
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import NodeObserved
from corral.core.model.home import Home
from corral.core.ports.ledger import Decided
from corral.host.telemetry.hub import Hub
from corral.sim.faults.faulty_node import Cable, FaultyNode, NodeLink

PATIENCE_S = 120.0
_MOST_PAGES = 4_294_967_294
"""SQLite's own limit of the pages of a database."""

_HESITATION_S = 0.03
"""The time after which a planned start that was not made counts as impossible for now."""


WATCH_S = 10.0
LONGEST_WATCH_S = 40.0
"""The first and the longest watch over a device that was sick."""


class PassedTests:
    """Implements `corral.core.control.watching.health_watch.DeviceTests`: each device passes, and none is reset."""

    def result(self, node: str, device: Device, health: DeviceHealth, *, may_begin: bool) -> ProbationEnd | None:
        """Return that the device passed, if its test may begin."""
        return ProbationEnd() if may_begin else None

    def was_reset(self, node: str, device: Device, health: DeviceHealth) -> bool:
        """Return that the device was not reset."""
        return False


class FaultyServer:
    """One server over a ledger file and nodes that outlive it. The disk of its ledger can be full.

    Attributes:
        disk_full: whether the ledger's file can grow no more.
    """

    def __init__(self, home: Home, nodes: Mapping[str, FaultyNode], clock: ManualClock, settings: Settings) -> None:
        self.cable = Cable()
        agents = {name: NodeLink(node, self.cable) for name, node in nodes.items()}
        self.ledger: SqlLedger = open_ledger(home.ledger_url)
        self.disk_full = False
        self.hub = Hub(agents, clock, settings, view=self.ledger.view, observe=self.ledger.observe)
        self._nodes = Nodes(agents)
        self.core = ControlCore(
            self.ledger, self._nodes, self.hub, clock, settings=settings, rules=RequestRules(), about=ServerInfo
        )
        self.service = self.core.service
        stop = self.core.dispatcher.stop
        policy = HealthPolicy(WATCH_S, LONGEST_WATCH_S)
        health = HealthWatch(
            self.ledger, self.hub, clock, policy=policy, tests=PassedTests(), stop=stop, fell_sick=device_fell_sick
        )
        self._patrols = (
            DrainWatch(self.ledger, clock, stop).look,
            health.look,
            SickDevices(self.ledger, clock, tell=lambda job_id, line: None).look,
        )
        self.hub.expect(self.core.listener)
        self.hub.round()
        self._sync()
        self.core.start()
        self.settle()

    def round(self) -> None:
        """Do all periodic work of a server once."""
        self.hub.round()
        self.core.recovery.try_again()
        for look in self._patrols:
            # What could not be written is looked at again in the next round.
            with suppress(LedgerFailed):
                look()
        self.core.dispatcher.recheck()
        # A change without effect triggers a new decision: some time may have passed.
        self.ledger.observe([NodeObserved(node) for node in self.ledger.view().nodes.values()])
        self.settle()

    def hear(self) -> None:
        """Let the hub receive changes, and wait for their effects."""
        self.hub.round()
        self.settle()

    def settle(self) -> None:
        """Wait until the server has nothing more to do."""
        deadline = time.monotonic() + PATIENCE_S
        still_since, marks = time.monotonic(), self._marks()
        while True:
            self._sync()
            if marks != self._marks():
                still_since, marks = time.monotonic(), self._marks()
            elif self._is_planned(for_s=time.monotonic() - still_since):
                return
            assert time.monotonic() < deadline, "the server does not come to rest"
            time.sleep(0.0005)

    def fill_disk(self) -> None:
        """Let the ledger's file grow no more: SQLite says that the disk is full, to all but small writes."""
        self._limit_pages(1)
        self.disk_full = True

    def clear_disk(self) -> None:
        """Let the ledger's file grow again."""
        self._limit_pages(_MOST_PAGES)
        self.disk_full = False

    def join(self, name: str, node: FaultyNode) -> None:
        """Let a node join the cluster."""
        agent = NodeLink(node, self.cable)
        self._nodes.add(name, agent)
        self.hub.add(name, agent)

    def leave(self, name: str) -> None:
        """Let a node leave the cluster."""
        self.hub.remove(name)
        self._nodes.remove(name)

    def close(self) -> None:
        """Stop in an orderly way; jobs go on."""
        self.core.close()
        self.hub.stop()
        self.ledger.close()

    def kill(self) -> None:
        """Kill the server: from now on it reaches neither a node nor the ledger."""
        self.cable.cut_after(0)
        self.ledger.close()
        self.core.close()
        self.hub.stop()

    def _limit_pages(self, pages: int) -> None:
        # The limit is that of the writer's only connection. SQLite raises it to the pages that are there.
        with self.ledger.database.writing() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def _marks(self) -> tuple[int, int]:
        return self.ledger.view().version, self.cable.calls

    def _is_planned(self, *, for_s: float) -> bool:
        """Return whether the last plan is of the current view, and its possible starts are made."""
        plan = self.core.controller.plan
        return plan.version == self.ledger.view().version and (not plan.starts or for_s > _HESITATION_S)

    def _sync(self) -> None:
        """Wait until every thread has finished its current work."""
        for name in self._nodes:
            self._nodes.worker(name).join(PATIENCE_S)
        # It fails with what was to be written beside it.
        self.ledger.commit(lambda _: Decided((), None)).exception(PATIENCE_S)
