"""The node agent of this host: `LocalNode` runs in the calling process and assembles the parts of the agent."""

import logging
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from corral.as_login import keyring_shared
from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.device import SERVICE, Device
from corral.core.model.devices.means import Level, Means
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase, Lineage, Origin, job_of, member_of
from corral.core.ports.node import Installation, ServiceLost
from corral.core.ports.runtime import Runtime
from corral.host.node.device_setup import DeviceSetup
from corral.host.node.device_testing import DeviceTesting
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.files.file_inspector import HostFileInspector
from corral.host.node.files.job_inputs import JobInputs
from corral.host.node.files.job_logs import JobLogs
from corral.host.node.files.job_mapping import JobMapping
from corral.host.node.files.job_trees import JobTrees
from corral.host.node.files.resource_files import ResourceFiles
from corral.host.node.host_accounts import HostAccounts
from corral.host.node.inventory import Inventory
from corral.host.node.launches.checkpoint_search import CheckpointSearch
from corral.host.node.launches.launch_setup import LaunchSetup
from corral.host.node.launches.local_launches import LocalLaunches
from corral.host.node.launches.meeting_places import MeetingPlaces
from corral.host.node.launches.node_executions import NodeExecutions
from corral.host.node.launches.node_launches import HeardLaunches, NodeLaunches
from corral.host.node.launches.notification_runner import NotificationRunner
from corral.host.node.launches.power_off import kill_all
from corral.host.node.launches.unknown_launches import UnknownLaunches
from corral.host.node.local_host import LocalHost
from corral.host.node.news import NewsBuffer
from corral.host.node.power_limits import ROOT_ONLY, PowerLimits
from corral.host.runtimes.disk import Disks
from corral.host.runtimes.docker.container_runtime import DockerRuntime
from corral.host.runtimes.docker.containers_of_others import ContainerNames
from corral.host.runtimes.docker.presence import lack_of_docker
from corral.host.runtimes.docker.site import DockerSite
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchError
from corral.host.runtimes.process.records.still_running import tag_of
from corral.host.runtimes.process.runtime import CONTAINER, ProcessRuntime
from corral.host.runtimes.reserved_and_adopted import WatchRuntime
from corral.host.sharing.fences import Fences
from corral.host.sharing.host_drivers import HostDrivers, host_drivers
from corral.host.telemetry.attribution import Attribution
from corral.host.telemetry.discover import discover
from corral.host.telemetry.kernel_log import open_kernel_log
from corral.host.telemetry.mock_power import MockPower
from corral.host.telemetry.processes import HostProcesses
from corral.host.telemetry.reading.patient_reader import by_processes, by_threads
from corral.host.telemetry.sampler import Sampler
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import Host

log = logging.getLogger(__name__)


