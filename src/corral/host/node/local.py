"""The node agent in this process: `LocalNode` puts together what is done on this host.

node_launches        running launches            unknown_launches   running launches that are not in the ledger
device_setup         devices made ready          resource_files     scratch directories
job_mapping          which jobs are on which GPU, for other tools
sampler, news        reports about the host
notification_runner  commands of users whose jobs have ended
"""

import logging
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from corral.as_login import keyring_shared
from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.alerts.notification import Notification
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import SERVICE, Device
from corral.core.model.devices.means import Level, Means
from corral.core.model.errors import BackendFailed, CorralError, NodeUnreachable, NotFound, Refused
from corral.core.model.home import Home
from corral.core.model.jobs.terminal import TerminalSize
from corral.core.model.runs.launch import Launch, Lineage, Origin, checked_launch_id, job_of, member_of
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
    ServiceLost,
    SliceChange,
)
from corral.core.ports.runtime import InnerCommand
from corral.host.node.device_setup import DeviceSetup, Then
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.files.file_inspector import HostFileInspector
from corral.host.node.files.job_inputs import JobInputs
from corral.host.node.files.job_logs import JobLogs
from corral.host.node.files.job_mapping import JobMapping
from corral.host.node.files.resource_files import ResourceFiles
from corral.host.node.inventory import Inventory
from corral.host.node.launches.meeting_places import MeetingPlaces
from corral.host.node.launches.node_executions import NodeExecutions
from corral.host.node.launches.node_launches import HeardLaunches, NodeLaunches
from corral.host.node.launches.notification_runner import NotificationRunner
from corral.host.node.launches.unknown_launches import UnknownLaunches
from corral.host.node.news import NewsBuffer
from corral.host.runtimes.disk import Disks
from corral.host.runtimes.docker.container_runtime import DockerRuntime
from corral.host.runtimes.docker.containers_of_others import ContainerNames
from corral.host.runtimes.docker.site import DockerSite
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchError
from corral.host.runtimes.process.runtime import CONTAINER, ProcessRuntime
from corral.host.runtimes.watch import WatchRuntime
from corral.host.sharing.host_drivers import host_drivers
from corral.host.telemetry.attribution import Attribution
from corral.host.telemetry.discover import discover
from corral.host.telemetry.processes import HostProcesses
from corral.host.telemetry.sampler import Sampler
from corral.vendors.registry import vendor_of
from corral.vendors.vendor import Host
from corral.wire import to_plain

log = logging.getLogger(__name__)

REFRESH_TIMEOUT_S = 2.0
"""A driver that has not answered by then is not waited for: the job looks for another device."""


