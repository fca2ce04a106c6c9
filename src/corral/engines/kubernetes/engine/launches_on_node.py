"""The launches on one node of a cluster, which are pods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corral.clock import Clock
from corral.core.model.errors import DevicesTaken, NodeUnreachable, Refused
from corral.core.model.runs.launch import Launch, LaunchPhase, checked_launch_id
from corral.core.ports.node import Keep, Readiness, Reconciled, Rendezvous, Reports
from corral.core.ports.runtime import Execution, InnerCommand
from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime
from corral.engines.kubernetes.inventory.devices import is_counted, slot_of_id

DEFAULT_RUNTIME = "container"


@dataclass(slots=True)
class LaunchesOnNode:
    """Implements `corral.core.ports.node.Launches` for one node of a cluster.

    Attributes:
        runtimes: the runtimes by their names in launches.
        look: brings pods that other schedulers have just bound to a node into the book.
        departed: whether the cluster no longer has the node.
    """

    name: str
    book: NodeBook
    runtimes: Mapping[str, ClusterRuntime]
    records: ClusterLaunches
    clock: Clock
    look: Callable[[str], None]
    departed: bool = False
    _is_reconciled: bool = False

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._refuse_before_reconciliation()
        silence = self.book.silence(self.name)
        if silence is not None:
            raise NodeUnreachable(silence)
        self.look(self.name)
        self.book.choose(self.name, [slot_of_id(uuid) for uuid in uuids if is_counted(uuid)])
        seen = self.book.see(self.name)
        wanted = frozenset(uuids)
        return Readiness(() if seen is None else tuple(one for one in seen.samples if one.uuid in wanted))

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        if self.departed:
            # Nodes and pods have separate watches, and one may lag behind the other.
            for launch_id in launch_ids:
                self._of(launch_id).look(launch_id)
        reports = tuple(self._of(launch_id).report(launch_id) for launch_id in launch_ids)
        return Reports(self.clock.now(), reports)

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        for launch in allocated:
            self._hold(launch)
        self.book.hold_alone(self.name, allocated)
        known, unknown = {launch.id for launch in allocated}, []
        for runtime, launch_id in self.records.on(self.name):
            phase = runtime.report(launch_id).phase
            if launch_id in known or phase is LaunchPhase.UNKNOWN:
                continue
            if not phase.over:
                unknown.append(launch_id)
                runtime.stop(launch_id)
            runtime.forget(launch_id)
            self.records.drop(self.name, launch_id)
        for launch in allocated:
            runtime = self._runtime(launch)
            if launch.job.spec.time_limit_s is not None and runtime.report(launch.id).phase is not LaunchPhase.UNKNOWN:
                runtime.set_time_limit(launch.id, launch.job.spec.time_limit_s)
        self._is_reconciled = True
        return Reconciled((), tuple(unknown))

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return self._of(launch_id).rendezvous(launch_id)

    def launch(self, launch: Launch) -> None:
        self._refuse_before_reconciliation()
        checked_launch_id(launch.id)
        self._hold(launch)
        self._refuse_taken(launch)
        self._runtime(launch).launch(launch)

    def stop(self, launch_id: str) -> None:
        self._of(launch_id).stop(launch_id)

    def signal(self, launch_id: str, name: str) -> None:
        self._of(launch_id).signal(launch_id, name)

    def tell_to_save(self, launch_id: str, name: str, stops_in_s: float | None) -> None:
        # Jobs that are to be told while they go on were refused: a pod gets no signal but that of its end.
        if stops_in_s is not None:
            self._of(launch_id).signal(launch_id, name)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._of(launch_id).set_time_limit(launch_id, time_limit_s)

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        return self._of(launch_id).declare_lost(launch_id, ran=ran)

    def forget(self, launch_id: str, *, keep: Keep) -> None:
        self._of(launch_id).forget(launch_id)
        self.records.drop(self.name, launch_id)
        self.book.release(launch_id)

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside a launch. Raises the errors of the launch's runtime."""
        return self._of(launch_id).execute(launch_id, command)

    def _refuse_before_reconciliation(self) -> None:
        if not self._is_reconciled:
            raise NodeUnreachable(f"node {self.name} has just come, and is not reconciled with the ledger yet")

    def _refuse_taken(self, launch: Launch) -> None:
        """Raise DevicesTaken if another scheduler took GPUs since the decision, or GPUs have become unhealthy."""
        if not launch.uses:
            return
        by_count = self.book.reported(self.name) is None
        if any(is_counted(use.device.uuid) is not by_count for use in launch.uses):
            raise DevicesTaken(f"the GPUs of node {self.name} have other names by now: its agent came, or was removed")
        self.look(self.name)
        if (too_many := self.book.overbooked(self.name)) > 0:
            raise DevicesTaken(
                f"with it {too_many} more would be in use than the healthy GPUs of node {self.name}: "
                "another scheduler has just taken some, or some have just become unhealthy"
            )

    def _hold(self, launch: Launch) -> None:
        runtime = self._runtime(launch)
        self.records.add(launch)
        self.book.hold(launch, runtime.pod_name(launch.id))

    def _runtime(self, launch: Launch) -> ClusterRuntime:
        runtime = self.runtimes.get(launch.runtime)
        if runtime is None:
            raise Refused(
                f"launch {launch.id} is of the kind {launch.runtime!r}, which a Kubernetes cluster does not run"
            )
        return runtime

    def _of(self, launch_id: str) -> ClusterRuntime:
        name = self.records.runtime_of(checked_launch_id(launch_id))
        return self.runtimes[name or DEFAULT_RUNTIME]