class LocalNode:
    """Implements `corral.core.ports.node.NodeAgent` on this host. After `close` the jobs run on.

    `name` is the node's name; None takes that of the host or the mock file. `server_home` is the home by which jobs
    find their server, by default `home`. `address` is the address at which the members of a gang reach this host.
    `accounts` are this host's, if its users are not those of the server's host.
    Raises BackendFailed if nothing can be launched here, Refused for a bad mock file.
    """

    installation: Installation | None = None
    """The agent's own program; None in a server's process."""

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
        accounts: HostAccounts | None = None,
    ) -> None:
        self.accounts = accounts
        self.news = news = NewsBuffer(clock)
        self.logs = JobLogs(home.logs, clock.now)
        self.inputs = JobInputs(home.launches)
        self.trees = trees = _trees(home, settings, accounts)
        self._processes = HostProcesses()
        inspector, cleaner, files = (
            HostFileInspector(),
            Cleaner(),
            ResourceFiles(home.scratch, settings.checkpoint_keep_s),
        )
        unknown = UnknownLaunches(cleaner.add)
        drivers = host_drivers(Host(home.root, settings, described=mock is not None, by_root=os.geteuid() == 0))
        mock_power = None if mock is None else MockPower(mock, name, home.root / "mock-power-limits.json")
        power = PowerLimits(home.power_limits, lambda vendor: mock_power or vendor_named(vendor).power())
        devices = DeviceSetup(drivers.of, news.inventory, power)
        labels = dict(settings.labels)
        if mock is None or mock_power is None:
            self._reader = by_processes(clock, labels)
        else:
            held, limits = devices.allocated_milli, mock_power.limits
            source = discover(clock, mock=mock, allocated=held, labels=labels, node=name, power_limits=limits)
            self._reader = by_threads(source, clock)
        paths = {"CORRAL_HOME": str(server_home or home.root)}
        mapping = JobMapping(_mapping_directory(settings, mock, name))
        checkpoints = CheckpointSearch(inspector.inspect, home.scratch_of)
        setup = LaunchSetup(devices, unknown, checkpoints, files, mapping, trees, cleaner, home.scratch_of, paths)
        # This comes after all steps that may be refused, because it starts a process.
        heard = HeardLaunches(news.launch_changed)
        notifications = NotificationRunner(home, self.logs.tell, {**paths})
        # An event of a runner concerns the launch whose container it serves.
        listener = notifications.beside(lambda launch_id: heard.add(launch_id.removeprefix(CONTAINER)))
        processes = _started(home, settings, clock, listener, Fences(news.inventory))
        watched = WatchRuntime(self._processes, clock, heard.add, kill_grace_s=settings.kill_grace_s)
        self._runtimes = {**_runtimes(home, settings, processes), "watch": watched}
        self._running = NodeLaunches(
            self._runtimes,
            make_ready=setup.make_ready,
            complete=setup.complete,
            on_change=news.launch_changed,
            heard=heard,
        )
        self.executions = NodeExecutions(self._running.execute)
        origins = partial(_origins, self._running, self._processes, drivers)
        fixed_power = None if mock is not None or os.geteuid() == 0 else ROOT_ONLY
        attribution = Attribution(
            clock, origins=origins, home=paths["CORRAL_HOME"], container_named=ContainerNames().of
        )
        sampler = Sampler(
            self._reader,
            clock,
            settings,
            listener=news.sampled,
            attribution=attribution,
            open_log=open_kernel_log if mock is None else lambda: None,
            arrange=Inventory(settings, drivers, processes.host_means, home.scratch, name, power, fixed_power).of,
            no_docker=lack_of_docker,
        )
        meeting = MeetingPlaces(address)
        self.launches = LocalLaunches(
            launches=self._running,
            setup=setup,
            unknown=unknown,
            meeting=meeting,
            sampler=sampler,
            disks=Disks((home.root, home.launches, home.logs, home.scratch)),
            cleaner=cleaner,
            clock=clock,
            accounts=accounts,
        )
        inventory, mig_changes = news.inventory, settings.mig_changes
        testing = DeviceTesting(inventory, sampler.refresh, tag=tag_of(home.root), described=mock is not None)
        self.host = LocalHost(
            self._processes,
            inspector,
            files,
            notifications,
            inventory,
            mig_changes,
            testing,
            sampler.driver_log,
            processes.fence,
            accounts,
        )
        watches = drivers.watches(
            partial(_clients, self._running, devices),
            lambda uuid, reason, launches: news.service_lost(ServiceLost(uuid, reason, launches)),
        )
        _warn(*drivers.warnings)
        if (why := keyring_shared()) is not None:
            _warn(f"jobs of all users share the server's session keyring: keyctl is forbidden here ({why})")
        self._closing: tuple[Callable[[], None], ...] = (
            news.close,
            *(() if accounts is None else (accounts.close,)),
            *(watch.close for watch in watches),
            unknown.close,
            checkpoints.close,
            devices.close,
            trees.close,
            cleaner.close,
            inspector.close,
            notifications.close,
            self.executions.close,
            meeting.close,
            self._running.close,
            testing.close,
            sampler.close,
        )
        cleaner.start()
        notifications.start(processes)
        sampler.start()
        for watch in watches:
            watch.start()

    @property
    def source(self) -> str:
        """The name of the reader of devices: nvml, nvidia-smi, amdsmi, mock, or none before a driver has answered."""
        return self._reader.source

    def close(self) -> None:
        """Stop everything but the jobs, and answer waiting questions for changes."""
        for close in self._closing:
            close()

    def end_all(self, reason: str) -> None:
        """End all launches here, and write the reason into the logs of the jobs."""
        for launch_id in self._running.stop_all(reason):
            with suppress(CorralError):
                self.logs.note(job_of(launch_id), member_of(launch_id)[1], reason)

    def power_off(self) -> None:
        """Kill all processes here without reporting their end, as if the mock host lost its power."""
        kill_all(self._runtimes, self._processes.alive)