class LocalNode:
    """Implements `corral.core.ports.node.NodeAgent` on this host. After `close` the jobs run on.

    `name` is the node's name; None takes that of the host or the mock file. `server_home` is the home by which jobs
    find their server, by default `home`. `address` is the address at which the members of a gang reach this host.
    Raises BackendFailed if nothing can be launched here, Refused for a bad mock file.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        clock: SystemClock,
        *,
        mock: Path | None = None,
        name: str | None = None,
        server_home: Path | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._paths = {"CORRAL_HOME": str(server_home or home.root)}
        self._scratch_of = home.scratch_of
        self._news = NewsBuffer(clock)
        self._files = ResourceFiles(home.scratch)
        self._mapping = JobMapping(_mapping_directory(settings, mock, name))
        self._logs = JobLogs(home.logs, clock.now)
        self._inputs = JobInputs(home.launches)
        self._disks = Disks((home.root, home.launches, home.logs, home.scratch))
        self._reconciling = threading.Lock()
        self._is_reconciled = False
        self._meeting = MeetingPlaces(address)
        self._processes = HostProcesses()
        self._inspector = HostFileInspector()
        self._cleaner = Cleaner()
        self._unknown = UnknownLaunches(self._cleaner.add)
        self._drivers = host_drivers(Host(home.root, settings, described=mock is not None, by_root=os.geteuid() == 0))
        self._devices = DeviceSetup(self._drivers.of, self._news.inventory)
        labels = dict(settings.labels)
        self._source = discover(clock, mock=mock, allocated=self._devices.allocated_milli, labels=labels, node=name)
        # After all that may be refused, because it starts a process.
        heard = HeardLaunches(self._news.launch_changed)
        self._notifications = NotificationRunner(home, self._logs.tell, {**self._paths})
        # An event of a runner concerns the launch whose container it looks after.
        listener = self._notifications.beside(lambda launch_id: heard.add(launch_id.removeprefix(CONTAINER)))
        processes = _started(home, settings, clock, listener)
        self._launches = self._make_launches(processes, home, heard)
        self._executions = NodeExecutions(self._launches.execute)
        self._sampler = Sampler(
            self._source,
            clock,
            settings,
            listener=self._news.sampled,
            attribution=Attribution(
                clock,
                origins=self._origins,
                home=self._paths["CORRAL_HOME"],
                container_named=ContainerNames().of,
            ),
            arrange=Inventory(settings, self._drivers, processes.host_means, home.scratch, name).of,
        )
        self._watches = self._drivers.watches(self._clients, self._service_lost)
        _warn(*self._drivers.warnings)
        if (why := keyring_shared()) is not None:
            _warn(f"jobs of all users share the server's session keyring: keyctl is forbidden here ({why})")
        self._cleaner.start()
        self._notifications.start(processes)
        self._sampler.start()
        for watch in self._watches:
            watch.start()

    @property
    def source(self) -> str:
        """The name of the devices' reader: nvml, nvidia-smi or mock."""
        return self._source.name

    def close(self) -> None:
        """Stop everything but the jobs, and answer waiting questions for changes."""
        self._news.close()
        for watch in self._watches:
            watch.close()
        self._unknown.close()
        self._devices.close()
        self._cleaner.close()
        self._inspector.close()
        self._notifications.close()
        self._executions.close()
        self._launches.close()
        self._sampler.stop()
        self._source.close()

    def end_all(self, reason: str) -> None:
        """End all launches here, and write the reason into the logs of the jobs."""
        for launch_id in self._launches.stop_all(reason):
            with suppress(CorralError):
                self.note(job_of(launch_id), member_of(launch_id)[1], reason)

    def power_off(self) -> None:
        """Kill all processes here without a report of their end, as a mock host does that disappears."""
        self._launches.kill_all(self._processes.alive)

    # Reports

    def news(self, after: int, timeout_s: float) -> News:
        return self._news.since(after, timeout_s)

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._refuse_before_reconciliation()
        samples = self._sampler.refresh(uuids, REFRESH_TIMEOUT_S) if uuids else ()
        return Readiness(samples, self._disks.trouble())

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        reports = tuple(self._launches.report(checked_launch_id(launch_id)) for launch_id in launch_ids)
        return Reports(self._clock.now(), reports)

    # Work

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        # One at a time: a server without an answer asks again while the first call is still running.
        with self._reconciling:
            unknown = self._unknown.end(self._launches.restore(allocated))
            self._devices.restore(allocated)
            remarks = self._files.restore(allocated)
            self._mapping.restore(allocated)
            for step in self._files.leftovers(waiting):
                self._cleaner.add(step)
            self._is_reconciled = True
            return Reconciled(remarks, unknown)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return self._meeting.of(checked_launch_id(launch_id))

    def launch(self, launch: Launch) -> None:
        self._refuse_before_reconciliation()
        checked_launch_id(launch.id)
        self._cleaner.put_off()
        self._launches.launch(launch)

    def stop(self, launch_id: str) -> None:
        self._cleaner.put_off()
        self._launches.stop(checked_launch_id(launch_id))

    def signal(self, launch_id: str, name: str) -> None:
        self._launches.signal(checked_launch_id(launch_id), name)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._launches.set_time_limit(checked_launch_id(launch_id), time_limit_s)

    def declare_lost(self, launch_id: str, ran: bool) -> bool:
        return self._launches.declare_lost(checked_launch_id(launch_id), ran=ran)

    def forget(self, launch_id: str, keep_scratch: bool) -> None:
        job_id = job_of(checked_launch_id(launch_id))
        remove_records = self._launches.forget(launch_id)
        self._devices.leave(launch_id)
        self._meeting.forget(launch_id)
        self._files.drop(launch_id, job_id)
        self._mapping.drop(launch_id)
        self._cleaner.add(remove_records)
        if not keep_scratch:
            self._cleaner.add(partial(self._files.tidy, job_id))

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        return self._files.compare(allocated)

    # Looks at the host

    def process(self, pid: int) -> ProcessFound | None:
        identity = self._processes.identify(pid)
        uid = None if identity is None else self._processes.uid(identity)
        if identity is None or uid is None:
            return None
        return ProcessFound(identity, uid, tuple(sorted(self._processes.family(pid))))

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        return self._logs.read(job_id, rank, offset, max_bytes, mark)

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        return self._logs.written_since(job_id, rank, ago_s, mark)

    def write_input(self, launch_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        return self._inputs.write(checked_launch_id(launch_id), offset, data, end=end)

    def resize_terminal(self, launch_id: str, size: TerminalSize) -> None:
        self._inputs.resize(checked_launch_id(launch_id), size)

    def begin_exec(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        self._executions.begin(exec_id, checked_launch_id(launch_id), command)

    def write_exec(self, exec_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        return self._executions.write(exec_id, offset, data, end=end)

    def resize_exec(self, exec_id: str, size: TerminalSize) -> None:
        self._executions.resize(exec_id, size)

    def read_exec(self, exec_id: str, after: int) -> ExecOutput | None:
        return self._executions.read(exec_id, after)

    def end_exec(self, exec_id: str) -> None:
        self._executions.end(exec_id)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._logs.note(job_id, rank, line)

    def notify(self, notification: Notification) -> bool:
        return self._notifications.take(notification)

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        found = self._inspector.inspect(queries, who)
        return tuple(FileFinding(query, to_plain(facts)) for query, facts in found.items())

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        node = self._news.inventory()
        device = next((one for one in (() if node is None else node.devices) if one.uuid == uuid), None)
        if device is None:
            raise NotFound(f"there is no device {uuid} on this node any more", field="device")
        make = vendor_of(device).change_slices
        if make is None:
            raise Refused(f"--mig: slices of {device.model} are not changed by Corral", field="device")
        return make(device, change, self._settings.mig_changes)

    # Between the parts

    def _make_launches(self, processes: ProcessLaunches, home: Home, heard: HeardLaunches) -> NodeLaunches:
        grace_s, site = self._settings.kill_grace_s, docker_site(self._settings)
        log_max_bytes = _log_max_bytes(self._settings)
        return NodeLaunches(
            {
                "process": ProcessRuntime(processes, home),
                "container": DockerRuntime(processes, home, site, kill_grace_s=grace_s, log_max_bytes=log_max_bytes),
                "watch": WatchRuntime(self._processes, self._clock, heard.add, kill_grace_s=grace_s),
            },
            make_ready=self._make_ready,
            complete=self._completed,
            on_change=self._news.launch_changed,
            heard=heard,
        )

    def _refuse_before_reconciliation(self) -> None:
        if not self._is_reconciled:
            raise NodeUnreachable("the node agent has just been started, and is not reconciled with the ledger yet")

    def _make_ready(self, launch: Launch, then: Then) -> None:
        step = partial(self._devices.enter, launch, then)
        if launch.uses:
            self._unknown.then(step)
        else:
            step()

    def _completed(self, launch: Launch) -> Launch:
        self._files.write(launch)
        self._mapping.add(launch)
        own = {**self._paths, "CORRAL_SCRATCH": str(self._scratch_of(launch.job.id))}
        env = {**dict(launch.env), **own, **self._devices.environment(launch)}
        return replace(launch, env=tuple(sorted(env.items())))

    def _clients(self) -> dict[str, tuple[Device, tuple[str, ...]]]:
        """Devices on which launches run that meet in a daemon, with these launches."""
        shared = self._devices.clients(Means.MPS)
        found = {uuid: (device, self._launches.running(launches)) for uuid, (device, launches) in shared.items()}
        return {uuid: (device, launches) for uuid, (device, launches) in found.items() if launches}

    def _service_lost(self, uuid: str, reason: str, launches: tuple[str, ...]) -> None:
        self._news.service_lost(ServiceLost(uuid, reason, launches))

    def _origins(self) -> tuple[Origin, ...]:
        daemons = (self._processes.identify(pid) for pid in self._drivers.daemons())
        services = (Origin(SERVICE, Lineage(daemon)) for daemon in daemons if daemon is not None)
        return (*self._launches.origins(), *services)


def _mapping_directory(settings: Settings, mock: Path | None, name: str | None) -> Path | None:
    if settings.job_mapping_dir is None:
        return None
    directory = Path(settings.job_mapping_dir)
    # The nodes of a mock cluster are on one machine, and their devices have the same numbers.
    return directory if mock is None or name is None else directory / name


def _warn(*warnings: str | None) -> None:
    for warning in warnings:
        if warning is not None:
            log.warning("%s", warning)


def docker_site(settings: Settings) -> DockerSite:
    """Return the rules for jobs in containers on hosts with these settings."""
    docker = settings.docker
    return DockerSite(docker.host_paths, docker.networks, docker.any_user, docker.max_processes)


def _log_max_bytes(settings: Settings) -> int:
    return settings.log_max_mib * 1024 * 1024


def _started(home: Home, settings: Settings, clock: SystemClock, on_event: Callable[[str], None]) -> ProcessLaunches:
    processes = ProcessLaunches(
        home.root,
        log_max_bytes=_log_max_bytes(settings),
        kill_grace_s=settings.kill_grace_s,
        on_event=on_event,
        boot_at=clock.boot_at,
    )
    try:
        processes.start()
    except LaunchError as error:
        raise BackendFailed(str(error)) from error
    for what, level in (("--cpus", processes.host_means.cpus), ("--host-memory", processes.host_means.memory)):
        if level is Level.ADVISORY:
            log.info("no cgroup here limits the %s of jobs: the amount is counted, but not enforced", what)
    _allow_many_files()
    return processes


def _allow_many_files() -> None:
    """Raise the limit of open files, as each running job takes one. Call it after the zygote's start: jobs keep the old
    limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
