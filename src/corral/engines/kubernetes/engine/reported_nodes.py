"""Keeps the nodes that have agents: by UUID while they report, unreadable while they are silent, and counted once the
agent is removed.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from corral.clock import Clock
from corral.core.model.devices.device import Device
from corral.core.model.errors import CorralError
from corral.core.model.runs.launch import LaunchPhase
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.job_devices import JobDevices
from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod
from corral.engines.kubernetes.agent_reports.given_devices import Assignment, given_to_pods, whole_devices
from corral.engines.kubernetes.agent_reports.report_box import NodeReport, ReportBox
from corral.engines.kubernetes.agent_reports.reported_node import (
    Reported,
    are_parts,
    counted_devices,
    gives_parts,
)
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.devices import is_counted, slot_count
from corral.engines.kubernetes.shares.served_shares import ServedShares

log = logging.getLogger(__name__)

LOOK_S = 0.5

REMOVED_AFTER_S = 60.0
"""A node counts as without an agent once it has had no agent's pod for this long. An upgrade takes less."""


class _Handled(NamedTuple):
    """The last report of a node that was compared with the ledger, and the launches that ran then."""

    report: NodeReport
    running: frozenset[str]


class ReportedNodes:
    """Follows the agents of all nodes. `look` is for one thread; `hear` is safe from any.

    `phase` returns the phase of a launch. `refusal` returns why the last report of a node was refused, None if it was
    not.
    """

    def __init__(
        self,
        book: NodeBook,
        box: ReportBox,
        agent_pods: Cache[AgentPod],
        clock: Clock,
        *,
        phase: Callable[[str], LaunchPhase],
        refusal: Callable[[str], str | None] = lambda node: None,
    ) -> None:
        self._book = book
        self._box = box
        self._agent_pods = agent_pods
        self._clock = clock
        self._phase = phase
        self._refusal = refusal
        self._devices: JobDevices | None = None
        self._started_s = clock.monotonic()
        self._there_s: dict[str, float] = {}
        """When each node was last seen to have an agent, by the monotonic clock."""
        self._handled: dict[str, _Handled] = {}
        self._parts: dict[str, tuple[NodeFacts, bool]] = {}
        """Whether the cluster's devices of each node are parts of GPUs, with the facts that say so."""
        box.subscribe(self.hear)

    def attend(self, devices: JobDevices) -> None:
        """Set the ledger's devices, and look for the first time: no node was told of yet."""
        self._devices = devices
        for facts, _ in self._book.nodes():
            if self._has_exact(facts.name):
                self._there_s[facts.name] = self._started_s
        self.look()

    def hear(self, taken: NodeReport) -> None:
        """Bring a report into the book at once, if the node's devices are known by UUID already."""
        before = self._book.reported(taken.node)
        if before is not None and before.last is not None and before.trouble is None:
            self._book.report(taken.node, Reported(taken))

    def look(self) -> None:
        """Run one round over all nodes."""
        pods = {pod.node: pod for pod in self._agent_pods.values()}
        names: set[str] = set()
        for facts, shared in self._book.nodes():
            names.add(facts.name)
            try:
                self._look_at(facts, shared, pods.get(facts.name))
            except CorralError as error:
                log.warning("the agent's report on node %s is looked at again: %s", facts.name, error)
        for name in self._there_s.keys() - names:
            del self._there_s[name]
            self._handled.pop(name, None)
            self._book.report(name, None)
        for name in self._parts.keys() - names:
            del self._parts[name]

    def _look_at(self, facts: NodeFacts, shared: ServedShares | None, pod: AgentPod | None) -> None:
        name, last = facts.name, self._box.latest(facts.name)
        before = self._book.reported(name)
        if before is None and pod is None and last is None and name not in self._there_s:
            return
        has_agent = self._has_agent(name, pod, last)
        counted = (
            not has_agent or self._are_parts(facts) or (shared is not None and not self._gives_parts(shared, name))
        )
        wanted = None if counted else self._wanted(name, pod, last, before)
        by_uuid = None if wanted is None else wanted.last
        if (wanted is None or by_uuid is not None) and not self._renamed(facts, shared, by_uuid):
            return
        self._book.report(name, wanted)
        if not has_agent:
            self._box.drop(name)
            self._there_s.pop(name, None)
            self._handled.pop(name, None)
        if wanted is not None and by_uuid is not None and wanted.trouble is None:
            self._compare(by_uuid)

    def _are_parts(self, facts: NodeFacts) -> bool:
        known = self._parts.get(facts.name)
        if known is None or known[0] is not facts:
            known = self._parts[facts.name] = facts, are_parts(facts)
        return known[1]

    def _gives_parts(self, shared: ServedShares, node: str) -> bool:
        """Return whether Corral's own plugin gives the parts; before its first report, whether it did for jobs."""
        last = self._box.latest(node)
        return self._has_exact(node) if last is None else gives_parts(last, shared)

    def _has_exact(self, node: str) -> bool:
        held = () if self._devices is None else self._devices.on(node)
        return any(not is_counted(grant.uuid) for one in held for grant in one.grants)

    def _has_agent(self, node: str, pod: AgentPod | None, last: NodeReport | None) -> bool:
        now_s = self._clock.monotonic()
        if pod is not None or self._speaks(last):
            self._there_s[node] = now_s
        there_s = self._there_s.get(node)
        return there_s is not None and now_s - there_s <= REMOVED_AFTER_S

    def _speaks(self, last: NodeReport | None) -> bool:
        return last is not None and self._clock.now() - last.heard_at < last.silent_after_s

    def _wanted(self, node: str, pod: AgentPod | None, last: NodeReport | None, before: Reported | None) -> Reported:
        """Return what the node is from now on; the same object as before if that has not changed."""
        trouble = None if self._speaks(last) else self._trouble(node, pod, last)
        same = before is not None and before.last is last
        if same and before is not None and before.trouble == trouble:
            return before
        if trouble is None:
            return Reported(last)
        since = self._clock.now() if last is None else last.heard_at
        return Reported(last, trouble, since)

    def _trouble(self, node: str, pod: AgentPod | None, last: NodeReport | None) -> str:
        whose = f"the agent of node {node}" + (f" (pod {pod.namespace}/{pod.name})" if pod is not None else "")
        refused = self._refusal(node)
        why = "" if refused is None else f": its last report was refused: {refused}"
        if pod is None:
            why = why or ": it has no pod there"
        if last is None:
            return f"{whose} has not reported since this server started{why}"
        shown = time.strftime("%H:%M:%S", time.localtime(self._clock.shown(last.heard_at)))
        return f"{whose} has not reported since {shown}{why}"

    def _renamed(self, facts: NodeFacts, shared: ServedShares | None, last: NodeReport | None) -> bool:
        """Give the launches on a node the names that its devices have from now on. Return False if that must wait."""
        name, devices = facts.name, self._devices
        uuids = [] if devices is None else [grant.uuid for one in devices.on(name) for grant in one.grants]
        if devices is None or all(is_counted(uuid) is (last is None) for uuid in uuids):
            return True
        if last is None:
            slots = max(slot_count(facts, shared), len(set(uuids)))
            assignment = Assignment(_by_uuid(counted_devices(facts, shared, slots)))
        else:
            assignment = self._assignment(last)
        if not assignment.choose(devices.on(name)):
            return True
        came = "has come" if last is not None else "was removed"
        self._book.close(name, f"the agent of node {name} {came}, and the GPUs of its jobs get other names")
        exchanged = devices.exchange(name, assignment.choose, closed=True)
        if exchanged is None:
            return False
        self._book.exchange(name, exchanged)
        log.info("node %s: its agent %s; the GPUs of %d launches have other names", name, came, len(exchanged))
        return True

    def _compare(self, last: NodeReport) -> None:
        """Exchange devices where the kubelet gave others than were chosen; a pod that cannot have them is failed."""
        devices = self._devices
        if devices is None or (last.report.given is None and not last.report.shares):
            return
        running = frozenset(self._given(last))
        handled = self._handled.get(last.node)
        if handled is not None and handled.report is last and handled.running == running:
            return
        self._handled[last.node] = _Handled(last, running)
        assignment = self._assignment(last)
        launches = devices.on(last.node)
        if assignment.choose(launches):
            exchanged = devices.exchange(last.node, assignment.choose)
            if exchanged:
                self._book.exchange(last.node, exchanged)
                log.info("node %s: its kubelet gave %d launches other GPUs than chosen", last.node, len(exchanged))
        for launch_id, why in assignment.disagreements.items():
            devices.fail(launch_id, why)

    def _assignment(self, last: NodeReport) -> Assignment:
        own = {one.pod for one in self._book.held_on(last.node)}
        given = given_to_pods(last.report)
        # Other parts of a device may be free. Corral's own plugin tells of devices that it gave whole, too.
        shared = {one.device_uuid for one in last.report.shares if one.share_milli < MILLI_PER_DEVICE}
        taken = {uuid for pod, uuids in given.items() if pod not in own for uuid in uuids if uuid not in shared}
        return Assignment(_by_uuid(whole_devices(last.report)), self._given(last), taken)

    def _given(self, last: NodeReport) -> dict[str, tuple[str, ...]]:
        """Return the devices that the kubelet gave to running launches. Before, a pod of that name may be meant that
        was deleted.
        """
        held = self._book.held_on(last.node)
        if not held:
            return {}
        given = given_to_pods(last.report)
        return {
            one.launch_id: given[one.pod]
            for one in held
            if one.pod in given and self._phase(one.launch_id) is LaunchPhase.RUNNING
        }


def _by_uuid(devices: Iterable[Device]) -> dict[str, Device]:
    return {device.uuid: device for device in sorted(devices, key=lambda device: device.index)}