def _runtimes(home: Home, settings: Settings, processes: ProcessLaunches) -> dict[str, Runtime]:
    grace_s, log_max_bytes = settings.kill_grace_s, _log_max_bytes(settings)
    site = docker_site(settings)
    return {
        "process": ProcessRuntime(processes, home),
        "container": DockerRuntime(processes, home, site, kill_grace_s=grace_s, log_max_bytes=log_max_bytes),
    }


def _origins(launches: NodeLaunches, processes: HostProcesses, drivers: HostDrivers) -> tuple[Origin, ...]:
    """Return the marks of the processes of jobs and of sharing services."""
    daemons = (processes.identify(pid) for pid in drivers.daemons())
    services = (Origin(SERVICE, Lineage(daemon)) for daemon in daemons if daemon is not None)
    return (*launches.origins(), *services)


def _clients(launches: NodeLaunches, devices: DeviceSetup) -> dict[str, tuple[Device, tuple[str, ...]]]:
    """Return the devices whose running launches share an MPS daemon, each with the ids of these launches, by device
    UUID.
    """
    found = {
        uuid: (device, tuple(one for one in there if launches.report(one).phase is LaunchPhase.RUNNING))
        for uuid, (device, there) in devices.clients(Means.MPS).items()
    }
    return {uuid: (device, running) for uuid, (device, running) in found.items() if running}


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


def _trees(home: Home, settings: Settings, accounts: HostAccounts | None) -> JobTrees:
    return JobTrees(
        home.trees,
        home.scratch,
        most_bytes=settings.upload_max_mib << 20,
        most_bytes_of_user=settings.upload_user_max_mib << 20,
        keep_s=settings.upload_keep_s,
        credentials=None if accounts is None else accounts.credentials,
    )


def docker_site(settings: Settings) -> DockerSite:
    """Return the rules for jobs in containers on hosts with these settings."""
    docker = settings.docker
    return DockerSite(docker.host_paths, docker.networks, docker.any_user, docker.max_processes)


def _log_max_bytes(settings: Settings) -> int:
    return settings.log_max_mib * 1024 * 1024


def _started(
    home: Home, settings: Settings, clock: SystemClock, on_event: Callable[[str], None], fences: Fences
) -> ProcessLaunches:
    processes = ProcessLaunches(
        home.root,
        log_max_bytes=_log_max_bytes(settings),
        kill_grace_s=settings.kill_grace_s,
        on_event=on_event,
        boot_at=clock.boot_at,
        closed_to=fences.closed_to,
    )
    try:
        processes.start()
    except LaunchError as error:
        raise BackendFailed(str(error)) from error
    for what, level in (("--cpus", processes.host_means.cpus), ("--host-memory", processes.host_means.memory)):
        if level is Level.ADVISORY:
            log.info("no cgroup here limits the %s of jobs: the amount is counted, but not enforced", what)
    if (unfenced := processes.host_means.unfenced) is not None:
        log.info("jobs are not fenced: %s, and each job can open the GPUs of others", unfenced)
    _allow_many_files()
    return processes


def _allow_many_files() -> None:
    """Raise the limit of open files, as each running job takes one. Call it after the zygote's start: jobs keep the old
    limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
