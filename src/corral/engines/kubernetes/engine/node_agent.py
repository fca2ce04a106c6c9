"""Acts on one node of a cluster for a server, through the API server and the known state of its objects."""

from collections.abc import Callable, Mapping

from corral.clock import Clock
from corral.core.model.alerts.notification import Notification
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.errors import DevicesTaken, NodeUnreachable, Refused
from corral.core.model.jobs.terminal import TerminalSize
from corral.core.model.runs.launch import Launch, LaunchPhase, checked_launch_id
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import (
    ExecOutput,
    FileFinding,
    InputTaken,
    LogChunk,
    News,
    ProcessFound,
    Readiness,
    Reconciled,
    Rendezvous,
    Reports,
    SliceChange,
)
from corral.core.ports.runtime import InnerCommand
from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime
from corral.engines.kubernetes.inventory.devices import slot_of_id
from corral.host.node.launches.node_executions import NodeExecutions

DEFAULT_RUNTIME = "container"


class ClusterNodeAgent:
    """Implements `core.ports.node.NodeAgent` for the node of that name. It has a thread while commands run in its
    jobs.

    Parts of a host that a cluster does not show (processes, files of users, input of programs) are refused or absent.
    """

    def __init__(
        self,
        name: str,
        book: NodeBook,
        runtimes: Mapping[str, ClusterRuntime],
        records: ClusterLaunches,
        clock: Clock,
        *,
        look: Callable[[str], None],
        departed: bool = False,
    ) -> None:
        """`runtimes` maps the names of runtimes in launches to them. With `departed` the cluster no longer has the
        node.

        `look` brings pods that other schedulers have just bound to a node into the book.
        """
        self._look = look
        self._departed = departed
        self._name = name
        self._book = book
        self._runtimes = runtimes
        self._records = records
        self._clock = clock
        self._is_reconciled = False
        self._executions = NodeExecutions(lambda launch_id, command: self._of(launch_id).execute(launch_id, command))

    # Reports

    def news(self, after: int, timeout_s: float) -> News:
        """Raises Refused: the feed of the cluster reports the changes of its nodes."""
        raise Refused(f"node {self._name} is not polled: its cluster reports changes by itself")

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._refuse_before_reconciliation()
        silence = self._book.silence(self._name)
        if silence is not None:
            raise NodeUnreachable(silence)
        self._look(self._name)
        self._book.choose(self._name, map(slot_of_id, uuids))
        seen = self._book.see(self._name)
        wanted = frozenset(uuids)
        return Readiness(() if seen is None else tuple(one for one in seen.samples if one.uuid in wanted))

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        if self._departed:
            # Nodes and pods have separate watches, and one may lag behind the other.
            for launch_id in launch_ids:
                self._of(launch_id).look(launch_id)
        reports = tuple(self._of(launch_id).report(launch_id) for launch_id in launch_ids)
        return Reports(self._clock.now(), reports)

    # Work

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        for launch in allocated:
            self._hold(launch)
        self._book.hold_alone(self._name, allocated)
        known, unknown = {launch.id for launch in allocated}, []
        for runtime, launch_id in self._records.on(self._name):
            phase = runtime.report(launch_id).phase
            if launch_id in known or phase is LaunchPhase.UNKNOWN:
                continue
            if not phase.over:
                unknown.append(launch_id)
                runtime.stop(launch_id)
            runtime.forget(launch_id)
            self._records.drop(self._name, launch_id)
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

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._of(launch_id).set_time_limit(launch_id, time_limit_s)

    def declare_lost(self, launch_id: str, ran: bool) -> bool:
        return self._of(launch_id).declare_lost(launch_id, ran=ran)

    def forget(self, launch_id: str, keep_scratch: bool) -> None:
        self._of(launch_id).forget(launch_id)
        self._records.drop(self._name, launch_id)
        self._book.release(launch_id)

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        """Pods have no resource files."""
        return ()

    # Looks at the host

    def process(self, pid: int) -> ProcessFound | None:
        """Processes of nodes cannot be seen."""
        return None

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        return self._of_job(job_id).read_log(job_id, rank, offset, max_bytes, mark)

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        return self._of_job(job_id).log_written_since(job_id, rank, ago_s, mark)

    def write_input(self, launch_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        """Pods take no input."""
        return None

    def resize_terminal(self, launch_id: str, size: TerminalSize) -> None:
        """Pods have no terminal."""

    def begin_exec(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        self._executions.begin(exec_id, launch_id, command)

    def write_exec(self, exec_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        return self._executions.write(exec_id, offset, data, end=end)

    def resize_exec(self, exec_id: str, size: TerminalSize) -> None:
        self._executions.resize(exec_id, size)

    def read_exec(self, exec_id: str, after: int) -> ExecOutput | None:
        return self._executions.read(exec_id, after)

    def end_exec(self, exec_id: str) -> None:
        self._executions.end(exec_id)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._of_job(job_id).note(job_id, rank, line)

    def notify(self, notification: Notification) -> bool:
        raise Refused(
            f"the command of job {notification.job_id} that was to be run after its end is not run: in a Kubernetes "
            "cluster there is no host to run it on; use `corral channels set` and --notify-on for messages about ends"
        )

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        """Files are in images and volumes, which cannot be looked at from outside."""
        return ()

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        raise Refused(f"node {self._name} is in a Kubernetes cluster: its slices cannot be changed from here")

    def close(self) -> None:
        """Commands inside jobs end."""
        self._executions.close()

    def _refuse_before_reconciliation(self) -> None:
        if not self._is_reconciled:
            raise NodeUnreachable(f"node {self._name} has just come, and is not reconciled with the ledger yet")

    def _refuse_taken(self, launch: Launch) -> None:
        """Raise DevicesTaken if another scheduler took GPUs since the decision, or GPUs have become unhealthy."""
        if not launch.uses:
            return
        self._look(self._name)
        if (too_many := self._book.overbooked(self._name)) > 0:
            raise DevicesTaken(
                f"with it {too_many} more would be in use than the healthy GPUs of node {self._name}: "
                "another scheduler has just taken some, or some have just become unhealthy"
            )

    def _hold(self, launch: Launch) -> None:
        runtime = self._runtime(launch)
        self._records.add(launch)
        self._book.hold(launch, runtime.pod_name(launch.id))

    def _runtime(self, launch: Launch) -> ClusterRuntime:
        runtime = self._runtimes.get(launch.runtime)
        if runtime is None:
            raise Refused(
                f"launch {launch.id} is of the kind {launch.runtime!r}, which a Kubernetes cluster does not run"
            )
        return runtime

    def _of(self, launch_id: str) -> ClusterRuntime:
        name = self._records.runtime_of(checked_launch_id(launch_id))
        return self._runtimes[name or DEFAULT_RUNTIME]

    def _of_job(self, job_id: str) -> ClusterRuntime:
        return self._runtimes[self._records.runtime_of_job(job_id) or DEFAULT_RUNTIME]
